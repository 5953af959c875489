"""Sentences with the chunk that each was taken from, and texts put together from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leanrag_engine.core.graphs.support import cut_description
from leanrag_engine.core.model import Entity, Evidence, Relation
from leanrag_engine.core.text.language.sentences import PieceKind, ends_sentence
from leanrag_engine.core.text.language.turns import find_turn

_CLOSING = "\"'”’»)]}*_ 」』"


@dataclass(frozen=True, slots=True)
class Quote:
    """Text on one line and the chunk that it is from; "" if there is none."""

    text: str
    chunk_id: str = ""


def quotes_of(item: Entity | Relation) -> Iterator[tuple[PieceKind, Quote]]:
    """Yield the sentences of a description as quotes, with its kind of text; without evidence, of the first
    chunk of all that support the item."""
    for each in cut_description(item):
        sentence = " ".join(item.description[each.start : each.end].split())
        yield each.kind, Quote(sentence, each.chunk_ids[0] if each.chunk_ids else "")


def join_quotes(quotes: Sequence[Quote]) -> tuple[str, tuple[Evidence, ...]]:
    """Join quotes with single spaces; return the text and where in it each chunk is quoted."""
    evidence = []
    start = 0
    for quote in quotes:
        end = start + len(quote.text)
        if quote.chunk_id:
            evidence.append(Evidence(start, end, quote.chunk_id))
        start = end + 1
    return " ".join(quote.text for quote in quotes), tuple(evidence)


def end_sentence(text: str) -> str:
    """Return the text with a full stop, unless it ends with a mark of its own."""
    bare = text.rstrip(_CLOSING)
    return text if ends_sentence(text) or bare.endswith((":", ";", "；", "：")) else f"{text}."


def is_whole(text: str) -> bool:
    """Return whether a text begins and ends as a sentence does: no clause, no introduction of a list."""
    turn = find_turn(text)
    if turn:
        return True
    if not ends_sentence(text):
        return False
    first = text.split(maxsplit=1)[0].strip("\"'“‘(")
    return bool(first) and not (first[:1].islower() and first.strip(",;").isalpha())
