"""Group small tasks into requests.

Groups must stay the same when some of the work is done or items are inserted: equal requests have cached replies.
"""

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
    """Yield ``items`` in order, in groups of at most ``most`` items with a total size of at most ``room``.

    A larger item is a group by itself. ``parts`` returns whether two neighbours must not share a group.
    """
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
