"""Extraction by a chat model or a calling agent: prompts, replies, gleaning, descriptions."""
