"""What is left of a hierarchy when some of its chunks are forgotten, until the next build makes it anew.

What only those chunks supported is gone. What they supported among others keeps the words that stand in
a chunk which is left. A summary that they fed cannot be cut: it is hidden, and so are the relations of
its cluster; their figures (members, λ, support) are counted again. A pure function of its arguments.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from leanrag_engine.core.model import Chunk, Entity, Evidence, Extract, Graph, Hierarchy, Method, Relation
from leanrag_engine.core.text.language.names import fold_case
from leanrag_engine.core.text.scripts import has_cjk

HIDDEN = "Hidden until the next build: it drew on documents that were deleted."
NAMED = 5
"""Base entities that a hidden summary names."""

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RemainingChunks:
    """The chunks that are left, and what they say."""

    chunks: Mapping[str, Chunk]
    extracts: Mapping[str, Sequence[Extract]]
    """By the id of their chunk."""

    def among(self, chunk_ids: Iterable[str]) -> tuple[str, ...]:
        return tuple(id_ for id_ in chunk_ids if id_ in self.chunks)

    def texts(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        """What stands in the chunks, folded, by their ids."""
        return {id_: fold_case(self.chunks[id_].indexed_text) for id_ in chunk_ids}


def remove_chunks(hierarchy: Hierarchy, living: RemainingChunks) -> Hierarchy | None:
    """``hierarchy`` as if only the ``living`` chunks had ever been; ``None`` if no entity is left.

    Every entity that is left has its parent one layer up, and ids stay. Cost is linear in entities, relations
    and the text of chunks that share an entity or relation with a forgotten one.
    """
    base = hierarchy.layers[0]
    entities = [kept for each in base.entities if (kept := _entity_left(each, living))]
    if not entities:
        return None
    ids = {each.id for each in entities}
    relations = [
        stated
        for each in base.relations
        if {each.source_id, each.target_id} <= ids and (stated := _relation_left(each, living))
    ]
    touched = _find_changes(base.entities, entities) | _ends(
        _find_changes(base.relations, relations), base.relations
    )
    return _rebuild_layers(hierarchy, Graph(tuple(entities), tuple(relations)), touched)


# --- G0 ------------------------------------------------------------------------------------


def _entity_left(entity: Entity, living: RemainingChunks) -> Entity | None:
    kept = living.among(entity.chunk_ids)
    if len(kept) == len(entity.chunk_ids):
        return entity
    texts = living.texts(kept)
    said = [each for id_ in kept for extract in living.extracts.get(id_, ()) for each in extract.entities]
    forms = {fold_case(form) for each in said for form in (each.name, *each.aliases)}

    def stands(name: str) -> bool:
        folded = fold_case(name)
        return folded in forms or _saying(name, texts) is not None

    names = [name for name in (entity.name, *entity.aliases) if stands(name)]
    if not names:
        return None
    description, evidence = _words_left(entity, living, texts)
    types = {each.type.strip().lower() for each in said}
    return replace(
        entity,
        name=names[0],
        aliases=tuple(names[1:]),
        type=entity.type if entity.type in types else "concept",
        description=description,
        evidence=evidence,
        mentions=len(kept),
        chunk_ids=kept,
    )


def _relation_left(relation: Relation, living: RemainingChunks) -> Relation | None:
    kept = living.among(relation.chunk_ids)
    lost = len(relation.chunk_ids) - len(kept)
    if not lost:
        return relation
    if not kept:
        return None
    description, evidence = _words_left(relation, living, living.texts(kept))
    weight = max(relation.weight - lost, len(kept))
    return replace(relation, description=description, evidence=evidence, weight=weight, chunk_ids=kept)


def _words_left(
    item: Entity | Relation, living: RemainingChunks, texts: Mapping[str, str]
) -> tuple[str, tuple[Evidence, ...]]:
    """The parts of a description that a living chunk said, or says too."""
    parts: list[str] = []
    evidence: list[Evidence] = []
    start = 0
    for told in item.evidence:
        part = item.description[told.start : told.end]
        chunk_id = told.chunk_id if told.chunk_id in living.chunks else _saying(part, texts)
        if part and chunk_id:
            evidence.append(Evidence(start, start + len(part), chunk_id))
            parts.append(part)
            start += len(part) + 1
    return " ".join(parts), tuple(evidence)


def _saying(part: str, texts: Mapping[str, str]) -> str | None:
    """The first of the chunks in which ``part`` stands, not as a piece of a longer word."""
    folded = fold_case(part)
    if not folded:
        return None
    # Chinese and Japanese words have no edges to see.
    exact = re.escape(folded)
    wanted = re.compile(exact if has_cjk(folded) else rf"(?<!\w){exact}(?!\w)")
    return next((id_ for id_, text in texts.items() if folded in text and wanted.search(text)), None)


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
    """Base entities with most mentions, at most ``NAMED``."""

    def add(self, child: Entity, foremost: Sequence[Entity]) -> None:
        self.members += 1
        self.mentions += child.mentions if child.layer else 1
        known = [*self.foremost, *foremost]
        self.foremost = sorted(known, key=lambda each: (-each.mentions, each.id))[:NAMED]


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
            _cluster_left(each, beneath[each.id], touched) for each in old.entities if each.id in beneath
        ]
        relations = _relations_left(old, layers[-1], touched)
        foremost = {id_: each.foremost for id_, each in beneath.items()}
        layers[-1] = _with_parents(layers[-1], {each.id for each in entities})
        layers.append(Graph(tuple(entities), tuple(relations)))
    return Hierarchy(tuple(layers))


def _cluster_left(cluster: Entity, left: _ClusterRest, touched: Collection[str]) -> Entity:
    if cluster.id not in touched:
        return cluster
    named = ", ".join(each.name for each in left.foremost)
    return replace(
        cluster,
        name=f"(hidden summary {cluster.id})",
        description=f"{HIDDEN} {left.mentions} entities are beneath it, such as {named}.",
        method=Method.HEURISTIC,
        aliases=(),
        findings=(),
        evidence=(),
        members=left.members,
        mentions=left.mentions,
    )


def _with_parents(layer: Graph, above: Collection[str]) -> Graph:
    """Without the second-best parents that are gone."""
    entities = tuple(
        each
        if each.second_parent_id is None or each.second_parent_id in above
        else replace(each, second_parent_id=None, second_responsibility=0.0)
        for each in layer.entities
    )
    return Graph(entities, layer.relations)


def _relations_left(old: Graph, below: Graph, hidden: Collection[str]) -> list[Relation]:
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
