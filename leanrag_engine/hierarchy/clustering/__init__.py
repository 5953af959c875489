"""Which entities of a layer belong together."""
