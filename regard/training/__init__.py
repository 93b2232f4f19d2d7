"""Training: tasks, optimisers, checkpoints that survive anything, the loop, and those who watch it."""
