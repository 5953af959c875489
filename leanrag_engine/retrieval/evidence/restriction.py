"""What remains of a retrieved subgraph under the filters of a query."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from leanrag_engine.core.graphs.restriction import hide_summary, quote_entity, quote_relation
from leanrag_engine.core.model import Entity, Group, Relation, Seed, Subgraph

from .run import QueryRun


async def restrict_subgraph(
    run: QueryRun, graph: Subgraph, beneath: Mapping[str, Sequence[Entity]]
) -> Subgraph:
    """Return ``graph`` as the allowed documents alone support it; ``beneath`` holds the allowed seeds below each cluster."""
    if run.scope.everything:
        return graph
    items: list[Entity | Relation] = [
        *graph.path,
        *(seed.entity for seed in graph.seeds),
        *graph.base_relations,
    ]
    quoted = run.query.evidence_options.quoted_chunks
    await run.load(id_ for item in items for id_ in run.scope.select(item.chunk_ids)[:quoted])
    nodes = {node.id: node for node in (*graph.path, *(seed.entity for seed in graph.seeds))}
    whole = {id_ for id_, node in nodes.items() if await _is_whole(run, node)}
    remaining = {
        id_: node if id_ in whole else _restrict_entity(run, node, beneath)
        for id_, node in nodes.items()
        if node.layer > 0 or run.scope.supports(node)
    }
    return Subgraph(
        seeds=tuple(
            Seed(remaining[seed.entity.id], seed.score) for seed in graph.seeds if seed.entity.id in remaining
        ),
        groups=tuple(_restrict_group(group, remaining) for group in graph.groups),
        lca=remaining[graph.lca.id] if graph.lca else None,
        path=tuple(remaining[node.id] for node in graph.path if node.id in remaining),
        base_relations=tuple(
            each
            if run.scope.covers(each)
            else quote_relation(each, run.scope.select(each.chunk_ids), run.chunks)
            for each in graph.base_relations
            if run.scope.supports(each)
        ),
        inter_cluster_relations=tuple(
            each for each in graph.inter_cluster_relations if {each.source_id, each.target_id} <= whole
        ),
    )


def _restrict_entity(run: QueryRun, node: Entity, beneath: Mapping[str, Sequence[Entity]]) -> Entity:
    if node.layer == 0:
        return quote_entity(node, run.scope.select(node.chunk_ids), run.chunks)
    listed = beneath.get(node.id, ())[: run.query.evidence_options.listed_members]
    names = ", ".join(member.name for member in listed)
    return hide_summary(node, f"Cluster of {names}", "")


def _restrict_group(group: Group, remaining: Mapping[str, Entity]) -> Group:
    return replace(
        group,
        lca=remaining[group.lca.id],
        seeds=tuple(remaining[seed.id] for seed in group.seeds),
        path=tuple(remaining[node.id] for node in group.path),
    )


async def _is_whole(run: QueryRun, node: Entity) -> bool:
    """Return whether allowed chunks alone support a node and everything beneath it."""
    if node.layer == 0:
        return run.scope.covers(node)
    most = run.query.evidence_options.checked_members
    if node.mentions > most:
        return False
    members = await run.index.generations.members(run.index.generation.number, node.id, 0, most)
    for member in members:
        if not await _is_whole(run, member):
            return False
    return True
