"""Sentences with the chunk that each was taken from, and texts put together from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from leanrag_engine.core.model import Entity, Evidence, Relation
from leanrag_engine.core.text.language.sentences import Piece, PieceKind, ends_sentence, pieces
from leanrag_engine.core.text.language.turns import find_turn

_CLOSING = "\"'”’»)]}*_ 」』"


@dataclass(frozen=True, slots=True)
class Quote:
    """Text on one line and the chunk that it is from; "" if there is none."""

    text: str
    chunk_id: str = ""


def quotes_of(item: Entity | Relation) -> Iterator[tuple[PieceKind, Quote]]:
    """Yield the sentences of a description in order, each as a quote, with its kind of text.

    What two chunks say are two sentences, marked or not. One that the evidence does not cover is the first
    chunk's of all that support the item.
    """
    text = item.description
    otherwise = item.chunk_ids[0] if item.chunk_ids else ""
    starts = sorted({0, *(each.start for each in item.evidence)})
    for start, end in pairwise([*starts, len(text)]):
        part = text[start:end].rstrip()
        whole = [Piece(0, len(part), PieceKind.PROSE)] if find_turn(part) else None
        for piece in whole or pieces(part):
            sentence = " ".join(text[start + piece.start : start + piece.end].split())
            yield piece.kind, Quote(sentence, _chunk_at(item.evidence, start + piece.start) or otherwise)


def _chunk_at(evidence: Sequence[Evidence], place: int) -> str:
    return next((each.chunk_id for each in evidence if each.start <= place < each.end), "")


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
    """With a full stop, unless it ends with a mark of its own."""
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
