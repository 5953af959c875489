"""The extractor that needs no model."""
