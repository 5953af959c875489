"""Keyword search with SQLite's FTS5: its tables, what is indexed, and how a query is written.

Each collection has one table for the windows of its chunks, each generation three for its entities, names and facts. BM25's statistics
then belong to one corpus, and an old generation is deleted by dropping its tables. Indexed texts and queries are
segmented by :mod:`leanrag_engine.core.text.language`, which splits Chinese and Japanese text into words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

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

from leanrag_engine.core.model import Chunk, Entity
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.words import search_terms, search_text

_WORDS = "porter unicode61 remove_diacritics 2"
WINDOW_BITS, CHUNK_BITS = 16, 24
"""The row id of a window is made of the number of its document, the label of its chunk (24 bits) and its own number (16
bits): of a document that never changed, row ids are in reading order. Part of the stored format: it cannot change
without a migration."""


@dataclass(frozen=True, slots=True)
class FullTextOptions:
    """Bounds that keep the time of a keyword search from growing with the corpus.

    Without them one word that most rows contain makes every search rank most rows.
    """

    large_table: int = 5_000
    """Up to this number of rows, all rows that match are ranked: counting first would cost more than it saves there."""
    ranked_rows: int = 2_500
    """The most rows that a search of a larger table ranks, unless every word of the query is in more rows than this.
    Ranking takes about a microsecond per row, so this bounds a search to a few milliseconds."""
    scored_rows: int = 10_000
    """The most rows that contain the words by which rows are ranked. Reading a row takes a twentieth of ranking it."""


DEFAULT = FullTextOptions()


class RowCounts:
    """How many rows of large tables there are, and contain a term, kept from search to search of one database.

    Counting a common word takes a millisecond, and every question has some. At ``most`` so
    many numbers are kept, a few megabytes. Safe to share between threads.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._held: dict[tuple[object, ...], int] = {}

    def get(self, key: tuple[object, ...], count: Callable[[], int]) -> int:
        """Return the number that ``key`` stands for, which ``count`` finds if it is not known."""
        held = self._held.get(key)
        if held is None:
            held = count()
            if len(self._held) >= self._most:
                self._held.clear()
            self._held[key] = held
        return held


class WindowPlace(NamedTuple):
    """The number of a document, the label of a chunk in it, and the number of a window (from 0) in that."""

    document: int
    label: int
    window: int

    @property
    def chunk(self) -> tuple[int, int]:
        return self.document, self.label

    def to_row(self) -> int:
        """Return the row id."""
        return (self.document << CHUNK_BITS | self.label) << WINDOW_BITS | self.window

    @classmethod
    def from_row(cls, row: int) -> WindowPlace:
        document, label = divmod(row >> WINDOW_BITS, 1 << CHUNK_BITS)
        return cls(document, label, row % (1 << WINDOW_BITS))


@dataclass(frozen=True, slots=True)
class IndexedWindow:
    """A window's row in the full-text index; ``number`` counts in its chunk."""

    number: int
    title: str
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class IndexedEntity:
    """An entity's row in the full-text index.

    ``description`` includes its findings; ``keys`` are the name keys of its name and aliases.
    """

    name: str
    aliases: str
    description: str
    keys: tuple[str, ...]


# --- indexed texts -------------------------------------------------------------------------


def make_indexed_windows(chunk: Chunk, title: str) -> list[IndexedWindow]:
    """Return the rows of a chunk; a heading that equals the title is left out, as it would count twice."""
    words = search_text(title)
    return [
        IndexedWindow(
            number,
            words,
            search_text(window.heading) if window.heading != title else "",
            search_text(chunk.quote(window)),
        )
        for number, window in enumerate(chunk.windows)
    ]


def make_indexed_entity(entity: Entity) -> IndexedEntity:
    """Return the entity's row, segmented into words."""
    keys = dict.fromkeys(name_key(name) for name in (entity.name, *entity.aliases))
    return IndexedEntity(
        search_text(entity.name),
        search_text("\n".join(entity.aliases)) if entity.aliases else "",
        search_text(_description_and_findings(entity)),
        tuple(key for key in keys if key),
    )


def _description_and_findings(entity: Entity) -> str:
    """Return the description and those texts of the findings that it does not contain."""
    texts = (text for each in entity.findings for text in (each.summary, each.explanation))
    return "\n".join((entity.description, *(text for text in texts if text not in entity.description)))


# --- windows of a collection ---------------------------------------------------------------


def create_windows(connection: Connection, collection: int) -> None:
    connection.execute(
        text(
            f"CREATE VIRTUAL TABLE {_windows(collection).name} USING fts5"
            f"(title, heading, text, tokenize = '{_WORDS}')"
        )
    )


def copy_windows(connection: Connection, source: int, target: int) -> None:
    """Fill the new table of collection number ``target`` with the windows of number ``source``."""
    columns = ("rowid", "title", "heading", "text")
    held, copied = _windows(source), _windows(target)
    rows = select(*(held.c[each] for each in columns))
    connection.execute(insert(copied).from_select(columns, rows))


def drop_windows(connection: Connection, collection: int) -> None:
    connection.execute(text(f"DROP TABLE {_windows(collection).name}"))


def add_windows(
    connection: Connection,
    collection: int,
    document: int,
    label: int,
    rows: Iterable[IndexedWindow],
) -> None:
    """Index windows of the chunk ``label`` of document number ``document``."""
    values = [
        {
            "rowid": WindowPlace(document, label, row.number).to_row(),
            "title": row.title,
            "heading": row.heading,
            "text": row.text,
        }
        for row in rows
    ]
    if values:
        connection.execute(insert(_windows(collection)), values)


def remove_windows(connection: Connection, collection: int, document: int, labels: Iterable[int]) -> None:
    """Remove the windows of the chunks of a document that have these labels."""
    for label in labels:
        _remove_rows(
            connection, collection, WindowPlace(document, label, 0), WindowPlace(document, label + 1, 0)
        )


def remove_document(connection: Connection, collection: int, document: int) -> None:
    """Remove all windows of document number ``document``."""
    _remove_rows(connection, collection, WindowPlace(document, 0, 0), WindowPlace(document + 1, 0, 0))


def _remove_rows(connection: Connection, collection: int, first: WindowPlace, after: WindowPlace) -> None:
    rows = _windows(collection)
    connection.execute(delete(rows).where(rows.c.rowid.between(first.to_row(), after.to_row() - 1)))


def purge_windows(connection: Connection, collection: int) -> None:
    """Remove the words of deleted documents from the index: FTS5 keeps them until it merges its segments."""
    name = _windows(collection).name
    connection.execute(text(f"INSERT INTO {name}({name}) VALUES('optimize')"))


def search_windows(
    connection: Connection,
    collection: int,
    query: str,
    limit: int,
    options: FullTextOptions = DEFAULT,
    counts: RowCounts | None = None,
    revision: int = 0,
) -> list[tuple[WindowPlace, float]]:
    """Return place and score of the best windows, best first, ties in reading order.

    ``counts`` may be kept for the next search; ``revision`` is that of the collection.
    """
    rows = _SearchedRows(connection, _windows(collection).name, options, counts or RowCounts(), revision)
    found = _search(rows, query, limit, weights=(3.0, 2.0, 1.0))
    return [(WindowPlace.from_row(row), score) for row, score in found]


# --- entities of a generation --------------------------------------------------------------


def create_entities(connection: Connection, generation: int) -> None:
    # content='': only whole generations are deleted, so the tables need not store the texts.
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
    """Index entities, each given with its position."""
    words = [(row, entity.name, entity.aliases, entity.description) for row, entity in numbered]
    _insert_all(connection, _entities(generation), words)
    _insert_all(connection, _names(generation), [(row, "\n".join(entity.keys)) for row, entity in numbered])


def drop_generation(connection: Connection, generation: int) -> None:
    for rows in (_entities(generation), _names(generation), _facts(generation)):
        connection.execute(text(f"DROP TABLE IF EXISTS {rows.name}"))


def search_entities(
    connection: Connection,
    generation: int,
    query: str,
    limit: int,
    positions: range | None,
    options: FullTextOptions = DEFAULT,
    counts: RowCounts | None = None,
) -> list[tuple[int, float]]:
    """Return position and score of the best entities, best first, ties by position.

    ``positions``: only those; ``None``: all. ``counts`` may be kept for the next search.
    """
    table = _entities(generation).name
    rows = _SearchedRows(connection, table, options, counts or RowCounts(), within=positions)
    return _search(rows, query, limit, weights=(4.0, 3.0, 1.0))


# --- facts of a generation -----------------------------------------------------------------


def create_facts(connection: Connection, generation: int) -> None:
    connection.execute(
        text(
            f"CREATE VIRTUAL TABLE {_facts(generation).name} USING fts5"
            f"(description, content = '', tokenize = '{_WORDS}')"
        )
    )


def add_facts(connection: Connection, generation: int, facts: Sequence[tuple[int, str]]) -> None:
    """Index facts, given as positions of relations and segmented texts."""
    _insert_all(connection, _facts(generation), facts)


def search_facts(
    connection: Connection,
    generation: int,
    query: str,
    limit: int,
    options: FullTextOptions = DEFAULT,
    counts: RowCounts | None = None,
) -> list[tuple[int, float]]:
    """Return position of the relation and score, best first; [] if the generation was deleted.

    ``counts`` may be kept for the next search.
    """
    known = text("SELECT 1 FROM sqlite_master WHERE name = :name").bindparams(name=_facts(generation).name)
    if connection.execute(known).first() is None:
        return []
    rows = _SearchedRows(connection, _facts(generation).name, options, counts or RowCounts())
    return _search(rows, query, limit, weights=(1.0,))


# --- names of a generation -----------------------------------------------------------------


def entities_spelled_like(
    connection: Connection, generation: int, key: str, limit: int, options: FullTextOptions = DEFAULT
) -> list[int]:
    """Return positions of the entities that share the rarest trigrams with ``key``, those that share most first."""
    pieces = list(dict.fromkeys(key[i : i + 3] for i in range(len(key) - 2)))
    names = _names(generation)
    rows = _SearchedRows(connection, names.name, options, RowCounts())
    if rows.is_large():
        # As for words: ranking takes time for each name that contains any of the trigrams.
        pieces = _rarest(pieces, rows.count_terms(pieces), options.scored_rows)
    wanted = _any_of(pieces)
    if not wanted:
        return []
    rank = func.bm25(literal_column(names.name))
    found = connection.execute(
        select(names.c.rowid)
        .where(literal_column(names.name).op("MATCH")(wanted))
        .order_by(rank, names.c.rowid)
        .limit(limit)
    )
    return [int(row.rowid) for row in found]


# --- inside --------------------------------------------------------------------------------


def _insert_all(connection: Connection, rows: TableClause, values: Sequence[tuple[Any, ...]]) -> None:
    """Insert ``values``, given in the order of the columns. SQLAlchemy's own inserts take twice as long."""
    if values:
        statement = str(insert(rows).compile(dialect=connection.dialect))
        connection.exec_driver_sql(statement, list(values))


@dataclass(frozen=True, slots=True)
class _SearchedRows:
    """The rows of one table that a search is about: all, or those ``within``.

    ``state`` is the collection's revision where the table changes, so that ``counts`` are those of the table as it is.
    """

    connection: Connection
    table: str
    options: FullTextOptions
    counts: RowCounts
    state: int = 0
    within: range | None = None

    def is_large(self) -> bool:
        """Return whether a search could have more than ``options.large_table`` rows to rank."""
        return (len(self.within) if self.within is not None else self.count()) > self.options.large_table

    def count(self) -> int:
        """Return the number of rows of the whole table."""
        # FTS5's shadow table of the rows' lengths is an ordinary table and fast to count.
        statement = f"SELECT count(*) FROM {self.table}_docsize"  # noqa: S608 - the name is made of a number
        return self.counts.get(
            (self.table, self.state),
            lambda: int(self.connection.exec_driver_sql(statement).scalar_one()),
        )

    def count_terms(self, terms: Sequence[str]) -> dict[str, int]:
        """Return the number of rows that contain each term, up to ``options.scored_rows`` and one; if all terms are in
        more, the whole number."""
        bound = self.options.scored_rows + 1
        counts = {term: self._count_term(term, bound) for term in terms}
        if all(count in (0, bound) for count in counts.values()):
            # Counting takes a twentieth of the time of ranking, so it pays to find the rarest term.
            return {term: self._count_term(term, -1) if count else 0 for term, count in counts.items()}
        return counts

    def _count_term(self, term: str, limit: int) -> int:
        """Return the number of rows that contain ``term``; counting stops at ``limit`` unless that is -1."""
        wanted = _any_of([term])
        if not wanted:
            return 0
        matching, given = self.match(wanted)
        statement = f"SELECT count(*) FROM (SELECT rowid FROM {self.table} WHERE {matching} LIMIT ?)"  # noqa: S608 - the name is made of a number
        return self.counts.get(
            (self.table, self.state, self.within, wanted, limit),
            lambda: int(self.connection.exec_driver_sql(statement, (*given, limit)).scalar_one()),
        )

    def match(self, wanted: str) -> tuple[str, tuple[str | int, ...]]:
        """Return the condition that a row matches ``wanted``, and its values."""
        if self.within is None:
            return f"{self.table} MATCH ?", (wanted,)
        bounds = (self.within.start, self.within.stop - 1)
        return f"{self.table} MATCH ? AND rowid BETWEEN ? AND ?", (wanted, *bounds)


def _search(
    rows: _SearchedRows, query: str, limit: int, *, weights: Sequence[float]
) -> list[tuple[int, float]]:
    """Return row and BM25 score of the rows that contain any of the query's terms, best first, ties by row.

    ``weights`` are those of the columns. In a large table only those rows are ranked that contain one of the query's
    rarest terms: ranking takes time for each row that contains any term, while BM25 gives a word that most rows contain
    almost no weight. The price: rows that contain only common words are not found, and the most common ones do not
    decide between rows that are equal in the others.
    """
    terms = search_terms(query)
    ranked = terms
    if limit < 1:
        return []
    if rows.is_large():
        counts = rows.count_terms(terms)
        ranked = _rarest(terms, counts, rows.options.ranked_rows)
        scored = _rarest(terms, counts, rows.options.scored_rows)
        # To a word that half of all rows contain FTS5's BM25 gives a millionth of a rare one's weight.
        half = rows.count() / 2
        terms = [term for term in scored if term in ranked or counts[term] < half]
    wanted, any_ranked = _any_of(terms), _any_of(ranked)
    if not wanted:
        return []
    matching, given = rows.match(wanted)
    if ranked != terms:
        # The plus keeps SQLite from one search for each of the rows.
        matching += f" AND +rowid IN (SELECT rowid FROM {rows.table} WHERE {rows.table} MATCH ?)"  # noqa: S608 - the name is made of a number
        given += (any_ranked,)
    rank = f"bm25({rows.table}, {', '.join(map(str, weights))})"
    found = rows.connection.exec_driver_sql(
        f"SELECT rowid, {rank} AS cost FROM {rows.table} WHERE {matching} ORDER BY cost, rowid LIMIT ?",  # noqa: S608 - the name is made of a number
        (*given, limit),
    )
    return [(int(row), -float(cost)) for row, cost in found.all()]


def _rarest(terms: Sequence[str], counts: Mapping[str, int], bound: int) -> list[str]:
    """Return the rarest of ``terms`` whose rows are ``bound`` at most in all, in the order of ``terms``.

    At least one term that any row contains is returned, if there is one.
    """
    # The sort is stable: of equally rare terms, those that come first in the query are first.
    known = sorted((term for term in terms if counts[term]), key=counts.__getitem__)
    totals = accumulate(counts[term] for term in known)
    chosen = {term for term, total in zip(known, totals, strict=True) if total <= bound} or set(known[:1])
    return [term for term in terms if term in chosen]


def _any_of(terms: Iterable[str]) -> str:
    """Return an FTS5 expression that matches any of ``terms``; "" if no term is left.

    Inside quotes only the quote itself is syntax. NUL would end the expression, and a lone surrogate cannot be
    encoded, so both are removed.
    """
    plain = (term.replace("\x00", "").encode("utf-8", "ignore").decode() for term in terms)
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in plain if term)


def _windows(collection: int) -> TableClause:
    return _fts(f"fts_windows_{collection}", "title", "heading", "text")


def _entities(generation: int) -> TableClause:
    return _fts(f"fts_entities_{generation}", "name", "aliases", "description")


def _facts(generation: int) -> TableClause:
    return _fts(f"fts_facts_{generation}", "description")


def _names(generation: int) -> TableClause:
    return _fts(f"fts_names_{generation}", "key")


def _fts(name: str, *columns: str) -> TableClause:
    return table(name, column("rowid"), *(column(each) for each in columns))
