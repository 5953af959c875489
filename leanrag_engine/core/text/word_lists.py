"""Read the lists of words in ``data/``."""

from __future__ import annotations

from pathlib import Path

__all__ = ["read_words"]

_FOLDER = Path(__file__).with_name("data")


def read_words(name: str) -> frozenset[str]:
    """Return the words of ``data/<name>.txt``: separated by white space, lines that start with ``# `` left out."""
    lines = (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("# ") for word in line.split())
