"""Writing a build as a new generation, and deleting the ones that nobody reads any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, delete, insert, select

from leanrag_engine.errors import InvalidInput
from leanrag_engine.model import Entity, Generation, Hierarchy, Relation

from . import corpora, fulltext
from .fulltext import IndexedEntity
from .schema import embedders, entities, generations, mentions, names, relations

T = TypeVar("T")

BATCH = 10_000
"""Rows in one round: a build of a million mentions must not stand in memory a second time as rows."""
KEPT = 2
"""The published generation, and the one before it for readers that are in the middle of a query."""


@dataclass(frozen=True, slots=True)
class Build:
    """A hierarchy ready to be written; ``words`` stand beside the entities of all layers."""

    hierarchy: Hierarchy
    words: tuple[IndexedEntity, ...]
    embedder: str
    dimension: int
    embedder_state: bytes
    settings: Mapping[str, Any]

    @property
    def entities(self) -> Iterator[Entity]:
        """Of all layers, in the order of their positions."""
        return (entity for layer in self.hierarchy.layers for entity in layer.entities)

    @property
    def relations(self) -> Iterator[Relation]:
        """Of all layers, in the order of their positions."""
        return (relation for layer in self.hierarchy.layers for relation in layer.relations)

    @property
    def layers(self) -> list[tuple[int, int, int]]:
        """Number, entities and relations of each layer."""
        layers = self.hierarchy.layers
        return [(number, len(each.entities), len(each.relations)) for number, each in enumerate(layers)]


def ready(
    hierarchy: Hierarchy, *, embedder: str, dimension: int, embedder_state: bytes, settings: Mapping[str, Any]
) -> Build:
    """Raises ``InvalidInput`` if an entity stands in the wrong layer, has no parent one layer up, or a
    relation's end is not in its layer: readers rely on all of that."""
    _check(hierarchy)
    words = tuple(fulltext.indexed_entity(each) for layer in hierarchy.layers for each in layer.entities)
    return Build(hierarchy, words, embedder, dimension, embedder_state, settings)


def _check(hierarchy: Hierarchy) -> None:
    ids = [{entity.id for entity in layer.entities} for layer in hierarchy.layers]
    for number, layer in enumerate(hierarchy.layers):
        above = ids[number + 1] if number + 1 < len(ids) else {None}
        for entity in layer.entities:
            if entity.layer != number or entity.parent_id not in above:
                raise InvalidInput(
                    f"Entity {entity.id!r} of layer {number} says layer {entity.layer} and parent "
                    f"{entity.parent_id!r}, which is not one layer up.",
                    "Build the hierarchy again; if that does not help, report it.",
                )
        for relation in layer.relations:
            if not {relation.source_id, relation.target_id} <= ids[number] or relation.layer != number:
                raise InvalidInput(
                    f"Relation {relation.id!r} of layer {number} says layer {relation.layer!r} and joins "
                    f"{relation.source_id!r} and {relation.target_id!r}, which are not both in that layer.",
                    "Build the hierarchy again; if that does not help, report it.",
                )


# --- in one transaction --------------------------------------------------------------------


def publish(connection: Connection, name: str, revision: int, build: Build) -> Generation:
    """Write ``build`` as the collection's newest generation, and delete all but the one before."""
    collection = corpora.number_of(connection, name)
    number = _insert_generation(connection, collection, revision, build)
    _insert_entities(connection, number, build)
    _insert_all(connection, relations, _relation_rows(number, build))
    _insert_all(connection, names, _name_rows(number, build))
    _insert_all(connection, mentions, _mention_rows(number, build))
    kept = corpora.published(connection, collection)
    for old in kept[KEPT:]:
        _delete(connection, old.number)
    connection.execute(delete(embedders).where(embedders.c.identity.not_in(select(generations.c.embedder))))
    return kept[0]


def _insert_generation(connection: Connection, collection: int, revision: int, build: Build) -> int:
    known = select(embedders.c.identity).where(embedders.c.identity == build.embedder)
    if connection.execute(known).first() is None:
        connection.execute(insert(embedders).values(identity=build.embedder, state=build.embedder_state))
    row = {
        "collection": collection,
        "revision": revision,
        "embedder": build.embedder,
        "dimension": build.dimension,
        "created_at": datetime.now(UTC),
        "layers": build.layers,
        "settings": build.settings,
    }
    added = insert(generations).values(row).returning(generations.c.number)
    return int(connection.execute(added).scalar_one())


def _insert_entities(connection: Connection, number: int, build: Build) -> None:
    fulltext.create_entities(connection, number)
    _insert_all(connection, entities, _entity_rows(number, build))
    for first in range(0, len(build.words), BATCH):
        fulltext.add_entities(connection, number, first, build.words[first : first + BATCH])


def _insert_all(connection: Connection, target: Table, rows: Iterator[dict[str, Any]]) -> None:
    for batch in _batches(rows):
        connection.execute(insert(target), batch)


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


def _entity_rows(number: int, build: Build) -> Iterator[dict[str, Any]]:
    for position, entity in enumerate(build.entities):
        yield {
            "generation": number,
            "position": position,
            "id": entity.id,
            "layer": entity.layer,
            "parent_id": entity.parent_id,
            "name": entity.name,
            "type": entity.type,
            "method": entity.method.value,
            "mentions": entity.mentions,
            "members": entity.members,
            "description": entity.description,
            "aliases": entity.aliases,
            "findings": [[each.summary, each.explanation] for each in entity.findings],
            "chunk_ids": entity.chunk_ids,
        }


def _relation_rows(number: int, build: Build) -> Iterator[dict[str, Any]]:
    for position, relation in enumerate(build.relations):
        yield {
            "generation": number,
            "position": position,
            "id": relation.id,
            "layer": relation.layer,
            "source_id": relation.source_id,
            "target_id": relation.target_id,
            "method": relation.method.value,
            "strength": relation.strength,
            "weight": relation.weight,
            "support": relation.support,
            "description": relation.description,
            "chunk_ids": relation.chunk_ids,
        }


def _name_rows(number: int, build: Build) -> Iterator[dict[str, Any]]:
    # Sorted as the table is: rows then go to its end, not all over it. So are the mentions.
    keyed = sorted((key, position) for position, words in enumerate(build.words) for key in words.keys)
    return ({"generation": number, "key": key, "entity": position} for key, position in keyed)


def _mention_rows(number: int, build: Build) -> Iterator[dict[str, Any]]:
    mentioned = sorted(
        (chunk_id, position)
        for position, entity in enumerate(build.entities)
        if entity.layer == 0
        for chunk_id in dict.fromkeys(entity.chunk_ids)
    )
    return ({"generation": number, "chunk_id": chunk, "entity": position} for chunk, position in mentioned)


def _delete(connection: Connection, generation: int) -> None:
    fulltext.drop_entities(connection, generation)
    connection.execute(delete(generations).where(generations.c.number == generation))
