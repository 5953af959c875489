"""Write tables as records (see ``core.text.records``): each row is a line in which names of columns and values stand together."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, repeat

from leanrag_engine.core.text.cleaning import clean_line

Rows = Sequence[tuple[int, Sequence[str]]]
"""The number of each row, and its cells."""

LARGE = 100  # Rows from which on the columns are described, the first ones: fewer say it themselves

_NUMBER = re.compile(r"[-+]?\W?\d[\d.,'’ ]*(?:[%€$£]| ?[A-Za-z]{1,3})?")
_YEAR = re.compile(r"(?:19|20)\d\d")
_ISO_DATE = re.compile(r"\d{4}-\d\d(?:-\d\d)?(?:[ T][\d:.]+Z?)?")
_THOUSANDS = re.compile(r"(?<=\d)[,'’ ](?=\d{3}(?!\d))")
_PLAIN_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_LONGEST_NAME = 60
_COLUMNS = ". Columns: "  # Between the names of the columns and what is said of each


def format_table(header: Sequence[str], rows: Rows, caption: str = "") -> list[str]:
    """Return the lines of a table: one with caption, number of rows and names of the columns (of a large one also with
    what each holds), then one for each row, blank where a row is."""
    count = sum(any(cells) for _, cells in rows)
    names = [clean_line(name).rstrip(" :") for name in header]
    named = f"Table {clean_line(caption)[:200]}".rstrip(" :.")
    head = f"{named}, {count} row{'s' * (count != 1)}"
    if any(names):
        head += f": {' | '.join(name or _letter(at) for at, name in enumerate(names))}"
        if count >= LARGE:
            head += _COLUMNS + "; ".join(_describe_columns(names, rows))
    short = [name[:_LONGEST_NAME].rstrip(" :") for name in names]
    return [head, *(_format_record(number, short, cells) for number, cells in rows)]


def format_rows(rows: Sequence[Sequence[str]], caption: str = "", *, headed: bool | None = None) -> list[str]:
    """Return the lines of a table of a document; without names of columns (``headed``, None: by its look) its rows as in Markdown."""
    if len(rows) > 1 and (has_header(rows) if headed is None else headed):
        return format_table(rows[0], number_rows(rows[1:]), caption)
    return [f"| {' | '.join(row)} |" for row in rows]


def number_rows(rows: Sequence[Sequence[str]]) -> Rows:
    return list(enumerate(rows, 1))


def has_header(rows: Sequence[Sequence[str]], *, data: bool = False) -> bool:
    """Return whether the first row names the columns: different texts without a number, other than years. ``data``: in a file
    of data two columns are enough; in prose they may be names and what is said of them, unless the second holds numbers."""
    first, others = rows[0], rows[1:]
    filled = [cell for cell in first if cell]
    if not others or len(filled) < max(2, len(first) - 1) or len(set(filled)) < len(filled):
        return False
    if any(_NUMBER.fullmatch(cell) and not _YEAR.fullmatch(cell) for cell in filled) or _YEAR.fullmatch(
        first[0]
    ):
        return False
    if max(map(len, filled)) > _LONGEST_NAME:
        return False
    fewest = 3
    return data or len(first) >= fewest or all(len(row) > 1 and _NUMBER.fullmatch(row[1]) for row in others)


def find_caption(lines: Sequence[str]) -> str:
    """Return the caption that the last of ``lines`` gives to a table below: it begins with its number, or ends with a colon."""
    before = next((line for line in reversed(lines[-2:]) if line.strip()), "").strip("#*_ \t")
    longest = 120
    is_caption = re.match(r"(?:table|tab\.|tabelle|tableau|tabla)\s+\w", before, re.IGNORECASE)
    if len(before) > longest or not (is_caption or before.endswith(":")):
        return ""
    return re.sub(r"^table\s+", "", before, flags=re.IGNORECASE)


def _format_record(number: int, names: Sequence[str], cells: Sequence[str]) -> str:
    lettered = not names and "" in cells  # else nothing tells the column of a cell
    named = enumerate(zip(chain(names, repeat("")), (each.replace("; ", ", ") for each in cells)))  # noqa: B905 - there may be more names
    labels = ((name or (_letter(at) if lettered else ""), cell) for at, (name, cell) in named if cell)
    parts = [f"{label}: {cell}" if label else cell for label, cell in labels]
    return f"Row {number}: {'; '.join(parts)}" if parts else ""


def _letter(place: int) -> str:
    """Return the letters by which spreadsheets name a column."""
    letters = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _describe_columns(names: Sequence[str], rows: Rows) -> Iterator[str]:
    for at, name in enumerate(names[:LARGE]):
        values = Counter(cells[at] for _, cells in rows if at < len(cells) and cells[at])
        yield f"{name or _letter(at)}: {_describe(values)}"


def _describe(values: Counter[str]) -> str:
    if not values:
        return "empty"
    if all(map(_ISO_DATE.fullmatch, values)):
        return f"dates from {min(values)} to {max(values)}"
    numbers = {value: _THOUSANDS.sub("", value) for value in values}
    if all(map(_PLAIN_NUMBER.fullmatch, numbers.values())):
        ordered = sorted(values, key=lambda value: float(numbers[value]))
        return f"numbers from {ordered[0]} to {ordered[-1]}"
    most, longest = 5, 40
    often = [f"{value[:longest]} ({count})" for value, count in values.most_common(most) if count > 1]
    if len(often) == min(most, len(values)):
        rest = f", and {len(values) - most} others" if len(values) > most else ""
        return f"most often {', '.join(often)}{rest}"
    examples = ", ".join(value[:longest] for value in list(values)[:3])
    return f"{len(values)} different texts, such as {examples}"


_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
"""The line below the names of the columns."""
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_BAR = re.compile(r"(?<!\\)\|")
_LINE_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)


def write_records(text: str) -> str:
    """Return Markdown with its tables as records. It keeps the number of lines, so that each row stays on its own."""
    if "|" not in text or "-" not in text:
        return text
    lines = text.split("\n")
    fence = ""
    at = 0
    while at < len(lines):
        if mark := _FENCE.match(lines[at]):
            if not fence:
                fence = mark[1]
            elif mark[1].startswith(fence):
                fence = ""
        rule = lines[at + 1] if at + 1 < len(lines) else ""
        if not fence and "|" in lines[at] and "|" in rule and _RULE.fullmatch(rule):
            header = split_cells(lines[at])
            if len(header) == len(split_cells(rule)):
                end = at + 2
                while end < len(lines) and "|" in lines[end]:
                    end += 1
                rows = number_rows([split_cells(line) for line in lines[at + 2 : end]])
                head, *records = format_table(header, rows, find_caption(lines[max(0, at - 2) : at]))
                if records:
                    lines[at:end] = [head, "", *records]
                    at = end
                    continue
        at += 1
    return "\n".join(lines)


def split_cells(line: str) -> list[str]:
    """Return the cells of a line of a Markdown table."""
    body = line.strip().removeprefix("|")
    cells = [_LINE_BREAK.sub(" ", cell).replace("\\|", "|").strip() for cell in _BAR.split(body)]
    return cells[:-1] if len(cells) > 1 and not cells[-1] and body.endswith("|") else cells
