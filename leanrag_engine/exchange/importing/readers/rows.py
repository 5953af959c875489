"""Read rows out of JSON, JSON lines and CSV files, and values out of rows, however they are spelled."""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.documents.decoding import decode
from leanrag_engine.exchange.importing.graph import Remarks

Row = Mapping[str, Any]

MOST_BYTES = 1 << 30
"""The largest file that is read. A larger one and the objects read from it would not fit into memory together."""

SURPLUS = "\0"  # The column of fields beyond the header: no file can have one of this name

_SEPARATORS = re.compile(r"<SEP>|[|;]")
"""Between ids in one text: that of LightRAG and nano-graphrag, and those of LeanRAG and of tables."""


def find_file(folder: Path, *names: str) -> Path | None:
    """Return the first of these files that is in ``folder``."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def read_bytes(path: Path) -> bytes:
    """Return the content of a file. Raises ``InvalidInput`` if it cannot be read or is too big."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise InvalidInput(
                f"{path} has {size:,} bytes; at most {MOST_BYTES:,} are read.", "Split it into parts."
            )
        return path.read_bytes()
    except OSError as problem:
        raise InvalidInput(f"{path} cannot be read: {problem.strerror}.", "Check the path.") from problem


def read_text(path: Path, remarks: Remarks) -> str:
    """Return the text of a file of any encoding. Raises ``InvalidInput`` if it is not text, or as ``read_bytes``."""
    text, metadata = decode(read_bytes(path), str(path))
    if metadata:
        remarks.add("files in another encoding than UTF-8", path.name)
    return text


def read_json(path: Path, remarks: Remarks) -> Any:
    """Return the content of a JSON file. Raises ``InvalidInput`` if it is not JSON."""
    return _parse(read_text(path, remarks), path)


def _parse(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(
            f"{path} is not JSON, or was cut off: {problem}.",
            "Export it again from the program that made it.",
        ) from problem


def read_json_lines(path: Path, remarks: Remarks) -> list[Row]:
    """Return the objects of a file with one on each line, or of a JSON array. Other lines are counted."""
    text = read_text(path, remarks)
    if text.lstrip().startswith("["):
        numbered: Iterator[tuple[int, Any]] = enumerate(_parse(text, path), 1)
    else:
        numbered = ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())
    return [*_parse_lines(numbered, path, remarks)]


def _parse_lines(lines: Iterator[tuple[int, Any]], path: Path, remarks: Remarks) -> Iterator[Row]:
    for number, line in lines:
        try:
            row = json.loads(line) if isinstance(line, str) else line
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield row
        else:
            remarks.add("lines that are no JSON object", f"{path.name}, line {number}")


def list_rows(content: Any, path: Path, remarks: Remarks) -> list[Row]:
    """Return the objects of a JSON array, or of an object of objects, whose keys are their ids then."""
    if isinstance(content, dict):
        pairs = [(key, {"id": key, **row} if isinstance(row, dict) else row) for key, row in content.items()]
    elif isinstance(content, list):
        pairs = [(str(place), row) for place, row in enumerate(content, 1)]
    else:
        raise InvalidInput(
            f"{path} holds {type(content).__name__}; objects by their ids, or a list of them, were expected.",
            "Choose the format that the file has.",
        )
    for key, row in pairs:
        if not isinstance(row, dict):
            remarks.add("entries that are no JSON object", f"{path.name}, {key}")
    return [row for _, row in pairs if isinstance(row, dict)]


def read_csv_rows(path: Path, remarks: Remarks) -> list[Row]:
    """Return the rows of a CSV file with a header, separated by commas, semicolons or tabs."""
    text = read_text(path, remarks)
    header = text.partition("\n")[0]
    separator = max(",;\t", key=header.count)
    reader = csv.DictReader(StringIO(text), delimiter=separator, restkey=SURPLUS, restval="")
    rows: list[Row] = []
    try:
        for row in reader:
            if row.pop(SURPLUS, None):
                remarks.add("rows with more fields than the header", f"{path.name}, line {reader.line_num}")
            rows.append({key.strip().lower(): value for key, value in row.items()})
    except csv.Error as problem:
        raise InvalidInput(
            f"{path} is no CSV: {problem} (line {reader.line_num}).", "Check the quotes around that field."
        ) from problem
    return rows


def get_raw_text(row: Row, *names: str) -> str:
    """Return the first of these fields that is a text which is not empty, as it is; "" if none is."""
    return next((value for name in names if isinstance(value := row.get(name), str) and value), "")


def get_text(row: Row, *names: str) -> str:
    """Return the first of these fields that holds something, as text; "" if none does."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str | int | float) and not isinstance(value, bool) and value == value:  # noqa: PLR0124 - NaN
            text = str(value).strip()
            # nano-graphrag and LeanRAG keep the quotes of the model's reply around names.
            if len(text) > 1 and text[0] == text[-1] == '"':
                text = text[1:-1].strip()
            if text:
                return text
    return ""


def get_ids(row: Row, *names: str) -> tuple[str, ...]:
    """Return the ids in the first of these fields that holds any: a list, or one text with separators."""
    for name in names:
        value = row.get(name)
        if isinstance(value, Sequence) and not isinstance(value, str):
            found = [str(each) for each in value if each is not None]
        else:
            found = _SEPARATORS.split(get_text(row, name))
        ids = tuple(dict.fromkeys(each.strip() for each in found if each.strip()))
        if ids:
            return ids
    return ()


def refuse_columns(path: Path, rows: Sequence[Row], wanted: Mapping[str, Sequence[str]]) -> None:
    """Raise ``InvalidInput`` unless the rows have one of the names of each wanted column."""
    if not rows:
        return
    known = {name for row in rows[:100] for name in row}
    for what, names in wanted.items():
        if known.isdisjoint(names):
            raise InvalidInput(
                f"{path} has no column for the {what}: expected {' or '.join(names)}, found {', '.join(sorted(map(str, known))) or 'none'}.",
                "Rename the column, or choose the format that the file has.",
            )
