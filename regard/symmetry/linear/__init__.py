"""All linear maps that commute with a group, layers made of them, and what else of linear algebra belongs to groups."""
