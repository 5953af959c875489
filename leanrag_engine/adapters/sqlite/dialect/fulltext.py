"""Keyword search with SQLite's FTS5: which tables there are, what goes in, and how a query is phrased.

One table for each collection's chunks and three for each generation's entities, names and facts: BM25's statistics then
belong to one corpus, and an old generation is dropped, not deleted row by row. Both sides of a
search go through :mod:`leanrag_engine.core.text.language`, which cuts Chinese and Japanese text into words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from sqlalchemy import (
    ColumnElement,
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

from leanrag_engine.core.model import Chunk, Entity
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.words import search_terms, search_text

_WORDS = "porter unicode61 remove_diacritics 2"
CHUNK_NUMBERS = 1 << 24
"""A chunk's row is ``document number × this + chunk number``: rows stand in reading order."""
_TRIGRAM = 3
LARGE = 20_000
"""Rows of a table up to which all that match are ranked: there, counting first would cost more than it saves."""

RANKED = 10_000
"""Rows that a search ranks at most, unless every word of the query is in more. A row takes about a microsecond."""


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk's row in the full-text index."""

    number: int
    title: str
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class IndexedEntity:
    """An entity's row in the full-text index; ``description`` holds its findings too, ``keys`` are those of its
    name and aliases."""

    name: str
    aliases: str
    description: str
    keys: tuple[str, ...]


# --- what goes in --------------------------------------------------------------------------


def make_indexed_chunk(chunk: Chunk, title: str) -> IndexedChunk:
    heading = chunk.heading if chunk.heading != title else ""
    return IndexedChunk(chunk.number, search_text(title), search_text(heading), search_text(chunk.text))


def make_indexed_entity(entity: Entity) -> IndexedEntity:
    keys = dict.fromkeys(name_key(name) for name in (entity.name, *entity.aliases))
    return IndexedEntity(
        search_text(entity.name),
        search_text("\n".join(entity.aliases)) if entity.aliases else "",
        search_text(_description_and_findings(entity)),
        tuple(key for key in keys if key),
    )


def _description_and_findings(entity: Entity) -> str:
    """The description, and what the findings say beside it: a word that stands in a finding alone is found too."""
    said = (text for each in entity.findings for text in (each.summary, each.explanation))
    return "\n".join((entity.description, *(text for text in said if text not in entity.description)))


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


def purge_chunks(connection: Connection, collection: int) -> None:
    """What was removed goes from the index itself too: FTS5 leaves words where they are until segments are merged."""
    name = _chunks(collection).name
    connection.execute(text(f"INSERT INTO {name}({name}) VALUES('optimize')"))


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
    connection: Connection, generation: int, numbered: Sequence[tuple[int, IndexedEntity]]
) -> None:
    """Index entities, given with their positions."""
    words = [(row, entity.name, entity.aliases, entity.description) for row, entity in numbered]
    _insert_all(connection, _entities(generation), words)
    _insert_all(connection, _names(generation), [(row, "\n".join(entity.keys)) for row, entity in numbered])


def drop_generation(connection: Connection, generation: int) -> None:
    for rows in (_entities(generation), _names(generation), _facts(generation)):
        connection.execute(text(f"DROP TABLE IF EXISTS {rows.name}"))


def search_entities(
    connection: Connection, generation: int, query: str, limit: int, positions: range | None
) -> list[tuple[int, float]]:
    """Position and score, best first; equally good ones in the order of building."""
    return _search(
        connection, _entities(generation), query, limit, weights=(4.0, 3.0, 1.0), rows_within=positions
    )


# --- facts of a generation -----------------------------------------------------------------


def create_facts(connection: Connection, generation: int) -> None:
    connection.execute(
        text(
            f"CREATE VIRTUAL TABLE {_facts(generation).name} USING fts5"
            f"(description, content = '', tokenize = '{_WORDS}')"
        )
    )


def add_facts(connection: Connection, generation: int, facts: Sequence[tuple[int, str]]) -> None:
    """Index facts, given as positions of relations and texts ready to be indexed."""
    _insert_all(connection, _facts(generation), facts)


def search_facts(connection: Connection, generation: int, query: str, limit: int) -> list[tuple[int, float]]:
    """Return position of the relation and score, best first; [] if the generation does not exist any more."""
    known = text("SELECT 1 FROM sqlite_master WHERE name = :name").bindparams(name=_facts(generation).name)
    if connection.execute(known).first() is None:
        return []
    return _search(connection, _facts(generation), query, limit, weights=(1.0,))


# --- names of a generation -----------------------------------------------------------------


def entities_spelled_like(connection: Connection, generation: int, key: str, limit: int) -> list[int]:
    """Positions of the entities that share the rarest three-letter pieces with ``key``, most first."""
    pieces = dict.fromkeys(key[i : i + _TRIGRAM] for i in range(len(key) - _TRIGRAM + 1))
    names = _names(generation)
    if _is_large(connection, names, None):
        # As for words: ranking costs time for each name that holds any of the pieces.
        pieces = dict.fromkeys(_rarest(connection, names, list(pieces), None))
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


def _insert_all(connection: Connection, rows: TableClause, values: Sequence[tuple[Any, ...]]) -> None:
    """Insert ``values``, which stand in the order of the columns; SQLAlchemy's own way takes twice as long."""
    if values:
        statement = str(insert(rows).compile(dialect=connection.dialect))
        connection.exec_driver_sql(statement, list(values))


def _search(
    connection: Connection,
    rows: TableClause,
    query: str,
    limit: int,
    *,
    weights: Sequence[float],
    rows_within: range | None = None,
) -> list[tuple[int, float]]:
    """Row and score of those that hold any of the query's terms, best first by BM25, ties by row.

    Where more than ``LARGE`` rows are searched, common words take no part: ranking costs time for each row
    that holds any of the terms, so that one word which most rows hold would make every search linear in the
    corpus, while BM25 gives such a word next to no weight. What is lost is that they no longer decide
    between rows that the rarer words leave equal, and that a row which holds only them is not found.
    """
    terms = search_terms(query)
    if limit < 1:
        return []
    if _is_large(connection, rows, rows_within):
        terms = _rarest(connection, rows, terms, rows_within)
    wanted = _any_of(terms)
    if not wanted:
        return []
    rank = func.bm25(literal_column(rows.name), *weights).label("cost")
    statement = (
        select(rows.c.rowid, rank)
        .where(*_matching(rows, wanted, rows_within))
        .order_by(rank, rows.c.rowid)
        .limit(limit)
    )
    return [(int(row.rowid), -float(row.cost)) for row in connection.execute(statement)]


def _matching(rows: TableClause, wanted: str, rows_within: range | None) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [literal_column(rows.name).bool_op("MATCH")(wanted)]
    if rows_within is not None:
        conditions.append(rows.c.rowid.between(rows_within.start, rows_within.stop - 1))
    return conditions


def _is_large(connection: Connection, rows: TableClause, rows_within: range | None) -> bool:
    """Whether a search could have more than ``LARGE`` rows to rank."""
    if rows_within is not None and len(rows_within) <= LARGE:
        return False
    # FTS5's own table of the rows' lengths: an ordinary one, quick to step through.
    lengths = table(f"{rows.name}_docsize", column("id"))
    return connection.execute(select(lengths.c.id).limit(1).offset(LARGE)).first() is not None


def _rarest(
    connection: Connection, rows: TableClause, terms: Sequence[str], rows_within: range | None
) -> list[str]:
    """Those of ``terms``, in their order, that the fewest rows hold, ``RANKED`` in all; at least one that any holds."""
    counts = {term: _count(connection, rows, term, rows_within, RANKED + 1) for term in terms}
    # Of equally rare ones those that come first in the query.
    held = sorted((term for term in terms if counts[term]), key=counts.__getitem__)
    if held and counts[held[0]] > RANKED:
        # Counting costs a twentieth of ranking: it is worth knowing which one is the rarest.
        return [min(held, key=lambda term: _count(connection, rows, term, rows_within))]
    totals = accumulate(counts[term] for term in held)
    chosen = {term for term, total in zip(held, totals, strict=True) if total <= RANKED}
    return [term for term in terms if term in chosen]


def _count(
    connection: Connection, rows: TableClause, term: str, rows_within: range | None, limit: int | None = None
) -> int:
    """Rows that hold ``term``; counting ends at ``limit``."""
    wanted = _any_of([term])
    if not wanted:
        return 0
    found = select(rows.c.rowid).where(*_matching(rows, wanted, rows_within)).limit(limit).subquery()
    return int(connection.execute(select(func.count()).select_from(found)).scalar_one())


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


def _facts(generation: int) -> TableClause:
    return _fts(f"fts_facts_{generation}", "description")


def _names(generation: int) -> TableClause:
    return _fts(f"fts_names_{generation}", "key")


def _fts(name: str, *columns: str) -> TableClause:
    return table(name, column("rowid"), *(column(each) for each in columns))
