"""Pairs of sequences: sentences and their translations."""
