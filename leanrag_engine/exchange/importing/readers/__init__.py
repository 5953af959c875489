"""One reader for each format, and what they share."""
