"""Entities of a generation: by layer, by id, by name, by member and by keyword."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, select

from leanrag_engine.adapters.sqlite import collections as collection_rows
from leanrag_engine.adapters.sqlite.dialect import fulltext
from leanrag_engine.adapters.sqlite.dialect.statements import among, in_order
from leanrag_engine.adapters.sqlite.schema.tables import entities, names
from leanrag_engine.core.model import Entity, Evidence, Finding, Hit, Method
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.nearest import similarity

SPELLING_CANDIDATES = 200
"""How many names that share letters with the one asked for are compared with it letter by letter."""
LONGEST_KEY = 80
"""Characters of a name that it is looked for by: what is longer is no name."""
SHORT_KEY = 5
"""Up to this length, one wrong letter can spoil every three-letter piece of a name."""


def in_layer(connection: Connection, generation: int, layer: int) -> list[Entity]:
    positions = collection_rows.layer_positions(connection, generation).get(layer, range(0))
    statement = select(entities).where(
        entities.c.generation == generation,
        entities.c.position.between(positions.start, positions.stop - 1),
    )
    return _entities(connection.execute(statement.order_by(entities.c.position)))


def with_ids(connection: Connection, generation: int, ids: Sequence[str]) -> list[Entity]:
    statement = select(entities).where(entities.c.generation == generation, among(entities.c.id, ids))
    return in_order(ids, _entities(connection.execute(statement)), lambda entity: entity.id)


def members(connection: Connection, generation: int, id_: str, offset: int, limit: int) -> list[Entity]:
    """Children of an entity, those with most mentions first."""
    statement = (
        select(entities)
        .where(entities.c.generation == generation, entities.c.parent_id == id_)
        .order_by(entities.c.mentions.desc(), entities.c.position)
        .offset(max(offset, 0))
        .limit(max(limit, 0))
    )
    return _entities(connection.execute(statement))


def search(connection: Connection, generation: int, text: str, limit: int, layer: int | None) -> list[Hit]:
    """By keyword over name, aliases and description; ``layer`` None: all layers."""
    layers = collection_rows.layer_positions(connection, generation)
    within = None if layer is None else layers.get(layer)
    if not layers or (layer is not None and within is None):
        return []
    hits = fulltext.search_entities(connection, generation, text, limit, within)
    statement = select(entities.c.position, entities.c.id).where(
        entities.c.generation == generation, among(entities.c.position, [position for position, _ in hits])
    )
    ids = {row.position: row.id for row in connection.execute(statement)}
    return [Hit(ids[position], score) for position, score in hits]


# --- by name -------------------------------------------------------------------------------


def find_by_name(connection: Connection, generation: int, wanted: Sequence[str]) -> list[Entity]:
    """Entities of any layer with one of these names or aliases, in the order of building."""
    keys = {key for name in wanted if (key := name_key(name))}
    bearers = select(names.c.entity).where(names.c.generation == generation, among(names.c.key, keys))
    statement = select(entities).where(entities.c.generation == generation, entities.c.position.in_(bearers))
    return _entities(connection.execute(statement.order_by(entities.c.position)))


def find_by_prefix(
    connection: Connection, generation: int, prefix: str, limit: int, *, aggregated: bool
) -> list[Entity]:
    """Entities of layer 0, or ``aggregated`` ones, with a name or alias that begins so, in the order of the alphabet."""
    key = name_key(prefix[:LONGEST_KEY]).encode("utf-8", "ignore").decode()
    first = collection_rows.layer_positions(connection, generation).get(1, range(0)).start
    statement = (
        select(entities)
        .join(names, (names.c.generation == entities.c.generation) & (names.c.entity == entities.c.position))
        # A range of the key, which the table is sorted by: no LIKE, which reads all of it.
        .where(names.c.generation == generation, names.c.key >= key, names.c.key < f"{key}\U0010ffff")
        .where(names.c.entity >= first if aggregated else names.c.entity < first)
        .order_by(names.c.key, names.c.entity)
        .limit(max(limit, 0))
    )
    return _entities(connection.execute(statement))


def find_similar(connection: Connection, generation: int, name: str, limit: int) -> list[Entity]:
    """Entities whose name or an alias looks most like ``name``, best first; of equally good ones the most mentioned."""
    key = (
        name_key(name[:LONGEST_KEY]).encode("utf-8", "ignore").decode()
    )  # half a character could not be bound
    if not key or limit < 1 or not collection_rows.layer_positions(connection, generation):
        return []
    positions = _find_spelled_alike(connection, generation, key)
    statement = select(entities).where(
        entities.c.generation == generation, among(entities.c.position, positions)
    )
    ranked = sorted(
        ((_closest(key, entity), entity) for entity in _entities(connection.execute(statement))),
        key=lambda pair: (-pair[0], pair[1].layer, -pair[1].mentions, pair[1].name, pair[1].id),
    )
    return [entity for _, entity in ranked[:limit]]


def _find_spelled_alike(connection: Connection, generation: int, key: str) -> list[int]:
    """Positions of names worth comparing: those that share three-letter pieces, and for a short key, which has
    few of them or none, also those that hold it or begin alike and are about as long."""
    found = fulltext.entities_spelled_like(connection, generation, key, SPELLING_CANDIDATES)
    if len(key) > SHORT_KEY:
        return found
    length = func.length(names.c.key)
    alike = names.c.key.startswith(key[0], autoescape=True) & length.between(len(key) - 1, len(key) + 2)
    statement = (
        select(names.c.entity)
        .where(names.c.generation == generation, names.c.key.contains(key, autoescape=True) | alike)
        .order_by(length, names.c.key, names.c.entity)
        .limit(SPELLING_CANDIDATES)
    )
    return [*found, *connection.execute(statement).scalars()]


def _closest(key: str, entity: Entity) -> float:
    return max(likeness(key, name_key(name)) for name in (entity.name, *entity.aliases))


def likeness(key: str, other: str) -> float:
    """How alike two name keys look, from 0 to 1: as wholes, or word by word, where a word of ``key``
    counts by its best match in ``other``: ``marley`` is nearer to ``jacob marley`` than to ``harley``."""
    whole = similarity(key, other)
    words = key.split()
    best = [max((similarity(word, each) for each in other.split()), default=0.0) for word in words]
    by_word = 0.95 * sum(best) / len(words) if words else 0.0
    return max(whole, by_word)


# --- rows ----------------------------------------------------------------------------------


def _entities(rows: Iterable[Row[Any]]) -> list[Entity]:
    return [
        Entity(
            id=row.id,
            name=row.name,
            type=row.type,
            layer=row.layer,
            description=row.description,
            method=Method(row.method),
            mentions=row.mentions,
            members=row.members,
            parent_id=row.parent_id,
            aliases=tuple(row.aliases),
            findings=tuple(Finding(summary, why, tuple(chunks)) for summary, why, chunks in row.findings),
            chunk_ids=tuple(row.chunk_ids),
            second_parent_id=row.second_parent_id,
            responsibility=row.responsibility,
            second_responsibility=row.second_responsibility,
            evidence=tuple(Evidence(*each) for each in row.evidence),
        )
        for row in rows
    ]
