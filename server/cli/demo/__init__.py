"""``leanrag demo``."""
