"""What the page shows of sets."""
