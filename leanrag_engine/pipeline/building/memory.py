"""Keep Python's search for unused reference cycles from taking a quarter of a build."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from leanrag_engine.core.ports import Progress, ProgressReport

RARELY = (50_000, 20, 100)
"""New objects before a search of the young ones, and how many of these before wider ones. A build makes millions of objects that stay
and hardly a cycle: with Python's usual thresholds an update of 30,000 entities searched them all 22 times, 8 of its 33 seconds."""


LONGEST_HOLD = 60.0
"""Seconds for which an update holds the search at most: what other work leaves in cycles meanwhile stays in memory."""


@dataclass(slots=True)
class _CycleSearch:
    """The builds of this process that search rarely, and the thresholds before the first of them; and how many hold the search."""

    builds: int = 0
    holds: int = 0
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


@contextmanager
def hold_cycle_search(report: ProgressReport) -> Iterator[ProgressReport]:
    """Pause Python's cycle search, a tenth of an update of 30,000 entities; yield ``report``, which ends that after ``LONGEST_HOLD``."""
    ends, held = time.monotonic() + LONGEST_HOLD, True
    with _search.lock:
        _search.holds += 1
        gc.disable()

    def release() -> None:
        nonlocal held
        with _search.lock:
            if held:
                held = False
                _search.holds -= 1
                if not _search.holds:
                    # What was made meanwhile counts as old. Else the next search would go through all of it.
                    gc.freeze()
                    gc.unfreeze()
                    gc.enable()

    def watch(progress: Progress) -> None:
        if held and time.monotonic() > ends:
            release()
        report(progress)

    try:
        yield watch
    finally:
        release()
