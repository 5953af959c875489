"""Find what supports each sentence of a summary, finding, description or relation: characters of the documents."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from leanrag_engine.core.errors import NotFound
from leanrag_engine.core.graphs.support import cut_description
from leanrag_engine.core.model import Chunk, Entity, Relation
from leanrag_engine.core.text.language.quotations import Match, Quotation, find_quotation
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.retrieval.index import IndexSnapshot

from .entities import resolve


@dataclass(frozen=True, slots=True)
class QuotedSupport:
    """``document.text[start:end]``, which is ``text``, in a chunk, and how it matches the sentence that it supports."""

    chunk: Chunk
    start: int
    end: int
    match: Match

    @property
    def text(self) -> str:
        return self.chunk.text[self.start - self.chunk.start : self.end - self.chunk.start]


@dataclass(frozen=True, slots=True)
class SupportedSentence:
    """A sentence of a description, or of a finding, and what supports it, the best first."""

    text: str
    finding: bool
    support: tuple[QuotedSupport, ...]


@dataclass(frozen=True, slots=True)
class _StatedSentence:
    text: str
    finding: bool
    chunk_ids: tuple[str, ...]
    exact: bool = True
    """Whether it rests on each of the chunks; else on at least one of them."""


async def find_support(index: IndexSnapshot, item: Entity | Relation) -> list[SupportedSentence]:
    """Return the sentences of an entity or relation, each once, with what supports them in the documents as
    they are now. A sentence all of whose chunks are gone is left out."""
    ids = dict.fromkeys(id_ for each in _list_sentences(item) for id_ in each.chunk_ids)
    loaded = await index.documents.chunks(index.collection.name, list(ids))
    return match_support(item, {each.id: each for each in loaded})


def match_support(item: Entity | Relation, chunks: Mapping[str, Chunk]) -> list[SupportedSentence]:
    """Return the sentences of an entity or relation as ``find_support``, from the ``chunks`` by id."""
    return [
        SupportedSentence(each.text, each.finding, support)
        for each in _list_sentences(item)
        if (support := _support_of(each, chunks))
    ]


def _list_sentences(item: Entity | Relation) -> Iterator[_StatedSentence]:
    seen: set[str] = set()
    for each in cut_description(item):
        text = " ".join(item.description[each.start : each.end].split())
        if text not in seen:
            seen.add(text)
            # Where the evidence names no chunk, the best of the first 50 is looked for.
            ids = each.chunk_ids if each.exact else tuple(islice(each.chunk_ids, 50))
            yield _StatedSentence(text, False, ids, each.exact)
    for finding in item.findings if isinstance(item, Entity) else ():
        # What heads a finding that was made without a model is a name, which states nothing.
        texts = (finding.summary, finding.explanation) if item.method.written else (finding.explanation,)
        for text in (each[start:end] for each in texts for start, end in sentences(each)):
            if text not in seen:
                seen.add(text)
                yield _StatedSentence(text, True, finding.chunk_ids)


def _support_of(sentence: _StatedSentence, chunks: Mapping[str, Chunk]) -> tuple[QuotedSupport, ...]:
    known = [chunks[id_] for id_ in sentence.chunk_ids if id_ in chunks]
    found = [(chunk, find_quotation(sentence.text, chunk.text)) for chunk in known]
    found.sort(key=lambda pair: -pair[1].likeness)
    return tuple(_place(*pair) for pair in (found if sentence.exact else found[:1]))


def _place(chunk: Chunk, found: Quotation) -> QuotedSupport:
    return QuotedSupport(chunk, chunk.start + found.start, chunk.start + found.end, found.match)


_BETWEEN = re.compile(r"\s+(?:—|–|--?)\s+")


async def resolve_item(index: IndexSnapshot, name: str) -> Entity | Relation:
    """Return the entity of that name or ref, or the relation of two, which are joined by a dash: ``A — B``.
    Raises ``NotFound`` or ``Ambiguous`` for a name, ``NotFound`` for two that no relation joins."""
    ends = _BETWEEN.split(name.strip())
    try:
        return await resolve(index, name)
    except NotFound:
        if len(ends) != 2:  # noqa: PLR2004
            raise
    near, far = [await resolve(index, end) for end in ends]
    among = await index.generations.relations_among(index.generation.number, [near.id, far.id])
    if not among:
        raise NotFound(
            f"No relation joins {near.name!r} and {far.name!r}.",
            "List the relations of one of them, or ask for the ancestors of both: clusters of one layer have relations.",
        )
    return among[0]
