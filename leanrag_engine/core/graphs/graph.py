"""The layers of a hierarchy: the entities of each, and the relations between them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.model import Entity, Relation

from .columns import EntityColumns, RelationColumns
from .rows import Rows


@dataclass(frozen=True)
class Graph:
    """One layer: entities, and relations whose ends are among them.

    Those of an earlier build may be :class:`Rows`, which are read when they are asked for; what is to be known of all of
    them is in :attr:`nodes`, :attr:`edges` and :attr:`ends`.
    """

    entities: Sequence[Entity]
    relations: Sequence[Relation]

    @cached_property
    def nodes(self) -> EntityColumns:
        """The entities in columns."""
        return EntityColumns(self.entities)

    @cached_property
    def edges(self) -> RelationColumns:
        """The relations in columns."""
        return RelationColumns(self.relations)

    @cached_property
    def places(self) -> Mapping[bytes, int]:
        """The place of each entity by its id, in ASCII."""
        return {id_: place for place, id_ in enumerate(self.nodes.ids.tolist())}

    @cached_property
    def ends(self) -> NDArray[np.intp]:
        """The places in ``entities`` of each relation's source and target, (m, 2)."""
        if isinstance(self.relations, Rows) and isinstance(self.entities, Rows):
            return self._find_stored_ends(self.entities, self.relations)
        return self._find_ends(self.relations)

    def _find_ends(self, relations: Sequence[Relation]) -> NDArray[np.intp]:
        places = self.places
        ends = [(places[each.source_id.encode()], places[each.target_id.encode()]) for each in relations]
        return np.array(ends, dtype=np.intp).reshape(-1, 2)

    def _find_stored_ends(self, entities: Rows[Entity], relations: Rows[Relation]) -> NDArray[np.intp]:
        """Return the ends of relations of which most are stored, with their ends as places among the stored entities."""
        moved = np.full(len(entities.stored) + 1, -1, dtype=np.intp)
        held = entities.places >= 0
        moved[entities.places[held]] = np.flatnonzero(held)
        for place, entity in entities.own.items():
            before = entities.stored.find(entity.id)
            if before >= 0 and not held[place]:
                moved[before] = place
        moved[-1] = -1
        ends = moved[relations.stored.columns["ends"].reshape(-1, 2)[relations.places]].reshape(-1, 2)
        own = np.flatnonzero(relations.places < 0)
        ends[own] = self._find_ends(relations.select(own.tolist()))
        if len(ends) and ends.min() < 0:
            raise KeyError(relations[int(np.flatnonzero(ends.min(axis=1) < 0)[0])].id)
        return np.asarray(ends, dtype=np.intp)

    def replace_entities(self, entities: Sequence[Entity]) -> Graph:
        """Return the graph with other ``entities``, which have the ids of its own in their order."""
        made = Graph(entities, self.relations)
        made.__dict__.update(
            {name: self.__dict__[name] for name in ("ends", "places", "edges") if name in self.__dict__}
        )
        return made

    def facts(self, among: Container[str] | None = None) -> list[tuple[str, str]]:
        """Return each distinct description of a relation once, of those ``among`` the given ones if there are any: the id
        of the first relation with it, and the text for search, to which the names of that relation's ends are added if
        the description lacks them."""
        names = {entity.id: entity.name for entity in self.entities}
        first: dict[str, Relation] = {}
        for relation in self.relations:
            if relation.description and (among is None or relation.description in among):
                first.setdefault(relation.description, relation)
        return [(each.id, make_fact_text(each, names)) for each in first.values()]


def make_fact_text(relation: Relation, names: Mapping[str, str]) -> str:
    """Return the text by which the description of a relation is found; ``names`` are those of its ends by id."""
    text = relation.description.casefold()
    ends = dict.fromkeys(names[end] for end in (relation.source_id, relation.target_id))
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
class PublishedLayers:
    """The number of a published generation, and its layers."""

    generation: int
    hierarchy: Hierarchy
