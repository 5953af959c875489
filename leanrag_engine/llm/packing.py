"""Which small tasks a model does in one call.

Groups must not shift when some of the work is done, or when something is added in the middle: what is asked once
more is then the same request, whose reply was kept.
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
    """``items`` in their order, in groups of at most ``most`` whose sizes sum up to ``room`` at most.

    An item that is larger is a group of its own. ``parts`` says of two neighbours that they never share a group.
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
