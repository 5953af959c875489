"""What a client sees: reply models, their Markdown text, error messages."""
