"""Schemas of extraction: read from YAML, and applied to extracts."""
