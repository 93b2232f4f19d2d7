"""How attention is heard, in any PyTorch model."""
