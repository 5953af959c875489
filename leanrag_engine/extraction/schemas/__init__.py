"""Schemas of extraction: read from YAML, proposed from a sample, and applied to extracts."""
