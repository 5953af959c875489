"""Keyword search: the tables, what is indexed, and which terms of a query rank rows.

Each collection has one table for the windows of its chunks, each edition three for the entities, names and facts of the
newest generation that has it. BM25's statistics then belong to one corpus. A query that began before an update was published
finds what the update left, and drops hits that are not of its generation. Indexed texts and queries are
segmented by :mod:`leanrag_engine.core.text.language`, which splits Chinese and Japanese text into words.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Self

from sqlalchemy import Connection

from leanrag_engine.core.model import Chunk, Entity
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.words import index_terms, search_text

from .fulltext_index import (
    TRIGRAMS,
    FullTextIndex,
    FullTextOptions,
    FullTextTable,
    RowCounts,
    RowRange,
    SearchedRows,
)
from .sqlite.fts5 import Fts5Index
from .statements import POSTGRES

WINDOW_BITS, CHUNK_BITS = 16, 24
"""The row id of a window is made of the number of its document, the label of its chunk (24 bits) and its own number (16
bits): of a document that never changed, row ids are in reading order. Part of the stored format: it cannot change
without a migration."""


DEFAULT = FullTextOptions()


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
    def from_row(cls, row: int) -> Self:
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
    """An entity's row in the full-text index. ``description`` includes its findings; ``keys`` are the name
    keys of its name and aliases."""

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
    keys = dict.fromkeys(make_key(name) for name in (entity.name, *entity.aliases))
    return IndexedEntity(
        search_text(entity.name),
        search_text("\n".join(entity.aliases)) if entity.aliases else "",
        search_text(_texts_of(entity)),
        tuple(key for key in keys if key),
    )


def make_key(name: str) -> str:
    """Return the key by which an entity of this name is found."""
    # 600 characters, as an index of PostgreSQL takes 2,700 bytes.
    return name_key(name)[:600]


def _texts_of(entity: Entity) -> str:
    """Return the description, those texts of the findings that it does not contain, and the attributes."""
    texts = (text for each in entity.findings for text in (each.summary, each.explanation))
    more = (text for text in texts if text not in entity.description)
    return "\n".join((entity.description, *more, *map(str, entity.attributes)))


# --- windows of a collection ---------------------------------------------------------------


def create_windows(connection: Connection, collection: int) -> None:
    _index_of(connection).create(connection, _windows(collection))


def has_windows(connection: Connection, collection: int) -> bool:
    return _index_of(connection).exists(connection, _windows(collection))


def copy_windows(connection: Connection, source: int, target: int) -> None:
    """Fill the new table of collection number ``target`` with the windows of number ``source``."""
    _index_of(connection).copy(connection, _windows(source), _windows(target))


def drop_windows(connection: Connection, collection: int) -> None:
    _index_of(connection).drop(connection, _windows(collection))


def add_windows(
    connection: Connection, collection: int, document: int, rows: Iterable[tuple[int, IndexedWindow]]
) -> None:
    """Index windows of document number ``document``, each given with the label of its chunk."""
    values = [
        (WindowPlace(document, label, row.number).to_row(), row.title, row.heading, row.text)
        for label, row in rows
    ]
    _index_of(connection).add(connection, _windows(collection), values)


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
    numbers = range(first.to_row(), after.to_row())
    _index_of(connection).remove(connection, _windows(collection), numbers)


def purge_windows(connection: Connection, collection: int) -> None:
    """Remove the words of deleted documents from the index."""
    _index_of(connection).purge(connection, _windows(collection))


def search_windows(
    connection: Connection,
    collection: int,
    query: str,
    limit: int,
    options: FullTextOptions = DEFAULT,
    counts: RowCounts | None = None,
    revision: int = 0,
) -> list[tuple[WindowPlace, float]]:
    """Return place and score of the best windows, best first, ties in reading order. ``counts`` may be kept
    for the next search; ``revision`` is that of the collection."""
    rows = SearchedRows(connection, _windows(collection), options, counts or RowCounts(), revision)
    return [(WindowPlace.from_row(row), score) for row, score in _search(rows, query, limit)]


def find_windows(
    connection: Connection, collection: int, forms: Sequence[Sequence[str]], limit: int
) -> list[WindowPlace]:
    """Return the places of at most ``limit`` windows that contain all terms of any of ``forms``, in reading order."""
    found = _index_of(connection).find(connection, _windows(collection), forms, limit)
    return sorted(map(WindowPlace.from_row, found))


def find_known(
    connection: Connection, collection: int, terms: Sequence[str], together: int = 32
) -> list[str]:
    """Return those of ``terms`` that any window contains. So many at once are looked for ``together``: most are not there."""

    def is_known(some: Sequence[str]) -> bool:
        return bool(
            _index_of(connection).find(connection, _windows(collection), [[each] for each in some], 1)
        )

    groups = (terms[start : start + together] for start in range(0, len(terms), together))
    return [term for group in groups if is_known(group) for term in group if is_known([term])]


# --- entities of an edition --------------------------------------------------------------


def create_entities(connection: Connection, edition: int) -> None:
    index = _index_of(connection)
    index.create(connection, _entities(edition))
    index.create(connection, _names(edition))


def add_entities(connection: Connection, edition: int, numbered: Sequence[tuple[int, IndexedEntity]]) -> None:
    """Index entities, each given with its position."""
    index = _index_of(connection)
    words = [(row, entity.name, entity.aliases, entity.description) for row, entity in numbered]
    index.add(connection, _entities(edition), words)
    index.add(connection, _names(edition), [(row, "\n".join(entity.keys)) for row, entity in numbered])


def remove_entities(connection: Connection, edition: int, positions: Sequence[int]) -> None:
    for table in (_entities(edition), _names(edition)):
        _index_of(connection).remove_rows(connection, table, positions)


def drop_edition(connection: Connection, edition: int) -> None:
    for table in (_entities(edition), _names(edition), _facts(edition)):
        _index_of(connection).drop(connection, table)


def search_entities(
    connection: Connection,
    edition: int,
    query: str,
    limit: int,
    within: RowRange | None,
    options: FullTextOptions = DEFAULT,
    counts: RowCounts | None = None,
    generation: int = 0,
) -> list[tuple[int, float]]:
    """Return position and score of the best entities, best first, ties by position. ``within``: only those;
    ``None``: all. ``counts`` may be kept for the next search; ``generation`` is the one that is searched."""
    table = _entities(edition)
    rows = SearchedRows(connection, table, options, counts or RowCounts(), generation, within)
    return _search(rows, query, limit)


# --- facts of an edition -----------------------------------------------------------------


def create_facts(connection: Connection, edition: int) -> None:
    _index_of(connection).create(connection, _facts(edition))


def add_facts(connection: Connection, edition: int, facts: Sequence[tuple[int, str]]) -> None:
    """Index facts, given as positions of relations and segmented texts."""
    _index_of(connection).add(connection, _facts(edition), facts)


def remove_facts(connection: Connection, edition: int, positions: Sequence[int]) -> None:
    _index_of(connection).remove_rows(connection, _facts(edition), positions)


def search_facts(
    connection: Connection,
    edition: int,
    query: str,
    limit: int,
    options: FullTextOptions = DEFAULT,
    counts: RowCounts | None = None,
    generation: int = 0,
) -> list[tuple[int, float]]:
    """Return position of the relation and score, best first; [] if the edition was deleted. ``counts`` may be
    kept for the next search; ``generation`` is the one that is searched."""
    table = _facts(edition)
    if not _index_of(connection).exists(connection, table):
        return []
    return _search(SearchedRows(connection, table, options, counts or RowCounts(), generation), query, limit)


# --- names of an edition -----------------------------------------------------------------


def entities_spelled_like(
    connection: Connection, edition: int, key: str, limit: int, options: FullTextOptions = DEFAULT
) -> list[int]:
    """Return positions of the entities that share the rarest trigrams with ``key``, those that share most first."""
    pieces = list(dict.fromkeys(key[i : i + 3] for i in range(len(key) - 2)))
    rows = SearchedRows(connection, _names(edition), options, RowCounts())
    index = _index_of(connection)
    if _is_large(rows):
        # As for words: ranking takes time for each name that contains any of the trigrams.
        pieces = _rarest(pieces, index.count_terms(rows, pieces), options.scored_rows)
    return [row for row, _ in index.rank(rows, pieces, (), limit)]


# --- inside --------------------------------------------------------------------------------


def _index_of(connection: Connection) -> FullTextIndex:
    if connection.dialect.name == POSTGRES:
        from .postgres.tsvector import TsvectorIndex  # noqa: PLC0415 - only those pay who use it

        return TsvectorIndex()
    return Fts5Index()


def _is_large(rows: SearchedRows) -> bool:
    """Return whether a search could have more than ``options.large_table`` rows to rank."""
    size = rows.within.count if rows.within is not None else _index_of(rows.connection).count(rows)
    return size > rows.options.large_table


def _search(rows: SearchedRows, query: str, limit: int) -> list[tuple[int, float]]:
    """Return row and BM25 score of the rows that contain any of the query's terms, best first, ties by row.

    In a large table only those rows are ranked that contain one of the query's
    rarest terms: ranking takes time for each row that contains any term, while BM25 gives a word that most rows contain
    almost no weight. The price: rows that contain only common words are not found, and the most common ones do not
    decide between rows that are equal in the others.
    """
    terms = index_terms(query)
    ranked = terms
    if limit < 1:
        return []
    index = _index_of(rows.connection)
    if _is_large(rows):
        counts = index.count_terms(rows, terms)
        ranked = _rarest(terms, counts, rows.options.ranked_rows)
        scored = _rarest(terms, counts, rows.options.scored_rows)
        # To a word that half of all rows contain BM25 gives a millionth of a rare one's weight.
        half = index.count(rows) / 2
        terms = [term for term in scored if term in ranked or counts[term] < half]
    return index.rank(rows, terms, () if ranked == terms else ranked, limit)


def _rarest(terms: Sequence[str], counts: Mapping[str, int], bound: int) -> list[str]:
    """Return the rarest of ``terms`` whose rows are ``bound`` at most in all, in the order of ``terms``. At
    least one term that any row contains is returned, if there is one."""
    # The sort is stable: of equally rare terms, those that come first in the query are first.
    known = sorted((term for term in terms if counts[term]), key=counts.__getitem__)
    totals = accumulate(counts[term] for term in known)
    chosen = {term for term, total in zip(known, totals, strict=True) if total <= bound} or set(known[:1])
    return [term for term in terms if term in chosen]


def _windows(collection: int) -> FullTextTable:
    return FullTextTable(f"fts_windows_{collection}", ("title", "heading", "text"), (3.0, 2.0, 1.0))


def _entities(edition: int) -> FullTextTable:
    return FullTextTable(f"fts_entities_{edition}", ("name", "aliases", "description"), (4.0, 3.0, 1.0))


def _facts(edition: int) -> FullTextTable:
    return FullTextTable(f"fts_facts_{edition}", ("description",), (1.0,))


def _names(edition: int) -> FullTextTable:
    return FullTextTable(f"fts_names_{edition}", ("key",), (1.0,), TRIGRAMS)
