"""What only pages of series show."""
