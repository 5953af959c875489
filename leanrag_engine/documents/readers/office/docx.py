"""Read Word documents in reading order, with inserted text, text boxes, content controls, notes and comments. python-docx
opens the package and knows the styles; its paragraphs omit all of these, so this module walks the body."""

import re
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

from docx import Document
from docx.document import Document as WordDocument
from docx.opc.exceptions import OpcError
from docx.oxml import parse_xml
from lxml.etree import LxmlError

from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.documents.readers.reading import (
    Reading,
    first_heading,
    office_date,
    reading_archive,
    sensible_title,
)
from leanrag_engine.documents.records import find_caption, format_rows

_Element = Any
"""An lxml element: the library carries no types."""

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_P, _TABLE, _ROW, _CELL, _BOX = (f"{_W}{tag}" for tag in ("p", "tbl", "tr", "tc", "txbxContent"))
_PICTURE = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}docPr"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_TEXTS = frozenset({f"{_W}t", "{http://schemas.openxmlformats.org/officeDocument/2006/math}t"})
_SIGNS = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}
_NOTES = frozenset({f"{_W}footnoteReference", f"{_W}endnoteReference"})
_HIDDEN = frozenset({_FALLBACK, _BOX, *(f"{_W}{tag}" for tag in ("del", "moveFrom", "pPr", "rPr"))})
_BESIDE = {"footnotes": "", "endnotes": "", "comments": "Comment:", "header": "Header:", "footer": "Footer:"}
_HEADING_STYLE = re.compile(r"heading ([1-9])", re.IGNORECASE)
_DEEPEST = 9
_WIDEST = 63  # Columns of a table, as in Word


def read_docx(data: bytes, name: str) -> Reading:
    """Read a Word document. Raises ``DocumentUnreadable`` if it is damaged, locked, or of another kind."""
    with reading_archive("DOCX", name, data, OpcError, LxmlError):
        document = Document(BytesIO(data))
        text = clean(_WordText(document).text)
        title = sensible_title(document.core_properties.title)
        date = office_date(document.core_properties)
    return Reading(text, title or first_heading(text, "text/markdown"), date=date)


class _WordText:
    """The text of one Word document."""

    def __init__(self, document: WordDocument) -> None:
        self._levels = _heading_levels(document)
        lines = [*self._blocks(document.element.body), *dict.fromkeys(self._beside(document))]
        self.text = re.sub("\n{3,}", "\n\n", "\n".join(lines)).strip("\n")

    def _blocks(self, parent: _Element) -> Iterator[str]:
        before = ""
        for element in parent.iterchildren():
            if element.tag == _P:
                lines = [*self._paragraph(element), *self._boxes(element)]
                before = " ".join(lines).strip() or before
                yield from lines
            elif element.tag == _TABLE:
                yield from ("", *self._table(element, find_caption([before])), "")
                before = ""
            elif element.tag not in _HIDDEN:
                yield from self._blocks(element)

    def _paragraph(self, element: _Element) -> Iterator[str]:
        text = "".join(_inline(element)).strip()
        if not text:
            return
        properties = element.find(f"{_W}pPr")
        level = self._level(properties)
        if level:
            yield from ("", f"{'#' * min(level, 6)} {' '.join(text.split())}", "")
        elif sign := _list_sign(properties):
            yield sign + text
        else:
            yield from ("", text, "")

    def _level(self, properties: _Element | None) -> int:
        """Return the heading level of a paragraph, 0 if it is not a heading."""
        if properties is None:
            return 0
        outline = properties.find(f"{_W}outlineLvl")
        if outline is not None:
            level = int(outline.get(f"{_W}val", str(_DEEPEST))) + 1
            return level if level <= _DEEPEST else 0
        return self._levels.get(_style(properties), 0)

    def _boxes(self, paragraph: _Element) -> Iterator[str]:
        """Yield the lines of text boxes anchored in a paragraph, without their copies for old programs."""
        for box in paragraph.iter(_BOX):
            if next(box.iterancestors(_P)) is paragraph and next(box.iterancestors(_FALLBACK), None) is None:
                yield from self._blocks(box)

    def _table(self, table: _Element, caption: str) -> list[str]:
        rows: list[list[str]] = []
        headed = None
        for row in table.iter(_ROW):
            if next(row.iterancestors(_TABLE)) is table:
                if not rows and row.find(f"{_W}trPr/{_W}tblHeader") is not None:
                    headed = True
                rows.append([*self._cells(row, rows[-1] if rows else [])])
        return format_rows(rows, caption, headed=headed)

    def _cells(self, row: _Element, above: Sequence[str]) -> Iterator[str]:
        """Yield the texts of a row's cells, of a cell that spans rows also below, and "" for further columns of one."""
        before = row.find(f"{_W}trPr/{_W}gridBefore")
        at = min(_WIDEST, int(before.get(f"{_W}val", "0"))) if before is not None else 0
        yield from [""] * at
        for cell in row.iter(_CELL):
            if next(cell.iterancestors(_ROW)) is not row:
                continue
            span = cell.find(f"{_W}tcPr/{_W}gridSpan")
            down = cell.find(f"{_W}tcPr/{_W}vMerge")
            text = self._flat(cell)
            if down is not None and down.get(f"{_W}val", "continue") == "continue" and at < len(above):
                text = text or above[at]
            width = min(_WIDEST, int(span.get(f"{_W}val", "1"))) if span is not None else 1
            yield from (text, *[""] * (width - 1))
            at += width

    def _flat(self, parent: _Element) -> str:
        return " ".join(" ".join(self._blocks(parent)).split())

    def _beside(self, document: WordDocument) -> Iterator[str]:
        """Yield the notes and comments, and the headers and footers of the pages."""
        for relation in document.part.rels.values():
            kind = relation.reltype.rpartition("/")[2]
            if relation.is_external or kind not in _BESIDE:
                continue
            root = parse_xml(relation.target_part.blob)
            of_page = kind in ("header", "footer")
            for part in (root,) if of_page else root.iterchildren():
                text = self._flat(part)
                if any(map(str.isalpha if of_page else str.isprintable, text)):  # no page number alone
                    label = _BESIDE[kind] or f"[{part.get(f'{_W}id')}]"
                    yield f"\n{label} {text}\n"


def _inline(element: _Element) -> Iterator[str]:
    for child in element.iterchildren():
        if child.tag in _TEXTS:
            yield child.text or ""
        elif child.tag in _SIGNS:
            yield _SIGNS[child.tag]
        elif child.tag == _PICTURE and (described := child.get("descr")):
            yield f"[{described}]"
        elif child.tag in _NOTES:
            yield f"[{child.get(f'{_W}id')}]"
        elif child.tag not in _HIDDEN:
            yield from _inline(child)


def _style(properties: _Element) -> str:
    style = properties.find(f"{_W}pStyle")
    return style.get(f"{_W}val", "") if style is not None else ""


def _list_sign(properties: _Element | None) -> str:
    """Return the sign of a list item, "" if the paragraph is not one."""
    if properties is None:
        return ""
    depth = properties.find(f"{_W}numPr/{_W}ilvl")
    if depth is None and properties.find(f"{_W}numPr") is None and not _style(properties).startswith("List"):
        return ""
    return "  " * min(_DEEPEST, int(depth.get(f"{_W}val", "0")) if depth is not None else 0) + "- "


def _heading_levels(document: WordDocument) -> dict[str, int]:
    """Return the heading level of each style that is a heading or is based on one."""
    levels: dict[str, int] = {}
    for style in document.styles:
        ancestor: Any = style
        for _ in range(_DEEPEST):
            found = _HEADING_STYLE.fullmatch(ancestor.name or "")
            if found or ancestor.name == "Title":
                levels[style.style_id] = int(found[1]) if found else 1
                break
            ancestor = getattr(ancestor, "base_style", None)
            if ancestor is None:
                break
    return levels
