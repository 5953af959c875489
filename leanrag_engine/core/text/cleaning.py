"""Remove invisible characters from text, and fence it."""

import re
import unicodedata
from collections.abc import Iterable
from itertools import groupby, islice

from leanrag_engine.core.text.shortening import one_line

_BACKTICKS = re.compile("```+")  # a tenth of the time of "`{3,}"


def fence_for(texts: Iterable[str]) -> str:
    """Return a fence of backticks longer than any run of them in ``texts``, so that none can close it."""
    runs = (run for text in texts if "```" in text for run in _BACKTICKS.findall(text))
    return "`" * (max(map(len, runs), default=2) + 1)


def wrap_in_fence(body: str, fence: str) -> str:
    return f"{fence}\n{body}\n{fence}"


def fence(text: str) -> str:
    """Put ``text`` between lines of backticks that nothing in it can close."""
    return wrap_in_fence(text, fence_for([text]))


_NEWLINE = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_ODD_SPACE = re.compile("[\xa0\u1680\u2000-\u200a\u202f\u205f]")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f"  # controls, but for newline and tab
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u3164\uffa0"  # soft hyphen, joiners and fillers
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # zero width, direction overrides
    "\ufdd0-\ufdef\ufffe\uffff\ufe00-\ufe0f\U000e0000-\U000e01ef]"  # no characters, selectors, tags
    # A joiner is part of the spelling in Arabic and Indic scripts, and only hides text elsewhere.
    "|(?<![\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff])[\u200c\u200d]"
)
_MARKS, _MOST_MARKS = re.compile(r"[^\w\s\x00-\x7f]{33,}"), 32
"""Signs that may be marks of one letter: more than 32 are written by no language, and ordering them takes time squared."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Return ``text`` without invisible characters: control, zero-width, direction and tag characters.
    Newlines become line feeds, special spaces plain ones, lone surrogates U+FFFD, and the whole is NFC.
    Offsets change: clean a document once, when it is loaded, before offsets refer to it."""
    printable = text.replace("\n", "").replace("\t", "").isprintable()
    if printable and text.isascii():
        return text
    if not printable:
        text = _NEWLINE.sub("\n", text)
    text = _INVISIBLE.sub("", text)
    if text.isascii():
        return text
    if not printable:  # else there is no other space than the plain one, and no surrogate
        text = _LONE_SURROGATE.sub("\ufffd", _ODD_SPACE.sub(" ", text))
    return unicodedata.normalize("NFC", _MARKS.sub(_drop_marks, text))


def _drop_marks(found: re.Match[str]) -> str:
    runs = groupby(found[0], lambda each: unicodedata.combining(each) > 0)
    return "".join(each for marked, run in runs for each in islice(run, _MOST_MARKS if marked else None))


def clean_line(text: str) -> str:
    return one_line(clean(text))
