"""What a run or a model looks like: pictures and pages."""
