"""Read files of separated values (CSV, TSV) and lists of objects (JSON) as records; each row stays on its line of the file."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from itertools import accumulate, islice, pairwise
from json import JSONDecoder, dumps
from re import compile as compile_pattern

from leanrag_engine.core.model import Json, JsonObject
from leanrag_engine.core.text.cleaning import clean_line
from leanrag_engine.documents.records import format_table, has_header

from .reading import Reading

_SEPARATORS = ",;\t|"
_TRIED_LINES = 50
_OBJECTS = compile_pattern(r"\[\s*(?=\{)|\A\s*(?=\{)")
_NEXT_OBJECT = compile_pattern(r"\s*+,?\s*+(?=\{)")
_FEWEST_OBJECTS, _LONGEST_VALUE = 5, 300  # Fewer objects are settings, longer values texts
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
    return replace(reading, text=_place(lines, places), first_line=reading.first_line and places[0])


def _place(lines: Sequence[str], places: Sequence[int]) -> str:
    """Return the text with each line at the place of its row: one of several lines is one line of text and as many blank ones."""
    gaps = [after - before for before, after in zip(places, [*places[1:], places[-1] + 1], strict=True)]
    return "".join(line + "\n" * gap for line, gap in zip(lines, gaps, strict=True)).rstrip("\n")


def read_objects(reading: Reading) -> Reading | None:
    """Return JSON that is little else than a list of alike objects, one of each line or in an array, as records; None of any other."""
    text = reading.text
    for start in islice(_OBJECTS.finditer(text), 3):
        found, end = _decode_objects(text, start.end())
        rows = [cells for _, cells in found]
        header = list(dict.fromkeys(key for row in rows for key in row))
        alike = sum(map(len, rows)) >= 0.5 * len(rows) * len(header)
        much = end - start.start() > 0.8 * len(text.rstrip())
        if len(rows) >= _FEWEST_OBJECTS and all(rows) and alike and much:
            cells = ([row.get(key, "") for key in header] for row in rows)
            lines = format_table(header, list(enumerate(cells, 1)))
            stops = (start.start(), *(at for at, _ in found))
            passed = (text.count("\n", before, at) for before, at in pairwise((0, *stops)))
            places = list(accumulate(passed, initial=1))[1:]
            apart = all(one < other for one, other in pairwise(places))
            table = _place(lines, places) if apart else "\n".join(lines)
            after = text[end:] if text[end:].strip("]} \n") else ""
            first_line = reading.first_line if apart else 0
            return replace(reading, text=f"{text[: start.start()]}{table}{after}", first_line=first_line)
    return None


def _decode_objects(text: str, at: int) -> tuple[list[tuple[int, dict[str, str]]], int]:
    """Return the cells of objects that follow each other from ``at``, each with its place, and where the last one ends."""
    found: list[tuple[int, dict[str, str]]] = []
    decode, end = JSONDecoder().raw_decode, at
    with suppress(ValueError, RecursionError):
        while following := _NEXT_OBJECT.match(text, end):
            item, after = decode(text, following.end())
            found.append((following.end(), _flatten(item)))
            end = after
    return found, end


def _flatten(item: JsonObject) -> dict[str, str]:
    """Return the cells of an object, those of objects in it after their names; nothing of one that is no row."""
    cells: dict[str, Json] = {}
    for key, value in item.items():
        if isinstance(value, dict):
            cells |= {f"{key}.{name}": each for name, each in value.items()}
        else:
            cells[key] = value
    written = {key: clean_line(_write_cell(value)) for key, value in cells.items() if value is not None}
    plain = all(len(each) <= _LONGEST_VALUE and "{" not in each for each in written.values())
    return written if plain else {}


def _write_cell(value: Json) -> str:
    if isinstance(value, list):
        return ", ".join(map(_write_cell, value))
    return value if isinstance(value, str) else dumps(value, ensure_ascii=False)


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
