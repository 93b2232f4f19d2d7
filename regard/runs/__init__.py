"""The run directory: everything about one training, in open formats."""
