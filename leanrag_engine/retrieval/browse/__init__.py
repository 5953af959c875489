"""Browse the graph and the documents: names, ancestors, clusters, relations, passages, outlines, exact text."""

from .entities import load_ancestors, resolve, sample_beneath

__all__ = ["load_ancestors", "resolve", "sample_beneath"]
