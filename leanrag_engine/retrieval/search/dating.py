"""Weigh documents by their dates: those that a question names, and the newest where it asks for what holds now."""

import re
from collections.abc import Mapping, Sequence
from datetime import date

from leanrag_engine.core.model import Chunk
from leanrag_engine.documents.dates import MONTH, find_dates, month_number

_NOW = re.compile(
    r"\b(?:now|current(?:ly)?|latest|newest|today|nowadays|at the moment|as of)\b", re.IGNORECASE
)
_MONTH_ALONE = re.compile(rf"\b(?=[^\W\d_a-zäüöéûà])(?!Mars)(?i:{MONTH})\b")
"""A month with a capital: "may" is a verb, "Mars" a planet."""
_YEAR_ALONE = re.compile(r"\b(?:in|during|since|from|until|by|year)\s((?:19|20)\d\d)\b", re.IGNORECASE)
_NEAR_DAYS = 14
"""Days from a day that is named up to which a document gains: "the Monday before July 24"."""


def weigh_dates(text: str, chunks: Sequence[Chunk], recent: float, dated: float) -> Mapping[str, float]:
    """Return what documents gain by their dates: up to ``dated`` those of a day, month or year that ``text`` names; if
    it names none and asks for what holds now, by their rank: the newest ``recent``, the oldest 0."""
    if named := find_named_dates(text):
        own = {each.document_id: each.own_date for each in chunks if each.own_date}
        return {
            document: dated * max(_nearness(day, each) for each in named) for document, day in own.items()
        }
    dates = {each.document_id: each.date for each in chunks if each.date} if _NOW.search(text) else {}
    order = sorted(set(dates.values()))
    last = max(len(order) - 1, 1)
    return {document: recent * order.index(day) / last for document, day in dates.items()}


def find_named_dates(text: str) -> list[str]:
    """Return the dates in a question as ISO texts: a day, a month (``2023-07``; ``-07`` of any year), or a year."""
    months = (f"-{month_number(name):02d}" for name in _MONTH_ALONE.findall(text))
    found: list[str] = []
    for each in (*find_dates(text), *months, *_YEAR_ALONE.findall(text)):
        if not any(each in known for known in found):
            found.append(each)
    return found


def _nearness(own: str, named: str) -> float:
    """Return from 0 to 1 how well the date of a document fits a named one."""
    if own.startswith(named) or (named.startswith("-") and own[4:7] == named):
        return 1.0
    try:
        days = abs((date.fromisoformat(own) - date.fromisoformat(named)).days)
    except ValueError:
        return 0.0
    return max(0.0, 1 - days / _NEAR_DAYS)
