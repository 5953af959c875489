"""Commands that only read a collection."""
