"""Layers, each b n d -> b n d unless it says otherwise."""
