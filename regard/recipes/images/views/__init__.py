"""What only pages of images show."""
