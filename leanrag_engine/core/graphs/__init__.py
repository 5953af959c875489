"""Checks and helpers for any graph or layer: whether layers fit together, and what supports their texts."""
