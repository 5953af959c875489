"""The layers of a hierarchy: the entities of each, and the relations between them."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.graphs.rows import (
    Ids,
    LayerRows,
    Places,
    SortedIds,
    decode_ids,
    has_twins,
    make_ids,
    select_rows,
    sort_ids,
)
from leanrag_engine.core.model import METHODS, BuildRecord, Entity, Relation, SharedText
from leanrag_engine.core.text.language.names import name_key

Weights = NDArray[np.float64]
Digests = NDArray[np.uint64]
Flags = NDArray[np.bool_]

T = TypeVar("T", Entity, Relation)
A = TypeVar("A", bound=NDArray[Any])
S = TypeVar("S", bound=np.generic)


def digest_text(text: str) -> int:
    """Return a number of 64 bits that tells texts apart."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def digest_texts(texts: Iterable[str]) -> Digests:
    return np.fromiter(map(digest_text, texts), dtype=np.uint64)


def digest_embedded(text: str) -> int:
    """Return the :func:`digest_text` of a text that is embedded, for a :class:`SharedText` beside its chunks."""
    return digest_text("\x01".join((text, *text.chunk_ids)) if isinstance(text, SharedText) else text)


OPENING = 80  # Characters: descriptions of which so many are equal begin with the same sentence


_WRITTEN = np.array([method.written for method in METHODS.values()])
_PLACES = {method: place for place, method in enumerate(METHODS.values())}


class Column(Generic[A]):
    """A column of some :class:`Columns`, which ``make`` computes from their rows when it is asked for first."""

    def __init__(self, make: Callable[[Sequence[Any]], A]) -> None:
        self._make = make

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, columns: "Columns[Any]", _: type) -> A:
        found: A = columns.find(self._name, self._make)
        columns.__dict__[self._name] = found
        return found


def _values(attribute: str, dtype: type[S]) -> Column[NDArray[S]]:
    return Column(lambda rows: np.array([getattr(each, attribute) for each in rows], dtype=dtype))


def _digests(text_of: Callable[[Any], str]) -> Column[Digests]:
    return Column(lambda rows: digest_texts(map(text_of, rows)))


class Columns(Generic[T]):
    def __init__(self, rows: Sequence[T]) -> None:
        self._rows: Sequence[T] = rows

    def find(self, name: str, make: Callable[[Sequence[T]], Any]) -> Any:
        """Return the stored column for stored rows; ``make`` computes it for the others."""
        return self._rows.column(name, make) if isinstance(self._rows, LayerRows) else make(self._rows)

    ids = Column(lambda rows: make_ids(each.id for each in rows))
    methods = Column(lambda rows: np.array([_PLACES[each.method] for each in rows], dtype=np.uint8))
    """The places of the methods in ``METHODS``."""
    layers = _values("layer", np.int16)
    """The layers that the rows say they are of."""
    stale = Column(lambda rows: np.array([each.stale is not None for each in rows], dtype=bool))
    """Which rows are written texts beneath which something has changed."""

    @cached_property
    def ranks(self) -> NDArray[np.intp]:
        """The rank of each id among all."""
        ranks = np.empty(len(self.ids), dtype=np.intp)
        ranks[sort_ids(self.ids)] = np.arange(len(ranks))
        return ranks

    @property
    def written(self) -> Flags:
        """Which rows a model or an agent wrote."""
        return np.asarray(_WRITTEN[self.methods])


_OF_PARENTS = ("parents", "second_parents", "responsibilities", "second_responsibilities")


class EntityColumns(Columns[Entity]):
    names = (
        *("ids", "layers", "methods", "stale", *_OF_PARENTS),
        *("mentions", "members", "name_keys", "texts", "openings"),
    )

    parents = Column(lambda rows: make_ids(each.parent_id or "" for each in rows))
    second_parents = Column(lambda rows: make_ids(each.second_parent_id or "" for each in rows))
    responsibilities = _values("responsibility", np.float64)
    second_responsibilities = _values("second_responsibility", np.float64)
    mentions = _values("mentions", np.int64)
    members = _values("members", np.int64)
    name_keys = _digests(lambda each: name_key(each.name))
    """The digests of the keys of the names."""
    texts = Column(
        lambda rows: np.fromiter((digest_embedded(each.indexed_text) for each in rows), dtype=np.uint64)
    )
    """The digests of the texts that are embedded."""
    openings = _digests(lambda each: each.description[:OPENING])
    """The digests of the beginnings of the descriptions: with equal ones they begin with the same sentence."""

    def replace_parents(self, rows: Sequence[Entity]) -> "EntityColumns":
        """Return the columns of rows that differ in their parents alone."""
        made = EntityColumns(rows)
        kept = set(self.names).difference(_OF_PARENTS) & self.__dict__.keys()
        made.__dict__.update({name: self.__dict__[name] for name in kept})
        return made

    def find_name_keys(self, known: Mapping[str, str]) -> Digests:
        """Return ``name_keys``, which is then kept; ``known`` are keys by name: making one takes longer than all else here."""
        if "name_keys" not in self.__dict__:
            self.__dict__["name_keys"] = self.find(
                "name_keys",
                lambda rows: digest_texts(known.get(each.name) or name_key(each.name) for each in rows),
            )
        return self.name_keys


class RelationColumns(Columns[Relation]):
    """The columns of the relations of a layer; their ends are in :attr:`leanrag_engine.core.graphs.graph.Graph.ends`."""

    names = ("ids", "layers", "methods", "stale", "strengths", "weights", "supports", "descriptions")

    strengths = _values("strength", np.int64)
    weights = _values("weight", np.int64)
    supports = _values("support", np.int64)
    descriptions = _digests(lambda each: each.description)
    """The digests of the descriptions."""


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
            ends = self._find_stored_ends(self.entities, self.relations)
        else:
            ends = self._find_ends(self.relations)
        if len(ends) and ends.min() < 0:
            raise KeyError(self.relations[int(np.flatnonzero(ends.min(axis=1) < 0)[0])].id)
        return ends

    def find_places(self, ids: Ids) -> NDArray[np.intp]:
        """Return the places of the entities with these ids, −1 where there is none."""
        return self.places.find(ids)

    def _find_ends(self, relations: Sequence[Relation]) -> NDArray[np.intp]:
        ids = make_ids(end for each in relations for end in (each.source_id, each.target_id))
        return self.find_places(ids).reshape(-1, 2)

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
        """Return the id of the first relation with each description, and this as a text for search, with the names of ends that it lacks."""
        said = self.edges.descriptions
        places = np.flatnonzero(said != digest_text(""))
        chosen = np.sort(places[np.unique(said[places], return_index=True)[1]])
        return [(relation.id, _fact_text(relation, names)) for relation, names in self.name_ends(chosen)]

    def name_ends(self, places: Places) -> list[tuple[Relation, list[str]]]:
        """Return the relations at these places, each with the names of its ends."""
        ends = self.ends[places]
        met = np.unique(ends).tolist()
        names = dict(zip(met, (each.name for each in select_rows(self.entities, met)), strict=True))
        relations = select_rows(self.relations, places.tolist())
        named = ([names[near], names[far]] for near, far in ends.tolist())
        return list(zip(relations, named, strict=True))


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
    """What makes a generation: its layers, its record, and the embedder of its vectors with their dimension and what restores it."""

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
