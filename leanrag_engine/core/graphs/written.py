"""The sentences that a model or agent wrote about entities, clusters and relations between clusters, as units of search."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.graphs.rows import select_rows
from leanrag_engine.core.model import Entity, Evidence, Finding, Relation, window_id
from leanrag_engine.core.text.language.names import fold_case
from leanrag_engine.core.text.language.sentences import (
    Piece,
    PieceKind,
    ends_sentence,
    find_turn,
    pieces,
    sentences,
)
from leanrag_engine.core.text.shortening import one_line


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


@dataclass(frozen=True, slots=True)
class IndexedSentence:
    """A sentence of a description, which begins at ``start`` in it, or of a ``finding``."""

    id: str
    text: str
    start: int = 0
    finding: Finding | None = None


def cut_sentences(item: Entity | Relation) -> list[IndexedSentence]:
    """Return the sentences of a description, then those of the findings; a finding's summary stands before its first one."""
    said: list[tuple[str, int, Finding | None]] = [
        (item.description[each.start : each.end], each.start, None) for each in cut_description(item)
    ]
    for finding in item.findings if isinstance(item, Entity) else ():
        first, *others = [
            finding.explanation[start:end] for start, end in sentences(finding.explanation)
        ] or [""]
        head = finding.summary if ends_sentence(finding.summary) else f"{finding.summary}."
        said += [(text, 0, finding) for text in (f"{head} {first}", *others)]
    return [
        IndexedSentence(window_id(item.id, number), one_line(text), start, finding)
        for number, (text, start, finding) in enumerate(said)
        if text.strip()
    ]


def list_sentences(layers: Sequence[Graph]) -> list[tuple[str, str]]:
    """Return the id and the text for search of each written sentence, under the name of what it is about.
    Descriptions of base relations are left out: they are searched as facts."""
    found = []
    for number, layer in enumerate(layers):
        for entity in select_rows(layer.entities, np.flatnonzero(layer.nodes.written).tolist()):
            found += [(each.id, name_subject([entity.name], each.text)) for each in cut_sentences(entity)]
        chosen = np.flatnonzero(layer.edges.written) if number else np.empty(0, dtype=np.intp)
        ends = layer.ends[chosen]
        met = np.unique(ends).tolist()
        names = dict(zip(met, (each.name for each in select_rows(layer.entities, met)), strict=True))
        for relation, (source, target) in zip(
            select_rows(layer.relations, chosen.tolist()), ends.tolist(), strict=True
        ):
            subject = [names[source], names[target]]
            found += [(each.id, name_subject(subject, each.text)) for each in cut_sentences(relation)]
    return found


def name_subject(names: Sequence[str], sentence: str) -> str:
    """Return the sentence after the names of its subject, unless it names them itself: twice, a name would outweigh the rest."""
    told = fold_case(sentence)
    return sentence if all(fold_case(each) in told for each in names) else f"{' — '.join(names)}: {sentence}"
