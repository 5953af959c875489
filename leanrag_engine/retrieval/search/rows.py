"""Choose the rows of a table that answer. The rows of a table are alike in meaning, so that search finds all of it."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, starmap

from leanrag_engine.core.text.records import TABLE_NAME, TABLE_ROW

from .matching import QueryWords
from .relevance import RankedWindow
from .turns import asks_for_several

_ROW = re.compile(rf"^{TABLE_ROW}.*$", re.MULTILINE)
_LINE = re.compile(rf"{TABLE_ROW}|{TABLE_NAME}|Columns: ")

FEW = 0.25
"""Share of a table's rows up to which those that hold most of a question stand out."""
MOST = 0.5
"""Share of a question's words that such a row has at least: one that shares a chance word with it does not answer."""
FIRST = 5
"""Rows up to which they stand in the place of the table's best window: more of them would push out what else is found."""


def choose_rows(ranking: Sequence[RankedWindow], text: str) -> list[RankedWindow]:
    """Return the windows found for a text, best first; of a table in which a few rows hold more of the text than all others, counting
    more what fewer rows have, these rows alone. For a text that asks for several things a few rows are too few: "more than 80,000"
    names a figure that some row has."""
    tables: defaultdict[tuple[str, str], list[RankedWindow]] = defaultdict(list)
    for window in ranking:
        if _is_table(window):
            tables[window.chunk.document_id, window.heading].append(window)
    if not tables:
        return [*ranking]
    several = asks_for_several(text)
    asked, chosen, dropped = QueryWords([text]), list[RankedWindow](), set[tuple[str, int | str]]()
    for windows in tables.values():
        rows = [(window, span) for window in windows for span in _rows_of(window)]
        scores = asked.score(list(starmap(_quote, rows)))
        best = [row for row, score in zip(rows, scores, strict=True) if score >= max(scores)]
        one_of = len(best) <= FIRST
        if (
            not best
            or len(best) > FEW * len(rows)
            or (one_of if several else asked.share([_quote(*best[0])]) < MOST)
        ):
            continue
        dropped |= {window.key for window in windows}
        first = max(windows, key=lambda each: each.value)
        for _, run in groupby(best, key=lambda row: row[0].key):
            held = list(run)
            window = replace(held[0][0], turns=tuple(span for _, span in held))
            chosen.append(replace(window, value=first.value, near=first.near) if one_of else window)
    kept = [each for each in ranking if each.key not in dropped]
    return sorted([*chosen, *kept], key=lambda each: -each.value)


def _is_table(window: RankedWindow) -> bool:
    """Return whether a window is a part of a table, its name or the summary of its columns, and nothing else."""
    lines = [line for line in window.text.splitlines() if line.strip()]
    return not window.turns and all(_LINE.match(line) for line in lines)


def _quote(window: RankedWindow, row: tuple[int, int]) -> str:
    return window.chunk.text[slice(*row)]


def _rows_of(window: RankedWindow) -> list[tuple[int, int]]:
    """Return the rows that begin in a window, by their places in the chunk's text."""
    place, chunk = window.chunk.windows[window.number], window.chunk
    found = _ROW.finditer(chunk.text, max(place.start - chunk.start, 0))
    return [row.span() for row in found if row.start() < place.end - chunk.start]
