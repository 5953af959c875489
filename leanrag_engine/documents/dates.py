"""Determine the date of a document: what its metadata, title, file name or file say. Dates are ISO texts as
precise as the source: ``2024-03-01``, ``2024-03``, or ``2024`` (from metadata alone)."""

import re
from calendar import day_name, month_name
from collections.abc import Container, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from leanrag_engine.core.model import FILE_TIME as _FILE_TIME
from leanrag_engine.core.text.language.sentences import ends_sentence, find_turn
from leanrag_engine.core.text.records import TABLE_LINE
from leanrag_engine.core.text.word_lists import read_pattern, read_words


class DateOrigin(StrEnum):
    """Where the date of a document was found, the most reliable first."""

    METADATA = "metadata"  # Given by the caller, in front matter or in a page's meta tags
    TITLE = "title"
    FILE_NAME = "file name"
    TEXT = "text"  # Its first lines, the line of place and date of a letter, or a signature
    PROPERTIES = "file properties"  # Written into the file by the program that made it
    FILE_TIME = _FILE_TIME  # The time of the file's last change


class DocumentDate(NamedTuple):
    """An ISO date and its origin; both empty: unknown."""

    date: str = ""
    origin: str = ""


_KEYS = (
    "date", "published", "publicationdate", "publishdate", "publishedtime", "pubdate", "issued", "sent",
    "created", "createdat", "creationdate", "updated", "updatedat", "modified", "modifiedtime", "lastmodified",
)  # fmt: skip
"""Names of metadata that hold a date, best first, without case, signs and the prefix before a colon or dot."""

_MONTH_NUMBERS = {
    name: int(number)
    for name, _, number in (each.partition("/") for each in read_words("language", "months"))
}
MONTH = "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True))
"""Matches the name of a month, in small letters."""
DATE_WORDS = frozenset([*_MONTH_NUMBERS, *map(str.lower, day_name)])
"""Names of months and days of the week: documents write them as dates."""
_MONTH = rf"(?P<month>{MONTH})\.?"
_YEAR = r"(?P<year>1[0-9]{3}|20[0-9]{2}|21[0-9]{2})"
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<![0-9]){_YEAR}(?P<sign>[-_/])(?P<month>[01]?[0-9])(?P=sign)(?P<day>[0-3]?[0-9])(?![0-9])",
        # Lamp 2024.5.3 is a release.
        rf"(?<![0-9]){_YEAR}\.(?P<month>[01][0-9])\.(?P<day>[0-3][0-9])(?![0-9])",
        r"(?<![0-9])(?P<year>19[0-9]{2}|20[0-9]{2})(?P<month>[01][0-9])(?P<day>[0-3][0-9])(?![0-9])",
        rf"(?<![0-9])(?P<day>[0-3]?[0-9])\.[ ]?(?P<month>[01]?[0-9])\.[ ]?{_YEAR}(?![0-9])",
        rf"(?<![0-9])(?P<day>[0-3]?[0-9])(?:st|nd|rd|th|er)?\.?[ _-]+(?:(?:day )?of |de )?{_MONTH}(?:,| del?)?[ _-]+{_YEAR}(?![0-9])",
        rf"(?<![^\W\d_]){_MONTH}[ _-]+(?P<day>[0-3]?[0-9])(?:st|nd|rd|th)?,?[ _-]+{_YEAR}(?![0-9])",
        rf"{_YEAR}年[ ]?(?P<month>[01]?[0-9])月(?:[ ]?(?P<day>[0-3]?[0-9])日)?",
        rf"{_YEAR}년[ ]?(?P<month>[01]?[0-9])월(?:[ ]?(?P<day>[0-3]?[0-9])일)?",
        # M-2018-07 is the number of a motion.
        rf"(?<![0-9])(?-i:(?<!\b[A-Z]-)(?<!\b[A-Z]{{2}}-)(?<!\b[A-Z]{{3}}-)){_YEAR}[-_/.](?P<month>0[1-9]|1[0-2])(?![0-9]|[-_/.][0-9])",
        # "Mars 2020" is a mission: the French month is written in lower case.
        rf"(?<![^\W\d_])(?!(?-i:Mars)){_MONTH}(?:,| del?)?[ _-]+{_YEAR}(?![0-9])",
    )
)
"""The most precise first. Days before months with slashes (1/3/2024) are left out: countries differ."""
_CJK_DATE = frozenset("年년")
_YEAR_ALONE = re.compile(rf"{_YEAR}")
YEAR_IN_NAME = re.compile(r"(?<![^\W_])(?:19[5-9]\d|20[0-4]\d)(?![^\W_])")
_PDF_PREFIX = re.compile(r"^D:(?=[0-9]{8})")
_PDF_DAY = re.compile(r"^(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})")


def date_document(
    metadata: Mapping[str, str],
    title: str,
    *,
    file_name: str = "",
    text: str = "",
    properties: str = "",
    modified: float | None = None,
) -> DocumentDate:
    """Return the date of a document by the first of these sources that has one: of its ``text`` the first lines and a signature count;
    ``properties`` is the date in the file's own properties, ``modified`` the file's time in seconds since 1970."""
    named = {re.sub(r"^.*[:.]|[^a-z]", "", key.lower()): value for key, value in metadata.items()}
    dated = filter(None, (read_date(named[key]) for key in _KEYS if key in named))
    choices = (
        (next(dated, ""), DateOrigin.METADATA),
        (find_date(title), DateOrigin.TITLE),
        (find_date(file_name), DateOrigin.FILE_NAME),
        (_date_in_first_lines(text, metadata) or _date_of_signing(text), DateOrigin.TEXT),
        (_date_in_properties(properties, file_name), DateOrigin.PROPERTIES),
        ("" if modified is None else _format_time(modified), DateOrigin.FILE_TIME),
    )
    return next((DocumentDate(found, origin.value) for found, origin in choices if found), DocumentDate())


def find_date(text: str) -> str:
    """Return the first date within ``text``, by the most precise notation that occurs in it; "" if there is
    none. Where the month stands in words, a day that it does not have (31 February 2011) leaves month and
    year; figures alone that are no date (2011-02-31) may be anything else."""
    return next(find_dates(text[:500]), "")


def find_dates(text: str) -> Iterator[str]:
    """Yield all dates within ``text``, those of the most precise notation first."""
    for pattern in _PATTERNS if _YEAR_ALONE.search(text) else ():  # each has a year
        yield from filter(None, map(_format_match, pattern.finditer(text)))


def read_date(value: str) -> str:
    """Return the date that a whole ``value`` states: a time of any usual notation, or a year alone; else ""."""
    text = value.strip()
    if found := _PDF_DAY.match(_PDF_PREFIX.sub("", text)):
        return _format_match(found)
    if found := _YEAR_ALONE.fullmatch(text):
        return found["year"]
    return find_date(text)


def find_posted(text: str) -> str:
    """Return the date of the last post that begins in ``text``: *Date: Mon, 4 Nov 2018*; "" if none does."""
    return next(filter(None, map(read_date, reversed(_POSTED.findall(text)))), "")


_POSTED = re.compile(
    r"^[ \t]*(?:date|sent|datum|gesendet|fecha|envoyé)[ \t]*:[ \t]*(\S.*)$", re.MULTILINE | re.IGNORECASE
)
_ON_DOCUMENT = read_pattern("phrases", "on_document")
"""How a line begins that says of when a document is."""
_ENDED = re.compile(r"(?i)\b(?:until|till|through|bis|jusqu'au|hasta|expires)\s[^,.;\n]{0,25}")
"""The end of a time, of which the document is not."""
_SIGNED = re.compile(
    r"(?i:(?:signed|agreed|executed|concluded|dated|(?:done|made|given) (?:at|in)|unterzeichnet|geschlossen|fait à|hecho en|firmado en)\b"
    rf"[^.:;|\d]{{0,40}}?(?=\d|\b(?:{MONTH})\b))"
    r"|(?:(?:En )?(?:[^\W\d_a-zß-ÿ][\w.'’-]*+[ /]?+){1,4}+,|(?i:date|datum|fecha):) (?:(?:den|the|on|am|le|a|em) )?"
)
"""What stands before the date in the line of a signature, and in that of a letter: *Lille, le 4 mai 2021*."""
_AFTER = re.compile(r"\.?$|,? (?:at|in|by|between|zu|à|en)\b.{0,40}$")
_GREETING = re.compile(r"(?i)(?:dear|sehr geehrte|liebe|madame|monsieur|chère?|estimad|to whom)")
_CONCLUDED = read_pattern("phrases", "concluded")
_AMENDED = read_pattern("phrases", "amended")
"""The date of what a document adds to."""


def _date_in_first_lines(text: str, fields: Container[str] = (), *, lines: int = 3, longest: int = 60) -> str:
    """Return the day (on the document, *Valid from …*, also the month) in those of the first lines that are short and no sentence, but on
    the document, row, item, turn, line of a log or one of the ``fields`` above: *due: 2025-09-13* dates something else; "" if several
    days are there: a list of days has none of its own. A day on the document, were it some lines below, is its own."""
    told = (_AMENDED.sub(" ", _ENDED.sub(" ", " ".join(line.split()))) for line in text[:1000].splitlines())
    first = [line for line in told if line and line.partition(":")[0].lower() not in fields]
    begun = (re.split(r"(?<=\d{4})\. ", each)[0] for each in first[: 4 * lines])
    short = [each for each in begun if len(each) <= longest]
    about = [each for each in short if _ON_DOCUMENT.match(each) and not each[0].islower()]
    if len(days := _find_days(about)) == 1:
        return days[0]
    heads = [
        each
        for each in first[:lines]
        if each in about
        or not (
            len(each) > longest
            or find_turn(each)
            or ends_sentence(each)
            or TABLE_LINE.match(each)
            or re.search(r"\d:\d|^[-*+•] |^\[[ xX]\] ", each)
        )
    ]
    days = _find_days(heads) or [*dict.fromkeys(chain.from_iterable(map(find_dates, about)))]
    return days[0] if len(days) == 1 else ""


def _date_of_signing(text: str, *, first: int = 20, last: int = 10) -> str:
    """Return the day of the lines of place and date, or of signature, if they are among the first and the last ones and of one day (a
    diary has more); else that of an opening such as *This agreement is made on 3 March 2022 between …*; "" for none."""
    lines = [line for each in text.splitlines() if (line := each.strip(" \t*_>"))]
    greeted = next((place for place, line in enumerate(lines[:first]) if _GREETING.match(line)), 0)
    days = [_read_signing(line, alone=place < greeted) for place, line in enumerate(lines)]
    if found := {*days} - {""}:
        return found.pop() if len(found) == 1 and any(days[:first] + days[-last:]) else ""
    head = _AMENDED.sub(" ", _ENDED.sub(" ", " ".join(lines[:first])[:1000]))
    return find_date(head[opening.end() :][:50]) if (opening := _CONCLUDED.search(head)) else ""


def _read_signing(line: str, *, alone: bool) -> str:
    """Return the day in a line of place and date, of signature, or of a date ``alone``; "" for any other line."""
    begun = _SIGNED.match(line)
    rest = line[begun.end() :][:90] if begun else line * alone
    told = (found for pattern in _PATTERNS if rest and (found := pattern.match(rest)))
    return next((_format_match(each) for each in told if _AFTER.match(rest, each.end())), "")


def _find_days(lines: Iterable[str]) -> list[str]:
    found = dict.fromkeys(chain.from_iterable(map(find_dates, lines)))
    return [each for each in found if len(each) == len("2024-03-07")]


def _date_in_properties(properties: str, file_name: str) -> str:
    """Return the date in a file's properties; "" if its name has another year: *report 2023.pdf* was printed later."""
    found, years = read_date(properties), YEAR_IN_NAME.findall(file_name)
    return found if not years or found[:4] in years else ""


def _format_match(match: re.Match[str]) -> str:
    parts = match.groupdict()
    year, month, day = int(parts["year"]), month_number(parts["month"]), parts.get("day")
    in_words = not parts["month"].isdigit() or not _CJK_DATE.isdisjoint(match[0])
    if not day and "/" in match[0] and month == (year + 1) % 100:
        return ""  # 2009/10 is a season or a financial year
    try:
        if day:
            return date(year, month, int(day)).isoformat()
    except ValueError:
        if not in_words:
            return ""
    return f"{year}-{month:02d}" if 1 <= month <= 12 else ""  # noqa: PLR2004 - months


def spell_day(day: str) -> tuple[str, ...]:
    """Return how an ISO day stands in documents: ``2024-11-07``, ``07/11/2024``, ``07.11.2024``, ``7 November``, ``November 7``; one
    of any year (``-11-07``) as the last two; a month as ``2024-11``, ``November 2024``."""
    if len(day) == len("2024-11"):
        return day, f"{month_name[int(day[5:])]} {day[:4]}"
    found = date.fromisoformat(f"2000{day}" if day.startswith("-") else day)
    month = month_name[found.month]
    words = (f"{found.day} {month}", f"{month} {found.day}")
    return words if day.startswith("-") else (day, f"{found:%d/%m/%Y}", f"{found:%d.%m.%Y}", *words)


def month_number(name: str) -> int:
    """Return the number of a month that is written in figures, or in words without a dot."""
    return int(name) if name.isdigit() else _MONTH_NUMBERS[name.lower()]


def _format_time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (OverflowError, OSError, ValueError):
        return ""
