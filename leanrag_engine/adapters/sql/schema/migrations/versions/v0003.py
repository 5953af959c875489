"""The keyword index holds names of several parts as one word too, and letters as people type them."""

from __future__ import annotations

revision = "0003"
down_revision = "0002"

indexes_words_anew = True


def upgrade() -> None:
    """Change no table."""
