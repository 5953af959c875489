"""Calling a chat model: prompts, batching, cache, budget, answering."""
