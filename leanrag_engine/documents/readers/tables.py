"""Read files of separated values (CSV, TSV) as records; each row stays on its line of the file."""

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from itertools import islice, pairwise

from leanrag_engine.core.text.cleaning import clean_line
from leanrag_engine.documents.records import format_table, has_header

from .reading import Reading

_SEPARATORS = ",;\t|"
_TRIED_LINES = 50
_MOST_LINES = 100  # A cell of more is no cell: its opening quotation mark is one that nothing closes


def read_table(reading: Reading) -> Reading:
    """Return the text of a file with its rows as records; the first one may name the columns."""
    rows = _parse(reading.text)
    filled = [cells for _, cells in rows if any(cells)]
    if not filled:
        return reading
    headed = has_header(filled[:_TRIED_LINES], data=True) or len(filled[0]) == 1 < len(filled)
    at = next(at for at, (_, cells) in enumerate(rows) if any(cells))
    header = filled[0] if headed else ()
    numbered = [(number, cells) for number, (_, cells) in enumerate(rows[at + headed :], at + headed + 1)]
    lines = format_table(header, numbered)
    places = (
        [line for line, _ in rows[at + headed - 1 :]] if headed else [0, *(line for line, _ in rows[at:])]
    )
    first = places[0]
    # A row of several lines is one line of text and as many blank ones.
    gaps = [after - before for before, after in zip(places, [*places[1:], places[-1] + 1], strict=True)]
    text = "".join(line + "\n" * gap for line, gap in zip(lines, gaps, strict=True)).rstrip("\n")
    return replace(reading, text=text, first_line=reading.first_line and first)


def _parse(text: str) -> list[tuple[int, list[str]]]:
    """Return the rows of a table, each with the number of its first line. Rows without a cell stay as blank ones."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    separator = _find_separator(text)
    rows = list(_read_rows(text, separator, csv.QUOTE_MINIMAL))
    lines = [line for line, _ in rows]
    if any(after - before > _MOST_LINES for before, after in pairwise(lines)) or (
        lines and text.count("\n") - lines[-1] > _MOST_LINES
    ):
        return list(_read_rows(text, separator, csv.QUOTE_NONE))
    return rows


def _read_rows(text: str, separator: str, quoting: int) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(StringIO(text, newline=""), delimiter=separator, quoting=quoting)  # type: ignore[arg-type]
    line = 1
    for row in reader:
        yield line, [clean_line(cell) for cell in row]
        line = reader.line_num + 1


def _find_separator(text: str) -> str:
    """Return the sign that cuts the first lines into the same number of cells, the most cells if several do."""

    def rate(separator: str) -> tuple[bool, float, int]:
        rows = csv.reader(islice(StringIO(text), _TRIED_LINES), delimiter=separator)
        cells = Counter(len(row) for row in rows if row)
        width, lines = cells.most_common(1)[0] if cells else (1, 0)
        return width > 1, lines / max(1, cells.total()), width

    return max(_SEPARATORS, key=rate)
