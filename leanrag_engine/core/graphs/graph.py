"""The layers of a hierarchy: the entities of each, and the relations between them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.model import BuildRecord, Entity, Relation

from .columns import EntityColumns, RelationColumns, digest_text
from .ids import Ids, Places, SortedIds, decode_ids, has_twins, make_ids
from .rows import LayerRows, select_rows


@dataclass(frozen=True)
class Graph:
    """One layer: entities, and relations whose ends are among them; stored ones may be :class:`LayerRows`,
    read on demand, with what is to be known of all in :attr:`nodes`, :attr:`edges` and :attr:`ends`."""

    entities: Sequence[Entity]
    relations: Sequence[Relation]

    @cached_property
    def nodes(self) -> EntityColumns:
        """The entities in columns."""
        return EntityColumns(self.entities)

    @cached_property
    def edges(self) -> RelationColumns:
        return RelationColumns(self.relations)

    @cached_property
    def places(self) -> SortedIds:
        """Finds the places of entities by their ids."""
        return SortedIds(self.nodes.ids)

    @cached_property
    def ends(self) -> NDArray[np.intp]:
        """The places in ``entities`` of each relation's source and target, (m, 2)."""
        if isinstance(self.relations, LayerRows) and isinstance(self.entities, LayerRows):
            return self._find_stored_ends(self.entities, self.relations)
        return self._find_ends(self.relations)

    def find_places(self, ids: Ids) -> NDArray[np.intp]:
        """Return the places of the entities with these ids, −1 where there is none."""
        return self.places.find(ids)

    def _find_ends(self, relations: Sequence[Relation]) -> NDArray[np.intp]:
        ids = make_ids(end for each in relations for end in (each.source_id, each.target_id))
        ends = self.find_places(ids).reshape(-1, 2)
        if len(ends) and ends.min() < 0:
            raise KeyError(relations[int(np.flatnonzero(ends.min(axis=1) < 0)[0])].id)
        return ends

    def _find_stored_ends(
        self, entities: LayerRows[Entity], relations: LayerRows[Relation]
    ) -> NDArray[np.intp]:
        """Return the ends of relations of which most are stored, with their ends as places among the stored entities."""
        moved = entities.numbers.copy()
        own = np.flatnonzero(entities.places < 0)
        moved[entities.stored.find([entities.own[place].id for place in own.tolist()])] = own
        moved[-1] = -1
        ends = np.full((len(relations), 2), -1, dtype=np.intp)
        stored = relations.places >= 0
        ends[stored] = moved[relations.stored.columns["ends"][relations.places[stored]]]
        own = np.flatnonzero(relations.places < 0)
        ends[own] = self._find_ends(relations.select(own.tolist()))
        if len(ends) and ends.min() < 0:
            raise KeyError(relations[int(np.flatnonzero(ends.min(axis=1) < 0)[0])].id)
        return np.asarray(ends, dtype=np.intp)

    def replace_entities(self, entities: Sequence[Entity]) -> "Graph":
        """Return the graph with other ``entities``, which have the ids of its own in their order."""
        made = Graph(entities, self.relations)
        made.__dict__.update(
            {name: self.__dict__[name] for name in ("ends", "places", "edges") if name in self.__dict__}
        )
        return made

    def replace_parents(self, entities: Sequence[Entity]) -> "Graph":
        """Return the graph with ``entities`` that differ from its own in their parents alone."""
        made = self.replace_entities(entities)
        made.__dict__["nodes"] = self.nodes.replace_parents(entities)
        return made

    def facts(self) -> list[tuple[str, str]]:
        """Return the id of each relation that is the first with its description, and this as a text for search, to which
        the names of its ends are added if it lacks them."""
        said = self.edges.descriptions
        places = np.flatnonzero(said != digest_text(""))
        chosen = np.sort(places[np.unique(said[places], return_index=True)[1]])
        ends = self.ends[chosen]
        met = np.unique(ends)
        entities = select_rows(self.entities, met.tolist())
        names = dict(zip(met.tolist(), (each.name for each in entities), strict=True))
        return [
            (relation.id, _fact_text(relation, [names[near], names[far]]))
            for relation, (near, far) in zip(
                select_rows(self.relations, chosen.tolist()), ends.tolist(), strict=True
            )
        ]


def _fact_text(relation: Relation, names: Sequence[str]) -> str:
    text = relation.description.casefold()
    ends = dict.fromkeys(names)
    missing = [name for name in ends if name.casefold() not in text]
    return f"{', '.join(missing)}: {relation.description}" if missing else relation.description


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """G0 … Gk. The last layer is the root alone; every other entity has a ``parent_id`` one layer up."""

    layers: tuple[Graph, ...]

    @property
    def root(self) -> Entity:
        return self.layers[-1].entities[0]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(layer.entities) for layer in self.layers)


@dataclass(frozen=True, slots=True, eq=False)
class GenerationContent:
    """What a generation is made of: its layers, its record, and the embedder of its vectors with their dimension and the
    state that restores it."""

    hierarchy: Hierarchy
    embedder: str
    dimension: int
    embedder_state: bytes
    record: BuildRecord


@dataclass(frozen=True, slots=True, eq=False)
class PublishedLayers:
    """The number of a published generation, and its layers."""

    generation: int
    hierarchy: Hierarchy


def find_misfit(hierarchy: Hierarchy) -> str | None:
    """Return the first fault in how the layers fit together, or None: ids are unique, rows are in the layer that they
    say, parents one layer up, none in the last, and both ends of a relation in its layer. Every store relies on
    this part of the invariants. O(n log n)."""
    ids = collect_ids(hierarchy)
    if has_twins(ids):
        return f"{Counter(decode_ids(ids)).most_common(1)[0][0]!r} is not the unique id of an entity"
    layers = hierarchy.layers
    for number, (layer, above) in enumerate(zip_longest(layers, layers[1:])):
        fault = _find_fault(layer, number, above)
        if fault:
            return fault
    return None


def collect_ids(hierarchy: Hierarchy) -> Ids:
    """Return the ids of all entities."""
    return np.concatenate([make_ids(()), *(layer.nodes.ids for layer in hierarchy.layers)])


def find_parents(lower: Graph, upper: Graph) -> Places:
    """Return the place in ``upper`` of each entity's parent, −1 for those that have none there."""
    return upper.find_places(lower.nodes.parents)


def _find_fault(layer: Graph, number: int, above: Graph | None) -> str | None:
    astray = _find_other_layer(layer, number)
    if astray:
        item = astray[0]
        return f"layer {number} holds {item.id!r}, which says that it is of another layer, layer {item.layer}"
    alone = layer.nodes.parents != b"" if above is None else find_parents(layer, above) < 0
    orphans = np.flatnonzero(alone)
    if len(orphans):
        (first,) = select_rows(layer.entities, orphans[:1].tolist())
        return (
            f"{len(orphans)} entities of layer {number} lack a parent one layer up,"
            f" the first is {first.id!r} with the parent {first.parent_id!r}"
        )
    try:
        _ = layer.ends  # every step of a build needs them
    except KeyError:
        ids = {*decode_ids(layer.nodes.ids)}
        each = next(each for each in layer.relations if not {each.source_id, each.target_id} <= ids)
        names = f"{each.source_id!r} and {each.target_id!r}"
        return f"the ends of the relation {each.id!r}, {names}, are not in layer {number}"
    return None


def _find_other_layer(layer: Graph, number: int) -> Sequence[Entity] | Sequence[Relation]:
    """Return the first entity that says that it is of another layer, or else the first such relation, or nothing."""
    entities = np.flatnonzero(layer.nodes.layers != number)[:1].tolist()
    if entities:
        return select_rows(layer.entities, entities)
    return select_rows(layer.relations, np.flatnonzero(layer.edges.layers != number)[:1].tolist())
