"""From a question to seeds and ranked chunks."""
