"""Data as batches by number: text and its tokens, labelled text, and tensors of one's own."""
