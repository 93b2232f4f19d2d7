"""Reading: how what a person writes, or a file, becomes an input of a model; one file for each kind of input."""
