"""What several kinds of data share: batches by number, splits, labels, tokenizers, and readers of files."""
