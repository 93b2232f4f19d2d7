"""One step of a decoder in C++, compiled on first use. PyTorch is its definition."""
