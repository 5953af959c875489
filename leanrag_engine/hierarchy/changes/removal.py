"""Compute the hierarchy that is left when chunks are deleted, without a new build. What only those chunks support
goes; shared descriptions keep the sentences that a remaining chunk says (see ``core/graphs/restriction.py``).
Heuristic summaries that used them are hidden; written ones lose those sentences. An update would need the embedder, take in
what is pending, and make all that a model described anew."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import TypeVar

from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.graphs.restriction import (
    cut_sentence,
    cut_summary,
    find_lost_words,
    hide_summary,
    reduce_entity,
    reduce_relation,
    text_of_summary,
)
from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Chunk, Entity, Evidence, Extract, Method, Relation, Staleness
from leanrag_engine.core.text.language.words import content_words
from leanrag_engine.hierarchy.texts.attribution import ChunkFinder, best_first
from leanrag_engine.hierarchy.texts.naming import join_names

HIDDEN = "Hidden until the next build: it drew on documents that were deleted."

Pair = tuple[str, str]
T = TypeVar("T", Entity, Relation)


@dataclass(frozen=True, slots=True)
class RemainingChunks:
    """The chunks that remain, what was extracted from them, and the chunks that are ``gone``;
    ``has_unknown_texts``: the hierarchy also rests on earlier versions of these."""

    chunks: Mapping[str, Chunk]
    extracts: Mapping[str, Sequence[Extract]]
    """By the id of their chunk."""
    gone: Mapping[str, Chunk] = field(default_factory=dict)
    has_unknown_texts: bool = False

    def among(self, chunk_ids: Iterable[str]) -> tuple[str, ...]:
        return tuple(id_ for id_ in chunk_ids if id_ in self.chunks)


def remove_chunks(hierarchy: Hierarchy, remaining: RemainingChunks) -> Hierarchy | None:
    """Return ``hierarchy`` as if only the ``remaining`` chunks existed, with the same ids; None if no entity is left. Linear."""
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
    touched = {each.id for each in _find_changed(base.entities, entities)}
    for each in _find_changed(base.relations, relations):
        touched |= {each.source_id, each.target_id}
    return _rebuild_layers(hierarchy, Graph(tuple(entities), tuple(relations)), touched, remaining)


# --- G0 ------------------------------------------------------------------------------------


def _reduce_entity(entity: Entity, remaining: RemainingChunks) -> Entity | None:
    ids = remaining.among(entity.chunk_ids)
    if len(ids) == len(entity.chunk_ids):
        return entity
    extracts = [extract for id_ in ids for extract in remaining.extracts.get(id_, ())]
    return reduce_entity(entity, ids, remaining.chunks, extracts, _find_lost(entity, ids, remaining))


def _reduce_relation(relation: Relation, remaining: RemainingChunks) -> Relation | None:
    ids = remaining.among(relation.chunk_ids)
    if len(ids) == len(relation.chunk_ids):
        return relation
    # Which passage gave which type is not kept: the next build gives those of what remains.
    lost = _find_lost(relation, ids, remaining)
    return reduce_relation(replace(relation, types=()), ids, remaining.chunks, lost)


def _find_lost(item: Entity | Relation, left: Collection[str], remaining: RemainingChunks) -> frozenset[str]:
    """Return the words of a written description that only chunks say which are gone: heuristic ones quote their own chunk."""
    if not item.method.written:
        return frozenset()
    return _find_lost_words(item.description, {*item.chunk_ids} - {*left}, left, remaining)


def _find_changed(before: Iterable[T], after: Iterable[T]) -> list[T]:
    """Return what was removed or changed."""
    left = set(map(id, after))
    return [each for each in before if id(each) not in left]


# --- the layers above ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Beneath:
    """What lies beneath one cluster: the base entities that remain, and the chunks that all had, those that are gone and the others."""

    entities: list[Entity] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)


def _rebuild_layers(
    hierarchy: Hierarchy, base: Graph, touched: set[str], remaining: RemainingChunks
) -> Hierarchy:
    """Return all layers above the remaining G0; ``touched`` are the entities that are gone or changed."""
    layers = [base]
    kept = {each.id: each for each in base.entities}
    lifted = {each.id: each.id for each in hierarchy.layers[0].entities}
    for below, old in zip(hierarchy.layers, hierarchy.layers[1:], strict=False):
        parents = {each.id: each.parent_id or "" for each in below.entities}
        lifted = {id_: parents[ancestor] for id_, ancestor in lifted.items()}
        changes = _count_changes(below, layers[-1], touched)
        for each in old.entities:  # a carried text may cite what is beneath another cluster by now
            if _find_missing(each, remaining):
                changes.setdefault(each.id, Staleness(cut=1))
        touched = set(changes)
        beneath = {id_: _Beneath() for id_ in touched}
        for each in hierarchy.layers[0].entities:
            if (found := beneath.get(lifted[each.id])) is not None:
                found.entities.extend([kept[each.id]] if each.id in kept else ())
                for id_ in each.chunk_ids:
                    (found.left if id_ in remaining.chunks else found.gone).add(id_)
        members = Counter(each.parent_id or "" for each in layers[-1].entities)
        entities = tuple(
            _reduce_cluster(each, members[each.id], changes[each.id], beneath[each.id], remaining)
            if each.id in touched
            else each
            for each in old.entities
            if each.id in members
        )
        relations = tuple(_recount_relations(old, layers[-1], beneath, remaining))
        layers[-1] = _drop_missing_parents(layers[-1], members)
        layers.append(Graph(entities, relations))
    return Hierarchy(tuple(layers))


def _count_changes(before: Graph, after: Graph, touched: Collection[str]) -> dict[str, Staleness]:
    """Return for each cluster with a touched member how many left it and how many were cut."""
    left = {each.id for each in after.entities}
    changes: dict[str, Staleness] = {}
    for each in before.entities:
        if each.id in touched and each.parent_id:
            change = Staleness(cut=1) if each.id in left else Staleness(left=1)
            changes[each.parent_id] = change.since(changes.get(each.parent_id)) or change
    return changes


def _reduce_cluster(
    cluster: Entity, members: int, changes: Staleness, beneath: _Beneath, remaining: RemainingChunks
) -> Entity:
    """Return a cluster whose members changed: what a model or an agent wrote of it is cut, other summaries are hidden."""
    reduced = None
    if cluster.method.written:
        gone = beneath.gone | _find_missing(cluster, remaining)
        lost = _find_lost_words(text_of_summary(cluster), gone, beneath.left, remaining)
        if lost.isdisjoint(content_words(cluster.name)):
            # Not all but ``gone``: a cited chunk may be one of an earlier version of the document.
            reduced = cut_summary(cluster, remaining.chunks, lost)
    mentions = len(beneath.entities)
    if reduced is not None:
        return replace(reduced, members=members, mentions=mentions, stale=changes.since(cluster.stale))
    foremost = nsmallest(5, beneath.entities, key=lambda each: (-each.mentions, each.id))
    names = [each.name for each in foremost]
    description = f"{HIDDEN} {mentions} entities are beneath it, such as {', '.join(names)}."
    hidden = hide_summary(cluster, join_names(names[:3]), description)
    return replace(hidden, members=members, mentions=mentions, stale=None)


def _find_missing(item: Entity | Relation, remaining: RemainingChunks) -> set[str]:
    """Return the chunks that what is written of a cluster or relation cites, and that do not remain."""
    cited = {each.chunk_id for each in item.evidence} if item.method.written else set[str]()
    if isinstance(item, Entity):
        cited.update(id_ for each in item.findings for id_ in each.chunk_ids)
    return cited - remaining.chunks.keys()


def _drop_missing_parents(layer: Graph, above: Collection[str]) -> Graph:
    """Remove second-best parents that no longer exist."""
    entities = tuple(
        each
        if each.second_parent_id is None or each.second_parent_id in above
        else replace(each, second_parent_id=None, second_responsibility=0.0)
        for each in layer.entities
    )
    return Graph(entities, layer.relations)


def _recount_relations(
    old: Graph, below: Graph, touched: Mapping[str, _Beneath], remaining: RemainingChunks
) -> Iterator[Relation]:
    """Yield inter-cluster relations that a relation below still joins, with their figures counted again; of the ``touched``
    clusters those that are written stay unless their sentence rested on a deleted chunk."""
    parents = {each.id: each.parent_id or "" for each in below.entities}
    joining = group(
        (order_pair(parents[each.source_id], parents[each.target_id]), each) for each in below.relations
    )
    for each in old.relations:
        pair = order_pair(each.source_id, each.target_id)
        if not (stated := joining.get(pair)):
            continue
        ends = [touched[end] for end in pair if end in touched]
        if missing := _find_missing(each, remaining):
            cited = {origin.chunk_id for origin in each.evidence}
            ends.append(_Beneath(gone=missing, left=cited - missing))
        if not ends:
            yield each
            continue
        weight, support = (sum(getattr(one, name) for one in stated) for name in ("weight", "support"))
        counted = replace(each, strength=len(stated), weight=weight, support=support)
        cut = None
        if each.method.written and not _rests_on_deleted(each, ends, remaining):
            cut = cut_sentence(counted, remaining.chunks) or cite_again(
                counted, [one for one in below.entities if one.parent_id in pair], stated, remaining.chunks
            )
        if cut is not None:
            yield replace(cut, stale=Staleness(left=each.support - support).since(each.stale))
        else:
            yield replace(counted, description=HIDDEN, method=Method.JOINED, evidence=(), stale=None)


def _rests_on_deleted(relation: Relation, ends: Sequence[_Beneath], remaining: RemainingChunks) -> bool:
    gone, left = (set().union(*(getattr(end, name) for end in ends)) for name in ("gone", "left"))
    return bool(_find_lost_words(relation.description, gone, left, remaining))


def _find_lost_words(
    text: str, gone_ids: Collection[str], left_ids: Collection[str], remaining: RemainingChunks
) -> frozenset[str]:
    """Return the words of ``text`` that may come from the chunks ``gone_ids`` alone: none of ``left_ids`` says them."""
    unknown = remaining.has_unknown_texts and any(id_ not in remaining.gone for id_ in gone_ids)
    said = None if unknown else [remaining.gone[id_] for id_ in gone_ids if id_ in remaining.gone]
    return find_lost_words(text, said, [remaining.chunks[id_] for id_ in left_ids if id_ in remaining.chunks])


def order_pair(first: str, second: str) -> Pair:
    """Return two ids as an unordered pair: the smaller one first."""
    return (first, second) if first <= second else (second, first)


def cite_again(
    sentence: Relation, members: Sequence[Entity], relations: Sequence[Relation], chunk_ids: Collection[str]
) -> Relation | None:
    """Return a relation of clusters with evidence from ``members`` and the ``relations`` between them, of existing chunks; None without."""
    text = sentence.description
    found = ChunkFinder(members, best_first(relations)).supporting(text)
    evidence = tuple(Evidence(0, len(text), id_) for id_ in found if id_ in chunk_ids)
    return replace(sentence, evidence=evidence) if evidence else None


def find_unsaid_words(
    text: str, before: Iterable[Entity | Relation], now: Iterable[Entity | Relation]
) -> frozenset[str]:
    """Return the words of ``text`` that entities and relations said ``before`` and say no longer."""
    found = content_words(text)
    found &= set().union(*map(_words_of, before))
    for each in now:
        if not found:
            break
        found -= _words_of(each)
    return found


def _words_of(item: Entity | Relation) -> frozenset[str]:
    if isinstance(item, Relation):
        return content_words(item.description)
    return content_words(" ".join((*item.aliases, text_of_summary(item))))
