"""Undo line breaks that a column made, not the author, and leave out the targets of links within the documents."""

import re
from itertools import pairwise

_KEPT = r"((?:```|~~~)[\s\S]*?(?:```|~~~|\Z)|``[^`]+``|(?<![:`\w])`[^`\n]*`|!\[[^\]\n]*\]\([^)\n]*\))"
"""Code and images, which stay as they are. A role of reStructuredText is no code."""
_LINK = (
    r"(?<![\w)\]])\[((?:[^\[\]\n]|\[[^\[\]\n]*\])+)\]"
    r"\((?!\w[\w+.-]+:|//)[^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+\"[^\"\n]*\")?\)"
)
"""A link of Markdown to a place within the documents."""
_ROLE = r"(?<![\w`]):(?:[\w+-]+:)?[\w+-]+:`[~!]?(?:([^`<]+?)\s*<[^`<>]+>|(?=[^`]*[^\W\d_])([^`]+))`"
"""A role of reStructuredText: :ref:`text <target>`, :class:`~package.Name`; of a number, such as :issue:`12`, it says of what."""
_NAME = r"^[ \t]*\.\. _[^\n]*[^\s\\]:[ \t]*(?:\n\s*|\Z)"  # A line that names a place of reStructuredText
_UNSEEN = r"<!--[\s\S]*?-->|^ *\[(?!\^)[^\]\n]+\]:[ \t]+(?!\w[\w+.-]+:|//)\S+[ \t]*(?:\"[^\n]*)?$"
"""What a reader of Markdown does not see: a comment, and the place within the documents that a name of a link stands for."""
_MARKUP = re.compile(f"{_KEPT}|{_LINK}|{_ROLE}|{_NAME}|{_UNSEEN}", re.MULTILINE)


def drop_targets(text: str) -> str:
    """Return ``text`` with the words alone of roles and links, without names of places and comments, unless it is nothing else; code stays."""
    if not any(sign in text for sign in ("](", ":`", ".. _", "<!--", "]: ")):
        return text
    shown = _MARKUP.sub(lambda found: next(filter(None, found.groups()), ""), text)
    return shown if shown.strip() else text


_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_ITEM = r"(?:[-*+•]|\d{1,3}[.)])[ \t]"
_OWN_LINE = re.compile(rf" {{4}}|\t|\s*(?:{_ITEM}|[|#>=!]|\[[^\]]*\]:)")
"""Code, an item, a table, a heading, a quotation, a mark of the markup: it begins a line of its own."""

_CLOSED = re.compile(r"[.!?:…][\"'”’)\]*_`]*\s*\Z")

_OPENING = " `\"'“‘(_"

NARROWEST = 50  # Characters of the longest line below which lines are those of verse, a form or a list


def join_wrapped_lines(text: str) -> str:
    """Return ``text`` with the lines of prose joined that were broken where the next word did not fit: such breaks say nothing
    and cost a token each. Code, tables, lists, verse and logs keep their lines."""
    if "\n" not in text:
        return text
    fenced = False
    paragraphs = text.split("\n\n")
    for place, paragraph in enumerate(paragraphs):
        fences = len(_FENCE.findall(paragraph))
        if not fenced and not fences and _is_wrapped(lines := paragraph.split("\n")):
            paragraphs[place] = " ".join([lines[0].rstrip(), *map(str.strip, lines[1:])])
        fenced ^= fences % 2 == 1
    return "\n\n".join(paragraphs)


def _is_wrapped(lines: list[str]) -> bool:
    """Return whether a column broke all of these lines, as prose alone is."""
    width = max(map(len, lines))
    small = sum(line.lstrip(_OPENING)[:1].islower() for line in lines[1:])
    return (
        width >= NARROWEST
        and 2 * small >= len(lines) - 1
        and _CLOSED.search(lines[-1]) is not None
        and not lines[0].startswith(("|", "#", "    ", "\t"))
        and not any(map(_OWN_LINE.match, lines[1:]))
        and all(
            len(before.rstrip()) + len(f" {next(iter(line.split()), '')}") >= width
            for before, line in pairwise(lines)
        )
    )
