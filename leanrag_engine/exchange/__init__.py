"""Graphs that other tools made, adopted: one file per format."""
