"""Which rows an update has to end and to add, and at which positions: by layer, in the order of building,
with free ones between rows written together, for later generations."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.adapters.sql.collections import first_position
from leanrag_engine.core.graphs.rows import T, match_rows

GAP = 1 << 10
"""Distance of the positions of neighbours that are written at the same time. A choice by cost: a full-text index stores
distances, in two bytes up to this one."""


@dataclass(slots=True)
class RowChanges(Generic[T]):
    """The positions of rows that end, rows to add, each with its position, and the positions of all rows afterwards."""

    ended: list[int] = field(default_factory=list)
    added: list[tuple[int, T]] = field(default_factory=list)
    positions: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def extend(self, other: "RowChanges[T]") -> None:
        self.ended += other.ended
        self.added += other.added
        self.positions = np.concatenate((self.positions, other.positions))


def place_rows(layer: int, items: Sequence[T]) -> RowChanges[T]:
    """Return what writes all rows of a layer anew."""
    first = first_position(layer) + GAP
    positions = range(first, first + GAP * len(items), GAP)
    return RowChanges([], list(zip(positions, items, strict=True)), np.array(positions, dtype=np.int64))


def compare_rows(
    layer: int, before: Sequence[T], positions: NDArray[np.int64], after: Sequence[T]
) -> RowChanges[T] | None:
    """Return what turns the rows ``before`` of a layer, which have these positions in their order, into those ``after`` in
    theirs; None if the free positions do not suffice. O(n log n)."""
    ranks = _find_equal(before, after)
    places = np.where(ranks >= 0, np.append(positions, -1)[ranks], -1)
    kept = _find_rising(places)
    ends = np.ones(len(positions), dtype=bool)
    ends[ranks[kept]] = False
    ended: list[int] = positions[ends].tolist()
    added: list[tuple[int, T]] = []
    # Between each two rows that stay, and before the first and after the last of them.
    stays = np.concatenate(([-1], kept, [len(after)]))
    bounds = np.concatenate(([first_position(layer)], places[kept], [first_position(layer + 1)]))
    for gap in np.flatnonzero(np.diff(stays) > 1).tolist():
        (left, right), (low, high) = stays[gap : gap + 2].tolist(), bounds[gap : gap + 2].tolist()
        vacant = ended[bisect_left(ended, low) : bisect_left(ended, high)]
        found = _choose_positions(low, high, vacant, right - left - 1, last=right == len(after))
        if found is None:
            return None
        added += zip(found, after[left + 1 : right], strict=True)
        places[left + 1 : right] = found
    return RowChanges(ended, added, places)


def _find_equal(before: Sequence[T], after: Sequence[T]) -> NDArray[np.intp]:
    """Return for each row of ``after`` the rank of the row of ``before`` that it is equal to, −1 if there is none."""
    matches = match_rows(before, after)
    for place, (then, now) in matches.differing.items():
        if then != now:
            matches.origins[place] = -1
    return matches.origins


def _find_rising(places: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the indices of a longest rising sequence of the values that are not negative."""
    held = np.flatnonzero(places >= 0)
    values = places[held]
    if (np.diff(values) > 0).all():
        return held
    tails: list[int] = []
    last: list[int] = []
    before = np.full(len(values), -1, dtype=np.intp)
    for number, value in enumerate(values.tolist()):
        rank = bisect_left(tails, value)
        before[number] = last[rank - 1] if rank else -1
        tails[rank : rank + 1] = [value]
        last[rank : rank + 1] = [number]
    chosen = []
    place = last[-1]
    while place >= 0:
        chosen.append(place)
        place = int(before[place])
    return held[chosen[::-1]]


def _choose_positions(
    low: int, high: int, vacant: Sequence[int], count: int, *, last: bool
) -> list[int] | None:
    """Return ``count`` rising positions between ``low`` and ``high``, those of rows that end first; None if there are too few."""
    if count <= len(vacant):
        return list(vacant[:count])
    if last:
        first = low + GAP
        return list(range(first, first + count * GAP, GAP)) if first + count * GAP < high else None
    if high - low <= count:
        return None
    return [low + (high - low) * number // (count + 1) for number in range(1, count + 1)]
