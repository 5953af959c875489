"""Shorten text to a number of characters, and lists of texts to what there is room for; write numbers of things. A limit includes the mark of omission."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TypeVar


def count_things(count: int, one: str, many: str = "") -> str:
    """Return e.g. ``1 document``, ``2 documents`` or ``2 summaries``."""
    regular = f"{one[:-1]}ies" if one.endswith(("ry", "ty")) else f"{one}s"
    return f"{count:,} {one if count == 1 else many or regular}"


T = TypeVar("T")


def one_line(text: str) -> str:
    """Return ``text`` with single spaces for every run of white space."""
    return " ".join(text.split())


def cut_end(text: str, limit: int) -> str:
    """Return ``text`` with an ellipsis for what exceeds ``limit`` characters, cut anywhere."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shorten(text: str, limit: int, ellipsis: str = "…") -> str:
    """Return ``text`` with ``ellipsis`` for what exceeds ``limit`` characters, cut at a space if there is one."""
    return text if len(text) <= limit else text[: limit - len(ellipsis)].rsplit(" ", 1)[0] + ellipsis


def cut_middle(text: str, limit: int) -> str:
    """Return the first and the last ``limit // 2`` characters of a text that exceeds ``limit`` characters."""
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]} […] {text[-half:]}"


def take_fitting(items: Sequence[T], sizes: Iterable[int], room: int) -> list[T]:
    """Return the first of ``items`` whose sizes are at most ``room`` together, and at least one."""
    totals = zip(items, accumulate(sizes), strict=True)
    return [item for place, (item, total) in enumerate(totals) if total <= room or not place]
