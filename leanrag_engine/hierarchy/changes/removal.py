"""Compute the hierarchy that is left when chunks are deleted, without a new build.

Entities and relations that only those chunks support are removed. Descriptions that they share with remaining chunks
keep the sentences that stand in a remaining chunk (see ``core/restriction.py``). Summaries that used them are hidden,
and so are the relations of their clusters; members, λ and support are counted again. All functions are pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from leanrag_engine.core.model import Chunk, Entity, Extract, Graph, Hierarchy, Method, Relation
from leanrag_engine.core.restriction import hide_summary, reduce_entity, reduce_relation

HIDDEN = "Hidden until the next build: it drew on documents that were deleted."

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RemainingChunks:
    """The chunks that remain, and what was extracted from them."""

    chunks: Mapping[str, Chunk]
    extracts: Mapping[str, Sequence[Extract]]
    """By the id of their chunk."""

    def among(self, chunk_ids: Iterable[str]) -> tuple[str, ...]:
        return tuple(id_ for id_ in chunk_ids if id_ in self.chunks)


def remove_chunks(hierarchy: Hierarchy, remaining: RemainingChunks) -> Hierarchy | None:
    """Return ``hierarchy`` as if only the ``remaining`` chunks existed; ``None`` if no entity is left.

    Every entity that is left has its parent one layer up, and ids stay. Cost is linear in entities, relations
    and the text of chunks that share an entity or relation with a removed one.
    """
    base = hierarchy.layers[0]
    entities = [kept for each in base.entities if (kept := _reduce_entity(each, remaining))]
    if not entities:
        return None
    ids = {each.id for each in entities}
    relations = [
        stated
        for each in base.relations
        if {each.source_id, each.target_id} <= ids and (stated := _reduce_relation(each, remaining))
    ]
    touched = _find_changes(base.entities, entities) | _ends(
        _find_changes(base.relations, relations), base.relations
    )
    return _rebuild_layers(hierarchy, Graph(tuple(entities), tuple(relations)), touched)


# --- G0 ------------------------------------------------------------------------------------


def _reduce_entity(entity: Entity, remaining: RemainingChunks) -> Entity | None:
    ids = remaining.among(entity.chunk_ids)
    if len(ids) == len(entity.chunk_ids):
        return entity
    extracts = [extract for id_ in ids for extract in remaining.extracts.get(id_, ())]
    return reduce_entity(entity, ids, remaining.chunks, extracts)


def _reduce_relation(relation: Relation, remaining: RemainingChunks) -> Relation | None:
    ids = remaining.among(relation.chunk_ids)
    if len(ids) == len(relation.chunk_ids):
        return relation
    return reduce_relation(relation, ids, remaining.chunks)


def _find_changes(before: Iterable[Entity | Relation], after: Iterable[Entity | Relation]) -> set[str]:
    """Ids of what is gone or not the same any more."""
    left = {each.id: each for each in after}
    return {each.id for each in before if left.get(each.id) is not each}


def _ends(ids: Collection[str], relations: Iterable[Relation]) -> set[str]:
    return {end for each in relations if each.id in ids for end in (each.source_id, each.target_id)}


# --- the layers above ----------------------------------------------------------------------


@dataclass(slots=True)
class _ClusterRest:
    """What is left below one cluster."""

    members: int = 0
    mentions: int = 0
    foremost: list[Entity] = field(default_factory=list)
    """The base entities with most mentions, which a hidden summary names."""

    def add(self, child: Entity, foremost: Sequence[Entity], *, most: int = 5) -> None:
        self.members += 1
        self.mentions += child.mentions if child.layer else 1
        known = [*self.foremost, *foremost]
        self.foremost = sorted(known, key=lambda each: (-each.mentions, each.id))[:most]


def _rebuild_layers(hierarchy: Hierarchy, base: Graph, touched: set[str]) -> Hierarchy:
    """All layers over what is left of G0; ``touched`` are the entities that are gone or changed."""
    layers = [base]
    foremost: dict[str, list[Entity]] = {each.id: [each] for each in base.entities}
    for below, old in zip(hierarchy.layers, hierarchy.layers[1:], strict=False):
        touched = {each.parent_id for each in below.entities if each.id in touched and each.parent_id}
        beneath: dict[str, _ClusterRest] = defaultdict(_ClusterRest)
        for child in layers[-1].entities:
            beneath[child.parent_id or ""].add(child, foremost[child.id])
        entities = [
            _hide_touched(each, beneath[each.id], touched) for each in old.entities if each.id in beneath
        ]
        relations = _recount_relations(old, layers[-1], touched)
        foremost = {id_: each.foremost for id_, each in beneath.items()}
        layers[-1] = _drop_missing_parents(layers[-1], {each.id for each in entities})
        layers.append(Graph(tuple(entities), tuple(relations)))
    return Hierarchy(tuple(layers))


def _hide_touched(cluster: Entity, rest: _ClusterRest, touched: Collection[str]) -> Entity:
    if cluster.id not in touched:
        return cluster
    names = ", ".join(each.name for each in rest.foremost)
    description = f"{HIDDEN} {rest.mentions} entities are beneath it, such as {names}."
    hidden = hide_summary(cluster, f"(hidden summary {cluster.id})", description)
    return replace(hidden, members=rest.members, mentions=rest.mentions)


def _drop_missing_parents(layer: Graph, above: Collection[str]) -> Graph:
    """Without the second-best parents that are gone."""
    entities = tuple(
        each
        if each.second_parent_id is None or each.second_parent_id in above
        else replace(each, second_parent_id=None, second_responsibility=0.0)
        for each in layer.entities
    )
    return Graph(entities, layer.relations)


def _recount_relations(old: Graph, below: Graph, hidden: Collection[str]) -> list[Relation]:
    """Inter-cluster relations that a relation below still joins, with their figures counted again."""
    parents = {each.id: each.parent_id or "" for each in below.entities}
    strength: Counter[Pair] = Counter()
    weight: Counter[Pair] = Counter()
    support: Counter[Pair] = Counter()
    for each in below.relations:
        pair = _pair(parents[each.source_id], parents[each.target_id])
        strength[pair] += 1
        weight[pair] += each.weight
        support[pair] += each.support
    left = []
    for each in old.relations:
        pair = _pair(each.source_id, each.target_id)
        if not strength[pair]:
            continue
        if pair[0] not in hidden and pair[1] not in hidden:
            left.append(each)
            continue
        hushed = replace(each, description=HIDDEN, method=Method.JOINED, evidence=())
        left.append(replace(hushed, strength=strength[pair], weight=weight[pair], support=support[pair]))
    return left


def _pair(first: str, second: str) -> Pair:
    return (first, second) if first <= second else (second, first)
