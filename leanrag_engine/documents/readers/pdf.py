"""Read the text layer of PDFs, with page starts and rows of tables as records, without line-end hyphens, running heads and page numbers."""

import re
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from threading import Lock

from pypdfium2 import PdfDocument, PdfiumError, PdfTextPage, raw

from leanrag_engine.core.errors import DocumentUnreadable
from leanrag_engine.core.text.cleaning import clean, clean_line
from leanrag_engine.documents.records import find_caption, format_rows

from .pages import drop_running_lines, join_cut_words, join_pages
from .reading import MALFORMED, Reading, reading_as, sensible_title

_LIGATURES = dict(enumerate(("ff", "fi", "fl", "ffi", "ffl", "st", "st"), 0xFB00))
_LINE = re.compile(r"([^\r\n]*)(?:\r\n?|\n|$)")
_BLACK = re.compile(r"\S+")


def read_pdf(data: bytes, name: str) -> Reading:
    """Read a PDF page by page. Raises :class:`DocumentUnreadable` if it is damaged, locked, or without text."""
    with reading_as("PDF", name, PdfiumError), _PDFIUM, closing(_open(data, name)) as document:
        document.init_forms()
        pages = [_read_page(document, number) for number in range(len(document))]
        title = sensible_title(document.get_metadata_value("Title"))
        date = document.get_metadata_value("ModDate") or document.get_metadata_value("CreationDate")
    if not any(pages):
        raise DocumentUnreadable(
            f"{name!r} has {len(pages)} page{'s' * (len(pages) != 1)} but no text layer: it seems to be scanned.",
            "Run text recognition (OCR) on it first, then give the result.",
        )
    return replace(join_pages(join_cut_words(drop_running_lines(pages)), title), date=date)


_PDFIUM = Lock()  # PDFium's functions must not run in two threads at once


def _open(data: bytes, name: str) -> PdfDocument:
    try:
        # Many PDFs are encrypted without a password for reading: no password opens them.
        return PdfDocument(data)
    except PdfiumError as problem:
        if problem.err_code != raw.FPDF_ERR_PASSWORD:
            raise
        raise DocumentUnreadable(
            f"{name!r} is encrypted and needs a password.",
            "Save it without a password, or give its text itself.",
        ) from problem


def _read_page(document: PdfDocument, number: int) -> str:
    try:
        if document.formenv:
            with closing(document[number]) as page, suppress(PdfiumError):
                page.flatten()  # what was filled in is text of the page when it is opened again
        with closing(document[number]) as page, closing(page.get_textpage()) as layer:
            text = _write_tables(layer.get_text_range(), layer)
    except (PdfiumError, *MALFORMED):
        return ""  # read the other pages; the metadata name this one
    # Where a line ends within a word, PDFium joins its parts by this character: whether a hyphen belongs there is
    # decided by the rest of the document.
    text = text.replace("\ufffe", "-\n").translate(_LIGATURES)
    lines = clean(text).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


_Cell = tuple[str, float, float]
"""A text, and where it begins and ends across the page."""


def _write_tables(text: str, layer: PdfTextPage) -> str:
    """Return the text of a page with the rows of its tables as records. A table is where the layout shows it: three lines or
    more of cells with wide gaps between them, each cell below or above those of one column alone."""
    if len(text) != layer.count_chars():
        return text  # characters without a place of their own
    lines = [(match[1], _cut_cells(match[1], match.start(), layer)) for match in _LINE.finditer(text)]
    written: list[str] = []
    at = 0
    while at < len(lines):
        rows, count = _find_rows([cells for _, cells in lines[at:]])
        if rows:
            written += ["", *format_rows(rows, find_caption(written)), ""]
        else:
            written.append(lines[at][0])
        at += count
    return "\n".join(written)


def _cut_cells(line: str, start: int, layer: PdfTextPage) -> list[_Cell]:
    """Return the cells of a line that begins at the character ``start`` of a page: wide gaps part them."""
    cells: list[_Cell] = []
    for word in _BLACK.finditer(line):
        left, bottom, _, top = layer.get_charbox(start + word.start(), loose=True)
        right = layer.get_charbox(start + word.end() - 1, loose=True)[2]
        # Spaces within justified lines are narrower.
        if cells and left - cells[-1][2] < 0.8 * (top - bottom):
            cells[-1] = (f"{cells[-1][0]} {word[0]}", cells[-1][1], right)
        else:
            cells.append((word[0], left, right))
    return cells


def _find_rows(lines: Sequence[Sequence[_Cell]]) -> tuple[list[list[str]], int]:
    """Return the rows of the table that the first of ``lines`` begins, and how many lines they are; none if it begins none."""
    columns = [(left, right) for _, left, right in lines[0]]
    rows: list[list[str]] = []
    count = 0
    for cells in lines if len(columns) > 1 else ():
        row, wider = [""] * len(columns), list(columns)
        for text, left, right in cells:
            at = [place for place, (first, last) in enumerate(columns) if left < last and right > first]
            if len(at) != 1 or row[at[0]]:
                break
            first, last = columns[at[0]]
            row[at[0]], wider[at[0]] = clean_line(text), (min(first, left), max(last, right))
        filled = sum(map(bool, row))
        continues = rows and not row[0] and 2 * filled <= len(row)
        # A line of one cell at the margin is the text below.
        if not filled or filled < len(cells) or (filled == 1 and (not continues or find_caption([max(row)]))):
            break
        if continues:
            rows[-1] = [f"{above} {cell}".strip() for above, cell in zip(rows[-1], row, strict=True)]
        else:
            rows.append(row)
        columns, count = wider, count + 1
    fewest, longest = 3, 40  # in columns of prose the first one is as wide as the others
    is_table = len(rows) >= fewest and sum(len(row[0]) for row in rows) <= longest * len(rows)
    return (rows, count) if is_table else ([], 1)
