"""Autoencoders of images, of rows of tables and of point clouds."""
