"""Compare two generations: what is new, gone, changed or stale, and beneath which relations nothing differs."""

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from leanrag_engine.core.graphs.graph import Flags, Graph, Hierarchy, digest_text, digest_texts
from leanrag_engine.core.graphs.rows import Places, find_missing, find_same, match_rows, select_rows
from leanrag_engine.core.history import EntityChanges, GraphChanges, NamedChanges
from leanrag_engine.core.model import Entity, Relation
from leanrag_engine.hierarchy.relations import UnchangedRelations

from .removal import HIDDEN

NAMED = 50
"""Names listed for each way of changing: enough to see what a change was about, and an entry of the history stays small."""


def compare(before: Hierarchy | None, after: Hierarchy) -> GraphChanges:
    """Return what differs in ``after``. Rows that are the same are not read."""
    (old_base, *old_above), (new_base, *new_above) = (
        before.layers if before else [Graph((), ())],
        after.layers,
    )
    return GraphChanges(
        _compare_entities(*_select_different([old_base], [new_base])),
        _compare_entities(*_select_different(old_above, new_above)),
        EntityChanges(stale=_find_stale_sentences(old_above, new_above)),
    )


def _select_different(before: Sequence[Graph], after: Sequence[Graph]) -> tuple[list[Entity], list[Entity]]:
    """Return the entities of ``before`` and of ``after`` but those that are the same in a layer of both."""
    gone: list[Entity] = []
    come: list[Entity] = []
    for old, new in zip_longest(before, after, fillvalue=Graph((), ())):
        same = find_same(old.entities, new.entities)
        gone += select_rows(old.entities, find_missing(same, len(old.entities)).tolist())
        come += select_rows(new.entities, np.flatnonzero(same < 0).tolist())
    return gone, come


def _compare_entities(before: Sequence[Entity], after: Sequence[Entity]) -> EntityChanges:
    # One pass without a pair for each entity: of 100,000 entities few have changed.
    left = {each.id: each for each in before}
    written = {each.name: each.id for each in before if each.layer and each.method.written}
    added: list[Entity] = []
    changed: list[Entity] = []
    stale: list[Entity] = []
    for now in after:
        then = left.pop(now.id, None)
        if then is None and now.stale:
            # A cluster with other members has another id; a text that was carried over kept its name.
            then = left.pop(written.get(now.name, ""), None)
        if then is None:
            added.append(now)
            continue
        if then.description != now.description or text_of(then) != text_of(now):
            changed.append(now)
        if now.stale and not then.stale:
            stale.append(now)
    return EntityChanges(*map(_name_foremost, (added, list(left.values()), changed, stale)))


def _find_stale_sentences(before: Sequence[Graph], after: Sequence[Graph]) -> NamedChanges:
    """Return the relations above layer 0 whose written sentence has become stale, named by their ends."""
    known = np.concatenate(
        [digest_texts(()), *(each.edges.descriptions[each.edges.stale] for each in before)]
    )
    named: list[tuple[Relation, str]] = []
    for layer in after:
        stale = np.flatnonzero(layer.edges.stale)
        fresh = stale[~np.isin(layer.edges.descriptions[stale], known)]
        relations = select_rows(layer.relations, fresh.tolist())
        names = [each.name for each in select_rows(layer.entities, layer.ends[fresh].ravel().tolist())]
        ends = zip(names[::2], names[1::2], strict=True)
        named += ((each, " — ".join(pair)) for each, pair in zip(relations, ends, strict=True))
    foremost = sorted(named, key=lambda each: (-each[0].layer, -each[0].strength, each[0].id))[:NAMED]
    return NamedChanges(len(named), {relation.id: name for relation, name in foremost})


def text_of(entity: Entity) -> tuple[object, ...]:
    """Return everything that is said of an entity: if it is equal, the entity has not changed."""
    return entity.name, entity.description, entity.findings


def count_stale(hierarchy: Hierarchy) -> int:
    """Count the written texts beneath which something has changed."""
    above = hierarchy.layers[1:]
    return sum(
        int(np.count_nonzero(each)) for layer in above for each in (layer.nodes.stale, layer.edges.stale)
    )


def _name_foremost(entities: Sequence[Entity]) -> NamedChanges:
    foremost = sorted(entities, key=lambda each: (-each.layer, -each.mentions, each.name, each.id))[:NAMED]
    return NamedChanges(len(entities), {each.id: each.name for each in foremost})


def add_up(steps: Sequence[GraphChanges]) -> GraphChanges:
    """Return what all ``steps``, oldest first, changed. Where one does not list all names, totals are sums, which may count an entity twice."""
    return GraphChanges(
        _add_up([each.entities for each in steps]),
        _add_up([each.summaries for each in steps]),
        _add_up([each.sentences for each in steps]),
    )


_TOGETHER = {("added", "changed"): "added", ("added", "removed"): "", ("removed", "added"): "changed"}
"""What two changes of an entity make together, "" for none; others make what the second one is."""


def _add_up(steps: Sequence[EntityChanges]) -> EntityChanges:
    kinds: dict[str, str] = {}
    names: dict[str, str] = {}
    stale: dict[str, None] = {}
    for step in steps:
        for kind, changes in _by_kind(step).items():
            for ref, name in changes.names.items():
                names[ref] = name
                if kind == "stale":
                    stale[ref] = None
                    continue
                stale.pop(ref, None)  # written again, or gone
                kinds[ref] = _TOGETHER.get((kinds.get(ref, ""), kind), kind)

    def collect(kind: str) -> NamedChanges:
        refs = list(stale) if kind == "stale" else [ref for ref, each in kinds.items() if each == kind]
        parts = [_by_kind(step)[kind] for step in steps]
        if all(part.total == len(part.names) for part in parts):
            total = len(refs)
        else:
            total = sum(part.total for part in parts)
        return NamedChanges(total, {ref: names[ref] for ref in refs[:NAMED]})

    return EntityChanges(*map(collect, ("added", "removed", "changed", "stale")))


def _by_kind(step: EntityChanges) -> Mapping[str, NamedChanges]:
    """Return the changes by kind, in the order in which they count."""
    return {"removed": step.removed, "added": step.added, "changed": step.changed, "stale": step.stale}


def find_touched(layer: Graph, before: Graph | None, beneath: Flags) -> Flags:
    """Return which entities of a layer differ from the layer ``before``, (n,): new or renamed ones, those
    with something touched ``beneath``, and both ends of relations that are new, gone or different."""
    if before is None:
        return np.ones(len(layer.entities), dtype=bool)
    touched = beneath.copy()
    entities = match_rows(before.entities, layer.entities)
    for row, (then, now) in entities.differing.items():
        touched[row] |= then is None or then.name != now.name
    return touched | find_changed_ends(before, layer, entities.origins, lambda then, now: then != now)


def find_changed_ends(
    before: Graph, after: Graph, origins: Places, differs: Callable[[Relation, Relation], bool]
) -> Flags:
    """Return which entities of ``after``, (n,), whose places ``before`` are ``origins``, are ends of relations that are new,
    gone, or such that the one now ``differs`` from the one then."""
    marked = np.zeros(len(after.entities), dtype=bool)
    relations = match_rows(before.relations, after.relations)
    changed = [row for row, (then, now) in relations.differing.items() if then is None or differs(then, now)]
    if changed:
        marked[after.ends[changed]] = True
    if len(relations.gone):  # of none in the layers of an import, where some ends are missing
        left = np.zeros(len(before.entities) + 1, dtype=bool)
        left[before.ends[relations.gone]] = True
        marked |= left[origins]
    return marked


def find_unchanged(clusters: Graph, touched: Flags, before: Graph | None) -> UnchangedRelations | None:
    """Return the relations of ``before`` between ``clusters`` that are not ``touched``: equal ids mean equal members."""
    if before is None:
        return None
    numbers = np.full(len(before.entities), -1, dtype=np.intp)
    places = before.find_places(clusters.nodes.ids)
    same = np.flatnonzero((places >= 0) & ~touched)
    numbers[places[same]] = same
    usable = before.edges.descriptions != digest_text(HIDDEN)
    return UnchangedRelations(before, numbers[before.ends], usable)
