"""Choose the rows of a table that answer. The rows of a table are alike in meaning, so that search finds all of it."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, groupby, pairwise
from math import log1p

from leanrag_engine.core.grouping import group
from leanrag_engine.core.text.language.words import content_words, words
from leanrag_engine.core.text.records import TABLE_NAME, TABLE_ROW
from leanrag_engine.core.text.word_lists import read_words
from leanrag_engine.documents.dates import find_dates, spell_day
from leanrag_engine.retrieval.intent import asks_for_several

from .dating import find_named_dates, nearness
from .relevance import QueryWords, RankedWindow

_ROW = re.compile(rf"^{TABLE_ROW}.*$", re.MULTILINE)
_LINE = re.compile(rf"{TABLE_ROW}|{TABLE_NAME}|Columns: ")

_IS_CODE = re.compile(r"^(?!(?:19|20)\d\d$).*\d")
"""A number that is no year, or a word with a figure: no chance word, if it is not short."""

FEW = 0.25  # Share of a table's rows up to which those that hold most of a question stand out
MOST = 0.5
"""Share of a question's words that such rows have at least: one that shares a chance word with it does not answer."""
FIRST = 5
"""Rows up to which they stand in the place of the table's best window: more of them would push out what else is found."""

ALIKE = 0.75  # Share of a table's rows up to which those with a cell that is named are shown alone
_OTHERWISE = read_words("language", "otherwise")
_YES, _NO = frozenset(["yes", "true", "ja", "oui"]), frozenset(["no", "false", "nein", "non"])
_NEGATED = re.compile(r"(?i)\b(?:not|no|never|without|nicht|keine?|pas)\b|n['’]t\b")


def choose_rows(ranking: Sequence[RankedWindow], text: str) -> list[RankedWindow]:
    """Return the windows found for a text, best first; of a table in which a few rows hold more of the text than all others, counting
    more what fewer rows have, these rows alone. For a text that asks for several things a few rows are too few: "more than 80,000"
    names a figure that some row has; but those are enough that have what it names in a cell: *which customers are in Bergen*."""
    tables = group(((each.chunk.document_id, each.heading), each) for each in ranking if _is_table(each))
    if not tables:
        return [*ranking]
    asked, pairs, several = QueryWords([text]), _pairs_of(text), asks_for_several(text)
    days = [day for day in find_named_dates(text) if len(day) >= len("-11-07")]
    label = "" if "row" in text.casefold() else TABLE_ROW  # else its number is no figure of a row
    chosen, dropped = list[RankedWindow](), set[tuple[str, int | str]]()
    for windows in tables.values():
        rows = [(window, span) for window in windows for span in _rows_of(window)]
        lines = [_complete(re.sub(label, "", window.chunk.text[slice(*span)]), days) for window, span in rows]
        found = [asked.find(line) | (pairs & _pairs_of(line)) for line in lines]
        alike = _find_alike(lines, text, found)
        best = alike or _stand_out(found)
        one_of = len(best) <= FIRST
        held = set[str]().union(*(found[place] for place in best))
        coded = any(len(word) > 2 and _IS_CODE.search(word) for word in held - pairs)  # noqa: PLR2004
        few = one_of if several else not coded and len(held - pairs) < MOST * asked.count
        if not best or (few and not alike):
            continue
        dropped |= {window.key for window in windows}
        first = max(windows, key=lambda each: each.value)
        for _, run in groupby((rows[place] for place in sorted(best)), key=lambda row: row[0].key):
            (window, span), *others = run
            window = replace(window, turns=(span, *(each for _, each in others)))
            chosen.append(replace(window, value=first.value, near=first.near) if one_of else window)
    kept = [each for each in ranking if each.key not in dropped]
    return sorted([*chosen, *kept], key=lambda each: -each.value)


def _complete(line: str, days: Sequence[str]) -> str:
    """Return a row with those of the ``days`` that it names as documents write them."""
    told = [*find_dates(line)] if days else []
    held = (day for day in days if any(nearness(own, [day]) == 1 for own in told))
    return " ".join([line, *chain.from_iterable(map(spell_day, held))])


def _pairs_of(text: str) -> set[str]:
    """Return each two words that follow each other: of *Ada Falk or Bo Jung* the row of *Ada Jung* has one less."""
    return set(map(" ".join, pairwise(words(text))))


def _stand_out(found: Sequence[set[str]]) -> list[int]:
    """Return the places of the few rows that hold most of a question, then of those that hold most of what these lack: of two who
    are compared, both rows. ``found`` are the words of the question in each row; none if too many rows hold as much."""
    holders = Counter(chain.from_iterable(found))
    left, best = set(holders), list[int]()
    while left:
        scores = [sum(log1p(len(found) / holders[each]) for each in sorted(row & left)) for row in found]
        most = max(scores)
        top = [place for place, score in enumerate(scores) if score == most]
        if len(top) > (FIRST if best else max(FEW * len(found), 2)):
            break
        best += top
        left.difference_update(*(found[place] for place in top))
    return best


def _find_alike(lines: Sequence[str], text: str, found: Sequence[set[str]]) -> list[int]:
    """Return the places of the rows with a cell that the text names whole, a number with its column, if it asks for several things and does
    not exclude or compare, or that say yes in a column that it names, or no if it does; none if other rows hold another word of it, or
    if these are most rows."""
    asked, meant = words(text), _NO if _NEGATED.search(text) else _YES
    said, several = f" {' '.join(asked)} ", asks_for_several(text) and _OTHERWISE.isdisjoint(asked)

    def is_named(cell: str) -> bool:
        column, _, value = cell.partition(": ")
        known = not content_words(column).isdisjoint(asked)
        if value.casefold() in _YES | _NO:
            return known and value.casefold() in meant
        named = several and bool(content_words(value)) and f" {' '.join(words(value))} " in said
        return named and (known or any(map(str.isalpha, value)))

    places = [place for place, line in enumerate(lines) if any(map(is_named, line.split("; ")))]
    told, held = (set[str]().union(*sets) for sets in (found, (found[place] for place in places)))
    return places if told == held and len(places) <= ALIKE * len(lines) else []


def _is_table(window: RankedWindow) -> bool:
    """Return whether a window is a part of a table, its name or the summary of its columns, and nothing else."""
    text = window.text.lstrip()
    if window.turns or not _LINE.match(text):
        return False
    return all(_LINE.match(line) for line in text.splitlines() if line.strip())


def _rows_of(window: RankedWindow) -> list[tuple[int, int]]:
    """Return the rows that begin in a window, by their places in the chunk's text."""
    place, chunk = window.chunk.windows[window.number], window.chunk
    found = _ROW.finditer(chunk.text, max(place.start - chunk.start, 0))
    return [row.span() for row in found if row.start() < place.end - chunk.start]
