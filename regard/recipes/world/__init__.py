"""Episodes: a model of a world, and a policy that learns inside it."""
