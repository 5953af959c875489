"""Write a build as a new generation, and delete the generations that are no longer read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, delete, insert, select

from leanrag_engine.adapters.sql import collections as collection_rows
from leanrag_engine.adapters.sql.dialect import fulltext
from leanrag_engine.adapters.sql.dialect.fulltext import IndexedEntity
from leanrag_engine.adapters.sql.dialect.statements import insert_rows
from leanrag_engine.adapters.sql.schema import tables
from leanrag_engine.adapters.sql.schema.records import record_to_json
from leanrag_engine.adapters.sql.schema.tables import (
    as_json,
    embedders,
    entities,
    generations,
    relations,
)
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.history import READ_GENERATIONS, Publication
from leanrag_engine.core.layers import find_misfit
from leanrag_engine.core.model import BuildRecord, Entity, Generation, Graph, Hierarchy, Relation
from leanrag_engine.core.ports import Progress, ProgressReport, ignore_progress
from leanrag_engine.core.text.language.words import search_text

from . import history

T = TypeVar("T")

BATCH = 10_000
"""Rows per insert: a build of a million relations must not be in memory a second time as rows. A batch takes a tenth of
a second, and between two batches a publish can be cancelled."""


@dataclass(frozen=True, slots=True)
class Build:
    """A hierarchy prepared for writing: slow steps are done before the write lock is taken.

    ``words`` has one item for each entity of all layers. ``names`` are pairs of key and position, sorted like their
    table, so that rows are appended. ``facts`` are pairs of a relation's position and segmented text.
    """

    hierarchy: Hierarchy
    words: tuple[IndexedEntity, ...]
    names: list[tuple[str, int]]
    facts: list[tuple[int, str]]
    embedder: str
    dimension: int
    embedder_state: bytes
    record: BuildRecord

    @property
    def entities(self) -> Iterator[Entity]:
        """The entities of all layers by position."""
        return (entity for layer in self.hierarchy.layers for entity in layer.entities)

    @property
    def relations(self) -> Iterator[Relation]:
        """The relations of all layers by position."""
        return (relation for layer in self.hierarchy.layers for relation in layer.relations)

    @property
    def rows(self) -> int:
        """The number of rows in all tables; an entity has two."""
        relations = sum(len(layer.relations) for layer in self.hierarchy.layers)
        return 2 * len(self.words) + relations + len(self.facts) + len(self.names)

    @property
    def layers(self) -> list[tuple[int, int, int]]:
        """Number, count of entities and count of relations of each layer."""
        layers = self.hierarchy.layers
        return [(number, len(each.entities), len(each.relations)) for number, each in enumerate(layers)]


def prepare_build(
    hierarchy: Hierarchy,
    *,
    embedder: str,
    dimension: int,
    embedder_state: bytes,
    record: BuildRecord,
    report: ProgressReport = ignore_progress,
) -> Build:
    """Check the hierarchy and segment its texts into words.

    Raises ``InvalidInput`` if an entity is in the wrong layer or has no parent one layer up, or if an end of a relation
    is not in its layer: readers rely on all three. Also raises what ``report`` raises.
    """
    fault = find_misfit(hierarchy)
    if fault:
        raise InvalidInput(
            f"The hierarchy does not fit together: {fault}.",
            "Build the hierarchy again; if that does not help, report it.",
        )
    base = hierarchy.layers[0] if hierarchy.layers else Graph((), ())
    facts = base.facts()
    watch = _Watch(report, "preparing", sum(hierarchy.sizes) + len(facts))
    words = tuple(
        fulltext.make_indexed_entity(each)
        for layer in hierarchy.layers
        for batch in watch.batches(layer.entities)
        for each in batch
    )
    names = sorted((key, position) for position, each in enumerate(words) for key in each.keys)
    positions = {relation.id: position for position, relation in enumerate(base.relations)}
    indexed = [(positions[id_], search_text(text)) for batch in watch.batches(facts) for id_, text in batch]
    return Build(hierarchy, words, names, indexed, embedder, dimension, embedder_state, record)


@dataclass(slots=True)
class _Watch:
    """Split rows into batches and report progress before each of them."""

    report: ProgressReport
    what: str
    total: int
    done: int = 0

    def batches(self, rows: Iterable[T]) -> Iterator[list[T]]:
        remaining = iter(rows)
        while batch := list(islice(remaining, BATCH)):
            self.report(Progress("publish", self.done, self.total, self.what))
            yield batch
            self.done += len(batch)


# --- in a transaction ----------------------------------------------------------------------


def publish(
    connection: Connection,
    name: str,
    revision: int,
    build: Build,
    publication: Publication,
    report: ProgressReport = ignore_progress,
) -> Generation:
    """Write ``build`` as the collection's newest generation, and its entry in the history; the commit publishes it.

    An error that ``report`` raises rolls the transaction back: nothing is published.
    """
    watch = _Watch(report, "writing", build.rows)
    collection = collection_rows.number_of(connection, name)
    number = _insert_generation(connection, collection, revision, build)
    _insert_all(connection, entities, watch.batches(_entity_rows(number, build)))
    fulltext.create_entities(connection, number)
    for words in watch.batches(enumerate(build.words)):
        fulltext.add_entities(connection, number, words)
    _insert_all(connection, relations, watch.batches(_relation_rows(number, build)))
    fulltext.create_facts(connection, number)
    for facts in watch.batches(build.facts):
        fulltext.add_facts(connection, number, facts)
    _insert_all(connection, tables.names, watch.batches((number, *name) for name in build.names))
    published = collection_rows.find_generations(connection, collection, limit=1)[0]
    history.record(connection, collection, published, publication)
    return published


def prune(connection: Connection, name: str, kept: int, age: timedelta) -> None:
    """Delete the generations of the collection but the ``kept`` newest, and those that were replaced longer ago than
    ``age``."""
    found = collection_rows.find_generations_in(connection, name)
    oldest = datetime.now(UTC) - age
    delete_generations(
        connection,
        [
            old
            for place, (newer, old) in enumerate(pairwise(found), start=1)
            if place >= READ_GENERATIONS and (place >= kept or newer.created_at < oldest)
        ],
    )


def delete_generations(connection: Connection, found: Iterable[Generation]) -> None:
    """Delete generations with their full-text tables, and embedder states without a generation."""
    for each in found:
        fulltext.drop_generation(connection, each.number)
        connection.execute(delete(generations).where(generations.c.number == each.number))
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
        "settings": record_to_json(build.record),
    }
    added = insert(generations).values(row).returning(generations.c.number)
    return int(connection.execute(added).scalar_one())


def _insert_all(connection: Connection, target: Table, batches: Iterable[list[tuple[Any, ...]]]) -> None:
    for batch in batches:
        insert_rows(connection, target, batch)


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
            _staleness(entity),
            entity.statements,
            as_json([(each.name, each.value, each.chunk_ids) for each in entity.attributes]),
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
            _staleness(relation),
            relation.statements,
        )


def _evidence(item: Entity | Relation) -> str:
    return as_json([(each.start, each.end, each.chunk_id) for each in item.evidence])


def _staleness(item: Entity | Relation) -> str:
    return as_json([] if item.stale is None else [item.stale.joined, item.stale.left, item.stale.changed])
