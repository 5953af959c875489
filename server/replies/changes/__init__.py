"""Replies about what changed: corrections of the graph, and the history of its generations."""
