"""What a page shows, one view a file: each function gives the data of web/README.md, or None where there is nothing to see."""
