"""Rank passages by the query's ranking and load them; find those for a question, to rank by them what a caller browses."""

from collections.abc import Sequence
from dataclasses import replace

from leanrag_engine.core.model import Entity, Hit, RankedChunk, Seed
from leanrag_engine.retrieval.filters import EVERYTHING
from leanrag_engine.retrieval.index import IndexSnapshot
from leanrag_engine.retrieval.request import Query, Ranking
from leanrag_engine.retrieval.search import ranking
from leanrag_engine.retrieval.search.crediting import FoundPassages, credit_passages
from leanrag_engine.retrieval.search.hits import (
    SearchHits,
    adjacency_of,
    best_chunks,
    embed_with_parts,
    rank_windows_by_similarity,
    search_windows,
    spaces_of,
)
from leanrag_engine.retrieval.search.relevance import RankedWindow
from leanrag_engine.retrieval.search.second_hop import raise_second_hops
from leanrag_engine.retrieval.search.seeds import fuse, unite

from .citations import sample_clusters
from .pool import value_windows
from .run import QueryRun
from .seeds import walk_seeds


def order_plain(run: QueryRun, found: SearchHits) -> list[Hit]:
    """Return dense and keyword ranks fused; for ``paper``, whose NaiveRAG is dense, the dense rank alone."""
    if run.query.ranking == Ranking.PAPER and found.dense_chunks:
        return list(found.dense_chunks)
    return fuse([[hit.id for hit in found.dense_chunks], [hit.id for hit in found.keyword_chunks]])


async def rank_passages(run: QueryRun, found: Sequence[SearchHits], seeds: Sequence[Seed]) -> list[list[Hit]]:
    """Return the chunks for each text of the query, in the order of its ranking; one list for all by ``paper``."""
    grounded = await _ground_seeds(run, seeds)
    if run.query.ranking == Ranking.PAPER:
        return [await _rank_by_seed_count(run, found, [seed.entity for seed in grounded])]
    searched = [_ranking_input(run, each, grounded) for each in found]
    graph = adjacency_of(run.index)
    allowed = run.scope.mask(graph.chunk_ids)
    walked = [ranking.rank_by_spreading(graph, each, run.query.ranking_options, allowed) for each in searched]
    run.walks.update((each.text, hits) for each, hits in zip(found, walked, strict=True))
    return [await _raise_second_hops(run, each.text, hits) for each, hits in zip(found, walked, strict=True)]


async def _raise_second_hops(run: QueryRun, text: str, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits with those raised that the first ones name."""
    options = run.query.ranking_options
    if not options.hop:
        return list(hits)
    first = [hit.id for hit in hits[: options.hop_targets]]
    await run.load(first)
    chunks = {id_: run.chunks[id_] for id_ in first if id_ in run.chunks}
    return raise_second_hops(hits, chunks, text, options)


async def _ground_seeds(run: QueryRun, seeds: Sequence[Seed]) -> list[Seed]:
    """Return seeds of layer 0 as they are in scope; a cluster is stood for by entities beneath it."""
    below = await sample_clusters(run, [seed.entity for seed in seeds])
    plain = [
        each for seed in seeds for each in (seed.entity, *below.get(seed.entity.id, ())) if each.layer == 0
    ]
    scores: dict[str, float] = {}
    for seed in seeds:
        for each in (seed.entity, *below.get(seed.entity.id, ())):
            scores[each.id] = max(seed.score, scores.get(each.id, 0.0))
    unique = {each.id: replace(each, chunk_ids=run.scope.select(each.chunk_ids)) for each in plain}
    return [Seed(each, scores[id_]) for id_, each in unique.items()]


def _ranking_input(run: QueryRun, found: SearchHits, seeds: Sequence[Seed]) -> ranking.RankingInput:
    """Return a text of the query with its own seeds and those that the query names."""
    own = {hit.id: hit.score for hit in found.rank_entities(2 * walk_seeds(run.query))}
    hits = [
        Hit(seed.entity.id, own.get(seed.entity.id, seed.score))
        for seed in seeds
        if seed.entity.id in own or seed.score >= 1.0
    ]
    return ranking.RankingInput(hits, found.dense_chunks, found.keyword_chunks)


async def _rank_by_seed_count(
    run: QueryRun, found: Sequence[SearchHits], seeds: Sequence[Entity]
) -> list[Hit]:
    """Return the paper's rule, exact: every chunk that ties for the last place is compared."""
    counts = ranking.seed_counts(seeds)
    wanted = run.query.top_k
    while True:
        ids = ranking.contenders(counts, wanted)
        await run.load(ids)
        chunks = [run.chunks[id_] for id_ in ids if id_ in run.chunks]
        if len(chunks) >= run.query.top_k or len(ids) == len(counts):
            break
        wanted *= 2  # some went with their documents
    similarity: dict[str, float] = {}
    space = spaces_of(run.index).windows
    for vector in (each.vector for each in found if each.vector is not None):
        windows = await rank_windows_by_similarity(run.index, space, [chunk.id for chunk in chunks], vector)
        for hit in best_chunks(windows):
            similarity[hit.id] = max(hit.score, similarity.get(hit.id, hit.score))
    return ranking.rank_by_seed_count(counts, similarity, chunks, run.query.top_k)


def put_anchors_first(run: QueryRun, seeds: Sequence[Seed], hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits, those first that are the best ones for an entity that the caller gave."""
    first: dict[str, Hit] = {}
    for seed in seeds[: len(run.query.entities)]:
        mentioned = set(seed.entity.chunk_ids)
        best = next((hit for hit in hits if hit.id in mentioned), None)
        if best:
            first.setdefault(best.id, best)
    return [*first.values(), *(hit for hit in hits if hit.id not in first)]


def rank_sources(run: QueryRun, rankings: Sequence[Sequence[RankedWindow]]) -> list[RankedChunk]:
    """Return the first ``top_k`` chunks of the windows' rankings, taken in turns, each with the value of its best window."""
    best: list[dict[str, Hit]] = [{} for _ in rankings]
    for hits, windows in zip(best, rankings, strict=True):
        for window in windows:
            hits.setdefault(window.chunk.id, Hit(window.chunk.id, window.value))
    united = unite([list(each.values()) for each in best], run.query.top_k)
    return [RankedChunk(run.chunks[hit.id], hit.score) for hit in united]


async def find_passages(index: IndexSnapshot, question: str) -> FoundPassages:
    """Return the passages that plain search finds for a question, and what they are credited to. Needs an adjacency. Raises
    ``InvalidInput`` for an empty question."""
    query = Query(question).check()
    run = QueryRun(await embed_with_parts(index, query.texts), query, EVERYTHING)
    found = await search_windows(run.index, run.scope, query.texts, query.search_options)
    windows = await value_windows(run, found[0], ())
    run.warn_of_dense(found)
    run.warn_of_weakness(found, [windows])
    run.warn_of_absent()
    return credit_passages(adjacency_of(index), windows, run.warnings)
