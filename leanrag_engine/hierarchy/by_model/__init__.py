"""Summaries and relation sentences written by a chat model or a calling agent."""
