"""Carry texts over from the previous build to the clusters that continue its clusters.

What a model or an agent wrote is never replaced by a heuristic text. It stays with the cluster that continues the one
it was written for, marked with what changed beneath it, until it is written again; what rested on chunks that are gone
is left out. A heuristic text is carried over where nothing changed, as it would be made anew in the same words.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.graphs.restriction import cut_sentence, cut_summary
from leanrag_engine.core.model import Entity, Relation, Staleness
from leanrag_engine.hierarchy.relations import LayerStep, PairCounts

from .comparing import text_of
from .removal import HIDDEN, order_pair
from .supporting import cite_again, find_unsaid_words

Labels = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class CarryingOptions:
    """When a text of a previous build is taken over."""

    overlap: float = 0.5
    """Least share of base entities (of all that either cluster has) by which a cluster of a rebuild continues a previous
    one. Below one half two clusters could continue the same one equally well. When 120 passages of MuSiQue grew to 240,
    the old heuristic summary was nearer to that of its match than to any other of the layer in all 13 clusters from 0.5
    on, in 3 of 5 from 0.4 on and in 7 of 9 from 0.3 on (tests/programs/benchmarks/growth.py)."""
    due: float = 0.2
    """Share of the members with a change from which on a model writes a text again. One member more among twenty changes
    little of what a summary says, and a call for each such cluster would make a small update as expensive as a rebuild. What
    is gone does not count: the sentences that rested on it went with it, and the other sentences are unchanged. Changes add up
    until the text is written again, so that none stays stale for ever."""


DEFAULT_CARRYING = CarryingOptions()


@dataclass(frozen=True, slots=True, eq=False)
class PreviousBuild:
    """The published hierarchy that a build starts from, and the ids of the chunks that exist now."""

    hierarchy: Hierarchy
    chunk_ids: Collection[str]

    def layer(self, number: int) -> Graph | None:
        """Return a layer; None above the root."""
        layers = self.hierarchy.layers
        return layers[number] if number < len(layers) else None


@dataclass(frozen=True, slots=True, eq=False)
class Lineage:
    """For each entity of a layer the entity of the previous build that it continues (None for a new one), and whether
    its text differs from that one's."""

    origins: Sequence[Entity | None]
    changed: Sequence[bool]

    @classmethod
    def of_base(cls, base: Graph, previous: PreviousBuild | None) -> Lineage:
        """Compare G0 with the previous one: an entity has changed if its text has, or a relation that it is an end of."""
        before = previous.hierarchy.layers[0] if previous else Graph((), ())
        known = {each.id: each for each in before.entities}
        origins = [known.get(each.id) for each in base.entities]
        touched = _ends_of_changes(before.relations, base.relations)
        return cls(
            origins,
            [
                old is None or each.id in touched or text_of(old) != text_of(each)
                for each, old in zip(base.entities, origins, strict=True)
            ],
        )

    @classmethod
    def of_clusters(cls, entities: Sequence[Entity], origins: Sequence[Entity | None]) -> Lineage:
        """Compare the clusters of a layer with those that they continue."""
        return cls(
            origins,
            [
                old is None or text_of(old) != text_of(each)
                for each, old in zip(entities, origins, strict=True)
            ],
        )


def _ends_of_changes(before: Iterable[Relation], after: Iterable[Relation]) -> set[str]:
    """Return the ends of base relations that are new, gone or worded differently."""
    gone = {each.id: each for each in before}
    touched: set[str] = set()
    for each in after:
        old = gone.pop(each.id, None)
        if old is not each and (old is None or old.description != each.description):
            touched |= {each.source_id, each.target_id}
    return touched | {end for each in gone.values() for end in (each.source_id, each.target_id)}


# --- which cluster continues which ----------------------------------------------------------


def find_continued(
    ancestors: Labels, base: Sequence[Entity], layer: int, previous: PreviousBuild
) -> list[Entity | None]:
    """Return for each cluster of a rebuilt layer the previous cluster of that layer that it continues.

    ``ancestors`` (n,) are the clusters above the ``base`` entities. Two clusters match if they share more base entities
    than either shares with any other, and at least ``CarryingOptions.overlap`` of all that either has. The root continues the root.
    """
    count = int(ancestors.max()) + 1
    above = previous.layer(layer)
    if count == 1:
        return [previous.hierarchy.root]
    if above is None:
        return [None] * count
    homes = _previous_ancestors(previous.hierarchy, layer)
    olds = [homes.get(each.id, "") for each in base]
    shared = Counter((int(new), old) for new, old in zip(ancestors.tolist(), olds, strict=True) if old)
    now, before = np.bincount(ancestors, minlength=count), Counter(homes.values())
    known = {each.id: each for each in above.entities}
    found: list[Entity | None] = [None] * count
    taken: set[str] = set()
    for (new, old), both in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        if found[new] is not None or old in taken:
            continue
        if both >= DEFAULT_CARRYING.overlap * (int(now[new]) + before[old] - both):
            found[new] = known[old]
            taken.add(old)
    return found


def _previous_ancestors(hierarchy: Hierarchy, layer: int) -> dict[str, str]:
    """Return the ancestor in ``layer`` of each base entity, by id."""
    lifted = {each.id: each.id for each in hierarchy.layers[0].entities}
    for lower in hierarchy.layers[:layer]:
        parents = {each.id: each.parent_id or "" for each in lower.entities}
        lifted = {base: parents[ancestor] for base, ancestor in lifted.items()}
    return lifted


# --- summaries -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CarriedSummaries:
    """The summaries of a layer that are carried over, by cluster.

    ``origins`` are the previous clusters that the clusters continue, ``changes`` what changed beneath them since the
    previous build. ``due``: clusters whose carried text should be written again.
    """

    origins: Sequence[Entity | None] = ()
    changes: Mapping[int, Staleness] = field(default_factory=dict)
    kept: Mapping[int, Entity] = field(default_factory=dict)
    due: frozenset[int] = frozenset()

    def origin(self, number: int) -> Entity | None:
        """Return the previous cluster that a cluster continues."""
        return self.origins[number] if number < len(self.origins) else None

    def lacks_text(self, number: int) -> bool:
        """Return whether a cluster has no written text, or one that should be written again."""
        return number in self.due or number not in self.kept or not self.kept[number].method.written


def carry_summaries(
    step: LayerStep, lineage: Lineage, origins: Sequence[Entity | None], previous: PreviousBuild
) -> CarriedSummaries:
    """Return what is carried over to the clusters of ``step``, whose lower layer has the ``lineage``."""
    members = _members_by_cluster(step.labels)
    present = _ids_before(range(len(step.labels)), lineage)
    before = _previous_members(previous, step.lower.entities[0].layer)
    changes: dict[int, Staleness] = {}
    kept: dict[int, Entity] = {}
    due: set[int] = set()
    for number, origin in enumerate(origins):
        if origin is None:
            continue
        changes[number] = _compare_members(members[number], lineage, before.get(origin.id, frozenset()))
        if not origin.method.written:
            # A deletion leaves a note in place of a heuristic summary, which is made anew here.
            hidden = origin.description.startswith(HIDDEN)
            if not (hidden or changes[number].total) and _is_supported(origin, previous.chunk_ids):
                kept[number] = origin
            continue
        carried = cut_summary(origin, previous.chunk_ids)
        if carried is None:
            continue
        kept[number] = replace(carried, stale=changes[number].since(origin.stale))
        stale = kept[number].stale
        moved = len((before.get(origin.id, frozenset()) & present) - _ids_before(members[number], lineage))
        if stale and stale.gained + moved >= DEFAULT_CARRYING.due * len(members[number]):
            due.add(number)
    return CarriedSummaries(origins, changes, kept, frozenset(due))


def _members_by_cluster(labels: Labels) -> dict[int, list[int]]:
    members: dict[int, list[int]] = defaultdict(list)
    for row, label in enumerate(labels.tolist()):
        members[label].append(row)
    return members


def _previous_members(previous: PreviousBuild, layer: int) -> dict[str, frozenset[str]]:
    """Return the ids of the members of each cluster above ``layer``."""
    members: dict[str, set[str]] = defaultdict(set)
    for each in (previous.layer(layer) or Graph((), ())).entities:
        if each.parent_id is not None:
            members[each.parent_id].add(each.id)
    return {id_: frozenset(ids) for id_, ids in members.items()}


def _compare_members(rows: Sequence[int], lineage: Lineage, before: frozenset[str]) -> Staleness:
    stayed = {
        origin.id: lineage.changed[row]
        for row in rows
        if (origin := lineage.origins[row]) is not None and origin.id in before
    }
    return Staleness(len(rows) - len(stayed), len(before) - len(stayed), sum(stayed.values()))


def _ids_before(rows: Iterable[int], lineage: Lineage) -> set[str]:
    """Return the ids that entities had in the previous build."""
    return {origin.id for row in rows if (origin := lineage.origins[row]) is not None}


def _is_supported(summary: Entity, chunk_ids: Collection[str]) -> bool:
    cited = {each.chunk_id for each in summary.evidence}
    return all(id_ in chunk_ids for id_ in cited.union(*(each.chunk_ids for each in summary.findings)))


# --- sentences of inter-cluster relations ---------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CarriedSentences:
    """The written sentences of a layer's relations that are carried over, by the number of their pair, and those ``due``
    to be written again. ``origins`` are the ids of the previous build's relations."""

    kept: Mapping[int, Relation] = field(default_factory=dict)
    due: frozenset[int] = frozenset()
    origins: Mapping[int, str] = field(default_factory=dict)

    def lacks_sentence(self, pair: int) -> bool:
        """Return whether a pair has no written sentence, or one that should be written again."""
        return pair in self.due or pair not in self.kept


def carry_sentences(
    step: LayerStep,
    counts: PairCounts,
    origins: Sequence[Entity | None],
    previous: PreviousBuild,
) -> CarriedSentences:
    """Return the written sentences of the previous build for the pairs whose clusters continue its clusters, and for those
    that hold most of what a sentence rests on where a cluster was divided.

    A sentence whose cited chunks are gone stays where what lies beneath still says its words, and cites that.
    """
    layer = step.lower.entities[0].layer + 1
    above = previous.layer(layer)
    before = {order_pair(each.source_id, each.target_id): each for each in (above.relations if above else ())}
    divided = _find_divided(step, counts, origins, layer, previous, before)
    texts = _TextsBeneath(step, counts, previous)
    kept: dict[int, Relation] = {}
    due: set[int] = set()
    found: dict[int, str] = {}
    pairs = zip(
        counts.pairs.first.tolist(), counts.pairs.second.tolist(), counts.supports.tolist(), strict=True
    )
    for number, (first, second, support) in enumerate(pairs):
        near, far = origins[first], origins[second]
        old = before.get(order_pair(near.id, far.id)) if near is not None and far is not None else None
        if old is not None:
            found[number] = old.id
        old = old or divided.get(number)
        if old is None or not old.method.written:
            continue
        carried = cut_sentence(old, previous.chunk_ids) or texts.cite_again(number, old)
        if carried is None:
            continue
        now = Staleness(max(0, support - old.support), max(0, old.support - support))
        stale = now.since(old.stale)
        kept[number] = replace(carried, stale=stale)
        if stale and stale.gained >= DEFAULT_CARRYING.due * support:
            due.add(number)
    return CarriedSentences(kept, frozenset(due), found)


def _find_divided(
    step: LayerStep,
    counts: PairCounts,
    origins: Sequence[Entity | None],
    layer: int,
    previous: PreviousBuild,
    before: Mapping[tuple[str, str], Relation],
) -> dict[int, Relation]:
    """Return for pairs with a new cluster the written relation of the previous build, if there is one, more than half of
    whose base relations they have."""
    new = np.array([each is None for each in origins], dtype=bool)
    numbers = np.flatnonzero(new[counts.pairs.first] | new[counts.pairs.second]).tolist()
    if not numbers or not any(each.method.written for each in before.values()):
        return {}
    lifted = _previous_ancestors(previous.hierarchy, layer)
    known = {each.id: each for each in previous.hierarchy.layers[0].relations}
    found: dict[int, Relation] = {}
    for number in numbers:
        shared: Counter[tuple[str, str]] = Counter()
        for place in counts.beneath.relations_of(number):
            old = known.get(step.base.relations[place].id)
            if old is not None:
                shared[order_pair(lifted[old.source_id], lifted[old.target_id])] += 1
        for pair, most in shared.most_common(1):
            relation = before.get(pair)
            if relation is not None and relation.method.written and 2 * most > relation.support:
                found[number] = relation
    return found


class _TextsBeneath:
    """What lies beneath the pairs of a step, now and in the previous build."""

    def __init__(self, step: LayerStep, counts: PairCounts, previous: PreviousBuild) -> None:
        self._step = step
        self._counts = counts
        self._previous = previous

    def cite_again(self, pair: int, old: Relation) -> Relation | None:
        """Return the sentence with evidence from what lies beneath the pair now; None if that no longer says all that it
        did."""
        lower = self._step.lower
        ends = [int(self._counts.pairs.first[pair]), int(self._counts.pairs.second[pair])]
        members = [lower.entities[row] for row in np.flatnonzero(np.isin(self._step.labels, ends)).tolist()]
        relations = [lower.relations[number] for number in self._counts.pairs.relations_of(pair)]
        before = self._before[0][old.source_id] + self._before[0][old.target_id]
        stated = self._before[1][order_pair(old.source_id, old.target_id)]
        if find_unsaid_words(old.description, (*before, *stated), (*members, *relations)):
            return None
        return cite_again(old, members, relations, self._previous.chunk_ids)

    @cached_property
    def _before(self) -> tuple[Mapping[str, list[Entity]], Mapping[tuple[str, str], list[Relation]]]:
        """The members of each previous cluster, and the relations between each two, by ids."""
        layer = self._previous.layer(self._step.lower.entities[0].layer) or Graph((), ())
        members: dict[str, list[Entity]] = defaultdict(list)
        relations: dict[tuple[str, str], list[Relation]] = defaultdict(list)
        parents = {each.id: each.parent_id or "" for each in layer.entities}
        for each in layer.entities:
            members[each.parent_id or ""].append(each)
        for stated in layer.relations:
            relations[order_pair(parents[stated.source_id], parents[stated.target_id])].append(stated)
        return members, relations
