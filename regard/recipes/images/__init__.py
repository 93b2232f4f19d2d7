"""Images: classifiers."""
