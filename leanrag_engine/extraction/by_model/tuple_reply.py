"""Read the tuple form of extraction, which models write that were trained on prompts of GraphRAG and LightRAG.
``("entity"<|>NAME<|>TYPE<|>DESCRIPTION)##("relationship"<|>SOURCE<|>TARGET<|>DESCRIPTION<|>IMPORTANCE)<|COMPLETE|>``,
with common deviations: other quotes, numbered lists and headings around the tuples, missing separators."""

import re
from collections.abc import Sequence

from leanrag_engine.core.model import JsonObject

_QUOTES = "\"'“”‘’„«»`*"
_BETWEEN = re.compile(r"\s*<\|#?\|?>\s*")
_HEAD = re.compile(rf"\(?\s*[{_QUOTES}]*(entity|relation(?:ship)?)[{_QUOTES}]*\s*<\|#?\|?>", re.IGNORECASE)
_END = re.compile(r"\)?\s*(?:##|<\|COMPLETE\|>|\Z|\n\s*\n)|\)\s*(?:\n|\d+\.\s*\Z)", re.IGNORECASE)
_COMPLETE = re.compile(r"<\|COMPLETE\|>", re.IGNORECASE)
_TASK = re.compile(r"^\W*task\s+(\d{1,3})\W*$", re.IGNORECASE | re.MULTILINE)
_IMPORTANCE = re.compile(r"\d+(?:\.\d+)?")


def read_tuples(text: str) -> list[JsonObject]:
    """Return the unchecked answers in ``text``, with the numbers of their tasks if it names them, else in order."""
    # The text before the first heading, then number and answer for each heading.
    _, *parts = _TASK.split(text)
    if parts:
        answers = zip(parts[::2], parts[1::2], strict=True)
        return [{"task": int(number), **answer} for number, part in answers if (answer := _answer(part))]
    return [answer for part in _COMPLETE.split(text) if (answer := _answer(part))] or _empty_answer(text)


def _empty_answer(text: str) -> list[JsonObject]:
    """Return one empty answer for a reply that holds nothing but the completion mark."""
    bare = _COMPLETE.sub("", text)
    return [{"entities": [], "relations": []}] if bare != text and not bare.strip(f"{_QUOTES} \n#") else []


def _answer(text: str) -> JsonObject:
    """Return the tuples of one answer; {} if there are none."""
    heads = list(_HEAD.finditer(text))
    answer: dict[str, list[JsonObject]] = {"entities": [], "relations": []}
    for number, head in enumerate(heads, 1):
        end = heads[number].start() if number < len(heads) else len(text)
        body = _END.split(text[head.end() : end], maxsplit=1)[0]
        fields = [field.strip(f" \n{_QUOTES}") for field in _BETWEEN.split(body)]
        if head[1].lower() == "entity":
            answer["entities"].append(_entity(fields))
        else:
            answer["relations"].append(_relation(fields))
    return answer if heads else {}


def _entity(fields: Sequence[str]) -> JsonObject:
    return dict(zip(("name", "type", "description"), fields, strict=False))


def _relation(fields: Sequence[str]) -> JsonObject:
    """Take the longest text after the two ends as the description: keywords may precede or follow it."""
    ends = dict(zip(("source", "target"), fields, strict=False))
    rest = fields[2:]
    figures = [each for each in rest if _IMPORTANCE.fullmatch(each)]
    words = [each for each in rest if not _IMPORTANCE.fullmatch(each)]
    return {
        **ends,
        "description": max(words, key=len, default=""),
        "importance": figures[-1] if figures else None,
    }
