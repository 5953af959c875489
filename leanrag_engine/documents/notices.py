"""What stands beside what files say of their subject: licences, copyright, encodings, front matter, and what mails end with."""

import re
from collections.abc import Sequence
from dataclasses import replace

from leanrag_engine.core.model import Chunk, is_code
from leanrag_engine.core.text.word_lists import read_pattern

QUOTED, SIGNATURE, FRONT_MATTER = "Quoted mail", "Mail signature", "Front matter"
"""What stands beside what is said; the first two are headings of what follows the author's own text in a mail."""
MAIL_HEAD = re.compile(r"\A(?P<who>From: .+)\n(?P<to>(?:(?:To|Cc): .+\n)*)(?P<date>Date: .+)(?:\n|\Z)\s*")

_LEADING_COMMENTS = re.compile(
    r"(?:<\?php\b)?(?:\s*(?:(?:#|//|;|--|%)[^\n]*(?:\n|$)|/\*.*?\*/|<!--.*?-->))+", re.DOTALL
)
_COMMENTED = re.compile(r"(?m)(?:^[^\n]*\w[^\n]*(?:\n|$))+")  # Lines of comments up to one without a word
_FIELDS = re.compile(r"[\w\"'-]+[ \t]*:|#[^\n]*\n[\w\"'-]+[ \t]*:")
_NOTICE = read_pattern("phrases", "notice")
_WORDS = re.compile(r"\S+")
_UNNAMED = re.compile(r"(?im)^(?!.*(?:copyright (?:\(c\)|©|\d)|spdx-|licensed under|\blicen[cs]e:)).*$")
_CALLED = re.compile(r"(?:un)?licen[cs]es?\b|copying\b|notices?\b|copyright\b|unencumbered\b", re.IGNORECASE)
_TERMS = re.compile(r"licensed (?:under|on|according)|licen[cs]e agreement|under the terms of", re.IGNORECASE)
_FORMULA = read_pattern("phrases", "formula")


def is_licence(chunks: Sequence[Chunk]) -> bool:
    """Return whether a document that begins with these chunks is the text of a licence: its title or first words call it so, and it
    comes to a formula of licences at once, or below such a title to terms."""
    if not chunks or is_code(chunks[0].media_type):
        return False
    text = " ".join("\n".join(each.text for each in chunks[:4]).split())
    title, head = chunks[0].title, text[:700]
    # A contract is called License Agreement.
    called = " " not in title and _CALLED.match(title) and _TERMS.search(head)
    return bool(called or (_CALLED.search(f"{title} {text[:100]}") and _FORMULA.search(head)))


def find_beside(chunk: Chunk, number: int) -> str:
    """Return what a window is that stands beside what is said: a quote or signature of a mail, or front matter alone, above which its
    reader leaves an empty line; "" if it is none."""
    window = chunk.windows[number]
    section = window.heading.rpartition(" > ")[2]
    if section in {QUOTED, SIGNATURE}:
        return section
    fields = chunk.quote(window) if chunk.start and chunk.number == 1 and not number else ""
    is_front = chunk.media_type == "text/markdown" and _FIELDS.match(fields) and "\n\n" not in fields
    return FRONT_MATTER if is_front else ""


def without_notices(chunk: Chunk, *, named: bool = False) -> Chunk:
    """Blank licence, copyright and encoding in the comments that source code begins with, and the front matter of Markdown, whose
    place is after an empty line: they say nothing of the subject. ``named``: the lines of code that name holder and licence stay."""
    if chunk.start == 1 and chunk.media_type == "text/markdown" and _FIELDS.match(chunk.text):
        fields, gap, rest = chunk.text.partition("\n\n")
        return replace(chunk, text=f"{' ' * len(fields)}{gap}{rest}")
    if chunk.start or not is_code(chunk.media_type):
        return chunk
    head = _LEADING_COMMENTS.match(chunk.text)
    if head is None:
        return chunk

    def blank(part: re.Match[str]) -> str:
        told = _UNNAMED if named else _WORDS
        return told.sub(lambda each: " " * len(each[0]), part[0]) if _NOTICE.search(part[0]) else part[0]

    return replace(chunk, text=_COMMENTED.sub(blank, head[0]) + chunk.text[head.end() :])
