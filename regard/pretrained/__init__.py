"""Other people's weights: their names, their configurations and their files, in both directions."""
