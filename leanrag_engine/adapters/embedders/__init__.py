"""Embedders: fitted on the collection, local models, services."""
