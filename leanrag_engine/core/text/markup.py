"""Leave out the markup that a reader of the page does not see and that only its publisher can follow."""

import re

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
_MARKUP = re.compile(f"{_KEPT}|{_LINK}|{_ROLE}|{_NAME}", re.MULTILINE)


def drop_targets(text: str) -> str:
    """Return ``text`` with the words of links within the documents and of roles alone, and without the names of places. Links to
    elsewhere, code and images stay."""
    if not ("](" in text or ":`" in text or ".. _" in text):
        return text
    return _MARKUP.sub(lambda found: next(filter(None, found.groups()), ""), text)
