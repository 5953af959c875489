"""Search what a model or agent wrote: sentences on entities and clusters, and the relations between them."""

from collections.abc import Sequence
from dataclasses import replace

from leanrag_engine.core.model import Subgraph, parse_window_id
from leanrag_engine.retrieval.intent import asks_about_all
from leanrag_engine.retrieval.search.hits import SearchHits, spaces_of

from .run import QueryRun


def has_sentences(run: QueryRun) -> bool:
    """Return whether the build wrote sentences that can be searched."""
    generation = run.index.collection.generation
    return generation is not None and generation.record.vectors.get("sentences", 0) > 0


def asks_about_everything(run: QueryRun) -> bool:
    """Return whether the query asks what all is about, no word of which has to stand anywhere."""
    return not run.query.entities and all(map(asks_about_all, run.query.texts))


def wants_overview(run: QueryRun) -> bool:
    """Return whether the query asks what all is about, and something is written about it."""
    return has_sentences(run) and asks_about_everything(run)


async def widen_by_sentences(run: QueryRun, found: Sequence[SearchHits], graph: Subgraph) -> Subgraph:
    """Return the subgraph with the entities, clusters and relations of which a sentence is near to a text of the query."""
    options, number = run.query.evidence_options, run.index.generation.number
    generations = run.index.generations
    items: dict[str, None] = {}
    for each in found:
        items |= dict.fromkeys(await _search(run, each, options.sentences))
        named = await generations.search_entities(number, each.text, options.keyword_items)
        items |= dict.fromkeys(hit.id for hit in named)
    relations = {each.id: each for each in (*graph.base_relations, *graph.inter_cluster_relations)}
    wanted = [id_ for id_ in items if id_ not in relations]
    relations |= {each.id: each for each in await generations.relations_by_id(number, wanted)}
    ends = [end for each in relations.values() for end in (each.source_id, each.target_id)]
    nodes = {each.id: each for each in graph.path}
    missing = [id_ for id_ in dict.fromkeys([*items, *ends]) if id_ not in nodes and id_ not in relations]
    nodes |= {
        each.id: each
        for each in await generations.entities(number, missing)
        if each.layer > 0 or run.scope.supports(each)
    }
    joined = [each for each in relations.values() if {each.source_id, each.target_id} <= nodes.keys()]
    return replace(
        graph,
        path=tuple(nodes.values()),
        base_relations=tuple(each for each in joined if each.layer == 0 and run.scope.supports(each)),
        inter_cluster_relations=tuple(each for each in joined if each.layer > 0),
    )


async def _search(run: QueryRun, found: SearchHits, most: int) -> list[str]:
    """Return the ids of what has a sentence or, a relation, a description that is near to the text."""
    if found.vector is None:
        return []
    spaces, vectors = spaces_of(run.index), run.index.vectors
    near = await vectors.search(spaces.sentences, found.vector, most)
    stated = await vectors.search(spaces.facts, found.vector, most) if spaces.facts else []
    return [*(parse_window_id(hit.id)[0] for hit in near), *(hit.id for hit in stated)]
