"""Adapters on plain files: memory-mapped arrays and the writer lock."""
