"""Measures retrieval on question sets."""
