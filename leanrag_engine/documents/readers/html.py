"""Read HTML pages as visible text, with headings, lists, tables and code kept recognisable. lxml is used
bare: with BeautifulSoup on top of it, a 5 MB page took 36 times as long."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from lxml import etree

from leanrag_engine.core.errors import DocumentUnreadable
from leanrag_engine.core.model import NO_METADATA
from leanrag_engine.core.text.cleaning import clean, clean_line
from leanrag_engine.core.text.word_lists import read_words
from leanrag_engine.documents.decoding import decode, has_byte_order_mark, is_iso_2022
from leanrag_engine.documents.records import find_caption, format_rows

from .reading import Reading, first_heading, write_raised

_Element = Any
"""An lxml element: the library carries no types."""

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_SKIPPED = read_words("files", "skipped_tags")
_SKIPPED_ROLES = frozenset({"navigation", "search", "menu", "menubar", "toolbar"})
_SKIPPED_CLASSES = frozenset({"headerlink", "navheader", "navfooter"})  # Of Sphinx and DocBook
_BLOCKS = read_words("files", "block_tags")
_LINES = frozenset({"br", "dd", "li", "tr"})
_LAYOUT = frozenset({"table", "ul", "ol", "pre", "blockquote", *_HEADINGS})

_WIDEST, _MOST_COLUMNS = 100, 200  # Rows or columns of a cell; beyond so many, a cell is of one column

_WHITE = re.compile(r"\s+")
_INLINE = re.compile(rb"</?(?:font|b|i|u|em|strong|small|big|tt|center|span)\b[^<>]*>", re.IGNORECASE)
_CROWDED = re.compile(rb"<[A-Za-z](?:[^<>\s=\"']*+[\s=\"']++){3000}[^<>]*+>")  # libxml2 compares each two attributes  # fmt: skip
_PAGE = re.compile(r"(?![A-Za-z][A-Za-z0-9+.-]*:|//|#|\?)[^\s()<>]+")  # An address within the site
_XML_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
_DECLARED = re.compile(rb"<meta[^>]{1,200}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_DATE_TAG = re.compile(
    r"date|article:published_time|datePublished|(?:dc|dcterms)\.(?:date|created|issued)|pubdate|publish-?date|last-?modified",
    re.IGNORECASE,
)
_LATIN = frozenset({"iso-8859-1", "latin-1", "latin1", "ascii", "us-ascii"})
_NO_CHARSETS = frozenset({"undefined", "idna", "punycode", "unicode_escape", "raw_unicode_escape"})
"""Codecs of Python that are no encodings of pages."""


def read_html(data: bytes, name: str) -> Reading:
    """Read the visible text of a page, with its links to other pages of the site. Raises as :func:`read_page`."""
    return read_page(data, name, links=True)


def read_page(data: bytes, name: str, *, links: bool) -> Reading:
    """Read the visible text of a page. Raises :class:`DocumentUnreadable` if it has no HTML element or encoding."""
    characters, note = _characters(data, name)
    markup = _CROWDED.sub(b"", _XML_DECLARATION.sub("", clean(characters)).encode("utf-8"))
    root, is_whole = _parse(markup)
    if not is_whole:  # tags that are never closed nest without end, and these change only how text looks
        root, is_whole = _parse(_INLINE.sub(b"", markup))
    if not is_whole:
        raise DocumentUnreadable(
            f"{name!r} nests more than 2,048 elements.", "Close its elements, or give its text."
        )
    if root is None:
        raise DocumentUnreadable(
            f"{name!r} holds no HTML element.", "Give the page as it was served, or its text."
        )
    if links:
        _write_links(root)
    text = clean(_main_text(root))
    title = clean_line(root.xpath("string((//head/title | /html/title)[1])"))
    return Reading(text, title or first_heading(text, "text/html"), metadata={**note, **_date(root)})


def _parse(markup: bytes) -> tuple[_Element | None, bool]:
    """Return the root of a page, None without an element, and whether all of it was read: libxml2 leaves out what is too deep."""
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    root = etree.fromstring(markup, parser) if markup.strip() else None
    return root, not any(each.type_name == "ERR_RESOURCE_LIMIT" for each in parser.error_log)


def _write_links(root: _Element) -> None:
    """Write the links of a page to others of its site into its text, as Markdown does; those in headings and code not."""
    for link in root.iter("a"):
        address = link.get("href", "").strip()
        if (
            _PAGE.fullmatch(address)
            and not any(True for _ in link.iterancestors("a", "pre", *_HEADINGS))
            and "".join(link.itertext()).strip()
            and not any(True for _ in link.iter(*_BLOCKS, *_LINES, *_LAYOUT))
        ):
            link.text = f"[{link.text or ''}"
            etree.SubElement(link, "span").text = f"]({address})"


def _date(root: _Element) -> dict[str, str]:
    """Return the date in the meta tags of a page as metadata, {} if there is none."""
    for meta in root.iter("meta"):
        name = meta.get("property") or meta.get("name") or meta.get("itemprop") or ""
        if _DATE_TAG.fullmatch(name) and (content := clean_line(meta.get("content") or "")):
            return {"date": content[:100]}
    return {}


_COMMENTS = frozenset({"comment", "comments"})


def _find_comments(root: _Element, main: _Element) -> Iterator[_Element]:
    """Yield the elements of comments outside the main part, none within another."""
    around, walk = {main, *main.iterancestors()}, etree.iterwalk(root, events=("start",))
    for _, each in walk:
        if each is main or each.get("id") == "comments" or _COMMENTS & {*each.get("class", "").split()}:
            walk.skip_subtree()
            if each not in around:
                yield each


def _main_text(root: _Element) -> str:
    """Return the text of the page's main part, and of the comments beside it, if it marks one with at least a quarter of the text,
    else the whole."""
    text = _HtmlText(root).text
    parts = root.xpath("//main | //*[@role = 'main']")
    if len(parts) == 1:
        main = "\n\n".join(_HtmlText(each).text for each in (*parts, *_find_comments(root, parts[0])))
        # The rest is menus, hints and footers.
        if 4 * len(main) >= len(text):
            return main
    return text


def _characters(data: bytes, name: str) -> tuple[str, Mapping[str, str]]:
    """Decode a page as UTF-8 if it is valid, else as the page declares, else by its text."""
    try:
        return decode(data, name) if is_iso_2022(data) else (data.decode("utf-8"), NO_METADATA)
    except UnicodeDecodeError:
        declared = None if has_byte_order_mark(data) else _DECLARED.search(data, 0, 4_096)
    if declared:
        encoding = declared[1].decode("ascii").lower()
        # Browsers read Latin-1 as its superset, and so do authors.
        encoding = "windows-1252" if encoding in _LATIN else encoding
        with suppress(LookupError, UnicodeError):  # the declaration is wrong
            if encoding.replace("-", "_") not in _NO_CHARSETS:
                return data.decode(encoding), {"encoding": encoding}
    return decode(data, name)


class _HtmlText:
    """The lines of an element tree, written in one walk without recursion."""

    def __init__(self, root: _Element) -> None:
        self._lines: list[str] = []
        self._inline: list[str] = []
        self._prefix = ""
        self._level = 1  # of the last heading
        self._items: list[int] = []  # of each open list the number of its next item, 0 where it has bullets
        self._pre = 0
        self._cell: _Element | None = None
        self._tables: list[_HtmlTable] = []
        self._walk(root)
        self.text = "\n".join(self._lines).strip("\n")

    def _walk(self, root: _Element) -> None:
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            skipped = _is_skipped(element)
            if event == "start" and skipped:
                walk.skip_subtree()
            elif event == "start":
                self._start(element)
                if element.tag == "sup":
                    linked = any(True for _ in (*element.iter("a"), *element.iterancestors("a")))
                    self._inline.append("\2\2" if linked else "\2")
                self._say(element.text)
            else:
                if not skipped:
                    self._end(element)
                self._inline += ["\3"] * (element.tag == "sup")
                self._say(element.tail if element is not root else None)
        self._break(blank=True)

    def _say(self, text: str | None) -> None:
        if text:
            self._inline.append(text if self._pre else _WHITE.sub(" ", text))

    def _start(self, element: _Element) -> None:
        tag = element.tag
        if self._cell is not None:
            self._space(tag)
        elif tag in ("td", "th"):
            self._start_cell(element)
        elif tag == "pre":
            self._break(blank=True)
            self._pre += 1
        elif tag in ("ul", "ol"):
            self._break(blank=not self._items)
            first = element.get("start", "")
            self._items.append(0 if tag == "ul" else int(first) if first.isdecimal() else 1)
        elif tag in _HEADINGS or tag in _BLOCKS:
            self._break(blank=True)
            self._level = _HEADINGS.get(tag, self._level)
            self._prefix = "#" * self._level + " " if tag in _HEADINGS else self._prefix
            if tag == "table":
                self._tables.append(_HtmlTable(len(self._lines)))
        elif tag in _LINES:
            self._break(blank=False)
            self._prefix = self._item(element.get("value", "")) if tag == "li" else self._prefix

    def _item(self, given: str) -> str:
        number = self._items[-1] if self._items else 0
        number = int(given) if number and given.isdecimal() else number
        if number:
            self._items[-1] = number + 1
        return "  " * min(len(self._items) - 1, 9) + (f"{number}. " if number else "- ")

    def _start_cell(self, element: _Element) -> None:
        if any(True for _ in element.iter(*_LAYOUT)):
            self._break(blank=True)  # a table that lays out a page is no table
        else:
            self._cell = element
            self._inline.append("| ")
            self._began = len(self._inline)

    def _end(self, element: _Element) -> None:
        tag = element.tag
        if element is self._cell:
            self._cell = None
            if self._tables:
                self._tables[-1].add(element, clean_line(write_raised("".join(self._inline[self._began :]))))
            self._inline.append(" ")
        elif self._cell is not None:
            self._space(tag)
        elif tag == "pre":
            self._end_pre()
        elif tag in ("ul", "ol"):
            self._break(blank=len(self._items) <= 1)
            del self._items[-1:]
        elif tag in _HEADINGS or tag in _BLOCKS:
            self._prefix = self._head_answer(element) if tag in ("summary", "dt") else self._prefix
            self._break(blank=True)
            if tag == "table" and self._tables:
                self._tables.pop().write(self._lines)
        elif tag in ("li", "dd", "tr"):
            self._inline.append("|" if "| " in self._inline else "")
            self._break(blank=False)
            self._prefix = ""
            if tag == "tr" and self._tables:
                self._tables[-1].end_row()

    def _head_answer(self, element: _Element) -> str:
        """Return what makes a heading of a question above its answer, or of what opens a part of a page; else the prefix as it is."""
        said, after = "".join(self._inline).strip(), element.getnext()
        is_question = after is not None and after.tag == "dd" and said.endswith(("?", "？"))
        heads = said and not self._pre and (is_question or element.tag == "summary")
        return "#" * min(6, self._level + 1) + " " if heads else self._prefix

    def _space(self, tag: str) -> None:
        if tag in _BLOCKS or tag in _LINES:
            self._inline.append(" ")

    def _end_pre(self) -> None:
        self._pre -= 1
        if self._pre:
            return
        code = write_raised("".join(self._inline)).strip("\n")
        self._inline.clear()
        if code.strip():
            self._lines += ["```", *code.split("\n"), "```", ""]

    def _break(self, *, blank: bool) -> None:
        """End the line, with one blank line after it if ``blank``."""
        if self._pre:
            self._inline.append("\n")
            return
        line = _WHITE.sub(" ", write_raised("".join(self._inline))).strip()
        self._inline.clear()
        if line:
            self._lines.append(self._prefix + line)
            self._prefix = ""
        if blank and self._lines and self._lines[-1]:
            self._lines.append("")


class _HtmlTable:
    """The cells of a table that is being read; ``start`` is the number of lines before it."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._rows: list[list[str]] = []
        self._row: list[str] = []
        self._named: list[bool] = []
        self._down: dict[int, tuple[str, int]] = {}
        """By column, the text of a cell that reaches further down, and how many rows."""

    def add(self, cell: _Element, text: str) -> None:
        self._fill()
        wide, down = (
            min(_WIDEST, int(cell.get(key, "1")) or 1) if cell.get(key, "1").isdecimal() else 1
            for key in ("colspan", "rowspan")
        )
        if not self._rows:
            self._named.append(cell.tag == "th")
        for text_ in (text, *[""] * (wide - 1) * (len(self._row) < _MOST_COLUMNS)):
            if down > 1:
                self._down[len(self._row)] = (text_, down - 1)
            self._row.append(text_)

    def end_row(self) -> None:
        if self._row:
            self._fill()
            self._rows.append(self._row)
            self._row = []

    def _fill(self) -> None:
        """Add the cells that reach down from rows above."""
        while found := self._down.pop(len(self._row), None):
            text, rows = found
            if rows > 1:
                self._down[len(self._row)] = (text, rows - 1)
            self._row.append(text)

    def write(self, lines: list[str]) -> None:
        """Replace the lines of this table, unless it holds more than rows, by its records."""
        written = [line for line in lines[self._start :] if line]
        above = len(written) - len(self._rows)
        if not self._rows or not all(line.startswith("|") for line in written[above:]):
            return
        caption = written[0] if above == 1 else find_caption(lines[: self._start])
        # Of a row with one name, the value stands beside it.
        headed = all(self._named) if self._named[0] else None
        if (
            above <= 1
            and len(records := format_rows(self._rows, caption, headed=headed)) > 1
            and records[0][0] != "|"
        ):
            lines[self._start :] = [*records, ""]


def _is_skipped(element: _Element) -> bool:
    tag = element.tag
    if not isinstance(tag, str) or tag in _SKIPPED:
        return True
    return bool(element.attrib) and (
        element.get("hidden") is not None
        or element.get("aria-hidden") == "true"
        or element.get("role") in _SKIPPED_ROLES
        or not _SKIPPED_CLASSES.isdisjoint(element.get("class", "").split())
    )
