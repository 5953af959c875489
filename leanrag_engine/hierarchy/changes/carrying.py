"""Carry texts over from the previous build to the clusters that continue its clusters. What a model or an
agent wrote stays, marked with what changed beneath, until it is written again, without what rested on chunks
that are gone; a heuristic text stays where nothing changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from leanrag_engine.core.graphs.graph import Flags, Graph, Hierarchy
from leanrag_engine.core.graphs.restriction import cut_sentence, cut_summary
from leanrag_engine.core.graphs.rows import LayerRows, find_same, match_rows, select_rows
from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Entity, Relation, Staleness
from leanrag_engine.hierarchy.clustering.balancing import Labels
from leanrag_engine.hierarchy.health import find_ancestors
from leanrag_engine.hierarchy.relations import LayerStep, PairCounts, find_pairs

from .comparing import find_changed_ends, text_of
from .removal import HIDDEN, cite_again, find_unsaid_words, order_pair

OVERLAP = 0.5
"""Least share of base entities (of all that either cluster has) by which a cluster of a rebuild continues a previous
one: below, two could continue the same one, and old summaries fit worse (tests/programs/benchmarks/growth.py)."""
DUE = 0.2
"""Share of the members with a change, since it was written, from which on a model writes a text again: fewer change
little of it. What is gone does not count, as the sentences that rested on it went with it."""


@dataclass(frozen=True, slots=True, eq=False)
class PreviousBuild:
    """The published hierarchy that a build starts from, and the ids of the chunks that exist now; ``whole``:
    among them are all that it was built from."""

    hierarchy: Hierarchy
    chunk_ids: Collection[str]
    whole: bool = False

    def layer(self, number: int) -> Graph | None:
        """Return a layer; None above the root."""
        layers = self.hierarchy.layers
        return layers[number] if number < len(layers) else None


@dataclass(frozen=True, slots=True, eq=False)
class Lineage:
    """For each entity of a layer the place of the entity that it continues in the same layer of the previous build, −1 for a
    new one, (n,), and whether its text differs from that one's, (n,)."""

    origins: Labels
    changed: Flags

    @classmethod
    def of_base(cls, base: Graph, previous: PreviousBuild | None) -> Lineage:
        """Compare G0 with the previous one: an entity has changed if its text has, or a relation that it is an end of."""
        before = previous.hierarchy.layers[0] if previous else Graph((), ())
        matches = match_rows(before.entities, base.entities)
        changed = find_changed_ends(
            before, base, matches.origins, lambda then, now: then.description != now.description
        )
        for row, (then, now) in matches.differing.items():
            changed[row] |= then is None or text_of(then) != text_of(now)
        return cls(matches.origins, changed)

    @classmethod
    def of_clusters(cls, entities: Sequence[Entity], origins: Origins) -> Lineage:
        """Compare the clusters of a layer with those that they continue."""
        same = find_same(origins.rows, entities)
        changed = np.full(len(entities), fill_value=True)
        changed[(same >= 0) & (same == origins.places)] = False
        for row in np.flatnonzero(changed).tolist():
            old = origins.find(row)
            changed[row] = old is None or text_of(old) != text_of(entities[row])
        return cls(origins.places, changed)


# --- which cluster continues which ----------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """The clusters of the previous build, ``rows``, that the clusters of a layer continue: for each its place there, −1 for a new one."""

    rows: Sequence[Entity]
    places: Labels

    def find(self, number: int) -> Entity | None:
        """Return the previous cluster that a cluster continues."""
        place = int(self.places[number])
        return self.rows[place] if place >= 0 else None

    @classmethod
    def of_nothing(cls, count: int) -> Origins:
        return cls((), np.full(count, -1, dtype=np.intp))


def find_continued(ancestors: Labels, base: Graph, layer: int, previous: PreviousBuild) -> Origins:
    """Return for each cluster of a rebuilt layer the previous one that it continues: either shares most base entities
    with the other, and at least ``OVERLAP``. ``ancestors`` (n,) are the clusters above ``base``."""
    count = int(ancestors.max()) + 1
    above = previous.layer(layer)
    if count == 1:
        return Origins(previous.hierarchy.layers[-1].entities, np.zeros(1, dtype=np.intp))
    found = Origins.of_nothing(count)
    if above is None:
        return found
    homes = find_ancestors(previous.hierarchy.layers)[layer]
    olds = np.append(homes, -1)[previous.hierarchy.layers[0].find_places(base.nodes.ids)]
    shared = Counter(
        (new, old) for new, old in zip(ancestors.tolist(), olds.tolist(), strict=True) if old >= 0
    )
    ids = above.nodes.ids.tolist()
    now, before = np.bincount(ancestors, minlength=count), np.bincount(homes, minlength=len(ids))
    places = found.places
    taken: set[int] = set()
    for (new, old), both in sorted(shared.items(), key=lambda item: (-item[1], item[0][0], ids[item[0][1]])):
        if places[new] >= 0 or old in taken:
            continue
        if both >= OVERLAP * (int(now[new]) + int(before[old]) - both):
            places[new] = old
            taken.add(old)
    return Origins(above.entities, places)


# --- summaries -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CarriedSummaries:
    """The summaries of a layer that are carried over, by cluster. ``origins`` are the previous clusters that the clusters continue,
    ``changes`` what changed beneath them since the previous build. ``kept`` have another row than then, ``unchanged`` are the places of
    the others' rows among the origins, −1 for those that have none. ``due``: clusters whose carried text should be written again."""

    origins: Origins = field(default_factory=lambda: Origins.of_nothing(0))
    changes: Mapping[int, Staleness] = field(default_factory=dict)
    kept: Mapping[int, Entity] = field(default_factory=dict)
    unchanged: Labels = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    due: frozenset[int] = frozenset()

    @property
    def has_text(self) -> Flags:
        """Which clusters have a text that is carried over."""
        found = self.unchanged >= 0
        found[[*self.kept]] = True
        return np.asarray(found)

    def origin(self, number: int) -> Entity | None:
        """Return the previous cluster that a cluster continues."""
        return self.origins.find(number) if number < len(self.origins.places) else None

    def find(self, number: int) -> Entity | None:
        """Return the cluster that is carried over to a cluster."""
        if number < len(self.unchanged) and self.unchanged[number] >= 0:
            return self.origins.find(number)
        return self.kept.get(number)

    def lacks_text(self, number: int) -> bool:
        """Return whether a cluster has no written text, or one that should be written again."""
        carried = self.find(number)
        return number in self.due or carried is None or not carried.method.written


def carry_summaries(
    step: LayerStep, lineage: Lineage, origins: Origins, previous: PreviousBuild
) -> CarriedSummaries:
    """Return what is carried over to the clusters of ``step``, whose lower layer has the ``lineage``."""
    counts = _count_members(step, lineage, origins, previous)
    same = _find_unchanged_rows(step, lineage, origins, counts, previous)
    changes: dict[int, Staleness] = {}
    kept: dict[int, Entity] = {}
    due: set[int] = set()
    examined = np.flatnonzero((origins.places >= 0) & ~same)
    olds = select_rows(origins.rows, origins.places[examined].tolist())
    for number, origin in zip(examined.tolist(), olds, strict=True):
        changes[number] = counts.compare(number)
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
        gained = stale.gained + int(counts.moved[number]) if stale else 0
        if stale and gained >= DUE * int(counts.sizes[number]):
            due.add(number)
    return CarriedSummaries(origins, changes, kept, np.where(same, origins.places, -1), frozenset(due))


@dataclass(frozen=True, slots=True, eq=False)
class _MemberCounts:
    """Of each cluster, (clusters,): how many members it has, how many of them its origin had, how many of these are ``changed``,
    how many the origin had, and how many of those are in another cluster now."""

    sizes: Labels
    stayed: Labels
    changed: Labels
    before: Labels
    moved: Labels

    @property
    def intact(self) -> Flags:
        """Which clusters have the unchanged members of their origins."""
        return np.asarray((self.sizes == self.stayed) & (self.before == self.stayed) & (self.changed == 0))

    def compare(self, number: int) -> Staleness:
        stayed = int(self.stayed[number])
        return Staleness(
            int(self.sizes[number]) - stayed, int(self.before[number]) - stayed, int(self.changed[number])
        )


def _count_members(
    step: LayerStep, lineage: Lineage, origins: Origins, previous: PreviousBuild
) -> _MemberCounts:
    lower = previous.layer(step.lower.entities[0].layer) or Graph((), ())
    above = Graph(origins.rows, ())
    homes = np.append(above.find_places(lower.nodes.parents), -1)
    count, total = len(origins.places), len(above.entities)
    now = homes[lineage.origins]
    stays = (now >= 0) & (now == origins.places[step.labels])
    stayed = np.bincount(step.labels[stays], minlength=count)
    before = np.append(np.bincount(homes[homes >= 0], minlength=total), 0)[origins.places]
    present = np.append(np.bincount(now[now >= 0], minlength=total), 0)[origins.places]
    return _MemberCounts(
        np.bincount(step.labels, minlength=count),
        stayed,
        np.bincount(step.labels[stays & lineage.changed], minlength=count),
        before,
        present - stayed,
    )


def _find_unchanged_rows(
    step: LayerStep, lineage: Lineage, origins: Origins, counts: _MemberCounts, previous: PreviousBuild
) -> Flags:
    """Return which clusters have the very row of their origin, as far as that is known without reading it."""
    count = len(origins.places)
    if not (previous.whole and isinstance(origins.rows, LayerRows)) or count == 1:
        return np.zeros(count, dtype=bool)
    lower = previous.layer(step.lower.entities[0].layer)
    assert lower is not None  # an origin has members
    old = np.append(lower.nodes.ids, b"")[lineage.origins]
    renamed = np.bincount(step.labels, weights=old != step.lower.nodes.ids, minlength=count)
    above = Graph(origins.rows, ()).nodes
    beneath = np.bincount(step.base_labels, minlength=count)
    places = origins.places
    return np.asarray(
        (places >= 0)
        & counts.intact
        & (renamed == 0)
        & (above.mentions[places] == beneath)
        & ~above.stale[places]
    )


def _is_supported(summary: Entity, chunk_ids: Collection[str]) -> bool:
    cited = {each.chunk_id for each in summary.evidence}
    return all(id_ in chunk_ids for id_ in cited.union(*(each.chunk_ids for each in summary.findings)))


# --- sentences of inter-cluster relations ---------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CarriedSentences:
    """The written sentences of a layer's relations that are carried over, by the number of their pair, and those ``due``
    to be written again. ``continued`` are the places of the previous build's relations in its layer ``above``, −1 for none."""

    kept: Mapping[int, Relation] = field(default_factory=dict)
    due: frozenset[int] = frozenset()
    continued: Labels = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    above: Graph = field(default_factory=lambda: Graph((), ()))

    def find_origin(self, pair: int) -> str:
        """Return the id of the relation of the previous build that a pair's continues, "" if there is none."""
        place = int(self.continued[pair]) if pair < len(self.continued) else -1
        return str(self.above.edges.ids[place], "utf-8") if place >= 0 else ""


def carry_sentences(
    step: LayerStep, counts: PairCounts, origins: Origins, previous: PreviousBuild
) -> CarriedSentences:
    """Return the written sentences of the previous build for the pairs that continue its pairs, or hold most
    of what a sentence rests on where a cluster was divided."""
    layer = step.lower.entities[0].layer + 1
    above = previous.layer(layer) or Graph((), ())
    ends = origins.places[np.stack((counts.pairs.first, counts.pairs.second), axis=1)]
    continued = find_pairs(ends, above.ends)
    numbers = np.flatnonzero(np.append(above.edges.written, False)[continued]).tolist()
    olds = dict(zip(numbers, select_rows(above.relations, continued[numbers].tolist()), strict=True))
    divided = _find_divided(step, counts, origins, layer, previous)
    olds |= {number: old for number, old in divided.items() if continued[number] < 0}
    texts = _TextsBeneath(step, counts, previous)
    kept: dict[int, Relation] = {}
    due: set[int] = set()
    for number, old in sorted(olds.items()):
        support = int(counts.supports[number])
        carried = cut_sentence(old, previous.chunk_ids) or texts.cite_again(number, old)
        if carried is None:
            continue
        stale = Staleness(max(0, support - old.support), max(0, old.support - support)).since(old.stale)
        kept[number] = replace(carried, stale=stale)
        if stale and stale.gained >= DUE * support:
            due.add(number)
    return CarriedSentences(kept, frozenset(due), continued, above)


def _find_divided(
    step: LayerStep, counts: PairCounts, origins: Origins, layer: int, previous: PreviousBuild
) -> dict[int, Relation]:
    """Return for pairs with a new cluster the written relation of the previous build, if there is one, more than half of
    whose base relations they have."""
    above = previous.layer(layer)
    new = origins.places < 0
    numbers = np.flatnonzero(new[counts.pairs.first] | new[counts.pairs.second]).tolist()
    if above is None or not numbers or not above.edges.written.any():
        return {}
    base = previous.hierarchy.layers[0]
    before = match_rows(base.relations, step.base.relations).origins
    places = find_pairs(find_ancestors(previous.hierarchy.layers)[layer][base.ends], above.ends)
    found: dict[int, Relation] = {}
    for number in numbers:
        old = before[counts.beneath.relations_of(number)]
        shared = Counter(places[old[old >= 0]].tolist())
        for place, most in shared.most_common(1):
            if place < 0 or not above.edges.written[place]:
                continue
            relation = above.relations[place]
            if 2 * most > relation.support:
                found[number] = relation
    return found


class _TextsBeneath:
    """What lies beneath the pairs of a step, now and in the previous build."""

    def __init__(self, step: LayerStep, counts: PairCounts, previous: PreviousBuild) -> None:
        self._step = step
        self._counts = counts
        self._previous = previous

    def cite_again(self, pair: int, old: Relation) -> Relation | None:
        """Return the sentence with evidence from what lies beneath the pair now; None if that no longer says all that it did."""
        lower = self._step.lower
        ends = [int(self._counts.pairs.first[pair]), int(self._counts.pairs.second[pair])]
        members = select_rows(lower.entities, np.flatnonzero(np.isin(self._step.labels, ends)).tolist())
        relations = select_rows(lower.relations, self._counts.pairs.relations_of(pair))
        before = self._before[0][old.source_id] + self._before[0][old.target_id]
        stated = self._before[1][order_pair(old.source_id, old.target_id)]
        if find_unsaid_words(old.description, (*before, *stated), (*members, *relations)):
            return None
        return cite_again(old, members, relations, self._previous.chunk_ids)

    @cached_property
    def _before(self) -> tuple[Mapping[str, list[Entity]], Mapping[tuple[str, str], list[Relation]]]:
        """The members of each previous cluster, and the relations between each two, by ids."""
        layer = self._previous.layer(self._step.lower.entities[0].layer) or Graph((), ())
        parents = {each.id: each.parent_id or "" for each in layer.entities}
        members = group((parents[each.id], each) for each in layer.entities)
        return members, group(
            (order_pair(parents[each.source_id], parents[each.target_id]), each) for each in layer.relations
        )
