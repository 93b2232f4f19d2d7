"""Models, one file for each architecture; each has a Config, a forward, its symmetry, and tiny(), a small
instance."""
