"""Graphs in files and in memory."""
