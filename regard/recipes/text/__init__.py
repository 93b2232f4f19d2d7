"""Text: language models and classifiers."""
