"""Models, one file for each kind of input; each has a Config, a forward, its symmetry, and tiny(), a small instance."""
