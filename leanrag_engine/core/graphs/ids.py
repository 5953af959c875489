"""Sort and find ids in arrays, as numbers of eight characters each: comparing strings takes several times as long."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.bytes_]
Places = NDArray[np.intp]


_WORD = 8


def make_ids(ids: Iterable[str]) -> Ids:
    """Return ids as an array, in UTF-8."""
    texts = list(ids)
    data = "".join(texts)
    width = max(map(len, texts), default=0)
    if width and data.isascii() and len(data) == width * len(texts):  # all are of one length
        return np.frombuffer(data.encode(), dtype=f"S{width}").copy()
    return np.array([id_.encode() for id_ in texts], dtype=np.bytes_)


def decode_ids(ids: Ids) -> list[str]:
    return b"\n".join(ids.tolist()).decode().split("\n") if len(ids) else []


def _number_words(ids: Ids) -> NDArray[np.uint64]:
    """Return the words of the ids as numbers, (words, n), the first word first; in their order ids are in theirs."""
    width = max(1, -(-ids.dtype.itemsize // _WORD))
    words = ids.astype(f"S{width * _WORD}").view(">u8").reshape(len(ids), width)
    return np.ascontiguousarray(words.T, dtype=np.uint64)


def sort_ids(ids: Ids) -> Places:
    """Return the places of the ids in ascending order; equal ones in the order of their places."""
    first, *others = _number_words(ids)
    order = np.argsort(first)
    found = first[order]
    tied = np.zeros(len(ids), dtype=bool)
    np.equal(found[1:], found[:-1], out=tied[1:])
    tied[:-1] |= tied[1:]
    rows = order[tied]
    order[tied] = rows[np.lexsort((rows, *(word[rows] for word in reversed(others)), first[rows]))]
    return order


class SortedIds:
    """Finds ids among others, which are distinct, perhaps ``ascending``: sorting takes less time than a dictionary."""

    def __init__(self, ids: Ids, *, ascending: bool = False) -> None:
        self._order = None if ascending else sort_ids(ids)
        self._ids = ids if self._order is None else ids[self._order]
        self._words = _number_words(self._ids)[0]

    def find(self, wanted: Ids) -> Places:
        """Return the place of each wanted id, −1 for those that are not there."""
        held = self._ids
        if not len(held) or not len(wanted):
            return np.full(len(wanted), -1, dtype=np.intp)
        places = np.searchsorted(self._words, _number_words(wanted)[0])
        places = np.minimum(places, len(held) - 1)
        missed = np.flatnonzero(held[places] != wanted)
        # Those that are not there, and those whose first word is that of several.
        places[missed] = np.minimum(np.searchsorted(held, wanted[missed]), len(held) - 1)
        absent = missed[held[places[missed]] != wanted[missed]]
        found = np.asarray(places if self._order is None else self._order[places])
        found[absent] = -1
        return found


def find_ids(wanted: Ids, ids: Ids) -> Places:
    """Return the place of each wanted id among ascending ``ids``; see :class:`SortedIds`."""
    return SortedIds(ids, ascending=True).find(wanted)


def has_twins(ids: Ids) -> bool:
    """Return whether two ids are equal."""
    mixed = np.zeros(len(ids), dtype=np.uint64)
    for word in _number_words(ids):
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) ^ word
    mixed.sort()
    twins = bool((mixed[1:] == mixed[:-1]).any())
    return twins and len(set(ids.tolist())) < len(ids)
