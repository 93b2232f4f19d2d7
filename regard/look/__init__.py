"""What a run or a model looks like: figures and pages."""
