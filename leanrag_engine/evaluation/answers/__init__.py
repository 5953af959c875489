"""Measures answers with a judge model."""
