"""Group items by a key."""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def group(pairs: Iterable[tuple[K, T]]) -> defaultdict[K, list[T]]:
    """Return the second items of ``pairs`` by their first ones, in order; none for a key that no pair has."""
    found: defaultdict[K, list[T]] = defaultdict(list)
    for key, item in pairs:
        found[key].append(item)
    return found
