"""Find the names that a misspelled one may stand for."""

import heapq
import re
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher, get_close_matches
from string import ascii_lowercase, digits
from typing import TypeVar

T = TypeVar("T")

_DIGIT = re.compile("[0-9]")
_COMPARED, _LEAST = 100, 0.6  # Characters, and the similarity of what may be meant
_CYRILLIC = re.compile("[\u0400-\u04ff]")


def find_nearest(name: str, known: Iterable[str], limit: int = 1, *, cutoff: float = 0.6) -> list[str]:
    """Return at most ``limit`` of the ``known`` names with a similarity of at least ``cutoff``, the nearest first."""
    return get_close_matches(name, list(known), n=limit, cutoff=cutoff)


def misspell(word: str) -> set[str]:
    """Return all words that differ from ``word``, in lower case, by one letter: missing, added, wrong, or swapped with the
    next. Letters are those of the Latin or the Cyrillic alphabet, whichever it is written in, and digits if it has some."""
    alphabet = map(chr, range(0x430, 0x450)) if _CYRILLIC.search(word) else ascii_lowercase
    letters = {*alphabet, *(digits if _DIGIT.search(word) else "")}
    halves = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    swapped = {f"{one}{other[1]}{other[0]}{other[2:]}" for one, other in halves if len(other) > 1}
    shorter = {f"{one}{other[1:]}" for one, other in halves if other}
    wrong = {f"{one}{letter}{other[1:]}" for one, other in halves if other for letter in letters}
    longer = {f"{one}{letter}{other}" for one, other in halves for letter in letters}
    return (swapped | shorter | wrong | longer) - {word}


def sort_by_similarity(
    name: str, items: Iterable[T], names_of: Callable[[T], Iterable[str]], limit: int
) -> list[T]:
    """Return the ``limit`` items with the most similar names, nearest first, ignoring case. Last characters count: paths differ there."""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(name[-_COMPARED:].casefold())

    def rate(item: T, ratio: Callable[[], float]) -> float:
        best = 0.0
        for each in names_of(item):
            matcher.set_seq1(each[-_COMPARED:].casefold())
            best = max(best, ratio())
        return best

    # The quick ratio is an upper bound and takes a tenth of the time.
    likely = heapq.nlargest(5 * limit, items, key=lambda item: rate(item, matcher.quick_ratio))
    nearest = heapq.nlargest(limit, likely, key=lambda item: rate(item, matcher.ratio))
    return [each for each in nearest if rate(each, matcher.ratio) >= _LEAST]


def similarity(one: str, other: str) -> float:
    """Return Ratcliff and Obershelp's ratio of matching characters, from 0 to 1 for equal texts."""
    return 1.0 if one == other else SequenceMatcher(None, one, other, autojunk=False).ratio()
