"""Sets: point clouds, tables in long form, synthetic tasks."""
