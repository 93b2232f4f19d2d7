"""Graphs: predictions for nodes, edges or whole graphs."""
