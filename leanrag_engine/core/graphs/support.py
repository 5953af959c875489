"""Which chunks support each sentence of a description, and each finding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from leanrag_engine.core.model import Entity, Evidence, Relation
from leanrag_engine.core.text.language.sentences import Piece, PieceKind, find_turn, pieces


@dataclass(frozen=True, slots=True)
class SentenceSupport:
    """``text[start:end]`` of a description, its kind of text, and the chunks that it rests on, the best
    first; not ``exact``: all that support the item."""

    start: int
    end: int
    kind: PieceKind
    chunk_ids: tuple[str, ...]
    exact: bool


def cut_description(item: Entity | Relation) -> Iterator[SentenceSupport]:
    """Yield the sentences of a description in order. What two chunks say are two sentences, marked or not."""
    text = item.description
    starts = sorted({0, *(each.start for each in item.evidence)})
    for start, end in pairwise([*starts, len(text)]):
        part = text[start:end].rstrip()
        # A turn of a chat is one statement: its sentences would lose their speaker.
        quoted = not item.method.written and find_turn(part)
        whole = [Piece(0, len(part), PieceKind.PROSE)] if quoted else None
        for piece in whole or pieces(part):
            first = start + piece.start
            own = evidence_at(item.evidence, first)
            yield SentenceSupport(first, start + piece.end, piece.kind, own or item.chunk_ids, bool(own))


def evidence_at(evidence: Sequence[Evidence], place: int) -> tuple[str, ...]:
    """Return the chunks that the text around ``place`` comes from."""
    return tuple(dict.fromkeys(each.chunk_id for each in evidence if each.start <= place < each.end))
