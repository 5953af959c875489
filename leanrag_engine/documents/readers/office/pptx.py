"""Read slides: each is a page and a section under its title, with its text, tables and notes."""

import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

from lxml.etree import LxmlError
from pptx import Presentation
from pptx.exc import PythonPptxError

from leanrag_engine.core.model import Page
from leanrag_engine.core.text.cleaning import clean, clean_line
from leanrag_engine.documents.readers.reading import Reading, office_date, reading_archive, sensible_title
from leanrag_engine.documents.records import format_rows

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
        elif shape.has_text_frame:
            yield from _read_paragraphs(shape)


def _read_paragraphs(shape: _Shape) -> Iterator[str]:
    """Yield the paragraphs of a shape: one alone as text, several as a list."""
    paragraphs = [(each.level, clean_line(each.text)) for each in shape.text_frame.paragraphs]
    filled = [(level, text) for level, text in paragraphs if text]
    if len(filled) == 1:
        yield from ("", filled[0][1], "")
    else:
        yield from ("", *(f"{'  ' * level}- {text}" for level, text in filled), "")
