"""Select the summaries of a high layer that serve a query best (mode ``global``)."""

from __future__ import annotations

from collections.abc import Sequence

from leanrag_engine.core.model import LayerCount, Seed
from leanrag_engine.retrieval.search.hits import embed_texts, rank_by_similarity, spaces_of
from leanrag_engine.retrieval.search.seeds import rank_entities, unite

from .run import QueryRun


async def select_summaries(run: QueryRun, among: set[str] | None) -> list[Seed]:
    """Summaries of the overview layer, best by meaning and keyword first, then the largest."""
    generation = run.index.generation
    layer = _overview_layer(generation.layers, run.query.seeds)
    # Such a layer is small by construction: at most a cluster's size times the few nodes above it.
    nodes = {each.id: each for each in await run.index.generations.layer(generation.number, layer)}
    ids = [id_ for id_ in nodes if among is None or id_ in among]
    vectors = await embed_texts(run.index, run.query.texts)
    ranked = []
    for text, vector in zip(run.query.texts, vectors, strict=True):
        space = spaces_of(run.index).aggregates
        dense = [] if vector is None else await rank_by_similarity(run.index, space, ids, vector)
        keyword = await run.index.generations.search_entities(generation.number, text, len(nodes), layer)
        by_meaning = [hit.id for hit in dense if hit.score > 0]
        by_keyword = [hit.id for hit in keyword if hit.id in ids]
        ranked.append(rank_entities(by_meaning, by_keyword, (), len(ids), run.query.search_options))
    scores = {hit.id: hit.score for hit in unite(ranked, len(ids))}
    largest = sorted(ids, key=lambda id_: -nodes[id_].mentions)
    order = list(dict.fromkeys([*scores, *largest]))[: run.query.seeds]
    return [Seed(nodes[id_], scores.get(id_, 0.0)) for id_ in order]


def _overview_layer(layers: Sequence[LayerCount], wanted: int) -> int:
    """Return the highest layer with at least half as many summaries as are wanted; layer 1 if there is none."""
    return max((each.layer for each in layers if each.layer and 2 * each.entities >= wanted), default=1)
