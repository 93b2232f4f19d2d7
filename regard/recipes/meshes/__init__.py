"""Meshes: surfaces made of triangles."""
