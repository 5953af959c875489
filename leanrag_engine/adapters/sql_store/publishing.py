"""Writing a build as a new generation, and deleting the ones that nobody reads any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select

from leanrag_engine.errors import InvalidInput
from leanrag_engine.language import search_text
from leanrag_engine.model import Entity, Generation, Graph, Hierarchy, Relation

from . import corpora, fulltext, schema
from .fulltext import IndexedEntity
from .schema import as_json, embedders, entities, generations, relations

BATCH = 10_000
"""Rows in one round: a build of a million relations must not stand in memory a second time as rows."""
KEPT = 2
"""The published generation, and the one before it for readers that are in the middle of a query."""


@dataclass(frozen=True, slots=True)
class Build:
    """A hierarchy ready to be written: what takes long is done before the write lock is taken.

    ``words`` stand beside the entities of all layers. ``names`` are pairs of key and position, sorted as
    their table is: rows then go to its end. ``facts`` are pairs of a relation's position and words.
    """

    hierarchy: Hierarchy
    words: tuple[IndexedEntity, ...]
    names: list[tuple[str, int]]
    facts: list[tuple[int, str]]
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
    names = sorted((key, position) for position, each in enumerate(words) for key in each.keys)
    return Build(hierarchy, words, names, _facts(hierarchy), embedder, dimension, embedder_state, settings)


def _facts(hierarchy: Hierarchy) -> list[tuple[int, str]]:
    base = hierarchy.layers[0] if hierarchy.layers else Graph((), ())
    positions = {relation.id: position for position, relation in enumerate(base.relations)}
    return [(positions[id_], search_text(text)) for id_, text in base.facts()]


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


# --- in a transaction ----------------------------------------------------------------------


def publish(connection: Connection, name: str, revision: int, build: Build) -> Generation:
    """Write ``build`` as the collection's newest generation: the commit is the switch."""
    collection = corpora.number_of(connection, name)
    number = _insert_generation(connection, collection, revision, build)
    _insert_entities(connection, number, build)
    _insert_all(connection, relations, _relation_rows(number, build))
    fulltext.create_facts(connection, number)
    for first in range(0, len(build.facts), BATCH):
        fulltext.add_facts(connection, number, build.facts[first : first + BATCH])
    _insert_all(connection, schema.names, ((number, *name) for name in build.names))
    return corpora.published(connection, collection, limit=1)[0]


def delete_older(connection: Connection, name: str) -> None:
    """Delete the collection's generations but the published one and the one before, and fits without a generation."""
    for old in corpora.published_in(connection, name)[KEPT:]:
        fulltext.drop_generation(connection, old.number)
        connection.execute(delete(generations).where(generations.c.number == old.number))
    connection.execute(delete(embedders).where(embedders.c.identity.not_in(select(generations.c.embedder))))


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


def _insert_all(connection: Connection, target: Table, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert ``rows``, whose values stand in the order of the columns and as the database keeps them.

    Past SQLAlchemy's own handling of parameters: for a million rows it takes three times as long.
    """
    statement = str(insert(target).compile(dialect=connection.dialect))
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH)):
        connection.exec_driver_sql(statement, batch)


def _entity_rows(number: int, build: Build) -> Iterator[tuple[Any, ...]]:
    for position, entity in enumerate(build.entities):
        yield (
            number,
            position,
            entity.id,
            entity.layer,
            entity.parent_id,
            entity.name,
            entity.type,
            entity.method.value,
            entity.mentions,
            entity.members,
            entity.description,
            as_json(entity.aliases),
            as_json([(each.summary, each.explanation, each.chunk_ids) for each in entity.findings]),
            as_json(entity.chunk_ids),
            entity.second_parent_id,
            entity.responsibility,
            entity.second_responsibility,
            _evidence(entity),
        )


def _relation_rows(number: int, build: Build) -> Iterator[tuple[Any, ...]]:
    for position, relation in enumerate(build.relations):
        yield (
            number,
            position,
            relation.id,
            relation.layer,
            relation.source_id,
            relation.target_id,
            relation.method.value,
            relation.strength,
            relation.weight,
            relation.support,
            relation.description,
            as_json(relation.chunk_ids),
            _evidence(relation),
        )


def _evidence(item: Entity | Relation) -> str:
    return as_json([(each.start, each.end, each.chunk_id) for each in item.evidence])
