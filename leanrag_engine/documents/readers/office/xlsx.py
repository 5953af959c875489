"""Read spreadsheets: each sheet is a table named by its title, its rows are numbered as in the sheet."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from io import BytesIO
from itertools import zip_longest

from openpyxl import Workbook, load_workbook
from openpyxl.cell.read_only import ReadOnlyCell
from openpyxl.comments.comment_sheet import CommentSheet
from openpyxl.packaging.relationship import get_dependents, get_rels_path
from openpyxl.utils import range_boundaries
from openpyxl.utils.exceptions import InvalidFileException
from openpyxl.worksheet._read_only import ReadOnlyWorksheet
from openpyxl.xml.functions import fromstring

from leanrag_engine.core.text.cleaning import clean, clean_line
from leanrag_engine.documents.readers.reading import Reading, office_date, reading_archive, sensible_title
from leanrag_engine.documents.records import Rows, format_table, has_header

_FORMULA = re.compile(rb"<(?:\w+:)?f[ >/]")
_COMPUTED = re.compile(rb"(?:</(?:\w+:)?f>|<(?:\w+:)?f [^<>]*/>)\s*<(?:\w+:)?v>[^<]")
_LITERAL = re.compile(r'"[^"]*"|[\\_*].')  # Signs in the format of a number that stand for themselves
_MOST_CELLS = 10_000_000  # With the empty ones between: of so many the text would be too long
_Merged = Sequence[tuple[int, ...]]
_MERGED = re.compile(rb'mergeCell ref="([A-Z]{1,3}\d{1,7}:[A-Z]{1,3}\d{1,7})"')


def read_xlsx(data: bytes, name: str) -> Reading:
    """Read a workbook; of a formula its last value, else itself. Raises ``DocumentUnreadable`` if damaged, locked, or of another kind."""
    with reading_archive("XLSX", name, data, InvalidFileException, SyntaxError):
        book = load_workbook(BytesIO(data), read_only=True, data_only=True)
        sheets: list[str] = []
        for sheet in book.worksheets:
            # Many programs write another size than the sheet has, and rows beyond it would be left out.
            sheet.reset_dimensions()
            rows: Iterable[Sequence[object]] = (
                [_show_percent(cell) for cell in row] for row in sheet.iter_rows()
            )
            source = sheet._get_source().read()  # noqa: SLF001 - nothing else tells of merged cells without building all cells
            if _FORMULA.search(source) and not _COMPUTED.search(source):
                uncomputed = load_workbook(BytesIO(data), read_only=True)[sheet.title]
                uncomputed.reset_dimensions()
                rows = map(_show_formulas, rows, uncomputed.iter_rows(values_only=True))
            merged = [range_boundaries(each.decode()) for each in _MERGED.findall(source)]
            sheets += format_sheet(sheet.title, _repeat_merged(rows, merged), merged)
            sheets += _read_comments(book, sheet)
        date = office_date(book.properties)
        title = sensible_title(book.properties.title)
    return Reading(clean("\n\n".join(sheets)), title, date=date)


def _show_percent(cell: ReadOnlyCell) -> object:
    number = type(cell.value) in (int, float) and "%" in _LITERAL.sub("", str(cell.number_format))
    return f"{round(100 * cell.value, 10):.15g}%" if number else cell.value


def _read_comments(book: Workbook, sheet: ReadOnlyWorksheet) -> Iterator[str]:
    """Yield what people wrote beside the cells of a sheet, which reading row by row leaves out."""
    archive, links = book._archive, get_rels_path(sheet._worksheet_path)  # noqa: SLF001 - as above
    try:
        for link in get_dependents(archive, links) if links in archive.namelist() else ():
            if link.Type.endswith("/comments"):
                found = CommentSheet.from_tree(fromstring(archive.read(link.target))).comments
                yield "\n".join(f"Comment on {place}: {_read_comment(each.text)}" for place, each in found)
    except (LookupError, ValueError, TypeError, AttributeError, SyntaxError):
        yield f"The comments of the sheet {sheet.title} cannot be read."


def _read_comment(text: str) -> str:
    """Return a comment without what Excel says of threads in front of it."""
    return clean_line((text.startswith("[Threaded comment]") and text.partition("Comment:\n")[2]) or text)


def _show_formulas(values: Sequence[object], formulas: Sequence[object]) -> list[object]:
    pairs = zip(values, formulas, strict=False)
    return [formula if value is None and isinstance(formula, str) else value for value, formula in pairs]


def _repeat_merged(rows: Iterable[Sequence[object]], merged: _Merged) -> Iterator[Sequence[object]]:
    """Yield the rows with the value of cells that are merged downwards in each of their rows that holds more."""
    starts: dict[int, dict[int, int]] = {}
    for column, row, _, last in merged:
        starts.setdefault(row, {})[column - 1] = last
    values: dict[int, tuple[object, int]] = {}
    for number, cells in enumerate(map(list, rows), 1):
        for at in range(len(cells)) if values and any(cell is not None for cell in cells) else ():
            value, end = values.get(at, (None, 0))
            cells[at] = value if number <= end else cells[at]
        values |= {at: (cells[at], end) for at, end in starts.get(number, {}).items() if at < len(cells)}
        yield cells


def format_sheet(title: str, rows: Iterable[Sequence[object]], merged: _Merged) -> Iterator[str]:
    """Yield the rows above the table, which have one cell each, and the table; nothing for an empty sheet."""
    filled = list(_find_filled_rows(rows))
    most = 12  # A longer run is a list of one column
    above = next((at for at, (_, cells) in enumerate(filled[: most + 1]) if sum(map(bool, cells)) > 1), 0)
    if above + 1 < len(filled):
        yield from (" ".join(filter(None, cells)) for _, cells in filled[:above])
        del filled[:above]
    if header := _join_headers(filled[:2], merged):
        filled[:2] = [(filled[0][0], header)]
    if filled:
        header = filled.pop(0)[1] if has_header([cells for _, cells in filled], data=True) else ()
        yield "\n".join(format_table(header, filled, title))


def _join_headers(rows: Rows, merged: _Merged) -> tuple[str, ...]:
    """Return the names of columns in two rows, whose upper one has cells merged over those of the lower one; () in other rows."""
    ends = {first - 1: end for first, row, end, _ in merged if end > first and rows[1:] and row == rows[0][0]}
    names, above, until = list[str](), "", 0
    for at, (upper, lower) in enumerate(
        zip_longest(*(cells for _, cells in rows), fillvalue="") if ends else ()
    ):
        until, above = ends.get(at, until), upper or (above if at < until else "")
        if at >= until and lower not in ("", above):
            return ()  # Data below a single row of names
        names.append(above if lower == above else f"{above} {lower}".strip())
    return tuple(names)


def _find_filled_rows(rows: Iterable[Sequence[object]]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the rows that hold anything with their numbers, without the empty cells at their end."""
    seen = 0
    for number, row in enumerate(rows, 1):
        cells = [_format_value(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        seen += 1 + len(cells)
        if seen > _MOST_CELLS:
            raise ValueError(f"a sheet holds or repeats more than {_MOST_CELLS:,} cells")
        if cells:
            yield number, tuple(cells)


def _format_value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds" if value.second else "minutes")
    if isinstance(value, (date, time)):
        return value.isoformat()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else clean_line(str(value))
