"""A kind of data from outside the package: waves, each a row of numbers with a label."""
