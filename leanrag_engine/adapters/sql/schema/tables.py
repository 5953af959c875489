"""The tables of the graph store, and how times and nested values are kept in their columns.

Full-text tables are not here: there is one for each collection and edition (see ``fulltext``). What a build publishes
are rows of an edition, each with the first generation that has it (``since``) and the first one that no longer
has it (``until``): an update writes only the rows that differ. Ids are text as in the nouns; ``position`` keeps the
order of building (see ``difference``).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    Table,
    Text,
    UniqueConstraint,
    select,
    text,
    type_coerce,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeDecorator, TypeEngine

T = TypeVar("T")


class UnknownFields(ValueError):
    """A stored record has not the fields that this version writes."""


def from_json(kind: type[T], stored: Mapping[str, Any], *, whole: bool = True) -> T:
    """Return the ``kind`` of dataclass that a JSON column holds; ``whole``: with all of its fields. Raises
    :class:`UnknownFields` if a field is missing or of another form."""
    adapter, names = _adapter(kind)  # type: ignore[arg-type] # mypy takes no class for hashable
    if whole and names != stored.keys():
        raise UnknownFields(f"{kind.__name__}: {', '.join(sorted(names ^ stored.keys()))}")
    try:
        value: T = adapter.validate_python(stored)
    except ValidationError as problem:
        fault = problem.errors()[0]
        place = ".".join(map(str, (kind.__name__, *fault["loc"])))
        raise UnknownFields(f"{place}: {fault['msg']}") from problem
    return value


@cache
def _adapter(kind: type[Any]) -> tuple[TypeAdapter[Any], set[str]]:
    return TypeAdapter(kind), {each.name for each in fields(kind)}


REVISION = "0005"  # The schema that this code reads and writes: the newest file in `migrations/versions`

_TEXT = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that every database sorts and compares by code point, as SQLite does."""


class UtcDateTime(TypeDecorator[datetime]):
    """An aware time, kept in UTC without its zone: SQLite has no type that could hold one."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _: Dialect) -> datetime | None:
        return value.astimezone(UTC).replace(tzinfo=None) if value else None

    def process_result_value(self, value: datetime | None, _: Dialect) -> datetime | None:
        return value.replace(tzinfo=UTC) if value else None


class Json(TypeDecorator[Any]):
    """Lists, mappings and dataclasses as compact JSON text. Tuples come back as lists, dataclasses by :func:`from_json`."""

    impl = _TEXT
    cache_ok = True

    def process_bind_param(self, value: Any, _: Dialect) -> str:
        return as_json(value)

    def process_result_value(self, value: str | None, _: Dialect) -> Any:
        return None if value is None else [] if value == "[]" else _PARSE(value)[0]


def as_json(value: object) -> str:
    """Return the text in a :class:`Json` column."""
    if not value:  # most lists of a build are empty
        return "{}" if isinstance(value, Mapping) else "[]"
    return _COMPACT.encode(value)


def select_unparsed(*columns: ColumnElement[Any]) -> Select[Any]:
    """Return a SELECT whose :class:`Json` columns come as texts, for :func:`parse_rows`."""
    plain = (
        type_coerce(each, Text).label(each.key) if isinstance(each.type, Json) else each for each in columns
    )
    return select(*plain)


def parse_rows(found: Sequence[Sequence[Any]], *columns: ColumnElement[Any]) -> Iterator[tuple[Any, ...]]:
    """Return the rows of a :func:`select_unparsed` with the values of their :class:`Json` columns."""
    return zip(*parse_columns(found, *columns), strict=True)


def parse_columns(found: Sequence[Sequence[Any]], *columns: ColumnElement[Any]) -> Iterator[Sequence[Any]]:
    """Yield the values of each column of a :func:`select_unparsed`, each :class:`Json` column parsed at once: a
    call for each value took most of the time of reading. Without rows there is none."""
    for each, values in zip(columns, zip(*found, strict=True), strict=False):
        yield _PARSE(f"[{','.join(values)}]")[0] if isinstance(each.type, Json) else values


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    raise TypeError(f"{type(value).__name__} cannot be kept as JSON")


_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)
"""Made once: ``json.dumps`` makes one for each call, and a publish makes a million."""

_PARSE = json.JSONDecoder().raw_decode
"""What stands in a column was written here: without the search for white space around it half of the time is saved."""


OPEN = 2**31 - 1  # The `until` of a row that the published generation has

ENDED = text(f"until < {OPEN}")
"""The condition that a row is not of the published generation, as a constant: only so does an index on it serve."""


def _columns(kind: TypeEngine[Any] | type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    """Return columns of one type that are never NULL."""
    return [Column(name, kind, nullable=False) for name in names]


def _belong_to_collection(*, primary_key: bool = False) -> Column[Any]:
    """Return the column with the number of a row's collection, which the row goes with."""
    cascade = ForeignKey("collections.number", ondelete="CASCADE")
    return Column("collection", Integer, cascade, primary_key=primary_key, nullable=False)


def _index_ended(table: str) -> Index:
    """Return the index by which the rows are found that only deleted generations had."""
    return Index(f"{table}_ended", "edition", "until", sqlite_where=ENDED)


metadata = MetaData()


def _table(name: str, *content: SchemaItem, **options: Any) -> Table:
    return Table(name, metadata, *content, **options)


# One row: what is true of the whole database.
store = _table(
    "store",
    Column("id", Integer, primary_key=True),
    Column("vector_version", Integer, nullable=False),
    # Never changes: local files that belong to a shared database are named after it.
    Column("identity", _TEXT, nullable=False),
)

collections = _table(
    "collections",
    Column("number", Integer, primary_key=True),
    Column("name", _TEXT, nullable=False, unique=True),
    *_columns(Integer, "revision", "last_document"),
    Column("created_at", UtcDateTime, nullable=False),
    Column("notes", Json),
    # A number is part of citations' and full-text tables' names: AUTOINCREMENT never gives it out again.
    sqlite_autoincrement=True,
)

documents = _table(
    "documents",
    _belong_to_collection(primary_key=True),
    Column("number", Integer, primary_key=True),
    *_columns(_TEXT, "id", "title", "source", "media_type", "digest"),
    *_columns(Integer, "characters", "chunks", "last_chunk", "added", "revision"),
    Column("ingested_at", UtcDateTime, nullable=False),
    Column("metadata", Json, nullable=False),
    *_columns(_TEXT, "date", "date_origin", "file_stamp", "file_digest"),
    UniqueConstraint("collection", "id"),
    # Every query asks how much there is and how much is pending: the index alone answers.
    Index("documents_revision", "collection", "revision", "chunks"),
)

# ``label`` is the number in citations and never changes; ``number`` is the place in the document. ``revision`` is that of
# the collection that brought this text; ``reading`` says whether a model should read it (see ``documents``).
chunks = _table(
    "chunks",
    Column("collection", Integer, primary_key=True),
    Column("document", Integer, primary_key=True),
    Column("label", Integer, primary_key=True),
    *_columns(Integer, "number", "revision"),
    *_columns(_TEXT, "reading", "id"),
    *_columns(Integer, "start", "end", "tokens"),
    Column("line", Integer),
    *_columns(_TEXT, "heading", "text"),
    *_columns(Json, "windows", "pages"),
    UniqueConstraint("collection", "id"),
    Index("chunks_reading_order", "collection", "document", "number"),
    ForeignKeyConstraint(
        ["collection", "document"], ["documents.collection", "documents.number"], ondelete="CASCADE"
    ),
)


def _belong_to_chunk() -> list[Column[Any] | ForeignKeyConstraint]:
    """Return the columns that name the chunk of a row, which goes with it."""
    place = [Column(name, Integer, primary_key=True) for name in ("collection", "document", "chunk")]
    names, keys = [each.name for each in place], ["chunks.collection", "chunks.document", "chunks.label"]
    return [*place, ForeignKeyConstraint(names, keys, ondelete="CASCADE")]


def is_of_chunk(table: Table) -> ColumnElement[bool]:
    """Return the condition that joins the rows of a table to their chunk."""
    return (
        (chunks.c.collection == table.c.collection)
        & (chunks.c.document == table.c.document)
        & (chunks.c.label == table.c.chunk)
    )


extracts = _table(
    "extracts",
    *_belong_to_chunk(),
    Column("position", Integer, primary_key=True),
    Column("method", _TEXT, nullable=False),
    *_columns(Json, "entities", "relations"),
    Column("schema", _TEXT, nullable=False),
    Index("extracts_method", "collection", "method", "schema"),
)

# The packed vectors of the tokens of a chunk, for late interaction: ``counts`` of its windows one after the other.
token_vectors = _table(
    "token_vectors",
    *_belong_to_chunk(),
    Column("embedder", _TEXT, nullable=False),
    Column("counts", Json, nullable=False),
    Column("tokens", LargeBinary, nullable=False),
)

# A fit may be tens of megabytes: generations that share it keep it once.
embedders = _table(
    "embedders", Column("identity", _TEXT, primary_key=True), Column("state", LargeBinary, nullable=False)
)

# A set of rows that successive generations of a collection share.
editions = _table(
    "editions",
    Column("number", Integer, primary_key=True),
    _belong_to_collection(),
    # A number is part of full-text tables' names, as that of a collection is.
    sqlite_autoincrement=True,
)

# The published one of a collection is the one with the greatest number: a commit is the switch.
generations = _table(
    "generations",
    Column("number", Integer, primary_key=True),
    _belong_to_collection(),
    Column("edition", Integer, ForeignKey("editions.number"), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("embedder", _TEXT, ForeignKey("embedders.identity"), nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    *_columns(Json, "layers", "settings"),
    Index("generations_collection", "collection", "number"),
    Index("generations_edition", "edition", "number"),
    Index("generations_embedder", "embedder"),
    sqlite_autoincrement=True,
)

# A row for each generation that was ever published; it stays when the generation goes.
history = _table(
    "history",
    Column("generation", Integer, primary_key=True, autoincrement=False),
    _belong_to_collection(),
    Column("revision", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("job", _TEXT, nullable=False),
    Column("seconds", Float, nullable=False),
    *_columns(Json, "layers", "build", "embedded"),
    Column("stale", Integer, nullable=False),
    *_columns(Json, "documents", "changes"),
    Index("history_collection", "collection", "generation"),
)

entities = _table(
    "entities",
    Column("edition", Integer, ForeignKey("editions.number", ondelete="CASCADE"), primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("since", Integer, primary_key=True),
    Column("until", Integer, nullable=False),
    Column("id", _TEXT, nullable=False),
    Column("layer", Integer, nullable=False),
    Column("parent_id", _TEXT),
    *_columns(_TEXT, "name", "type", "method"),
    *_columns(Integer, "mentions", "members"),
    Column("description", _TEXT, nullable=False),
    *_columns(Json, "aliases", "findings", "chunk_ids"),
    Column("second_parent_id", _TEXT),
    *_columns(Float, "responsibility", "second_responsibility"),
    *_columns(Json, "evidence", "stale"),
    Column("statements", _TEXT, nullable=False),
    Column("attributes", Json, nullable=False),
    Index("entities_id", "edition", "id", "since", unique=True),
    Index("entities_parent", "edition", "parent_id", "mentions"),
    _index_ended("entities"),
)

# Names and aliases by their key; ``entity`` is a position.
names = _table(
    "names",
    Column("edition", Integer, ForeignKey("editions.number", ondelete="CASCADE"), primary_key=True),
    Column("key", _TEXT, primary_key=True),
    Column("entity", BigInteger, primary_key=True),
    Column("since", Integer, primary_key=True),
    Column("until", Integer, nullable=False),
    _index_ended("names"),
    sqlite_with_rowid=False,
)

relations = _table(
    "relations",
    Column("edition", Integer, ForeignKey("editions.number", ondelete="CASCADE"), primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("since", Integer, primary_key=True),
    Column("until", Integer, nullable=False),
    Column("id", _TEXT, nullable=False),
    Column("layer", Integer, nullable=False),
    *_columns(_TEXT, "source_id", "target_id", "method"),
    *_columns(Integer, "strength", "weight", "support"),
    Column("description", _TEXT, nullable=False),
    *_columns(Json, "chunk_ids", "evidence", "stale"),
    Column("statements", _TEXT, nullable=False),
    Column("types", Json, nullable=False),
    # Without the target: SQLite would look up every pair of two lists of ids.
    Index("relations_source", "edition", "source_id"),
    Index("relations_target", "edition", "target_id"),
    Index("relations_strength", "edition", "layer", "strength"),
    _index_ended("relations"),
)

# Vectors that a build is changing in a space of the published generation: what it notes before it writes them.
unsettled_vectors = _table(
    "unsettled_vectors",
    Column("space", _TEXT, primary_key=True),
    Column("id", _TEXT, primary_key=True),
    sqlite_with_rowid=False,
)

# A row for each reply that was paid for. Its text goes when another reply to the same request takes its place,
# and when a document that fed it is forgotten; what it used stays. ``text`` comes last, so that adding up
# does not read it.
replies = _table(
    "replies",
    Column("number", Integer, primary_key=True),
    Column("digest", _TEXT, nullable=False),
    _belong_to_collection(),
    *_columns(_TEXT, "job", "step", "model"),
    Column("created_at", UtcDateTime, nullable=False),
    Column("finish_reason", _TEXT, nullable=False),
    *_columns(Integer, "prompt_tokens", "completion_tokens"),
    Column("cost", Float),
    *_columns(Integer, "counted", "room"),
    Column("chunk_ids", Json, nullable=False),
    Column("text", _TEXT),
    Index(
        "replies_kept",
        "digest",
        unique=True,
        # PostgreSQL has the same condition (see ``migrations``): named here, every command would import that dialect.
        sqlite_where=text("text IS NOT NULL"),
    ),
    Index(
        "replies_spent",
        *("collection", "job", "model", "step"),
        *("prompt_tokens", "completion_tokens", "cost", "counted", "room"),
    ),
)

# What agents wrote in place of heuristic texts, by the kind and the id of the task. ``chunk_ids`` are all chunks that a
# text rests on, empty if they are not known.
agent_texts = _table(
    "agent_texts",
    _belong_to_collection(primary_key=True),
    Column("kind", _TEXT, primary_key=True),
    Column("task", _TEXT, primary_key=True),
    *_columns(Json, "chunk_ids", "text"),
)

corrections = _table(
    "corrections",
    Column("number", Integer, primary_key=True),
    _belong_to_collection(),
    *_columns(_TEXT, "kind", "name"),
    *_columns(Json, "names", "documents", "chunks"),
    Column("created_at", UtcDateTime, nullable=False),
    Index("corrections_collection", "collection", "number"),
    # A number is the name of a correction: it is never given to another one.
    sqlite_autoincrement=True,
)

# The schema of extraction of a collection that has one.
type_schemas = _table(
    "type_schemas",
    _belong_to_collection(primary_key=True),
    *_columns(_TEXT, "digest", "name"),
    *_columns(Json, "types", "decisions"),
)

jobs = _table(
    "jobs",
    Column("number", Integer, primary_key=True),
    Column("id", _TEXT, nullable=False, unique=True),
    *_columns(_TEXT, "kind", "collection", "status", "owner"),
    *_columns(UtcDateTime, "created_at", "updated_at"),
    Column("stage", _TEXT, nullable=False),
    *_columns(Integer, "done", "total"),
    Column("rate", Float, nullable=False),
    Column("message", _TEXT, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    *_columns(Json, "request", "failures", "result"),
    Index("jobs_created", "created_at", "number"),
)
