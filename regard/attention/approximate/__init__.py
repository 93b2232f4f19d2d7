"""Attention that costs less than the square of the length, and is not exact: each says what it keeps and what its
weights are."""
