"""The tuple form of extraction: what models write that were trained on the prompts of GraphRAG and LightRAG.

``("entity"<|>NAME<|>TYPE<|>DESCRIPTION)##("relationship"<|>SOURCE<|>TARGET<|>DESCRIPTION<|>IMPORTANCE)<|COMPLETE|>``,
with all that goes wrong in it: other quotes, numbered lists and headings around the tuples, separators that are missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_QUOTES = "\"'“”‘’„«»`*"
_BETWEEN = re.compile(r"\s*<\|#?\|?>\s*")
_HEAD = re.compile(rf"\(?\s*[{_QUOTES}]*(entity|relation(?:ship)?)[{_QUOTES}]*\s*<\|#?\|?>", re.IGNORECASE)
_END = re.compile(r"\)?\s*(?:##|<\|COMPLETE\|>|\Z|\n\s*\n)|\)\s*(?:\n|\d+\.\s*\Z)", re.IGNORECASE)
_COMPLETE = re.compile(r"<\|COMPLETE\|>", re.IGNORECASE)
_TASK = re.compile(r"^\W*task\s+(\d{1,3})\W*$", re.IGNORECASE | re.MULTILINE)
_IMPORTANCE = re.compile(r"\d+(?:\.\d+)?")
_RELATION_FIELDS = 2
_PARTS_WITHOUT_TASKS = 3
"""What ``_TASK.split`` gives for one heading: what stands before it, its number, what stands behind."""


def read_tuples(text: str) -> list[Mapping[str, Any]]:
    """The answers in ``text``: with the numbers of their tasks if it names them, else in their order; none if it holds
    no tuple. What each one says is checked by whoever reads it."""
    parts = _TASK.split(text)
    if len(parts) >= _PARTS_WITHOUT_TASKS:
        answers = zip(parts[1::2], parts[2::2], strict=True)
        return [{"task": int(number), **said} for number, part in answers if (said := _answer(part))]
    return [said for part in _COMPLETE.split(text) if (said := _answer(part))] or _nothing(text)


def _nothing(text: str) -> list[Mapping[str, Any]]:
    """A reply that is complete at once says that there is nothing."""
    bare = _COMPLETE.sub("", text)
    return [{"entities": [], "relations": []}] if bare != text and not bare.strip(f"{_QUOTES} \n#") else []


def _answer(text: str) -> dict[str, Any]:
    """The tuples of one answer; {} if there are none."""
    heads = list(_HEAD.finditer(text))
    said: dict[str, Any] = {"entities": [], "relations": []}
    for number, head in enumerate(heads, 1):
        end = heads[number].start() if number < len(heads) else len(text)
        body = _until_end(text[head.end() : end])
        fields = [field.strip(f" \n{_QUOTES}") for field in _BETWEEN.split(body)]
        if head[1].lower() == "entity":
            said["entities"].append(_entity(fields))
        else:
            said["relations"].append(_relation(fields))
    return said if heads else {}


def _until_end(body: str) -> str:
    end = _END.search(body)
    return body[: end.start()] if end else body


def _entity(fields: Sequence[str]) -> dict[str, Any]:
    return dict(zip(("name", "type", "description"), fields, strict=False))


def _relation(fields: Sequence[str]) -> dict[str, Any]:
    """The description is the longest of what stands behind the ends: keywords may stand before or behind it."""
    ends = dict(zip(("source", "target"), fields, strict=False))
    rest = list(fields[_RELATION_FIELDS:])
    figures = [each for each in rest if _IMPORTANCE.fullmatch(each)]
    words = [each for each in rest if not _IMPORTANCE.fullmatch(each)]
    return {
        **ends,
        "description": max(words, key=len, default=""),
        "importance": figures[-1] if figures else None,
    }
