"""Weigh documents by their dates: those that a question names, and the newest where it asks for what holds now."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from functools import lru_cache, partial, reduce
from itertools import product
from pathlib import PurePath

from leanrag_engine.core.model import Chunk
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import STOPWORDS, content_words, find_whole_words
from leanrag_engine.core.text.word_lists import read_pattern
from leanrag_engine.documents.dates import MONTH, YEAR_IN_NAME, find_date, find_dates, month_number
from leanrag_engine.retrieval.intent import NOW, asks_for_now, asks_for_one

from .relevance import NO_RECENCY, QueryWords, RankedWindow

_Rule = Callable[[RankedWindow, RankedWindow], bool]
_MONTH_ALONE = re.compile(
    rf"(?:\b(\d\d?)(?:st|nd|rd|th|\.)?\s(?:of\s)?)?\b(?=[^\W\d_a-zäüöéûà])(?!Mars)((?i:{MONTH}))\b(?:\s(\d\d?)(?:st|nd|rd|th)?\b(?!:))?"
)
"""A month with a capital, perhaps with a day: "may" is a verb, "Mars" a planet."""
_YEAR_ALONE = read_pattern("questions", "year")
_DECADE = re.compile(r"\b(?:(early|late)\s)?((?:19|20)\d)0s\b", re.IGNORECASE)
_PART_OF_YEAR = read_pattern("questions", "part_of_year")
_PARTS = {
    "spring": (3, 5), "summer": (6, 8), "autumn": (9, 11), "fall": (9, 11), "first half": (1, 6), "second half": (7, 12),
    "q1": (1, 3), "q2": (4, 6), "q3": (7, 9), "q4": (10, 12),
}  # fmt: skip
"""The first and the last month of parts of a year."""
_VERSION = re.compile(
    r"(?<![^\W_])v(?:ersion)?[ ._-]?(\d{1,9}(?:\.\d{1,9})*)|(?<=\w[ ._-])(\d{1,4}(?:\.\d{1,4})+|(?:19|20)\d\d)(?=\.[a-z])",
    re.IGNORECASE,
)
"""In the name of a file: *policy v2.md*, *constitution.1.3.txt*; a year is one beside a file without: *refund_2022.html*."""
_REPLACED = re.compile(
    r"^\W*(?:status|state)\b\W{1,9}(?:superseded|replaced|deprecated|withdrawn|obsolete|retired|expired)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""A document says of itself that it holds no longer."""
_STALE = re.compile(
    r"(?i:\((?:draft|old|archived|superseded|obsolete|outdated|withdrawn)\b[^()]*\))"
    r"|(?<![^\W_])(?:DRAFT|ARCHIVED|SUPERSEDED|OBSOLETE|WITHDRAWN)(?![^\W_])|(?i:[-_ .](?:draft|old|archived|superseded|obsolete)\d*\Z)"
)
"""In a title, or at the end of a file's name: of two texts that are alike the other one holds. *NBA draft* is one that holds."""
_NUMBERED = read_pattern("questions", "numbered")
"""A text asks for more than what holds."""
_AMOUNT = re.compile(r"(?<![\w.,])([€$£]?)(\d+(?:[.,]\d+)*)(?:[ \u00a0]?([^\W\d_]+|[€$£%°]))?(?![\w]|[.,]\d)")
_WITHOUT_UNIT = re.compile(r"(?!(?:19|20)\d\d$)\d{1,3}[.,]?\d{3}(?:[.,]\d\d)?|\d{3}")
"""An amount that may be told without its unit: *becomes 15,900 from April*."""
_OF_DATE = re.compile(rf"(?i)^(?:{MONTH})$")
_SECTION = re.compile(r"(?:§|[^\W\d_]+\.?)? ?(\d+[a-z]?)\b")
_OF_SECTION = r"(?i:§|\b(?:section|abschnitt|sección|clause|article|art\.|artikel|artículo|articolo|item))"
_YEARS = 1900  # Reports of two years both hold
_BETWEEN = re.compile(r"\b(?:between|from)\b.+\b(?:and|through|to|until|till)\b", re.IGNORECASE)
_OPEN = re.compile(r"\b(?:after|before|by|compar\w+|since|until|till)\b", re.IGNORECASE)
_NEAR_DAYS = 14  # Days from a day that is named up to which a document gains: "the Monday before July 24"


def asks_for_newest(text: str) -> bool:
    """Return whether a text asks for what holds now, and names no date."""
    return asks_for_now(text) is not None and not find_named_dates(text)


def weigh_dates(text: str, chunks: Sequence[Chunk], recent: float, dated: float) -> Mapping[str, float]:
    """Return what chunks gain by their dates, or by the days of a conversation: up to ``dated`` those of a day, month or year that ``text`` names; if
    it names none and asks for what holds now, by their rank: the newest ``recent``, the oldest 0. The times of files count
    only there, and where no document has a date of its own."""
    named = find_named_dates(text)
    if not (named or asks_for_now(text)):
        return NO_RECENCY
    own = {each.id: each.days() or [each.own_date] for each in chunks if each.own_date}
    if named:
        return {id_: dated * max(nearness(day, named) for day in days) for id_, days in own.items()}
    dates = {id_: max(days) for id_, days in own.items()} or {
        each.id: each.date for each in chunks if each.date
    }
    order = sorted(set(dates.values()))
    last = max(len(order) - 1, 1)
    return {id_: recent * order.index(day) / last for id_, day in dates.items()}


def find_named_dates(text: str) -> list[str]:
    """Return the dates in a question as the beginnings of ISO texts: a day, a month (``2023-07``; ``-07`` and ``-07-24`` of any year), or a
    year; a decade as ``199``; of a time from one to another all its months or years."""
    if part := _PART_OF_YEAR.search(text):
        first, last = _PARTS[part[1].lower()]
        return [f"{part[2]}-{month:02d}" for month in range(first, last + 1)]
    if decade := _DECADE.search(text):
        half = {"early": range(5), "late": range(5, 10)}.get(decade[1] and decade[1].lower())
        return [f"{decade[2]}{year}" for year in half] if half else [decade[2]]
    months = (_format_month(name, before or after) for before, name, after in _MONTH_ALONE.findall(text))
    found: list[str] = []
    for each in (*find_dates(text), *months, *_YEAR_ALONE.findall(text)):
        if not any(each in known for known in found):
            found.append(each)
    # Of its two ends, the first may be without its year.
    return _find_between(sorted(found, key=len)) if len(found) == 2 and _BETWEEN.search(text) else found  # noqa: PLR2004


def _find_between(ends: Sequence[str], most: int = 60) -> list[str]:
    """Return the years or months from one to the other; the ends alone of a year and a month."""
    if all(map(str.isdecimal, ends)):
        return [str(year) for year in range(int(min(ends)), int(max(ends)) + 1)][:most]
    if any(map(str.isdecimal, ends)):
        return [*ends]
    months = [each.rpartition("-")[0] if each.count("-") > 1 else each for each in ends]
    years = sorted(int(each[:-3]) for each in months if len(each) > len("-07"))
    first, last = (int(each[-2:]) for each in months)
    if len(years) < 2:  # noqa: PLR2004 - both of one year, or of any
        year = f"{years[0]}" if years else ""
        between = [*range(first, last + 1)] or [*range(first, 13), *range(1, last + 1)]
        return [f"{year}-{month:02d}" for month in between]
    first, last = sorted(12 * int(each[:-3]) + int(each[-2:]) - 1 for each in months)
    return [f"{month // 12}-{month % 12 + 1:02d}" for month in range(first, last + 1)][:most]


def _format_month(name: str, day: str) -> str:
    with suppress(ValueError):
        return f"-{date(2000, month_number(name), int(day)):%m-%d}"
    return f"-{month_number(name):02d}"


def find_named_time(text: str) -> list[str]:
    """Return the days or months of which a text asks (``find_named_dates``); none for a year, or what was before or since."""
    named = find_named_dates(text)
    return [] if _OPEN.search(text) or any(each.isdecimal() for each in named) else named


def put_other_dates_back(windows: Sequence[RankedWindow], text: str) -> list[RankedWindow]:
    """Return the windows; where ``text`` names days or months, and documents are of them, those of documents of other dates are less near:
    what was said *in the meeting of May 2024* is not told by those of other months."""
    named = find_named_time(text)
    days = [find_date(each.heading) or each.day for each in (windows if named else ())]
    fits = {day: nearness(day, named) for day in {*days} if day}
    if 1.0 not in fits.values():
        return [*windows]
    return [
        replace(each, near=each.near * (1 + fits.get(day, 1.0)) / 2)
        for each, day in zip(windows, days, strict=True)
    ]


def nearness(own: str, named: Sequence[str]) -> float:
    """Return from 0 to 1 how well a date fits the best of those that are named."""
    best = 0.0
    for each in named if own else ():
        if own.startswith(each) or (each.startswith("-") and own[4:].startswith(each)):
            return 1.0
        with suppress(ValueError):
            days = abs((date.fromisoformat(own) - date.fromisoformat(each)).days)
            best = max(best, 1 - days / _NEAR_DAYS)
    return best


def put_newer_first(windows: Sequence[RankedWindow], text: str) -> list[RankedWindow]:
    """Return ``windows``; none of the first stands before one of a later version of its file, or, where ``text`` asks for what holds now and it holds
    half of the words, a newer one, that holds all words of the text that it says, and is nearly as near: it is marked as older. So it is where the text asks for
    one thing, and the newer one says another amount with these words, or amends the section of the older one. Where the text names a date (a year: if it does not ask for now) or,
    not asking for now, a version, they stay."""
    first, words = list(windows[:30]), QueryWords(find_whole_words(NOW.sub(" ", text)))
    if not (rules := _choose_rules(first, text, words)):
        return list(windows)
    _mark_older(first, rules, words)
    found = [*first, *windows[len(first) :]]
    replaced = {
        each.chunk.document_id
        for each in first
        if (each.older and _is_replaced(each))
        or (_is_later_version in rules and any(_is_later_version(b, each) for b in first))
    }
    # What a later version says too would be told twice, and its own windows do not all come as near.
    back = {each.key for each in found if each.value > 0 and each.chunk.document_id in replaced}
    found = [each.add("recent", -0.4 * each.value) if each.key in back else each for each in found]
    return sorted(found, key=lambda each: -each.value)


def _choose_rules(first: Sequence[RankedWindow], text: str, words: QueryWords) -> list[_Rule]:
    """Return the rules by which one window may be newer than another, strongest first; none where the text names a date or version."""
    now, named = bool(asks_for_now(text)), find_named_dates(text)
    if named and not (now and all(map(str.isdecimal, named))):
        return []
    holding = not (now or _NUMBERED.search(text))  # what holds is wanted, though not asked for
    versions = any(_tell_version(each.chunk.source)[1] for each in first)
    rules: list[_Rule] = [_is_later_version] if versions and (now or holding) else []
    rules += [_is_later, _is_valid] if now else [_is_valid_text] * (holding and any(map(_is_replaced, first)))
    if holding and not named and len({*map(_tell_date, first)}) > 1 and asks_for_one(text):
        rules.append(partial(_says_other_amount, words))
    amended = any(re.search(rf"{_OF_SECTION}\s?\d", each.text) for each in first)
    return [*rules, _amends] if amended else rules


def _mark_older(
    first: list[RankedWindow], rules: Sequence[_Rule], words: QueryWords, near: float = 0.6
) -> None:
    """Mark in place the windows than which, by a rule, another one is newer that is ``near`` enough, and put that one before them."""
    held = {each.key: words.find(each.indexed_text) for each in first}
    # The title says what the whole document is about: a newer one may be called otherwise.
    told = {each.key: words.find(f"{each.heading}\n{each.text}") for each in first}
    order = sorted(range(len(first)), key=lambda place: _tell_date(first[place]))
    for is_newer, place in product(rules, order):
        older = first[place]
        answers = bool(told[older.key]) and 2 * len(held[older.key]) >= words.count
        answers = answers or (is_newer is _amends and older.near >= near * max(each.near for each in first))
        newer = [
            other
            for other, each in enumerate(first)
            if (answers or is_newer in (_is_later_version, _is_valid_text))
            and (held[each.key] >= told[older.key] or is_newer in (_is_valid_text, _amends))
            and not (older.older or each.older)
            and is_newer(each, older)
            and (each.near >= near * older.near or is_newer is _amends)
        ]
        if newer:
            first[place] = replace(older, older=True)
            at = reduce(lambda one, other: other if is_newer(first[other], first[one]) else one, newer)
            if (lack := older.value - first[at].value) >= 0:
                first[at] = first[at].add("recent", lack + 0.01)
            if is_newer is _amends:
                first[at] = replace(first[at], near=max(first[at].near, older.near))


def _tell_date(window: RankedWindow) -> tuple[str, str]:
    """Return the date that the heading of a window or else its document states, were it the year in its file's name, and that of
    the document, were it of its file."""
    stated = find_date(window.heading) or window.chunk.own_date
    if not stated and (year := YEAR_IN_NAME.search(PurePath(window.chunk.source).stem)):
        stated = year[0]
    return stated, window.chunk.date


def _is_later(window: RankedWindow, other: RankedWindow) -> bool:
    (stated, day), (before, day_before) = _tell_date(window), _tell_date(other)
    if stated or before:
        return bool(before) and stated > before
    return bool(day_before) and day > day_before


def _is_valid(window: RankedWindow, other: RankedWindow) -> bool:
    return _is_replaced(other) and not _is_replaced(window)


def _amends(window: RankedWindow, other: RankedWindow) -> bool:
    """Return whether a window speaks of the section that another one is of, in a document whose title or opening has that one's title,
    and that one's date if it has any other."""
    title, own, day = other.chunk.title.casefold(), window.chunk.title.casefold(), other.chunk.own_date
    opening = f"{own}\n{window.chunk.text[:200].casefold()}"
    section = title in opening and title != own and _SECTION.match(other.heading.rpartition(" > ")[2])
    if not section or not re.search(rf"{_OF_SECTION}\s?{section[1]}(?!\w|\.\d)", window.text):
        return False
    days = {*find_dates(opening)} - {window.chunk.own_date}
    return title in own or not (days and day) or day in days


def _says_other_amount(words: QueryWords, window: RankedWindow, other: RankedWindow) -> bool:
    """Return whether a later window has a sentence with as much of the question as another one's, but for what its document is about, and other
    amounts in one unit, or alike in length where one has none."""
    if not _is_later(window, other):
        return False
    (about, said, amounts), (of, before, others) = (
        _find_amounts(words, f"{each.chunk.title}\n{each.heading}", each.chunk.text[:300], each.text)
        for each in (window, other)
    )
    anew = not amounts & others and any(
        unit == one or (not (unit and one) and abs(len(number) - len(amount)) <= 1)
        for (unit, number), (one, amount) in product(amounts, others)
    )
    return anew and said >= before - about and 2 * len(before | of) >= words.count


@lru_cache(maxsize=1 << 6)  # each of the first windows is compared with all others
def _find_amounts(
    words: QueryWords, called: str, begins: str, text: str
) -> tuple[set[str], set[str], set[tuple[str, str]]]:
    """Return the words of a question that tell what a document is about, as they stand in what it is ``called`` or, if it is not all, in its first
    paragraph, the others that the sentence of a text with the most of them and an amount holds, and its units and amounts."""
    opening, more, _ = begins.partition("\n\n")
    about = words.find(f"{called}\n{opening * bool(more)}")
    told = [text[start:end] for start, end in sentences(text) if _AMOUNT.search(text[start:end])]
    best = max(told, key=lambda each: len(words.find(each) - about), default="")
    found = (
        (_OF_DATE.sub("-", sign or unit * (unit.casefold() not in STOPWORDS)), number)
        for sign, number, unit in _AMOUNT.findall(best)
    )
    amounts = {(unit, number) for unit, number in found if unit or _WITHOUT_UNIT.fullmatch(number)}
    return about, words.find(best) - about, amounts


def _is_replaced(window: RankedWindow) -> bool:
    return _reads_replaced(window.chunk.title, window.chunk.source, window.chunk.text)


@lru_cache(maxsize=1 << 6)  # each of the first windows is compared with all others
def _reads_replaced(title: str, source: str, text: str) -> bool:
    called = f"{title}\n{PurePath(source).stem}"
    return bool(_REPLACED.search(text[:1_000]) or _STALE.search(called))


def _is_valid_text(window: RankedWindow, other: RankedWindow) -> bool:
    return _is_valid(window, other) and _are_alike(window, other, 0.25)


def _is_later_version(window: RankedWindow, other: RankedWindow) -> bool:
    name, version = _tell_version(window.chunk.source)
    name_before, version_before = _tell_version(other.chunk.source)
    if name != name_before or window.chunk.source == other.chunk.source or not _are_alike(window, other):
        return False
    if version and version_before:
        return version > version_before and version_before[0] < _YEARS
    return bool(version or version_before) and _is_later(window, other)


def _are_alike(window: RankedWindow, other: RankedWindow, least: float = 0.5) -> bool:
    """Return whether two windows share most of their words: chapters may be numbered as versions are."""
    words, others = (_read_words(each.text) for each in (window, other))
    return len(words & others) >= least * min(len(words), len(others))


# Each of the first windows is compared with all others.
_read_words = lru_cache(maxsize=1 << 6)(content_words)


@lru_cache(maxsize=1 << 9)  # likewise
def _tell_version(source: str) -> tuple[str, tuple[int, ...]]:
    """Return the path of a file without version and year, and its version, () if it has none: *policy v2 (2025).md*."""
    path = PurePath(source)
    found = [*_VERSION.finditer(path.name)]
    if not found:
        return source, ()
    rest = path.name[: found[-1].start()] + path.name[found[-1].end() :]
    version = tuple(map(int, re.sub(r"(\.0+)+$", "", found[-1][1] or found[-1][2]).split(".")))
    bare = re.sub(r"\s*\([^()]*\d[^()]*\)|[ ._-]+(?=\.\w+$)", "", rest)
    return str(path.parent / bare), version
