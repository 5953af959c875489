"""Tokens, word lists, and how a document uses its words."""
