"""Find the passages that the lines of a context cite, and the layer-0 entities that stand for its clusters."""

from collections.abc import Iterable, Mapping, Sequence

from leanrag_engine.core.model import Entity, RankedChunk, Relation, Subgraph
from leanrag_engine.retrieval.browse import sample_beneath
from leanrag_engine.retrieval.context.statements import LineCitations
from leanrag_engine.retrieval.graph import subgraph

from .run import QueryRun

Beneath = Mapping[str, Sequence[Entity]]
"""For the id of a node, layer-0 entities beneath it, best first."""


async def find_bearers(run: QueryRun, graph: Subgraph) -> dict[str, tuple[Entity, ...]]:
    """Return for each cluster on the paths the seeds beneath it, or where it is itself a seed, some of its entities."""
    found = subgraph.seeds_beneath(graph.seeds, graph.path)
    base = {id_: tuple(each for each in seeds if each.layer == 0) for id_, seeds in found.items()}
    for seed in graph.seeds:
        if seed.entity.layer > 0:
            samples = await sample_beneath(run.index, seed.entity, run.query.evidence_options.samples)
            kept = tuple(each for each in samples if run.scope.supports(each))
            base |= {id_: base[id_] or kept for id_, seeds in found.items() if seed.entity in seeds}
    return base


async def sample_clusters(run: QueryRun, nodes: Iterable[Entity]) -> dict[str, tuple[Entity, ...]]:
    """Return for each cluster some layer-0 entities beneath it that are in scope."""
    found = {}
    for node in nodes:
        if node.layer > 0:
            samples = await sample_beneath(run.index, node, run.query.evidence_options.samples)
            found[node.id] = tuple(each for each in samples if run.scope.supports(each))
    return found


async def load_citations(
    run: QueryRun, graph: Subgraph, beneath: Beneath, sources: Sequence[RankedChunk]
) -> LineCitations:
    """Return for each node and relation the passages that its words were taken from; where that is not known those that
    support it: ranked ones first, then in reading order."""
    most = run.query.evidence_options.support
    place = {ranked.chunk.id: number for number, ranked in enumerate(sources)}
    stated: list[Entity | Relation] = [*graph.path, *graph.base_relations]
    support = {each.id: each.chunk_ids for each in stated if each.layer == 0}
    support |= {node.id: _in_turns(beneath.get(node.id, ()), most) for node in graph.path if node.layer > 0}
    for relation in graph.inter_cluster_relations:
        ends = (beneath.get(relation.source_id, ()), beneath.get(relation.target_id, ()))
        support[relation.id] = _in_turns([seeds[0] for seeds in ends if seeds], most)
    chosen = {
        id_: sorted(run.scope.select(ids), key=lambda each: place.get(each, len(place)))[:most]
        for id_, ids in support.items()
    }
    items = [*stated, *graph.inter_cluster_relations]
    evidence = {
        each.id: each.evidence[: run.query.evidence_options.quoted_chunks] for each in items if each.evidence
    }
    findings = [finding for node in graph.path for finding in node.findings]
    attributes = [attribute for node in graph.path for attribute in node.attributes]
    named = [part.chunk_id for parts in evidence.values() for part in parts]
    named += [chunk_id for finding in findings for chunk_id in finding.chunk_ids]
    named += [chunk_id for attribute in attributes for chunk_id in attribute.chunk_ids[:most]]
    await run.load([*(chunk_id for ids in chosen.values() for chunk_id in ids), *named])
    citation = {id_: chunk.citation for id_, chunk in run.chunks.items()}
    return LineCitations(
        {id_: tuple(citation[each] for each in ids if each in citation) for id_, ids in chosen.items()},
        {
            id_: tuple(
                (part.start, part.end, citation[part.chunk_id]) for part in parts if part.chunk_id in citation
            )
            for id_, parts in evidence.items()
        },
        {
            finding: tuple(citation[each] for each in finding.chunk_ids if each in citation)
            for finding in findings
        },
        {
            attribute: tuple(citation[each] for each in attribute.chunk_ids[:most] if each in citation)
            for attribute in attributes
        },
        {each.citation: each.own_date for each in run.chunks.values() if each.own_date},
    )


def _in_turns(entities: Sequence[Entity], most: int) -> tuple[str, ...]:
    """Return the first chunk of each of the entities, then the second of each, …: of ``most`` entities ``most`` chunks each."""
    first = [entity.chunk_ids[:most] for entity in entities[:most]]
    return tuple(dict.fromkeys(ids[place] for place in range(most) for ids in first if place < len(ids)))
