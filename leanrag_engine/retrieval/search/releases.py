"""Weigh the entries of changelogs: of the newest release where a question asks for it, of all where it asks for an order in time."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePath

from leanrag_engine.core.text.language.words import find_whole_words
from leanrag_engine.core.text.word_lists import read_pattern
from leanrag_engine.retrieval.intent import NOW, asks_for_order

from .dating import asks_for_newest
from .relevance import QueryWords, RankedWindow

_OF_HEADING = re.compile(
    r"(?<![\w.])v?(\d{1,4}(?:\.\d{1,5}){1,3})(?:[-.]?(?:a|alpha|b|beta|rc|dev|post)[-.]?\d*)?\]?\W*(?:$|[(\[–—:,-].*\d)"
)
"""*Lamp 2.18.0 (2026-08-20)*, but not the section *3.2 Oil*."""
_OF_TITLE = re.compile(r"(?<![\w.])v?(\d{1,4}(?:\.\d{1,5}){1,3})(?![\w.])")
_ABOUT_RELEASES = read_pattern("questions", "releases")
_MOST = 6
"""Windows of the newest release that stand first."""


def asks_for_newest_release(text: str) -> bool:
    return _ABOUT_RELEASES.search(text) is not None and asks_for_newest(text)


def read_release(window: RankedWindow) -> tuple[int, ...]:
    """Return the numbers of the release that the heading of a window names, or else the title of its document; () for none."""
    return _read_numbers(window.heading, window.chunk.title)


@lru_cache(maxsize=1 << 11)  # all windows of a section have its heading
def _read_numbers(heading: str, title: str) -> tuple[int, ...]:
    parts = map(_OF_HEADING.search, reversed(heading.split(" > ")))
    found = next(filter(None, parts), None) or _OF_TITLE.search(title)
    return tuple(map(int, found[1].split("."))) if found else ()


def find_changelogs(windows: Sequence[RankedWindow], text: str) -> list[str]:
    """Return the ids of documents that tell of two releases or more, of what ``text`` names."""
    releases = defaultdict[str, set[tuple[int, ...]]](set)
    for each in _find_named(windows, text):
        releases[each.chunk.document_id].add(read_release(each))
    return [id_ for id_, told in releases.items() if len(told) > 1]


def put_newest_release_first(windows: Sequence[RankedWindow], text: str) -> list[RankedWindow]:
    """Return the windows; if there are several releases of what ``text`` names, the first windows of the newest one stand first."""
    named = _find_named(windows, text)
    newest = max(map(read_release, named), default=())
    if len(set(map(read_release, named))) < 2:  # noqa: PLR2004 - no older one
        return [*windows]
    first = sorted(
        (each for each in named if read_release(each) == newest),
        key=lambda each: (each.chunk.document_id, each.chunk.number, each.number),
    )[:_MOST]
    best, near = (max(map(of, windows)) for of in (lambda each: each.value, lambda each: each.near))
    keys = {each.key for each in first}
    raised = [
        replace(each.add("recent", best + 0.01 * (_MOST - place) - each.value), near=near, older=False)
        for place, each in enumerate(first)
    ]
    return [*raised, *(each for each in windows if each.key not in keys)]


def _find_named(windows: Sequence[RankedWindow], text: str) -> list[RankedWindow]:
    """Return the windows of releases that hold most words of ``text`` for what it is about, were it in the path of their file."""
    words = QueryWords(find_whole_words(_ABOUT_RELEASES.sub(" ", NOW.sub(" ", text))))
    told = [each for each in windows if read_release(each)]
    held = [
        len(words.find(f"{' '.join(PurePath(each.chunk.source).parts[-3:])}\n{each.indexed_text}"))
        for each in told
    ]
    most = max(held, default=0)
    return [each for each, count in zip(told, held, strict=True) if count == most]


def raise_releases(windows: Sequence[RankedWindow], text: str, share: float = 0.3) -> list[RankedWindow]:
    """Return the windows; where ``text`` asks for an order in time, those of releases gain by the rare words of it that they hold, and those with half
    as much as the best are kept: what a documentation says of today does not tell how it came."""
    if not asks_for_order(text) or not windows:
        return [*windows]
    logs = {*find_changelogs(windows, "")}
    told = [each for each in windows if each.chunk.document_id in logs and read_release(each)]
    scores = QueryWords(find_whole_words(text)).score([each.text for each in told])
    most, nearest = max(scores, default=0.0) or 1.0, max(each.near for each in windows)
    gains = {each.key: score / most for each, score in zip(told, scores, strict=True) if score}
    raised = [
        replace(
            each.add("recent", gain * share * nearest),
            near=each.near + gain * share * nearest,
            kept=each.kept or gain >= 0.5,  # noqa: PLR2004
        )
        if (gain := gains.get(each.key))
        else each
        for each in windows
    ]
    return sorted(raised, key=lambda each: -each.value)
