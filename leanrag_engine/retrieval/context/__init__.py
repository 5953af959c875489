"""From evidence to a cited text within a token budget."""
