"""What may be done to an input, and what must then happen to the output."""
