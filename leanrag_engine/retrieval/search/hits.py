"""The searches behind a query: dense and keyword hits for each of its texts, within the query's scope."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leanrag_engine.core.model import Hit, Vectors, VectorSpaces, window_id, window_owner
from leanrag_engine.retrieval.filters import ChunkScope
from leanrag_engine.retrieval.graph.adjacency import Adjacency
from leanrag_engine.retrieval.index import IndexSnapshot

from .seeds import best_first, match_name_part, match_names, name_parts, name_spans, rank_entities

CHUNK_HITS = 100
"""Chunks that each search gives."""

ENTITY_HITS = 40
"""Entities that each search gives, at least."""

SURE = 0.1
"""Facts weigh as much as the entities are in doubt (see ``Weights.fact_mass``): below so much they are not
looked for, which saves a quarter of the search."""

FACT_HITS = 30
"""Facts that each search gives."""

PART_HITS = 20
"""Entities that are looked at for a word that may be part of a name."""

WIDENING = 8
WIDEST = 4096
"""A search whose hits are mostly out of scope is repeated for so many times as many, up to so many."""

SMALL = 500
"""A scope of at most so many chunks is searched exactly, vector by vector."""


@dataclass(frozen=True, slots=True)
class SearchHits:
    """What the searches gave for one text. ``vector`` is None where dense search cannot serve."""

    text: str
    vector: Vectors | None = None
    dense_chunks: tuple[Hit, ...] = ()
    keyword_chunks: tuple[Hit, ...] = ()
    dense_entities: tuple[Hit, ...] = ()
    keyword_entities: tuple[Hit, ...] = ()
    names: tuple[Hit, ...] = ()
    dense_facts: tuple[Hit, ...] = ()
    keyword_facts: tuple[Hit, ...] = ()

    @property
    def doubt(self) -> float:
        """From 0, the text names an entity that both searches find first too, to 1, nothing is found."""
        best = self.rank_entities(1)
        return 1.0 - best[0].score if best else 1.0

    def without_keywords(self) -> SearchHits:
        """What search by meaning alone gave; names are matched outright all the same."""
        return replace(self, keyword_chunks=(), keyword_entities=(), keyword_facts=())

    def rank_entities(self, limit: int, *, paper: bool = False) -> list[Hit]:
        """The entities that this text is about, best first; by ``paper`` the nearest alone, with their similarity."""
        if paper and self.vector is not None:
            return list(self.dense_entities[:limit])
        dense = [hit.id for hit in self.dense_entities]
        return rank_entities(dense, [hit.id for hit in self.keyword_entities], self.names, limit)


async def embed_texts(index: IndexSnapshot, texts: Sequence[str]) -> list[Vectors | None]:
    """A vector for each text; None without an embedder and for a text of which it knows no word."""
    if index.embedder is None:
        return [None] * len(texts)
    rows = await index.embedder.embed_queries(texts)
    return [row if np.any(row) else None for row in rows]


async def search_chunks(index: IndexSnapshot, scope: ChunkScope, texts: Sequence[str]) -> list[SearchHits]:
    """Chunks alone: what plain search gives for each text."""
    vectors = await embed_texts(index, texts)
    return [await _chunks_of(index, scope, text, vector) for text, vector in zip(texts, vectors, strict=True)]


async def search_all(
    index: IndexSnapshot, scope: ChunkScope, texts: Sequence[str], entities: int
) -> list[SearchHits]:
    """Chunks, entities of layer 0 and names: everything that anchors a text. Needs a generation."""
    vectors = await embed_texts(index, texts)
    wanted = max(ENTITY_HITS, 2 * entities)
    return [
        await _everything_of(index, scope, text, vector, wanted)
        for text, vector in zip(texts, vectors, strict=True)
    ]


async def search_dense_entities(
    index: IndexSnapshot, scope: ChunkScope, texts: Sequence[str], entities: int
) -> list[SearchHits]:
    """The paper's anchoring (eq. 6): the ``entities`` nearest of layer 0 by meaning, and nothing else."""
    vectors = await embed_texts(index, texts)
    return [
        await _dense_only(index, scope, text, vector, entities)
        for text, vector in zip(texts, vectors, strict=True)
    ]


async def _chunks_of(
    index: IndexSnapshot, scope: ChunkScope, text: str, vector: Vectors | None
) -> SearchHits:
    dense, keyword = await asyncio.gather(
        _dense_chunks(index, scope, vector), _keyword_chunks(index, scope, text)
    )
    return SearchHits(text, vector, tuple(dense), tuple(keyword))


async def _everything_of(
    index: IndexSnapshot, scope: ChunkScope, text: str, vector: Vectors | None, wanted: int
) -> SearchHits:
    plain, dense, keyword, names = await asyncio.gather(
        _chunks_of(index, scope, text, vector),
        _dense_entities(index, scope, vector, wanted),
        _keyword_entities(index, scope, text, wanted),
        _find_named_entities(index, scope, text),
    )
    found = replace(plain, dense_entities=tuple(dense), keyword_entities=tuple(keyword), names=tuple(names))
    if found.doubt < SURE:
        return found
    dense_facts, keyword_facts = await asyncio.gather(
        _dense_facts(index, scope, vector), _keyword_facts(index, scope, text)
    )
    return replace(found, dense_facts=tuple(dense_facts), keyword_facts=tuple(keyword_facts))


async def _dense_only(
    index: IndexSnapshot, scope: ChunkScope, text: str, vector: Vectors | None, wanted: int
) -> SearchHits:
    if vector is None:
        kept = await _keyword_entities(index, scope, text, wanted)
    else:
        kept = await _dense_entities(index, scope, vector, wanted)
    return SearchHits(text, vector, dense_entities=tuple(kept))


# --- chunks --------------------------------------------------------------------------------


async def _dense_chunks(index: IndexSnapshot, scope: ChunkScope, vector: Vectors | None) -> list[Hit]:
    if vector is None or index.spaces is None:
        return []
    space = index.spaces.chunks
    if scope.allowed is not None and len(scope.allowed) <= SMALL:
        return (await rank_chunks_by_similarity(index, space, sorted(scope.allowed), vector))[:CHUNK_HITS]
    return await _search_widening(
        lambda limit: index.vectors.search(space, vector, limit), _in_scope(scope), CHUNK_HITS
    )


async def _keyword_chunks(index: IndexSnapshot, scope: ChunkScope, text: str) -> list[Hit]:
    name = index.collection.name
    return await _search_widening(
        lambda limit: index.documents.search_chunks(name, text, limit), _in_scope(scope), CHUNK_HITS
    )


def _in_scope(scope: ChunkScope) -> Callable[[list[Hit]], Awaitable[list[Hit]]]:
    async def keep(hits: list[Hit]) -> list[Hit]:
        """Each chunk in scope once, by its best window."""
        best: dict[str, Hit] = {}
        for hit in hits:
            owner = window_owner(hit.id)
            if scope.allows(owner):
                best.setdefault(owner, Hit(owner, hit.score))
        return list(best.values())

    return keep


async def rank_chunks_by_similarity(
    index: IndexSnapshot, space: str, ids: Sequence[str], vector: Vectors
) -> list[Hit]:
    """Those chunks that the space holds, by the cosine similarity of their best window to ``vector``."""
    best: dict[str, float] = {}
    wanted, number = list(ids), 0
    while wanted:
        rows = await index.vectors.fetch(space, [window_id(id_, number) for id_ in wanted])
        found = {window_owner(id_): float(row @ vector) for id_, row in rows.items()}
        best |= {id_: max(score, best.get(id_, score)) for id_, score in found.items()}
        wanted, number = [id_ for id_ in wanted if id_ in found], number + 1
    return best_first({id_: best[id_] for id_ in ids if id_ in best})


async def rank_by_similarity(
    index: IndexSnapshot, space: str, ids: Sequence[str], vector: Vectors
) -> list[Hit]:
    """Those of ``ids`` that the space holds, by cosine similarity to ``vector``."""
    rows = await index.vectors.fetch(space, ids)
    return best_first({id_: float(rows[id_] @ vector) for id_ in ids if id_ in rows})


async def _search_widening(
    search: Callable[[int], Awaitable[list[Hit]]],
    keep: Callable[[list[Hit]], Awaitable[list[Hit]]],
    wanted: int,
) -> list[Hit]:
    """The first ``wanted`` hits that ``keep`` keeps; the search is widened as long as too few are left."""
    limit = wanted
    while True:
        hits = await search(limit)
        kept = await keep(hits)
        if len(kept) >= wanted or len(hits) < limit or limit >= WIDEST:
            return kept[:wanted]
        limit = min(limit * WIDENING, WIDEST)


# --- entities ------------------------------------------------------------------------------


async def _dense_entities(
    index: IndexSnapshot, scope: ChunkScope, vector: Vectors | None, wanted: int
) -> list[Hit]:
    if vector is None or index.spaces is None:
        return []
    space = index.spaces.entities
    if scope.allowed is not None and len(scope.allowed) <= SMALL:
        mentioned = adjacency_of(index).entities_in(sorted(scope.allowed))
        return (await rank_by_similarity(index, space, mentioned, vector))[:wanted]
    return await _search_widening(
        lambda limit: index.vectors.search(space, vector, limit), _in_graph(index, scope), wanted
    )


async def _keyword_entities(index: IndexSnapshot, scope: ChunkScope, text: str, wanted: int) -> list[Hit]:
    number = index.generation.number
    return await _search_widening(
        lambda limit: index.generations.search_entities(number, text, limit, layer=0),
        _in_graph(index, scope),
        wanted,
    )


def _in_graph(index: IndexSnapshot, scope: ChunkScope) -> Callable[[list[Hit]], Awaitable[list[Hit]]]:
    graph = adjacency_of(index)
    allowed = scope.mask(graph.chunk_ids)

    async def keep(hits: list[Hit]) -> list[Hit]:
        """Those of this generation's layer 0 that an allowed chunk mentions."""
        nodes = graph.base_nodes([hit.id for hit in hits], allowed).tolist()
        return [hit for hit, node in zip(hits, nodes, strict=True) if node >= 0]

    return keep


async def _find_named_entities(index: IndexSnapshot, scope: ChunkScope, text: str) -> list[Hit]:
    """Find the layer-0 entities of which the text holds the name or a part of it."""
    spans = name_spans(text)
    if not spans:
        return []
    number = index.generation.number
    found = await index.generations.entities_by_name(number, list(dict.fromkeys(span.key for span in spans)))
    bearers = [each for each in found if each.layer == 0 and scope.supports(each)]
    hits = {hit.id: hit for hit in match_names(spans, bearers, index.collection.chunks)}
    for part in name_parts(spans, found):
        near = await _keyword_entities(index, scope, part, PART_HITS)
        entities = await index.generations.entities(number, [hit.id for hit in near])
        for hit in match_name_part(part, entities):
            hits.setdefault(hit.id, hit)
    return list(hits.values())


# --- facts ---------------------------------------------------------------------------------


async def _dense_facts(index: IndexSnapshot, scope: ChunkScope, vector: Vectors | None) -> list[Hit]:
    # Under a filter a fact may be stated in what is excluded alone: facts then start no walk.
    if vector is None or not spaces_of(index).facts or not scope.everything:
        return []
    hits = await index.vectors.search(spaces_of(index).facts, vector, FACT_HITS)
    return adjacency_of(index).existing_facts(hits)


async def _keyword_facts(index: IndexSnapshot, scope: ChunkScope, text: str) -> list[Hit]:
    if not spaces_of(index).facts or not scope.everything:
        return []
    return await index.generations.search_facts(index.generation.number, text, FACT_HITS)


def adjacency_of(index: IndexSnapshot) -> Adjacency:
    """The arrays of a built index."""
    assert index.adjacency is not None, "the adjacency of a built index is loaded before it is asked"
    return index.adjacency


def spaces_of(index: IndexSnapshot) -> VectorSpaces:
    """The vector spaces of a built index."""
    assert index.spaces is not None, "a published generation records its vector spaces"
    return index.spaces
