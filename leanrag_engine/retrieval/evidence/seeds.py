"""Select the seeds of a query (paper eq. 6)."""

from leanrag_engine.core.model import Entity, Seed
from leanrag_engine.retrieval.browse import load_ancestors, resolve
from leanrag_engine.retrieval.graph import subgraph
from leanrag_engine.retrieval.index import BuildState
from leanrag_engine.retrieval.request import Query, Ranking
from leanrag_engine.retrieval.search.hits import SearchHits, search_all
from leanrag_engine.retrieval.search.seeds import unite

from .run import QueryRun


async def select_seeds(run: QueryRun) -> tuple[list[SearchHits], list[Seed]]:
    """Return what the searches found, and the seeds: those that the query names, then the best of each text in turns (eq. 6)."""
    query, paper = run.query, run.query.ranking == Ranking.PAPER
    named = await _resolve_given(run)
    wanted = walk_seeds(query)
    found = await search_all(run.index, run.scope, query.texts, wanted, query.search_options, paper=paper)
    run.warn_of_dense(found)
    # Twice as many only where some may be without passages: to read an entity costs more than to find it.
    most = wanted + len(named) if run.index.state is BuildState.READY else 2 * wanted
    hits = unite([each.rank_entities(2 * wanted, paper=paper) for each in found], most)
    entities = await run.index.generations.entities(run.index.generation.number, [hit.id for hit in hits])
    scores = {hit.id: hit.score for hit in hits}
    seeds = {entity.id: Seed(entity, 1.0) for entity in named}
    for entity in entities:
        seeds.setdefault(entity.id, Seed(entity, scores[entity.id]))
    kept = (await _drop_vanished(run, list(seeds.values())))[: max(wanted, len(named))]
    if not kept:
        run.warnings.append("No entity of the graph matches the query: passages alone answer.")
    return found, sorted(kept, key=lambda seed: -seed.score)


def walk_seeds(query: Query) -> int:
    """Return how many seeds start the walk: more than those whose LCA is sought, except by the paper's own rule."""
    return query.seeds if query.ranking == Ranking.PAPER else max(query.seeds, query.ranking_options.seeds)


async def _resolve_given(run: QueryRun) -> list[Entity]:
    """Return the entities that the query names outright; one that the filters exclude is left out with a warning."""
    found = {each.id: each for each in [await resolve(run.index, name) for name in run.query.entities]}
    excluded = [each.name for each in found.values() if each.layer == 0 and not run.scope.supports(each)]
    if excluded:
        run.warnings.append(f"The filters exclude every passage on {', '.join(excluded)}.")
    return [each for each in found.values() if each.layer > 0 or run.scope.supports(each)]


async def _drop_vanished(run: QueryRun, seeds: list[Seed]) -> list[Seed]:
    """Return the seeds without those all of whose passages went since the build."""
    if run.index.state is BuildState.READY:
        return seeds
    most = run.query.evidence_options.checked_chunks
    await run.load(id_ for seed in seeds for id_ in seed.entity.chunk_ids[:most])
    return [
        seed
        for seed in seeds
        if seed.entity.layer > 0 or any(id_ in run.chunks for id_ in seed.entity.chunk_ids[:most])
    ]


async def find_allowed_beneath(run: QueryRun) -> dict[str, tuple[Entity, ...]]:
    """Return for each ancestor of the seeds that the filters allow, those seeds: what may be said of it."""
    _, seeds = await select_seeds(run)
    nodes = await load_ancestors(run.index, [seed.entity for seed in seeds])
    return subgraph.seeds_beneath(seeds, nodes.values())
