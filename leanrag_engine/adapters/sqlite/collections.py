"""Write and read collections and the rows of their generations; ``generations`` has their entities and relations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from leanrag_engine.core.errors import Candidate, NotFound
from leanrag_engine.core.model import Collection, Generation, LayerCount

from .dialect import fulltext
from .schema.records import record_from_json
from .schema.tables import collections, documents, embedders, generations, store


def create(connection: Connection, name: str) -> Collection:
    """Return the collection ``name``; create it and its full-text table if it does not exist."""
    if find(connection, name) is None:
        row = {"name": name, "revision": 0, "last_document": 0, "created_at": datetime.now(UTC)}
        number = connection.execute(
            insert(collections).values(row).returning(collections.c.number)
        ).scalar_one()
        fulltext.create_windows(connection, number)
    made = find(connection, name)
    assert made is not None
    return made


def find(connection: Connection, name: str) -> Collection | None:
    """Return the collection ``name``, ``None`` if it does not exist."""
    row = connection.execute(select(collections).where(collections.c.name == name)).first()
    return _collection(connection, row) if row else None


def find_all(connection: Connection) -> list[Collection]:
    """Return all collections, sorted by name."""
    rows = connection.execute(select(collections).order_by(collections.c.name)).all()
    return [_collection(connection, row) for row in rows]


def number_of(connection: Connection, name: str) -> int:
    """Return the number of the collection. Raises ``NotFound`` with the existing collections as candidates."""
    number = connection.execute(select(collections.c.number).where(collections.c.name == name)).scalar()
    if number is not None:
        return int(number)
    existing = connection.execute(select(collections.c.name).order_by(collections.c.name)).scalars()
    raise NotFound(
        f"There is no collection {name!r}.",
        "Ingest documents into it, or name one that exists.",
        tuple(Candidate("", each) for each in existing),
    )


def raise_revision(connection: Connection, name: str) -> int:
    """Raise the collection's revision by one, so that its generation is stale; return the collection's number."""
    number = number_of(connection, name)
    here = collections.c.number == number
    connection.execute(update(collections).where(here).values(revision=collections.c.revision + 1))
    return number


def _collection(connection: Connection, row: Row[Any]) -> Collection:
    published = find_generations(connection, row.number, limit=1)
    generation = published[0] if published else None
    built = generation.revision if generation else -1
    count = func.count()
    counts = connection.execute(
        select(
            count.label("documents"),
            func.coalesce(func.sum(documents.c.chunks), 0).label("chunks"),
            count.filter(documents.c.revision > built).label("pending"),
        ).where(documents.c.collection == row.number)
    ).one()
    return Collection(
        name=row.name,
        number=row.number,
        revision=row.revision,
        generation=generation,
        created_at=row.created_at,
        documents=counts.documents,
        chunks=counts.chunks,
        pending_documents=counts.pending,
    )


# --- generations ---------------------------------------------------------------------------


def find_generations(connection: Connection, collection: int, limit: int = -1) -> list[Generation]:
    """Return the stored generations of collection number ``collection``, newest first."""
    rows = connection.execute(
        select(generations, collections.c.name)
        .join(collections, collections.c.number == generations.c.collection)
        .where(generations.c.collection == collection)
        .order_by(generations.c.number.desc())
        .limit(limit)
    )
    return [_generation(row) for row in rows]


def find_generations_in(connection: Connection, name: str) -> list[Generation]:
    return find_generations(connection, number_of(connection, name))


def _generation(row: Row[Any]) -> Generation:
    return Generation(
        number=row.number,
        collection=row.name,
        revision=row.revision,
        embedder=row.embedder,
        dimension=row.dimension,
        created_at=row.created_at,
        layers=tuple(LayerCount(*counts) for counts in row.layers),
        record=record_from_json(row.settings),
    )


def layer_positions(connection: Connection, generation: int) -> dict[int, range]:
    """Return the positions of the entities of each layer; {} if the generation was deleted."""
    layers = connection.execute(
        select(generations.c.layers).where(generations.c.number == generation)
    ).scalar()
    ranges: dict[int, range] = {}
    first = 0
    for layer, count, _ in layers or ():
        ranges[layer] = range(first, first + count)
        first += count
    return ranges


def embedder_state(connection: Connection, generation: int) -> bytes:
    """Return the state of the embedder of a generation. Raises ``NotFound`` if the generation was deleted."""
    state = connection.execute(
        select(embedders.c.state)
        .join(generations, generations.c.embedder == embedders.c.identity)
        .where(generations.c.number == generation)
    ).scalar()
    if state is None:
        raise NotFound(
            f"Generation {generation} no longer exists.",
            "Repeat the query: it will use the generation published now.",
        )
    return bytes(state)


# --- the data folder -----------------------------------------------------------------------


def vector_version(connection: Connection) -> int:
    return int(connection.execute(select(store.c.vector_version)).scalar_one())


def bump_vector_version(connection: Connection) -> int:
    """Raise the vector version by one and return it."""
    raised = update(store).values(vector_version=store.c.vector_version + 1)
    return int(connection.execute(raised.returning(store.c.vector_version)).scalar_one())
