"""Jobs: one file for each recipe, which reads its data and makes all that the trainer needs, and later predicts."""
