"""What stands beside what files say of their subject: licences, copyright, encodings, front matter, and what mails end with."""

import re
from collections.abc import Sequence
from dataclasses import replace

from leanrag_engine.core.model import Chunk, is_code

QUOTED, SIGNATURE = "Quoted mail", "Mail signature"
"""Headings of what follows the author's own text in a mail."""
MAIL_HEAD = re.compile(
    r"\A(?P<who>From: [^\n]+)\n(?P<to>(?:(?:To|Cc): [^\n]+\n)*)(?P<date>Date: [^\n]+)(?:\n|\Z)\s*"
)

_LEADING_COMMENTS = re.compile(
    r"(?:<\?php\b)?(?:\s*(?:(?:#|//|;|--|%)[^\n]*(?:\n|$)|/\*.*?\*/|<!--.*?-->))+", re.DOTALL
)
_COMMENTED = re.compile(r"(?m)(?:^[^\n]*\w[^\n]*(?:\n|$))+")  # Lines of comments up to one without a word
_FIELDS = re.compile(r"[\w\"'-]+[ \t]*:|#[^\n]*\n[\w\"'-]+[ \t]*:")
_NOTICE = re.compile(
    r"copyright|©|licen[cs]e|spdx-|warrant(?:y|ies)\b|redistribut|permission is hereby|all rights reserved|\bcoding[:=]",
    re.IGNORECASE,
)
_WORDS = re.compile(r"\S+")
_UNNAMED = re.compile(r"(?im)^(?!.*(?:copyright (?:\(c\)|©|\d)|spdx-|licensed under|\blicen[cs]e:)).*$")
_CALLED = re.compile(r"(?:un)?licen[cs]es?\b|copying\b|notices?\b|copyright\b|unencumbered\b", re.IGNORECASE)
_TERMS = re.compile(r"licensed (?:under|on|according)|licen[cs]e agreement|under the terms of", re.IGNORECASE)
_FORMULA = re.compile(
    r"permission is hereby granted|permission to use, copy|redistribution and use in source|in no event shall|terms and conditions for use"
    r"|is permitted to copy and distribute|means each individual or legal entity|creative commons corporation|public domain"
    r"|product includes software developed|provided ['\"“]as.is|font software is licensed",
    re.IGNORECASE,
)


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


def is_front_matter(chunk: Chunk, number: int) -> bool:
    """Return whether a window is the front matter of Markdown and nothing else: its reader leaves an empty line above."""
    if number or chunk.number > 1 or not chunk.start or chunk.media_type != "text/markdown":
        return False
    text = chunk.quote(chunk.windows[0])
    return "\n\n" not in text and _FIELDS.match(text) is not None


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
    blanked = _UNNAMED if named else _WORDS
    blank = _COMMENTED.sub(
        lambda part: (
            blanked.sub(lambda each: " " * len(each[0]), part[0]) if _NOTICE.search(part[0]) else part[0]
        ),
        head[0],
    )
    return replace(chunk, text=blank + chunk.text[head.end() :])
