"""Series of numbers over time: forecasts, missing values, classes."""
