"""all-MiniLM-L6-v2, whose weights come with this package: see ``NOTICE.md``."""
