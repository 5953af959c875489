"""Keep Python's search for unused reference cycles from taking a quarter of a build."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

RARELY = (50_000, 20, 100)
"""New objects before a search of the young ones, and how many of these before wider ones. A build makes millions of
objects that stay and hardly a cycle: with Python's usual thresholds an update of 30,000 entities searched them all 22
times, 8 of its 33 seconds."""


@dataclass(slots=True)
class _CycleSearch:
    """The builds of this process that search rarely, and the thresholds before the first of them."""

    builds: int = 0
    usual: tuple[int, int, int] = RARELY
    lock: Lock = field(default_factory=Lock)


_search = _CycleSearch()


@contextmanager
def search_cycles_rarely() -> Iterator[None]:
    """Raise the thresholds of Python's cycle search; the last of the builds at a time restores them."""
    with _search.lock:
        if not _search.builds:
            _search.usual = gc.get_threshold()
            gc.set_threshold(*RARELY)
        _search.builds += 1
    try:
        yield
    finally:
        with _search.lock:
            _search.builds -= 1
            if not _search.builds:
                gc.set_threshold(*_search.usual)
