"""Read RTF: its paragraphs, headings and rows, by the few control words that say something of its text."""

import re
from collections.abc import Iterator

from leanrag_engine.core.text.cleaning import clean

from .reading import Reading, reading_as

_TOKEN = re.compile(rb"\\([A-Za-z]{1,32})(-?\d{1,9})? ?|\\([^A-Za-z'])|((?:\\'[0-9A-Fa-f]{2})+)|([{}])|([^\\{}\r\n]+)")  # fmt: skip
_QUIET = re.compile(r"fonttbl|colortbl|stylesheet|info|pict|object|(?:header|footer)[lrf]?|deleted|\*")
_SIGNS = {
    "par": "\n\n", "sect": "\n\n", "page": "\n\n", "\n": "\n\n", "row": "\n", "cell": " | ", "line": "\n", "tab": " ", "footnote": " ", "~": " ", "emdash": "—", "endash": "–", "_": "-", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "{": "{", "}": "}", "\\": "\\",
}  # fmt: skip


def read_rtf(data: bytes, name: str) -> Reading:
    """Read a text in RTF. Raises :class:`DocumentUnreadable` if it is of another kind."""
    with reading_as("RTF", name):
        if not data.startswith(b"{\\rtf"):
            raise ValueError("it does not begin with {\\rtf")
        kept, at = list[bytes](), 0
        for found in re.finditer(rb"\\bin(\d{1,9}) ?", data):  # bytes of a picture, among them braces
            if found.start() >= at and (end := found.end() + int(found[1])) <= len(data):
                kept.append(data[at : found.start()])
                at = end
        signs = _read_signs(b"".join([*kept, data[at:]]))
        text = "".join(signs).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return Reading(re.sub(r"\n\s*\n", "\n\n", clean(text)).strip())


def _read_signs(data: bytes) -> Iterator[str]:
    encoding = f"cp{page[1].decode()}" if (page := re.search(rb"\\ansicpg(\d+)", data)) else "cp1252"
    groups, quiet, instead, skipped, mark = list[tuple[bool, int]](), False, 1, 0, ""
    for name, figures, sign, codes, brace, plain in _TOKEN.findall(data):
        word, number = (name or sign).decode("latin-1"), int(figures or 0)
        said = _SIGNS.get(word, "")
        if brace == b"{":
            groups.append((quiet, instead))
        elif brace:
            quiet, instead = groups.pop() if groups else (False, 1)
        elif quiet or _QUIET.fullmatch(word):
            quiet = True
        elif word == "uc":
            instead = max(0, min(9, number))  # signs after each \u for programs that do not know it
        elif word in {"pard", "outlinelevel"}:
            mark = "#" * min(6, number + 1) + " " if word == "outlinelevel" else ""
        elif word == "u":
            said, skipped = chr(number % 65_536), instead
        elif not word:
            read = (plain or bytes.fromhex(codes.replace(b"\\'", b"").decode())).decode(encoding, "replace")
            said, skipped = read[skipped:], max(0, skipped - len(read))
        yield mark * bool(said.strip()) + said
        mark = "" if said.strip() else mark
