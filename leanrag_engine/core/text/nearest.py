"""Find the names that a misspelled one may stand for."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

__all__ = ["find_nearest", "similarity"]


def find_nearest(name: str, known: Iterable[str], limit: int = 1, *, cutoff: float = 0.6) -> list[str]:
    """Return at most ``limit`` of the ``known`` names with a similarity of at least ``cutoff``, the nearest first."""
    return get_close_matches(name, list(known), n=limit, cutoff=cutoff)


def similarity(one: str, other: str) -> float:
    """Return Ratcliff and Obershelp's ratio of matching characters, from 0 to 1 for equal texts."""
    return 1.0 if one == other else SequenceMatcher(None, one, other, autojunk=False).ratio()
