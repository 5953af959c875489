"""``leanrag eval``."""
