"""Graphs: answers for nodes, edges or whole graphs."""
