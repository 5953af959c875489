"""Write and read collections and the rows of their generations; ``generations`` has their entities and relations."""

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache, wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from sqlalchemy import (
    Connection,
    Row,
    Select,
    Text,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    type_coerce,
    update,
)

from leanrag_engine.core.errors import Candidate, InvalidInput, NotFound
from leanrag_engine.core.model import BuildRecord, Collection, ExtractionSchema, Generation, LayerCount

from .dialect import fulltext
from .dialect.fulltext_index import RowRange
from .dialect.statements import fetch
from .schema.tables import (
    agent_texts,
    chunks,
    collections,
    corrections,
    documents,
    embedders,
    extracts,
    from_json,
    generations,
    jobs,
    select_unparsed,
    store,
    token_vectors,
    type_schemas,
    unsettled_vectors,
)

P = ParamSpec("P")
T = TypeVar("T")

_COLLECTION = select(collections).where(collections.c.name == bindparam("name"))
_STATE = _COLLECTION.with_only_columns(collections.c.number, collections.c.revision)
_GENERATIONS: Select[Any] = (
    select(
        *(each for each in generations.c if each is not generations.c.settings),
        type_coerce(generations.c.settings, Text).label("record"),
        collections.c.name,
    )
    .join(collections, collections.c.number == generations.c.collection)
    .where(generations.c.collection == bindparam("collection"))
    .order_by(generations.c.number.desc())
    .limit(bindparam("limit"))
)
_ROWS = select_unparsed(generations.c.edition, generations.c.layers).where(
    generations.c.number == bindparam("generation")
)
_GENERATION_NUMBER = _ROWS.with_only_columns(generations.c.number)
_VECTOR_VERSION = select(store.c.vector_version)


class DocumentCounts(NamedTuple):
    """The documents of a collection, their chunks, and the documents added since the published build."""

    documents: int
    chunks: int
    pending: int


def create(connection: Connection, name: str) -> Collection:
    """Return the collection ``name``; create it and its full-text table if it does not exist."""
    if find(connection, name) is None:
        row = {"name": name, "revision": 0, "last_document": 0, "created_at": datetime.now(UTC)}
        number = connection.execute(
            insert(collections).values(row).returning(collections.c.number)
        ).scalar_one()
        fulltext.open_windows(connection, number).create()
    made = find(connection, name)
    assert made is not None
    return made


def find(
    connection: Connection, name: str, known: dict[tuple[int, int, int], DocumentCounts] | None = None
) -> Collection | None:
    """Return the collection ``name``, ``None`` if it does not exist. ``known`` keeps counts between the reads of one database: every
    query asks for them, and counting takes time for each document. It must not be given within a write, which may be undone."""
    row = connection.execute(_COLLECTION, {"name": name}).first()
    return _collection(connection, row, {} if known is None else known) if row else None


def find_all(connection: Connection) -> list[Collection]:
    """Return all collections, sorted by name."""
    rows = connection.execute(select(collections).order_by(collections.c.name)).all()
    return [_collection(connection, row, {}) for row in rows]


def number_of(connection: Connection, name: str) -> int:
    """Return the number of the collection. Raises ``NotFound`` with the existing collections as candidates."""
    return state_of(connection, name)[0]


def state_of(connection: Connection, name: str) -> tuple[int, int]:
    """Return the number of the collection, and its revision: how often it changed. Raises as :func:`number_of`."""
    for number, revision in fetch(connection, _STATE, name=name):
        return number, revision
    existing = connection.execute(select(collections.c.name).order_by(collections.c.name)).scalars()
    raise NotFound(
        f"There is no collection {name!r}.",
        "Ingest documents into it, or name one that exists.",
        tuple(Candidate("", each) for each in existing),
    )


def by_name(
    work: Callable[Concatenate[Connection, int, P], T],
) -> Callable[Concatenate[Connection, str, P], T]:
    """Return what does ``work``, which takes the number of a collection, on that of a name. Raises as :func:`number_of`."""

    @wraps(work)
    def find_and_work(connection: Connection, name: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return work(connection, number_of(connection, name), *args, **kwargs)

    return find_and_work


def rename(connection: Connection, name: str, new: str) -> None:
    """Rename the collection and its jobs. Raises ``NotFound``, and ``InvalidInput`` if ``new`` is taken."""
    number = number_of(connection, name)
    check_free(connection, new)
    connection.execute(update(collections).where(collections.c.number == number).values(name=new))
    connection.execute(update(jobs).where(jobs.c.collection == name).values(collection=new))


def put_notes(connection: Connection, name: str, notes: Mapping[str, str]) -> None:
    """Replace the notes on folders of a collection, see :class:`Collection`."""
    connection.execute(update(collections).where(collections.c.name == name).values(notes=notes))


def copy(connection: Connection, name: str, new: str) -> Collection:
    """Copy all but generations of a collection, with its citations, into a new one. Raises as :func:`rename`."""
    number = number_of(connection, name)
    check_free(connection, new)
    row = connection.execute(select(collections).where(collections.c.number == number)).one()
    values = {"name": new, "revision": row.revision, "last_document": row.last_document, "notes": row.notes}
    added = insert(collections).values(created_at=datetime.now(UTC), **values).returning(collections.c.number)
    target = int(connection.execute(added).scalar_one())
    for table in (documents, chunks, extracts, token_vectors, agent_texts, corrections, type_schemas):
        # A correction has a number of its own; the others are counted within their collection.
        columns = [
            each
            for each in table.c
            if each.name != "collection" and not (table is corrections and each.primary_key)
        ]
        held = (
            select(literal(target), *columns).where(table.c.collection == number).order_by(*table.primary_key)
        )
        connection.execute(insert(table).from_select(["collection", *(each.name for each in columns)], held))
    index = fulltext.open_windows(connection, target)
    index.create()
    index.fill_from(fulltext.open_windows(connection, number).table)
    made = find(connection, new)
    assert made is not None
    return made


def check_free(connection: Connection, name: str) -> None:
    """Raise ``InvalidInput`` if a collection is called ``name``."""
    if find(connection, name) is not None:
        raise InvalidInput(
            f"There is a collection {name!r} already.", "Choose another name, or delete that one first."
        )


def raise_revision(connection: Connection, collection: int) -> None:
    """Raise the revision of collection number ``collection`` by one, so that its generation is stale."""
    here = collections.c.number == collection
    connection.execute(update(collections).where(here).values(revision=collections.c.revision + 1))


# --- schemas of extraction -----------------------------------------------------------------


def find_schema(connection: Connection, name: str) -> ExtractionSchema | None:
    """Return the schema that constrains the collection's extraction; None if it has none, or does not exist."""
    row = connection.execute(select(type_schemas).join(collections).where(collections.c.name == name)).first()
    if row is None:
        return None
    entities, relations, attributes = row.types
    return ExtractionSchema(row.name, entities, relations, attributes, row.decisions)


def schema_digest(connection: Connection, collection: int) -> str:
    """Return the digest of the schema of collection number ``collection``; "" if it has none."""
    statement = select(type_schemas.c.digest).where(type_schemas.c.collection == collection)
    return connection.execute(statement).scalar() or ""


def put_schema(connection: Connection, collection: int, schema: ExtractionSchema | None) -> None:
    """Give the collection this schema in place of the one it has, or none. The published generation becomes stale."""
    raise_revision(connection, collection)
    connection.execute(delete(type_schemas).where(type_schemas.c.collection == collection))
    if schema is not None:
        row = {
            "collection": collection,
            "digest": schema.digest,
            "name": schema.name,
            "types": [schema.entities, schema.relations, schema.attributes],
            "decisions": schema.decisions,
        }
        connection.execute(insert(type_schemas).values(row))


def _collection(
    connection: Connection, row: Row[Any], known: dict[tuple[int, int, int], DocumentCounts]
) -> Collection:
    published = find_generations(connection, row.number, limit=1)
    generation = published[0] if published else None
    built = generation.revision if generation else -1
    # Every change of the documents raises the collection's revision.
    state = (row.number, row.revision, built)
    counts = known.get(state)
    if counts is None:
        most = 100  # a few bytes for each state of a collection
        if len(known) >= most:
            known.clear()
        counts = known[state] = _count_documents(connection, row.number, built)
    return Collection(
        name=row.name,
        number=row.number,
        revision=row.revision,
        generation=generation,
        created_at=row.created_at,
        documents=counts.documents,
        chunks=counts.chunks,
        pending_documents=counts.pending,
        notes=row.notes or {},
    )


def _count_documents(connection: Connection, collection: int, built: int) -> DocumentCounts:
    count = func.count()
    row = connection.execute(
        select(
            count, func.coalesce(func.sum(documents.c.chunks), 0), count.filter(documents.c.revision > built)
        ).where(documents.c.collection == collection)
    ).one()
    return DocumentCounts(*row)


# --- generations ---------------------------------------------------------------------------


def find_generations(connection: Connection, collection: int, limit: int = 2**31 - 1) -> list[Generation]:
    """Return the stored generations of collection number ``collection``, newest first."""
    rows = connection.execute(_GENERATIONS, {"collection": collection, "limit": limit})
    return [_generation(row) for row in rows.all()]


def _generation(row: Row[Any]) -> Generation:
    return Generation(
        number=row.number,
        collection=row.name,
        revision=row.revision,
        embedder=row.embedder,
        dimension=row.dimension,
        created_at=row.created_at,
        layers=tuple(LayerCount(*counts) for counts in row.layers),
        record=_parse_record(row.record),
    )


@lru_cache(maxsize=64)
def _parse_record(stored: str) -> BuildRecord:
    """Return the record of a build; every query reads it."""
    return from_json(BuildRecord, json.loads(stored))


def generation_exists(connection: Connection, generation: int) -> bool:
    """Return whether the generation of that number still exists: a deletion of documents removes it."""
    return bool(fetch(connection, _GENERATION_NUMBER, generation=generation))


class GenerationRows(NamedTuple):
    """The edition that has the rows of a generation, and the positions of its entities by layer."""

    edition: int
    layers: Mapping[int, RowRange]


def find_rows(connection: Connection, generation: int) -> GenerationRows | None:
    """Return where the rows of a generation are; None if it was deleted."""
    for edition, layers in fetch(connection, _ROWS, generation=generation):
        ranges = {
            layer: RowRange(first_position(layer), first_position(layer + 1) - 1, count)
            for layer, count, _ in json.loads(layers)
        }
        return GenerationRows(edition, ranges)
    return None


def first_position(layer: int) -> int:
    """Return the least position that an entity or relation of the layer may have."""
    # The rows of one layer are numbered in 40 bits: part of the stored format.
    return layer << 40


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


# --- the whole database -----------------------------------------------------------------------


def vector_version(connection: Connection) -> int:
    ((version,),) = fetch(connection, _VECTOR_VERSION)
    return int(version)


def read_identity(connection: Connection) -> str:
    """Return the name that the database got when it was made."""
    return str(connection.execute(select(store.c.identity)).scalar_one())


def renew_identity(connection: Connection) -> None:
    """Give the database another name: a copy of one must not share its place on a server of vectors."""
    connection.execute(update(store).values(identity=uuid.uuid4().hex[:12]))


def bump_vector_version(connection: Connection) -> int:
    """Raise the vector version by one and return it."""
    raised = update(store).values(vector_version=store.c.vector_version + 1)
    return int(connection.execute(raised.returning(store.c.vector_version)).scalar_one())


def note_unsettled(connection: Connection, space: str, ids: Iterable[str]) -> None:
    """Note which vectors of a space are being changed, so that a build that did not end leaves no doubt about them."""
    rows = [{"space": space, "id": id_} for id_ in set(ids) - find_unsettled(connection, space)]
    if rows:
        connection.execute(insert(unsettled_vectors), rows)


def find_unsettled(connection: Connection, space: str) -> set[str]:
    held = select(unsettled_vectors.c.id).where(unsettled_vectors.c.space == space)
    return set(connection.execute(held).scalars())


def settle(connection: Connection, space: str) -> None:
    connection.execute(delete(unsettled_vectors).where(unsettled_vectors.c.space == space))
