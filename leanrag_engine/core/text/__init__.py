"""Characters and words: scripts, sentences, names, fences. Nothing here knows what an entity is."""
