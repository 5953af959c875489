"""Read archives of XML: the chapters of an EPUB in reading order; texts, sheets and slides of LibreOffice (OpenDocument)."""

import posixpath
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import chain, repeat
from typing import Any
from urllib.parse import unquote
from zipfile import ZipFile

from lxml import etree

from leanrag_engine.core.text.cleaning import clean, clean_line

from .html import read_page
from .office.xlsx import format_sheet
from .reading import Reading, reading_archive, sensible_title

_NAMES = {
    "c": "urn:oasis:names:tc:opendocument:xmlns:container",
    "o": "http://www.idpf.org/2007/opf",
    "dc": "http://purl.org/dc/elements/1.1/",
}
_PAGES = frozenset({"application/xhtml+xml", "text/html"})


def read_epub(data: bytes, name: str) -> Reading:
    """Read the chapters in the spine, title, author and date. Raises :class:`DocumentUnreadable` for damage, another kind, encryption."""
    with reading_archive("EPUB", name, data, etree.LxmlError), ZipFile(BytesIO(data)) as archive:
        container = _parse(archive.read("META-INF/container.xml"))
        place = container.find(".//c:rootfile", _NAMES).get("full-path")
        package = _parse(archive.read(place))
        chapters = [
            read_page(archive.read(path), f"{name}: {path}", links=False).text
            for path in _find_chapters(package, posixpath.dirname(place))
        ]
    text = "\n\n".join(chapter for chapter in chapters if chapter)
    author = _read_field(package, "creator")
    return Reading(
        text,
        sensible_title(_read_field(package, "title")),
        metadata={"author": author} if author else {},
        date=_read_field(package, "date")[:10],
    )


def _parse(xml: bytes) -> Any:
    return etree.fromstring(
        xml, etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    )


def _find_chapters(package: Any, folder: str) -> list[str]:
    """Return the paths of the spine's pages within the archive."""
    pages = {
        item.get("id"): posixpath.normpath(posixpath.join(folder, unquote(item.get("href"))))
        for item in package.iterfind("o:manifest/o:item", _NAMES)
        # The table of contents repeats every heading.
        if item.get("media-type") in _PAGES and "nav" not in (item.get("properties") or "").split()
    }
    return [
        pages[reference.get("idref")]
        for reference in package.iterfind("o:spine/o:itemref", _NAMES)
        if reference.get("idref") in pages
    ]


def _read_field(package: Any, name: str) -> str:
    return clean_line(package.findtext(f"o:metadata/dc:{name}", "", _NAMES))


_LEFT_OUT = [f"{{{_NAMES['dc']}}}*", "{*}tracked-changes", "{*}note-citation", "{*}forms", "{*}table-of-content", "{*}page-number"]  # fmt: skip
_TAGS = {
    "p": "p", "list": "ul", "list-item": "li", "list-header": "li", "table": "table", "table-header-rows": "thead", "table-row": "tr", "table-cell": "td", "line-break": "br", "section": "div", "page": "div", "notes": "div", "note": "q", "annotation": "q",
}  # fmt: skip
_BEFORE = {"s": " ", "tab": " ", "note": " (", "annotation": " (", "notes": "Notes:"}
_MOST_ROWS, _MOST_COLUMNS, _MOST_EQUAL = 1 << 20, 1 << 14, 1_000  # of a sheet; a row or cell with a text may repeat as often  # fmt: skip


def read_odf(data: bytes, name: str) -> Reading:
    """Read OpenDocument, texts and slides as the HTML that they could be. Raises as :func:`read_epub`."""
    with reading_archive("OpenDocument", name, data, etree.LxmlError), ZipFile(BytesIO(data)) as archive:
        body = _parse(archive.read("content.xml")).find("{*}body").find("*")
        about = _parse(archive.read("meta.xml")) if "meta.xml" in archive.namelist() else body
        title, date = (clean_line(about.findtext(f".//dc:{each}", "", _NAMES)) for each in ("title", "date"))
        _write_html(body)
        if body.tag == "spreadsheet":
            sheets = ((_get(each, "name"), _read_rows(each)) for each in body.iterfind("table"))
            text = clean("\n\n".join(chain.from_iterable(format_sheet(*each, ()) for each in sheets)))
        else:
            text = read_page(etree.tostring(body, method="html", encoding="utf-8"), name, links=False).text
    return Reading(text, sensible_title(title), date=date[:10])


def _write_html(body: Any) -> None:
    etree.strip_elements(body, *_LEFT_OUT, with_tail=False)
    for each in body.iter("*"):
        kind = etree.QName(each).localname
        if kind != "notes" or any(map(str.strip, each.itertext())):
            each.text = _BEFORE.get(kind, "") + (each.text or "")
        each.tag = _TAGS.get(kind, kind if each is body else "span")
        if kind == "h" or _get(each, "class") == "title":
            each.tag = f"h{min(6, int(_get(each, 'outline-level') or 1))}"
        elif kind == "p" and any(True for _ in each.iterancestors("h1", "li", "q")):
            each.tag, each.tail = "span", " " * (each.getnext() is not None) + (each.tail or "")
        elif kind == "table-cell":
            each.tag = "th" if each.getparent().getparent().tag == "thead" else "td"
            each.set("colspan", _get(each, "number-columns-spanned") or "1")
            each.set("rowspan", _get(each, "number-rows-spanned") or "1")
        elif each.tag == "q":
            each.tail = ")" + (each.tail or "")


def _get(element: Any, name: str) -> str:
    return next((value for key, value in element.attrib.items() if key.endswith(f"}}{name}")), "")


def _read_rows(sheet: Any) -> Iterator[Sequence[str]]:
    for row in sheet.iter("tr"):
        cells = list[str]()
        for cell in row:
            text = _get(cell, "date-value").removesuffix("T00:00:00") or clean_line(" ".join(cell.itertext()))
            cells += repeat(text, min(_MOST_EQUAL, _MOST_COLUMNS - len(cells), int(_get(cell, "number-columns-repeated") or 1)))  # fmt: skip
        most, count = (_MOST_EQUAL if any(cells) else _MOST_ROWS), int(_get(row, "number-rows-repeated") or 1)
        yield from repeat(cells if any(cells) else (), min(most, count))
        if any(cells) and count > most:
            yield (f"(the row above {count - most:,} more times)",)
