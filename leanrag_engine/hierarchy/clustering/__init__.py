"""Clustering: which entities of a layer belong together."""
