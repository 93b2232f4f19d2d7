"""Recipes: the protocol of a kind of data, and one folder for each kind."""
