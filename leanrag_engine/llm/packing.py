"""Group small tasks into requests that stay the same when others are done or inserted: their replies are
cached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def pack(
    items: Iterable[T],
    *,
    most: int,
    room: int,
    size: Callable[[T], int],
    parts: Callable[[T, T], bool] = lambda _one, _other: False,
) -> Iterator[Sequence[T]]:
    """Yield ``items`` in order, in groups of at most ``most`` items and ``room``, a larger one alone.
    ``parts``: two neighbours must not share a group."""
    group: list[T] = []
    left = room
    for item in items:
        needed = size(item)
        if group and (len(group) == most or needed > left or parts(group[-1], item)):
            yield group
            group, left = [], room
        group.append(item)
        left -= needed
    if group:
        yield group
