"""Fit text into boxes without a browser: estimated widths, lines, and characters that XML allows."""

import re
from html import escape
from importlib.resources import files
from string import Template
from unicodedata import east_asian_width

from ..errors import plain_line

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"

_NARROW = frozenset("iljtfrI.,:;'|! ()[]-/")
_WIDE = frozenset("mwMW@%—…&")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def read_style(name: str, **values: object) -> str:
    """Return a style sheet of this folder on one line, with ``values`` in place of its ``$names``."""
    sheet = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return Template(sheet).substitute(values).replace("\n", "")


def escape_text(text: str) -> str:
    """Return text from documents as it may stand in an element or a quoted attribute of XML and HTML."""
    return escape(_NOT_XML.sub("", plain_line(text)))


def measure(text: str, size: float) -> float:
    """Return the width of a text in a sans-serif font of that size: rather too much than too little."""
    return size * sum(map(_width_of, text))


def _width_of(character: str) -> float:
    if character in _NARROW:
        return 0.41
    if character in _WIDE:
        return 1.0
    if not character.isascii() and east_asian_width(character) in "WF":
        return 1.05
    return 0.74 if character.isupper() else 0.63


def fit_line(text: str, size: float, width: float) -> str:
    """Return the text, cut with an ellipsis where it is wider than ``width``."""
    return wrap(text, size, width, 1)[0]


def wrap(text: str, size: float, width: float, most: int) -> list[str]:
    """Return the text in at most ``most`` lines, broken between words where it can be, cut where it is too long."""
    text = " ".join(_NOT_XML.sub("", plain_line(text)).split())
    lines: list[str] = []
    while text and len(lines) < most:
        end = _fitting(text, size, width)
        if end < len(text) and len(lines) == most - 1:
            end = _fitting(text, size, width - size)
            lines.append(f"{text[:end].rstrip()}…")
            return lines
        if end < len(text) and " " in text[1 : end + 1]:
            end = text.rindex(" ", 1, end + 1)
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return lines or [""]


def _fitting(text: str, size: float, width: float) -> int:
    """Return how many characters fit, at least one."""
    used = 0.0
    for place, character in enumerate(text):
        used += size * _width_of(character)
        if used > width:
            return max(place, 1)
    return len(text)
