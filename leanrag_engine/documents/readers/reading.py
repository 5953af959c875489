"""The result of a reader, and what readers share: titles, and errors for damaged files."""

import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from itertools import chain
from lzma import LZMAError
from typing import Any
from zipfile import BadZipFile, ZipFile

from leanrag_engine.core.errors import DocumentUnreadable
from leanrag_engine.core.model import NO_METADATA, Page
from leanrag_engine.core.text.cleaning import clean_line
from leanrag_engine.core.text.word_lists import read_pattern
from leanrag_engine.documents.headings import headings

MALFORMED = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, OSError, RecursionError, TypeError,
    ValueError,
)  # fmt: skip
"""Errors that a parser raises on damaged files besides its own."""

BAD_ARCHIVE = (BadZipFile, EOFError, LZMAError, RuntimeError, zlib.error)
"""Errors of a parser of zip archives; a RuntimeError means that a part is encrypted."""

_NO_TITLE = read_pattern("phrases", "no_title")


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of a file: clean text, its own title (or ""), and the starts of its pages. ``media_type``
    is set where the content is of another kind than the name says."""

    text: str
    title: str = ""
    pages: tuple[Page, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)
    date: str = ""  # When it was written, by the properties that a program put into the file
    media_type: str = ""
    first_line: int = 0  # The line of the file, from 1, on which the text begins; 0 if the lines of the text are not those of the file


_OF_PART = read_pattern("phrases", "of_part")
"""The title of the first of several parts, such as a release, and not of all."""
_NO_TEXT = re.compile(r"<[^<>]{0,400}>|!?\[[^\[\]]{0,200}\]\([^()]{0,400}\)|\W+")
"""Tags, pictures and links, such as stand above a title, and signs."""
_FEW_WORDS = 25


def first_heading(text: str, media_type: str) -> str:
    """Return the title of the first heading if it is of level 1, or, in a text without a title of its own, begins it and stands above all others; else ""."""
    found = headings(text, media_type)
    first = next(found, None)
    if first and first.level > 1 and (below := next(found, None)):
        # What stands right above the title is none: *Lecture 1*.
        is_title = below.level == 1 and not _NO_TEXT.sub("", text[first.end : below.start])
        first, found = (below, found) if is_title else (first, chain([below], found))
    if first is None or first.level == 1:
        if first is None or (_OF_PART.match(first.title) and any(each.level == 1 for each in found)):
            return ""
        # A heading below text is that of a part: *Archived* in a daily note.
        before = _NO_TEXT.sub(" ", text[: first.start]) if media_type == "text/markdown" else ""
        return first.title if len(before.split()) < _FEW_WORDS else ""
    opens = media_type != "text/html" and not text[: first.start].strip()
    below_it = [each.level > first.level for each in found]  # None: it is that of a part, such as *Log*
    return first.title if opens and below_it and all(below_it) else ""


def sensible_title(title: object) -> str:
    """Return the title in a file's properties; "" if a program rather than a person wrote it."""
    if not isinstance(title, str):
        return ""
    line = clean_line(title)
    return "" if _NO_TITLE.match(line) else line


_TEMPLATES = frozenset(["2013-12-23", "2013-01-27"])
"""The days of the templates of python-docx and python-pptx, which what they write bears."""


_RAISED = re.compile("(\2+)([^\2\3]*)\3")
_FIGURES = re.compile(r"(?=\D{0,9}\d)[-−–+\d,; ]{1,20}")
_BASE = re.compile(r"(?<![\d.,])\d{1,2}$|(?<![^\W\d_])[^\W\d_]{1,2}$")
"""What may have an exponent: a short number without a fraction, a unit, a variable."""


def write_raised(text: str) -> str:
    """Return a text whose raised figures, between the signs 2 and 3, are exponents, or marks of notes, as those in links (two 2s) are."""

    def write(found: re.Match[str]) -> str:
        before, signs = text[max(0, found.start() - 3) : found.start()], found[2].strip()
        if before.endswith("[") or not _FIGURES.fullmatch(signs):
            return found[2]
        is_exponent = found[1] == "\2" and signs != "1" and _BASE.search(before)
        return f"^{signs}" if is_exponent else f"[{signs}]"

    return _RAISED.sub(write, text)


def office_date(properties: Any) -> str:
    """Return the day of the last change in the properties of an Office file, else that of its making, else ""."""
    changed: datetime | None = properties.modified or properties.created
    day = changed.date().isoformat() if changed else ""
    return "" if day in _TEMPLATES else day


@contextmanager
def reading_as(kind: str, name: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn the ``errors`` of a parser, and those that any parser may raise, into a :class:`DocumentUnreadable` about the file."""
    expected: tuple[type[Exception], ...] = (*errors, *MALFORMED)
    try:
        yield
    except expected as problem:
        detail = clean_line(str(problem))[:200] or type(problem).__name__
        raise DocumentUnreadable(
            f"{name!r} cannot be read as {kind}: it is damaged or of another kind ({detail}).",
            "Open it in the program that made it, save it again, and give the new file.",
        ) from problem


@contextmanager
def reading_archive(kind: str, name: str, data: bytes, *errors: type[Exception]) -> Iterator[None]:
    """Do as :func:`reading_as` with a zip archive. Raises :class:`DocumentUnreadable` for the container of encrypted files
    and of Office's formats before 2007 too, and for an archive that unpacks to far more than a document does."""
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise DocumentUnreadable(
            f"{name!r} is encrypted with a password, or of an older format under another name.",
            f"Save it as {kind} without a password.",
        )
    with reading_as(kind, name, *errors, *BAD_ARCHIVE):
        with ZipFile(BytesIO(data)) as archive:
            size = sum(part.file_size for part in archive.infolist())
        # Real documents unpack to far less; the limit stops archives built to exhaust the memory.
        if size > 100_000_000 + 50 * len(data):
            raise DocumentUnreadable(
                f"{name!r} unpacks from {len(data):,} to {size:,} bytes, which is typical of an archive built to do harm.",
                "Save it again in the program that made it, or give its text itself.",
            )
        yield
