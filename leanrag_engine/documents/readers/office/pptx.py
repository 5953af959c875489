"""Read slides: each is a page and a section under its title, with its text, tables and notes."""

import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import zip_longest
from typing import Any

from lxml.etree import LxmlError
from pptx import Presentation
from pptx.exc import PythonPptxError

from leanrag_engine.core.model import Page
from leanrag_engine.core.text.cleaning import clean, clean_line
from leanrag_engine.documents.readers.reading import (
    MALFORMED,
    Reading,
    office_date,
    reading_archive,
    sensible_title,
)
from leanrag_engine.documents.records import format_rows, format_table

_Shape = Any
"""A shape of python-pptx: the library carries no types."""


def read_pptx(data: bytes, name: str) -> Reading:
    """Read a presentation; a slide is a page. Raises ``DocumentUnreadable`` if the file is damaged, locked, or of another kind."""
    with reading_archive("PPTX", name, data, LxmlError, PythonPptxError):
        deck = Presentation(BytesIO(data))
        written = ["\n".join(_read_slide(slide)) for slide in deck.slides]
        date = office_date(deck.core_properties)
        title = sensible_title(deck.core_properties.title)
    text, pages = "", []
    for number, lines in enumerate(written, 1):
        if slide := re.sub("\n{3,}", "\n\n", clean(lines)).strip("\n"):
            text += "\n\n" if text else ""
            pages.append(Page(number, len(text)))
            text += slide
    return Reading(text, title, tuple(pages), date=date)


def _read_slide(slide: Any) -> Iterator[str]:
    heading = slide.shapes.title
    if heading is not None and (title := clean_line(heading.text_frame.text)):
        yield from (f"# {title}", "")
    # By id: two objects of the library may stand for one shape.
    others = (shape for shape in slide.shapes if heading is None or shape.shape_id != heading.shape_id)
    yield from _read_shapes(others)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.strip()
        if notes:
            yield from ("", f"Notes: {notes}")


def _read_shapes(shapes: Iterable[_Shape]) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _read_shapes(shape.shapes)
        elif getattr(shape, "has_table", False):
            rows = [[clean_line(cell.text) for cell in row.cells] for row in shape.table.rows]
            yield from ("", *format_rows(rows), "")
        elif getattr(shape, "has_chart", False):
            try:
                yield from ("", *_read_chart(shape.chart), "")
            except MALFORMED:  # such as a kind that the library does not know
                yield "[a chart that cannot be read]"
        elif shape.has_text_frame:
            yield from _read_paragraphs(shape)
        if described := shape._element.xpath("string(./*/p:cNvPr/@descr)"):  # noqa: SLF001 - nothing else has it
            yield f"[{clean_line(described)}]"


def _read_chart(chart: Any) -> Iterator[str]:
    """Yield the figures of a chart as records, one for each category."""
    title = chart.chart_title.text_frame.text if chart.has_title and chart.chart_title.has_text_frame else ""
    for plot in chart.plots:
        names = [clean_line(" ".join(map(str, labels))) for labels in plot.categories.flattened_labels]
        points = (each._element.xpath("c:xVal//c:v") for each in plot.series)  # noqa: SLF001 - nothing else has them
        names = names or [each.text for each in next(points, ())]
        values = [["" if value is None else f"{value:.12g}" for value in each.values] for each in plot.series]
        rows = zip_longest(names, *values, fillvalue="")
        header = ("Category", *(clean_line(each.name or "") for each in plot.series))
        yield from format_table(header, list(enumerate(rows, 1)), title)


def _read_paragraphs(shape: _Shape) -> Iterator[str]:
    """Yield the paragraphs of a shape: one alone as text, several as a list."""
    paragraphs = [(each.level, clean_line(each.text)) for each in shape.text_frame.paragraphs]
    filled = [(level, text) for level, text in paragraphs if text]
    if len(filled) == 1:
        yield from ("", filled[0][1], "")
    else:
        yield from ("", *(f"{'  ' * level}- {text}" for level, text in filled), "")
