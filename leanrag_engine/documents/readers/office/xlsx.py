"""Read spreadsheets: each sheet is a section named by its title and columns, each row a line of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from io import BytesIO

from openpyxl import load_workbook
from openpyxl.utils.exceptions import InvalidFileException

from leanrag_engine.core.text.cleaning import clean, clean_line
from leanrag_engine.documents.readers.reading import (
    MALFORMED_ARCHIVE,
    Reading,
    damage_error,
    office_date,
    refuse_bomb,
    refuse_encrypted,
    sensible_title,
)

__all__ = ["read_xlsx"]

_NUMBER = re.compile(r"[-+]?[\d.,]+%?")


def read_xlsx(data: bytes, name: str) -> Reading:
    """Read a workbook; of a formula, the value that was computed last.

    Raises ``DocumentUnreadable`` if it is damaged, locked, or of another kind.
    """
    refuse_encrypted(data, name, "XLSX")
    try:
        refuse_bomb(data, name)
        book = load_workbook(BytesIO(data), read_only=True, data_only=True)
        sheets = [
            section
            for sheet in book.worksheets
            if (section := _format_sheet(sheet.title, sheet.iter_rows(values_only=True)))
        ]
        date = office_date(book.properties)
        title = sensible_title(book.properties.title)
    # KeyError of a missing part is one of MALFORMED_ARCHIVE.
    except (InvalidFileException, SyntaxError, *MALFORMED_ARCHIVE) as problem:
        raise damage_error(name, "XLSX", problem) from problem
    return Reading(clean("\n\n".join(sheets)), title, date=date)


def _format_sheet(title: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a sheet as Markdown, "" if it is empty."""
    filled = list(_find_filled_rows(rows))
    if not filled:
        return ""
    header = filled.pop(0) if len(filled) > 1 and _is_header(filled[0]) else ()
    heading = f"# {clean_line(title)}: {' | '.join(header)}" if header else f"# {clean_line(title)}"
    return "\n".join([heading, "", *(f"| {' | '.join(row)} |" for row in filled)])


def _find_filled_rows(rows: Iterable[Sequence[object]]) -> Iterator[tuple[str, ...]]:
    """Yield the rows that hold anything, without the empty cells at their end."""
    for row in rows:
        cells = [_format_value(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield tuple(cells)


def _is_header(row: Sequence[str]) -> bool:
    """Return whether a row names columns: several different texts, none of them a number."""
    return len(row) > 1 and len(set(row)) == len(row) and not any(map(_NUMBER.fullmatch, row))


def _format_value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat(" ", "minutes") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return clean_line(str(value)).replace("|", "/")
