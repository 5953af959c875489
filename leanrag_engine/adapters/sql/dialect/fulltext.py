"""Keyword search: the tables, what is indexed, and which terms of a query rank rows.

Each collection has one table for the windows of its chunks, each edition two for the entities and names of the newest
generation that has it. BM25's statistics then belong to one corpus. A query that began before an update was published
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

from .fulltext_index import TRIGRAMS, FullTextIndex, FullTextTable, RowCounts, SearchedRows
from .sqlite.fts5 import Fts5Index
from .statements import POSTGRES

WINDOW_BITS, CHUNK_BITS = 16, 24
"""The row id of a window is made of the number of its document, the label of its chunk (24 bits) and its own number (16 bits): of
a document that never changed, row ids are in reading order. Part of the stored format: it cannot change without a migration."""


class WindowPlace(NamedTuple):
    """The number of a document, the label of a chunk in it, and the number of a window (from 0) in that."""

    document: int
    label: int
    window: int

    @property
    def chunk(self) -> tuple[int, int]:
        return self.document, self.label

    def to_row(self) -> int:
        return (self.document << CHUNK_BITS | self.label) << WINDOW_BITS | self.window

    @classmethod
    def from_row(cls, row: int) -> Self:
        document, label = divmod(row >> WINDOW_BITS, 1 << CHUNK_BITS)
        return cls(document, label, row % (1 << WINDOW_BITS))


IndexedWindow = tuple[int, str, str, str]
"""The number of a window in its chunk, and its row in the full-text index: title, heading and text."""


@dataclass(frozen=True, slots=True)
class IndexedEntity:
    """An entity's row in the full-text index; ``description`` includes its findings, ``keys`` are those of its name and aliases."""

    name: str
    aliases: str
    description: str
    keys: tuple[str, ...]


# --- indexed texts -------------------------------------------------------------------------


def make_indexed_windows(chunk: Chunk, title: str) -> list[IndexedWindow]:
    """Return the rows of a chunk; a heading that equals the title is left out, as it would count twice."""
    words = search_text(title)
    return [
        (
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


def open_windows(connection: Connection, collection: int) -> FullTextIndex:
    columns = ("title", "heading", "text")
    return _open(connection, FullTextTable(f"fts_windows_{collection}", columns, (3.0, 2.0, 1.0)))


def add_windows(
    connection: Connection, collection: int, rows: Iterable[tuple[tuple[int, int], IndexedWindow]]
) -> None:
    """Index windows, each given with the number of its document and the label of its chunk."""
    open_windows(connection, collection).add(
        [(WindowPlace(*place, number).to_row(), *texts) for place, (number, *texts) in rows]
    )


def remove_windows(connection: Connection, collection: int, document: int, labels: Iterable[int]) -> None:
    """Remove the windows of the chunks of a document that have these labels."""
    index = open_windows(connection, collection)
    for label in labels:
        first, after = WindowPlace(document, label, 0), WindowPlace(document, label + 1, 0)
        index.remove(range(first.to_row(), after.to_row()))


def find_windows(
    connection: Connection, collection: int, forms: Sequence[Sequence[str]], limit: int
) -> list[WindowPlace]:
    """Return the places of at most ``limit`` windows that contain all terms of any of ``forms``, in reading order."""
    return sorted(map(WindowPlace.from_row, open_windows(connection, collection).find(forms, limit)))


def find_begun(connection: Connection, collection: int, letters: str, limit: int) -> list[WindowPlace]:
    """Return the places of at most ``limit`` windows with a word that begins with ``letters``, in reading order."""
    return sorted(map(WindowPlace.from_row, open_windows(connection, collection).find_begun(letters, limit)))


def find_known(
    connection: Connection, collection: int, terms: Sequence[str], together: int = 32
) -> list[str]:
    """Return those of ``terms`` that any window contains. So many at once are looked for ``together``: most are not there."""
    index = open_windows(connection, collection)

    def is_known(some: Sequence[str]) -> bool:
        return bool(index.find([[each] for each in some], 1))

    groups = (terms[start : start + together] for start in range(0, len(terms), together))
    return [term for group in groups if is_known(group) for term in group if is_known([term])]


# --- entities and names of an edition ----------------------------------------------------


def open_entities(connection: Connection, edition: int) -> FullTextIndex:
    """Return the index of an edition's entities, whose rows are numbered by position."""
    columns = ("name", "aliases", "description")
    return _open(connection, FullTextTable(f"fts_entities_{edition}", columns, (4.0, 3.0, 1.0)))


def open_names(connection: Connection, edition: int) -> FullTextIndex:
    """Return the index of the name keys of an edition's entities, by trigrams."""
    return _open(connection, FullTextTable(f"fts_names_{edition}", ("key",), (1.0,), TRIGRAMS))


EDITION = (open_entities, open_names)  # What opens each index of an edition


def add_entities(connection: Connection, edition: int, numbered: Sequence[tuple[int, IndexedEntity]]) -> None:
    """Index entities, each given with its position."""
    words = [(row, entity.name, entity.aliases, entity.description) for row, entity in numbered]
    open_entities(connection, edition).add(words)
    open_names(connection, edition).add([(row, "\n".join(entity.keys)) for row, entity in numbered])


def entities_spelled_like(connection: Connection, edition: int, key: str, limit: int) -> list[int]:
    """Return positions of the entities that share the rarest trigrams with ``key``, those that share most first."""
    pieces = list(dict.fromkeys(key[i : i + 3] for i in range(len(key) - 2)))
    rows = SearchedRows(RowCounts())
    index = open_names(connection, edition)
    if _is_large(index, rows):
        # As for words: ranking takes time for each name that contains any of the trigrams.
        pieces = _rarest(pieces, index.count_terms(rows, pieces), rows.options.scored_rows)
    return [row for row, _ in index.rank(rows, pieces, (), limit)]


# --- search --------------------------------------------------------------------------------


def search(index: FullTextIndex, query: str, limit: int, rows: SearchedRows) -> list[tuple[int, float]]:
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
    if _is_large(index, rows):
        counts = index.count_terms(rows, terms)
        ranked = _rarest(terms, counts, rows.options.ranked_rows)
        scored = _rarest(terms, counts, rows.options.scored_rows)
        # To a word that half of all rows contain BM25 gives a millionth of a rare one's weight.
        half = index.count(rows) / 2
        terms = [term for term in scored if term in ranked or counts[term] < half]
    return index.rank(rows, terms, () if ranked == terms else ranked, limit)


# --- inside --------------------------------------------------------------------------------


def _open(connection: Connection, table: FullTextTable) -> FullTextIndex:
    if connection.dialect.name == POSTGRES:
        from .postgres.tsvector import TsvectorIndex  # noqa: PLC0415 - only those pay who use it

        return TsvectorIndex(connection, table)
    return Fts5Index(connection, table)


def _is_large(index: FullTextIndex, rows: SearchedRows) -> bool:
    """Return whether a search could have more than ``options.large_table`` rows to rank."""
    size = rows.within.count if rows.within is not None else index.count(rows)
    return size > rows.options.large_table


def _rarest(terms: Sequence[str], counts: Mapping[str, int], bound: int) -> list[str]:
    """Return the rarest of ``terms`` that have ``bound`` rows at most in all, in their order; at least one that any row contains, if any."""
    # The sort is stable: of equally rare terms, those that come first in the query are first.
    known = sorted((term for term in terms if counts[term]), key=counts.__getitem__)
    totals = accumulate(counts[term] for term in known)
    chosen = {term for term, total in zip(known, totals, strict=True) if total <= bound} or set(known[:1])
    return [term for term in terms if term in chosen]
