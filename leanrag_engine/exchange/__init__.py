"""Exchange graphs with other programs: exports, and imports of what they have made."""
