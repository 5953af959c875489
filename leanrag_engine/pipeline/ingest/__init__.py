"""Ingest documents, and keep a collection in step with a folder."""
