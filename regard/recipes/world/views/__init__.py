"""What only pages of worlds show."""
