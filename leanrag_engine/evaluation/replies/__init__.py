"""Measures replies on one's own documents: how many of the facts that a question needs stand in them."""
