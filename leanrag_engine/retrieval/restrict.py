"""What remains of a retrieved subgraph under a query's filters: the half of ``scope`` that asks the stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from leanrag_engine.core.model import Entity, Group, Relation, Seed, Subgraph

from .filters import extract_of_members, restricted_entity, restricted_relation
from .run import QueryRun

VERBATIM = 40
"""Allowed chunks of an entity in which the sentences of its description are looked for."""

WALKED = 100
"""A summary of more base entities than this counts as one that excluded documents fed: looking would take too long."""


async def restricted(run: QueryRun, graph: Subgraph, beneath: Mapping[str, Sequence[Entity]]) -> Subgraph:
    """``graph`` as the allowed documents alone would have it; ``beneath`` names the allowed seeds below each cluster."""
    if run.scope.everything:
        return graph
    items: list[Entity | Relation] = [
        *graph.path,
        *(seed.entity for seed in graph.seeds),
        *graph.base_relations,
    ]
    await run.load(id_ for item in items for id_ in run.scope.select(item.chunk_ids)[:VERBATIM])
    nodes = {node.id: node for node in (*graph.path, *(seed.entity for seed in graph.seeds))}
    whole = {id_ for id_, node in nodes.items() if await _is_whole(run, node)}
    kept = {
        id_: node if id_ in whole else _reduced(run, node, beneath)
        for id_, node in nodes.items()
        if node.layer > 0 or run.scope.supports(node)
    }
    return Subgraph(
        seeds=tuple(Seed(kept[seed.entity.id], seed.score) for seed in graph.seeds if seed.entity.id in kept),
        groups=tuple(_restricted_group(group, kept) for group in graph.groups),
        lca=kept[graph.lca.id] if graph.lca else None,
        path=tuple(kept[node.id] for node in graph.path if node.id in kept),
        base_relations=_base_relations(run, graph.base_relations),
        inter_cluster_relations=tuple(
            each for each in graph.inter_cluster_relations if {each.source_id, each.target_id} <= whole
        ),
    )


def _reduced(run: QueryRun, node: Entity, beneath: Mapping[str, Sequence[Entity]]) -> Entity:
    if node.layer == 0:
        return restricted_entity(node, run.scope, run.chunks)
    return extract_of_members(node, beneath.get(node.id, ()))


def _base_relations(run: QueryRun, relations: Sequence[Relation]) -> tuple[Relation, ...]:
    kept = (
        restricted_relation(each, run.scope, run.chunks) for each in relations if run.scope.supports(each)
    )
    return tuple(kept)


def _restricted_group(group: Group, kept: Mapping[str, Entity]) -> Group:
    return replace(
        group,
        lca=kept[group.lca.id],
        seeds=tuple(kept[seed.id] for seed in group.seeds),
        path=tuple(kept[node.id] for node in group.path),
    )


async def _is_whole(run: QueryRun, node: Entity) -> bool:
    """Whether allowed chunks alone stand behind a node and everything beneath it."""
    if node.layer == 0:
        return run.scope.covers(node)
    if node.mentions > WALKED:
        return False
    members = await run.index.generations.members(run.index.generation.number, node.id, 0, WALKED)
    for member in members:
        if not await _is_whole(run, member):
            return False
    return True
