"""Read Word documents in reading order, with inserted text, text boxes, content controls, notes and comments. python-docx
opens the package and knows the styles; its paragraphs omit all of these, so this module walks the body."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from itertools import chain, islice
from typing import Any

from docx import Document
from docx.document import Document as WordDocument
from docx.opc.exceptions import OpcError
from docx.oxml import parse_xml
from docx.text.paragraph import Paragraph
from lxml.etree import LxmlError

from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.documents.readers.reading import (
    Reading,
    first_heading,
    office_date,
    reading_archive,
    sensible_title,
    write_raised,
)
from leanrag_engine.documents.records import find_caption, format_rows

_Element = Any
"""An lxml element: the library carries no types."""
_List = tuple[dict[int, _Element], dict[int, int], dict[int, int]]

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_P, _TABLE, _ROW, _CELL, _BOX = (f"{_W}{tag}" for tag in ("p", "tbl", "tr", "tc", "txbxContent"))
_PICTURE = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}docPr"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_TEXTS = frozenset({f"{_W}t", "{http://schemas.openxmlformats.org/officeDocument/2006/math}t"})
_SIGNS = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}
_NOTES = frozenset({f"{_W}footnoteReference", f"{_W}endnoteReference"})
_HIDDEN = frozenset({_FALLBACK, _BOX, *(f"{_W}{tag}" for tag in ("del", "moveFrom", "pPr", "rPr"))})
_BESIDE = {"footnotes": "", "endnotes": "", "comments": "Comment:", "header": "Header:", "footer": "Footer:"}
_HEADING_STYLE = re.compile(r"heading ([1-9])|title", re.IGNORECASE)
_DEEPEST = 9
_LONGEST_HEADING, _LONGEST_NUMBER = 120, 40
_LEVEL, _ANEW, _AT = (f"{_W}{tag}" for tag in ("lvl", "startOverride", "ilvl"))
_ONES = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
_NO_STYLE = (0, "0", "0")
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
        styles = {each.get(f"{_W}styleId"): each for each in document.styles.element.iter(f"{_W}style")}
        self._styles = {name: _read_style(styles, name) for name in styles}
        self._lists = dict(_read_lists(document))
        body = document.element.body
        headings = (True for each in body.iter(_P) if self._level(each.find(f"{_W}pPr")))
        # Where no more than the title has the style of a heading, bold lines are headings.
        self._bold_in = body if len([*islice(headings, 2)]) <= 1 else None
        self._bold = False
        lines = [*self._blocks(body), *dict.fromkeys(self._beside(document))]
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
        properties = element.find(f"{_W}pPr")
        _, of_style, deep = self._styles.get(_value(properties, "pStyle"), _NO_STYLE)
        depth = min(_DEEPEST, int(_value(properties, "numPr/ilvl") or deep))
        # "0" takes a paragraph out of the list of its style; an empty one counts too.
        sign = self._count(_value(properties, "numPr/numId") or of_style, depth)
        text = write_raised("".join(_inline(element)).replace("\3\2", "")).strip()
        if not text:
            return
        level, number = self._level(properties), sign.strip("- ")
        if (number or self._bold) and len(text) > _LONGEST_HEADING:
            level = 0  # A whole clause may have the style of a heading
        elif not level and depth == 0 and (number or (self._bold and not sign)) and self._is_bold(element):
            level, self._bold = 2, True  # Below numbered ones, others count too
        if level:
            yield from ("", f"{'#' * min(level, 6)} {' '.join((sign.lstrip('- ') + text).split())}", "")
        elif sign:
            yield sign + text
        else:
            yield from ("", text, "")

    def _level(self, properties: _Element | None) -> int:
        """Return the heading level of a paragraph, 0 if it is not a heading."""
        if outline := _value(properties, "outlineLvl"):
            return int(outline) + 1 if int(outline) < _DEEPEST else 0
        return self._styles.get(_value(properties, "pStyle"), _NO_STYLE)[0]

    def _count(self, list_: str, depth: int) -> str:
        """Return the number of the next item of a list, which Word makes where it shows one, or the sign of a bullet."""
        if list_ == "0":
            return ""
        levels, starts, counts = self._lists.get(list_, ({}, {}, {}))
        level = levels.get(depth)
        indent = "  " * depth
        if level is None or _value(level, "numFmt") == "bullet":
            return f"{indent}- "
        counts[depth] = starts.pop(depth, counts[depth] + 1 if depth in counts else _start(level))
        for deeper in range(depth + 1, _DEEPEST):
            counts.pop(deeper, None)
        pattern, in_figures = _value(level, "lvlText")[:_LONGEST_NUMBER], level.find(f"{_W}isLgl") is not None

        def write(found: re.Match[str]) -> str:
            above = levels.get(at := int(found[1]) - 1)
            kind = "" if in_figures and at < depth else _value(above, "numFmt")
            return _write_number(counts.get(at, _start(above)), kind)

        number = re.sub("%([1-9])", write, pattern).strip()
        return number and f"{'' if '%1' in pattern else indent}{number} "

    def _is_bold(self, paragraph: _Element) -> bool:
        runs = Paragraph(paragraph, paragraph).runs if paragraph.getparent() is self._bold_in else []
        return bool(runs) and all(run.bold or not run.text.strip() for run in runs)

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
        at = min(_WIDEST, int(_value(row, "trPr/gridBefore") or 0))
        yield from [""] * at
        for cell in row.iter(_CELL):
            if next(cell.iterancestors(_ROW)) is not row:
                continue
            down = cell.find(f"{_W}tcPr/{_W}vMerge")
            text = self._flat(cell)
            if down is not None and down.get(f"{_W}val", "continue") == "continue" and at < len(above):
                text = text or above[at]
            width = min(_WIDEST, int(_value(cell, "tcPr/gridSpan") or 1))
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
        elif _value(child, "rPr/vertAlign") == "superscript":
            yield from ("\2", *_inline(child), "\3")
        elif child.tag not in _HIDDEN:
            yield from _inline(child)


def _read_lists(document: WordDocument) -> Iterator[tuple[str, _List]]:
    """Yield each list with its levels, where some of them begin anew, and the counts, which lists of one kind share."""
    counts: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for relation in document.part.rels.values():
        if not relation.is_external and relation.reltype.endswith("/numbering"):
            part = parse_xml(relation.target_part.blob)
            kinds = {each.get(f"{_W}abstractNumId"): each for each in part.iter(f"{_W}abstractNum")}
            for each in part.iter(f"{_W}num"):
                kind = _value(each, "abstractNumId")
                found = chain(islice(kinds.get(kind, each).iter(_LEVEL), _DEEPEST), each.iter(_LEVEL))
                levels = {int(level.get(_AT, "0")): level for level in found}
                starts = {
                    int(it.getparent().get(_AT, "0")): int(it.get(f"{_W}val")) for it in each.iter(_ANEW)
                }
                yield each.get(f"{_W}numId"), (levels, starts, counts[kind])


def _start(level: _Element | None) -> int:
    return int(_value(level, "start") or 0)


def _write_number(number: int, kind: str) -> str:
    """Write a number as a letter or in Roman numerals if the kind of its list says so."""
    tens, ones = divmod(number, 10)
    if not 0 < number < 40 or kind.startswith("decimal"):  # noqa: PLR2004 - no list is longer
        return str(number).zfill(2 if kind == "decimalZero" else 1)
    letters = chr(ord("a") + (number - 1) % 26) * (1 + (number - 1) // 26)
    written = {"Letter": letters, "Roman": "x" * tens + _ONES[ones]}.get(kind[5:], str(number))
    return written.upper() if kind.startswith("upper") else written


def _value(parent: _Element | None, path: str) -> str:
    """Return the value of the element at a path of names below ``parent``, "" for none."""
    found = parent.find(_W + path.replace("/", f"/{_W}")) if parent is not None else None
    return "" if found is None else found.get(f"{_W}val", "")


def _read_style(styles: Mapping[str, _Element], name: str, above: int = _DEEPEST) -> tuple[int, str, str]:
    """Return the level of a heading, the list, and the depth in it, that a style or those that it is based on give."""
    if name not in styles or not above:
        return _NO_STYLE
    style = styles[name]
    level, list_, depth = _read_style(styles, _value(style, "basedOn"), above - 1)
    if own := _HEADING_STYLE.fullmatch(_value(style, "name")):
        level = int(own[1] or 1)
    list_ = _value(style, "pPr/numPr/numId") or (
        "List" if name.startswith("List") and list_ == "0" else list_
    )
    return level, list_, _value(style, "pPr/numPr/ilvl") or depth
