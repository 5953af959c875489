"""Sort and find ids in arrays, as numbers of eight characters each: comparing strings takes several times as long."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .columns import Ids
from .rows import Places

_WORD = 8


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


def find_ids(wanted: Ids, ids: Ids, *, ascending: bool = False) -> Places:
    """Return the place in ``ids``, which are distinct, of each wanted one, −1 for those that are not there.

    ``ascending``: the ids are in ascending order.
    """
    if not len(ids):
        return np.full(len(wanted), -1, dtype=np.intp)
    order = None if ascending else sort_ids(ids)
    held = ids if order is None else ids[order]
    places = np.searchsorted(_number_words(held)[0], _number_words(wanted)[0])
    places = np.minimum(places, len(held) - 1)
    missed = np.flatnonzero(held[places] != wanted)
    # Those that are not there, and those whose first word is that of several.
    places[missed] = np.minimum(np.searchsorted(held, wanted[missed]), len(held) - 1)
    absent = missed[held[places[missed]] != wanted[missed]]
    found = np.asarray(places if order is None else order[places])
    found[absent] = -1
    return found


def has_twins(ids: Ids) -> bool:
    """Return whether two ids are equal."""
    mixed = np.zeros(len(ids), dtype=np.uint64)
    for word in _number_words(ids):
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) ^ word
    mixed.sort()
    twins = bool((mixed[1:] == mixed[:-1]).any())
    return twins and len(set(ids.tolist())) < len(ids)
