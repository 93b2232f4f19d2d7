"""Recipes: one file for each kind of data, with a whole configuration and good defaults for the data at hand."""
