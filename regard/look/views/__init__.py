"""Views that every page can show, one a file."""
