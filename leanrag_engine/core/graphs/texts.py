"""The texts of a vector space: their ids, digests that tell which are equal, and the texts themselves where they are asked for; and
the sentences that a model or agent wrote about entities, clusters and relations between clusters, as units of search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np

from leanrag_engine.core.graphs.graph import Digests, EntityColumns, Graph, digest_embedded
from leanrag_engine.core.model import Entity, Evidence, Finding, Relation, content_id, window_id
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

from .rows import Ids, Places, ReadTogether, SortedIds, decode_ids, make_ids, select_rows


class EmbeddedTexts(ReadTogether[str]):
    """The texts of a vector space's rows, by ``ids`` and ``digests``; ``read`` gives those at some places, in any thread."""

    def __init__(self, ids: Ids, digests: Digests, read: Callable[[Sequence[int]], list[str]]) -> None:
        self.ids = ids
        self.digests = digests
        self._read = read

    @classmethod
    def of_pairs(cls, pairs: Sequence[tuple[str, str]]) -> EmbeddedTexts:
        """Return texts that are at hand, given with their ids."""
        return cls(
            make_ids(id_ for id_, _ in pairs),
            digest_all([text for _, text in pairs]),
            lambda places: [pairs[place][1] for place in places],
        )

    @classmethod
    def of_entities(cls, entities: Sequence[Entity], nodes: EntityColumns) -> EmbeddedTexts:
        """Return the texts of entities, whose columns are ``nodes``."""
        return cls(
            nodes.ids,
            nodes.texts,
            lambda places: [each.indexed_text for each in select_rows(entities, places)],
        )

    @classmethod
    def join(cls, parts: Sequence[EmbeddedTexts]) -> EmbeddedTexts:
        """Return the texts of several sequences one after the other."""
        if not parts:
            return cls.of_pairs(())
        starts = list(accumulate(map(len, parts), initial=0))

        def read(places: Sequence[int]) -> list[str]:
            wanted = np.asarray(places, dtype=np.intp)
            owners = np.searchsorted(starts, wanted, side="right") - 1
            found: dict[int, str] = {}
            for owner in np.unique(owners).tolist():
                own = wanted[owners == owner]
                texts = parts[owner].select((own - starts[owner]).tolist())
                found.update(zip(own.tolist(), texts, strict=True))
            return [found[place] for place in places]

        return cls(
            np.concatenate([each.ids for each in parts]),
            np.concatenate([each.digests for each in parts]),
            read,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[str]:
        start, portion = 0, 1  # most who do not want all want the first alone
        while start < len(self):
            yield from self[start : start + portion]
            start, portion = start + portion, min(4 * portion, 1_000)

    def select(self, numbers: Sequence[int]) -> list[str]:
        return self._read(numbers) if len(numbers) else []

    def pairs(self) -> list[tuple[str, str]]:
        """Return all ids with their texts."""
        return list(zip(decode_ids(self.ids), self.select(range(len(self))), strict=True))

    @cached_property
    def key(self) -> str:
        """A short name of these ids with these texts."""
        return content_id("", *decode_ids(self.ids), self.digests.astype("<u8").tobytes().hex())

    @cached_property
    def _places(self) -> SortedIds:
        return SortedIds(self.ids)

    def locate(self, ids: Ids) -> Places:
        """Return the places of these ids, −1 for those that are none of its own."""
        return self._places.find(ids)

    def choose(self, kept: Places) -> EmbeddedTexts:
        """Return the texts at these places as a sequence of their own."""
        return EmbeddedTexts(
            self.ids[kept],
            self.digests[kept],
            lambda places: self.select(kept[np.asarray(places, dtype=np.intp)].tolist()),
        )


def digest_all(texts: Sequence[str]) -> Digests:
    """Return the digests of texts that are embedded, which are made only where they are not known."""
    if isinstance(texts, EmbeddedTexts):
        return texts.digests
    return np.fromiter(map(digest_embedded, texts), dtype=np.uint64, count=len(texts))


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
        for relation, subject in layer.name_ends(chosen):
            found += [(each.id, name_subject(subject, each.text)) for each in cut_sentences(relation)]
    return found


def name_subject(names: Sequence[str], sentence: str) -> str:
    """Return the sentence after the names of its subject, unless it names them itself: twice, a name would outweigh the rest."""
    told = fold_case(sentence)
    return sentence if all(fold_case(each) in told for each in names) else f"{' — '.join(names)}: {sentence}"
