"""Prompts as Markdown files; this file makes them readable from an editable install."""
