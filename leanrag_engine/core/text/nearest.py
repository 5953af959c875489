"""Find the names that a misspelled one may stand for."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher, get_close_matches
from typing import TypeVar

__all__ = ["find_nearest", "similarity", "sort_by_similarity"]

T = TypeVar("T")


def find_nearest(name: str, known: Iterable[str], limit: int = 1, *, cutoff: float = 0.6) -> list[str]:
    """Return at most ``limit`` of the ``known`` names with a similarity of at least ``cutoff``, the nearest first."""
    return get_close_matches(name, list(known), n=limit, cutoff=cutoff)


def sort_by_similarity(
    name: str, items: Iterable[T], names_of: Callable[[T], Iterable[str]], limit: int, *, compared: int = 100
) -> list[T]:
    """Return the ``limit`` items with the most similar names, the nearest first, ignoring case.

    Only the last ``compared`` characters count, since paths differ there.
    """
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(name[-compared:].casefold())

    def rate(item: T, ratio: Callable[[], float]) -> float:
        best = 0.0
        for each in names_of(item):
            matcher.set_seq1(each[-compared:].casefold())
            best = max(best, ratio())
        return best

    # The quick ratio is an upper bound and takes a tenth of the time.
    likely = heapq.nlargest(5 * limit, items, key=lambda item: rate(item, matcher.quick_ratio))
    return heapq.nlargest(limit, likely, key=lambda item: rate(item, matcher.ratio))


def similarity(one: str, other: str) -> float:
    """Return Ratcliff and Obershelp's ratio of matching characters, from 0 to 1 for equal texts."""
    return 1.0 if one == other else SequenceMatcher(None, one, other, autojunk=False).ratio()
