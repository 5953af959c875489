"""What files begin with that says nothing of their subject: licences, copyright, encodings, front matter."""

import re
from dataclasses import replace

from leanrag_engine.core.model import Chunk, is_code

_LEADING_COMMENTS = re.compile(
    r"(?:<\?php\b)?(?:\s*(?:(?:#|//|;|--|%)[^\n]*(?:\n|$)|/\*.*?\*/|<!--.*?-->))+", re.DOTALL
)
_COMMENTED = re.compile(r"(?m)(?:^[^\n]*\w[^\n]*(?:\n|$))+")  # Lines of comments up to one without a word
_FIELDS = re.compile(r"[\w\"'-]+[ \t]*:|#[^\n]*\n[\w\"'-]+[ \t]*:")
_NOTICE = re.compile(
    r"copyright|©|licen[cs]e|spdx-|warrant(?:y|ies)\b|redistribut|permission is hereby|all rights reserved|\bcoding[:=]",
    re.IGNORECASE,
)


def without_notices(chunk: Chunk) -> Chunk:
    """Blank licence, copyright and encoding in the comments that source code begins with, and the front matter of Markdown, whose
    place is after an empty line: they say nothing of the subject."""
    if chunk.start == 1 and chunk.media_type == "text/markdown" and _FIELDS.match(chunk.text):
        fields, gap, rest = chunk.text.partition("\n\n")
        return replace(chunk, text=f"{' ' * len(fields)}{gap}{rest}")
    if chunk.start or not is_code(chunk.media_type):
        return chunk
    head = _LEADING_COMMENTS.match(chunk.text)
    if head is None:
        return chunk
    blank = _COMMENTED.sub(
        lambda part: re.sub(r"\S", " ", part[0]) if _NOTICE.search(part[0]) else part[0], head[0]
    )
    return replace(chunk, text=blank + chunk.text[head.end() :])
