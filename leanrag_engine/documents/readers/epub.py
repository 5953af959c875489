"""Read e-books: the chapters of an EPUB in reading order."""

import posixpath
from io import BytesIO
from typing import Any
from urllib.parse import unquote
from zipfile import ZipFile

from lxml import etree

from leanrag_engine.core.text.cleaning import clean_line

from .html import read_page
from .reading import Reading, reading_archive, sensible_title

_NAMES = {
    "c": "urn:oasis:names:tc:opendocument:xmlns:container",
    "o": "http://www.idpf.org/2007/opf",
    "dc": "http://purl.org/dc/elements/1.1/",
}
_PAGES = frozenset({"application/xhtml+xml", "text/html"})


def read_epub(data: bytes, name: str) -> Reading:
    """Read the chapters that the book's spine lists, its title, author and date. Raises
    :class:`DocumentUnreadable` if it is damaged, of another kind, or its chapters are encrypted."""
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
    return etree.fromstring(xml, etree.XMLParser(resolve_entities=False, no_network=True))


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
