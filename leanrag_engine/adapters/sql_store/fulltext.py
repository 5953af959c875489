"""Keyword search with SQLite's FTS5: which tables there are, what goes in, and how a query is phrased.

One table for each collection's chunks and two for each generation's entities: BM25's statistics then
belong to one corpus, and an old generation is dropped, not deleted row by row. Both sides of a
search go through :mod:`leanrag_engine.language`, which cuts Chinese and Japanese text into words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import (
    Connection,
    TableClause,
    column,
    delete,
    func,
    insert,
    literal_column,
    select,
    table,
    text,
)

from leanrag_engine.language import name_key, search_terms, search_text
from leanrag_engine.model import Chunk, Entity

_WORDS = "porter unicode61 remove_diacritics 2"
CHUNK_NUMBERS = 1 << 24
"""A chunk's row is ``document number × this + chunk number``: rows stand in reading order."""
_TRIGRAM = 3


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk's row in the full-text index."""

    number: int
    title: str
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class IndexedEntity:
    """An entity's row in the full-text index; ``keys`` are those of its name and aliases."""

    name: str
    aliases: str
    description: str
    keys: tuple[str, ...]


# --- what goes in --------------------------------------------------------------------------


def indexed_chunk(chunk: Chunk, title: str) -> IndexedChunk:
    heading = chunk.heading if chunk.heading != title else ""
    return IndexedChunk(chunk.number, search_text(title), search_text(heading), search_text(chunk.text))


def indexed_entity(entity: Entity) -> IndexedEntity:
    keys = dict.fromkeys(name_key(name) for name in (entity.name, *entity.aliases))
    return IndexedEntity(
        search_text(entity.name),
        search_text("\n".join(entity.aliases)) if entity.aliases else "",
        search_text(entity.description),
        tuple(key for key in keys if key),
    )


# --- chunks of a collection ----------------------------------------------------------------


def create_chunks(connection: Connection, collection: int) -> None:
    connection.execute(
        text(
            f"CREATE VIRTUAL TABLE {_chunks(collection).name} USING fts5"
            f"(title, heading, text, tokenize = '{_WORDS}')"
        )
    )


def add_chunks(connection: Connection, collection: int, document: int, rows: Iterable[IndexedChunk]) -> None:
    """Index the chunks of document number ``document``."""
    values = [
        {
            "rowid": document * CHUNK_NUMBERS + row.number,
            "title": row.title,
            "heading": row.heading,
            "text": row.text,
        }
        for row in rows
    ]
    if values:
        connection.execute(insert(_chunks(collection)), values)


def remove_chunks(connection: Connection, collection: int, document: int) -> None:
    rows = _chunks(collection)
    first = document * CHUNK_NUMBERS
    connection.execute(delete(rows).where(rows.c.rowid.between(first, first + CHUNK_NUMBERS - 1)))


def search_chunks(
    connection: Connection, collection: int, query: str, limit: int
) -> list[tuple[int, int, float]]:
    """Document number, chunk number and score, best first; equally good ones in reading order."""
    found = _search(connection, _chunks(collection), query, limit, weights=(3.0, 2.0, 1.0))
    return [(*divmod(row, CHUNK_NUMBERS), score) for row, score in found]


# --- entities of a generation --------------------------------------------------------------


def create_entities(connection: Connection, generation: int) -> None:
    # content='': nothing is ever deleted from a generation but all of it, so the words need not be kept.
    connection.execute(
        text(
            f"CREATE VIRTUAL TABLE {_entities(generation).name} USING fts5"
            f"(name, aliases, description, content = '', tokenize = '{_WORDS}')"
        )
    )
    connection.execute(
        text(
            f"CREATE VIRTUAL TABLE {_names(generation).name} USING fts5"
            "(key, content = '', tokenize = 'trigram')"
        )
    )


def add_entities(
    connection: Connection, generation: int, first: int, entities: Sequence[IndexedEntity]
) -> None:
    """Index entities whose positions count up from ``first``."""
    numbered = list(enumerate(entities, first))
    words = [
        {"rowid": row, "name": entity.name, "aliases": entity.aliases, "description": entity.description}
        for row, entity in numbered
    ]
    keys = [{"rowid": row, "key": "\n".join(entity.keys)} for row, entity in numbered]
    connection.execute(insert(_entities(generation)), words)
    connection.execute(insert(_names(generation)), keys)


def drop_entities(connection: Connection, generation: int) -> None:
    for rows in (_entities(generation), _names(generation)):
        connection.execute(text(f"DROP TABLE IF EXISTS {rows.name}"))


def search_entities(
    connection: Connection, generation: int, query: str, limit: int, positions: range | None
) -> list[tuple[int, float]]:
    """Position and score, best first; equally good ones in the order of building."""
    return _search(
        connection, _entities(generation), query, limit, weights=(4.0, 3.0, 1.0), rows_within=positions
    )


def entities_spelled_like(connection: Connection, generation: int, key: str, limit: int) -> list[int]:
    """Positions of the entities that share the rarest three-letter pieces with ``key``, most first."""
    pieces = dict.fromkeys(key[i : i + _TRIGRAM] for i in range(len(key) - _TRIGRAM + 1))
    names = _names(generation)
    wanted = _any_of(pieces)
    if not wanted:
        return []
    rank = func.bm25(literal_column(names.name))
    rows = connection.execute(
        select(names.c.rowid)
        .where(literal_column(names.name).op("MATCH")(wanted))
        .order_by(rank, names.c.rowid)
        .limit(limit)
    )
    return [int(row.rowid) for row in rows]


# --- within --------------------------------------------------------------------------------


def _search(
    connection: Connection,
    rows: TableClause,
    query: str,
    limit: int,
    *,
    weights: Sequence[float],
    rows_within: range | None = None,
) -> list[tuple[int, float]]:
    wanted = _any_of(search_terms(query))
    if not wanted or limit < 1:
        return []
    rank = func.bm25(literal_column(rows.name), *weights).label("cost")
    statement = (
        select(rows.c.rowid, rank)
        .where(literal_column(rows.name).op("MATCH")(wanted))
        .order_by(rank, rows.c.rowid)
        .limit(limit)
    )
    if rows_within is not None:
        statement = statement.where(rows.c.rowid.between(rows_within.start, rows_within.stop - 1))
    return [(int(row.rowid), -float(row.cost)) for row in connection.execute(statement)]


def _any_of(terms: Iterable[str]) -> str:
    """An FTS5 expression that finds any of ``terms``.

    Between quotes nothing is syntax but the quote itself; NUL would end the expression, and half a
    character has no place in SQLite's encoding.
    """
    plain = (term.replace("\x00", "").encode("utf-8", "ignore").decode() for term in terms)
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in plain if term)


def _chunks(collection: int) -> TableClause:
    return _fts(f"fts_chunks_{collection}", "title", "heading", "text")


def _entities(generation: int) -> TableClause:
    return _fts(f"fts_entities_{generation}", "name", "aliases", "description")


def _names(generation: int) -> TableClause:
    return _fts(f"fts_names_{generation}", "key")


def _fts(name: str, *columns: str) -> TableClause:
    return table(name, column("rowid"), *(column(each) for each in columns))
