"""Full-text tables on PostgreSQL: plain tables of ``tsvector`` with an index, ranked as FTS5 ranks.

Texts and queries are cut into the same words as on SQLite, by the same tokenizer, which is FTS5's in a database in
memory; PostgreSQL's own dictionaries and the locale of the database have no say. Its ranking knows nothing of how rare a word
is, so that rows are scored here, by the formula of FTS5's ``bm25``: they are the same rows in the same order with the same
scores but for rounding (1e-9 of a score), except for rows that are longer than a ``tsvector`` can number (see ``_FIRST``).
"""

import math
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from leanrag_engine.adapters.sql.dialect.fulltext_index import FullTextIndex, FullTextTable, SearchedRows
from leanrag_engine.adapters.sql.dialect.statements import copy_rows, fetch_sql

K1, B = 1.2, 0.75
_FIRST = 1_000
"""The first column begins at position 1, each further one so much later. What a column has beyond, and beyond position
16,383, counts as one more word at its end; of a word, 255 places in a row count."""
_LAST, _PLACES = 16_383, 255
_LEXEME = re.compile(r"'((?:[^'\\]|''|\\\\)*)':([\dA,]+)")


class TsvectorIndex(FullTextIndex):
    """Keyword search in a table of ``tsvector``. Beside each table stands one with the number of rows that contain each word; its row "" has the number of all rows and of
    all their words."""

    def create(self) -> None:
        name = self.table.name
        for statement in (
            f"CREATE TABLE {name} (number bigint PRIMARY KEY, words tsvector NOT NULL, size integer NOT NULL)",
            f"CREATE INDEX ON {name} USING gin (words) WITH (fastupdate = off)",
            f'CREATE TABLE {name}_words (word text COLLATE "C" PRIMARY KEY, rows bigint NOT NULL, size bigint NOT NULL)',
            # Room in each page, so that a count changes in place.
            f"ALTER TABLE {name}_words SET (fillfactor = 70)",
            f"INSERT INTO {name}_words VALUES ('', 0, 0)",
        ):
            self.connection.exec_driver_sql(statement)

    def add(self, rows: Sequence[tuple[int | str, ...]]) -> None:
        if not rows:
            return
        cut = _cut_rows(self.table, [tuple(map(str, row[1:])) for row in rows])
        counts = Counter(word for places in cut for word in places)
        sizes = [sum(map(len, places.values())) for places in cut]
        values = (
            (row[0], _write_vector(places), size) for row, places, size in zip(rows, cut, sizes, strict=True)
        )
        copy_rows(self.connection, self.table.name, values)
        words = ["", *sorted(counts)]
        self.connection.exec_driver_sql(
            f"INSERT INTO {self.table.name}_words AS held SELECT * FROM unnest(%s::text[], %s::bigint[], %s::bigint[])"
            " ON CONFLICT (word) DO UPDATE SET rows = held.rows + excluded.rows, size = held.size + excluded.size",
            (
                words,
                [len(rows), *(counts[word] for word in words[1:])],
                [sum(sizes), *(0 for _ in words[1:])],
            ),
        )

    def fill_from(self, source: FullTextTable) -> None:
        self.connection.exec_driver_sql(f"DELETE FROM {self.table.name}_words")
        for suffix in ("", "_words"):
            self.connection.exec_driver_sql(
                f"INSERT INTO {self.table.name}{suffix} SELECT * FROM {source.name}{suffix}"
            )

    def remove(self, numbers: range) -> None:
        self._remove("number BETWEEN %s AND %s", (numbers.start, numbers.stop - 1))

    def remove_rows(self, numbers: Sequence[int]) -> None:
        if numbers:
            self._remove("number = ANY(%s::bigint[])", ([*numbers],))

    def _remove(self, condition: str, given: tuple[Any, ...]) -> None:
        name = self.table.name
        left = self.connection.exec_driver_sql(
            f"WITH gone AS (DELETE FROM {name} WHERE {condition} RETURNING words, size),"
            " less AS (SELECT lexeme AS word, count(*) AS rows, 0 AS size FROM gone, unnest(words) GROUP BY lexeme"
            " UNION ALL SELECT '', count(*), coalesce(sum(size), 0) FROM gone)"
            f" UPDATE {name}_words AS held SET rows = held.rows - less.rows, size = held.size - less.size"
            " FROM less WHERE held.word = less.word RETURNING held.word, held.rows",
            given,
        )
        if unused := [word for word, count in left if not count and word]:
            self.connection.exec_driver_sql(
                f"DELETE FROM {name}_words WHERE word = ANY(%s::text[])", (unused,)
            )

    def purge(self) -> None:
        """Do nothing: ``remove`` leaves nothing that a statement could read."""

    def drop(self) -> None:
        self.connection.exec_driver_sql(f"DROP TABLE IF EXISTS {self.table.name}, {self.table.name}_words")

    def count(self, rows: SearchedRows) -> int:
        return rows.counts.get((self.table.name, rows.state), lambda: self._read_counts([])[0])

    def count_terms(self, rows: SearchedRows, terms: Sequence[str]) -> dict[str, int]:
        phrases = dict(zip(terms, _cut_terms(self.table, terms), strict=True))
        if rows.within is None:
            _, _, known = self._read_counts([phrase[0] for phrase in phrases.values() if len(phrase) == 1])
        return {
            term: 0
            if not phrase
            else known.get(phrase[0], 0)
            if len(phrase) == 1 and rows.within is None
            else self._count_rows(rows, phrase)
            for term, phrase in phrases.items()
        }

    def find(self, forms: Sequence[Sequence[str]], limit: int) -> list[int]:
        cut = iter(_cut_terms(self.table, [term for form in forms for term in form]))
        phrases = [[next(cut) for _ in form] for form in forms]
        wanted = " | ".join(f"({_write_query(form, ' & ')})" for form in phrases if form and all(form))
        return self._find_matching(wanted, limit) if wanted else []

    def find_begun(self, letters: str, limit: int) -> list[int]:
        (phrase,) = _cut_terms(self.table, [letters])
        return self._find_matching(f"{_write_query([phrase])[1:-1]}:*", limit) if phrase else []

    def _find_matching(self, wanted: str, limit: int) -> list[int]:
        statement = f"SELECT number FROM {self.table.name} WHERE words @@ %s::tsquery LIMIT %s"
        return [row for (row,) in fetch_sql(self.connection, statement, (wanted, limit))]

    def rank(
        self, rows: SearchedRows, terms: Sequence[str], required: Sequence[str], limit: int
    ) -> list[tuple[int, float]]:
        phrases = [phrase for phrase in _cut_terms(self.table, terms) if phrase]
        if not phrases or limit < 1:
            return []
        needed = [phrase for phrase in _cut_terms(self.table, required) if phrase]
        words = list(dict.fromkeys(word for phrase in phrases for word in phrase))
        count, size, known = self._read_counts(words)
        whole = replace(rows, within=None)
        weighed = [
            (
                phrase,
                _compute_rarity(
                    count, known.get(phrase[0], 0) if len(phrase) == 1 else self._count_rows(whole, phrase)
                ),
            )
            for phrase in phrases
        ]
        matching, given = self._match(rows, phrases, needed)
        # Of a row only the words of the query are fetched, with their places.
        statement = (
            f"SELECT number, size, ts_filter(setweight(words, 'A', %s::text[]), '{{a}}')::text"
            f" FROM {self.table.name} WHERE {matching}"
        )
        found = self.connection.exec_driver_sql(statement, (words, *given)).all()
        mean = size / count if count else 1.0
        scored = [
            (-_score(_read_vector(vector), weighed, K1 * (1 - B + B * length / mean), self.table), number)
            for number, length, vector in found
        ]
        scored.sort()
        return [(number, -cost) for cost, number in scored[:limit]]

    def _read_counts(self, words: Sequence[str]) -> tuple[int, int, dict[str, int]]:
        """Return the number of rows, of words in them, and of rows that contain each of ``words``."""
        statement = f"SELECT word, rows, size FROM {self.table.name}_words WHERE word = ANY(%s::text[])"
        found = {
            word: (count, size)
            for word, count, size in self.connection.exec_driver_sql(statement, (["", *words],))
        }
        count, size = found.pop("")
        return count, size, {word: count for word, (count, _) in found.items()}

    def _count_rows(self, rows: SearchedRows, phrase: Sequence[str]) -> int:
        matching, given = self._match(rows, [phrase], [])
        statement = f"SELECT count(*) FROM {self.table.name} WHERE {matching}"
        return rows.counts.get(
            (self.table.name, rows.state, rows.within, *phrase),
            lambda: int(self.connection.exec_driver_sql(statement, given).scalar_one()),
        )

    def _match(
        self, rows: SearchedRows, phrases: Sequence[Sequence[str]], needed: Sequence[Sequence[str]]
    ) -> tuple[str, tuple[Any, ...]]:
        """Return the condition that a row matches any of ``phrases``, and any that is ``needed``, and its values."""
        # The narrower condition first; what is needed is among the phrases, so that it says all.
        matching, given = "words @@ %s::tsquery", (_write_query(needed or phrases),)
        if rows.within is None:
            return matching, given
        return f"{matching} AND number BETWEEN %s AND %s", (*given, rows.within.first, rows.within.last)


# --- scores --------------------------------------------------------------------------------


def _compute_rarity(count: int, hits: int) -> float:
    weight = math.log((count - hits + 0.5) / (hits + 0.5))
    return weight if weight > 0 else 1e-6


def _score(
    places: dict[str, list[int]],
    weighed: Sequence[tuple[Sequence[str], float]],
    norm: float,
    table: FullTextTable,
) -> float:
    score = 0.0
    last = len(table.weights) - 1
    for phrase, rarity in weighed:
        starts = places.get(phrase[0])
        if not starts:
            continue
        if len(phrase) > 1:
            following = [set(places.get(word, ())) for word in phrase[1:]]
            starts = [at for at in starts if all(at + step in each for step, each in enumerate(following, 1))]
        if last:
            frequency = sum(table.weights[min((at - 1) // _FIRST, last)] for at in starts)
        else:
            frequency = table.weights[0] * len(starts)
        # In the order in which FTS5 computes it: equal rows must stay equal to the last bit.
        score += rarity * ((frequency * (K1 + 1)) / (frequency + norm))
    return score


# --- vectors and queries -------------------------------------------------------------------


def _quote(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def _write_vector(places: dict[str, list[int]]) -> str:
    return " ".join(f"{_quote(word)}:{','.join(map(str, found[:_PLACES]))}" for word, found in places.items())


def _read_vector(text: str) -> dict[str, list[int]]:
    return {
        word.replace("''", "'").replace("\\\\", "\\"): [int(at) for at in places.replace("A", "").split(",")]
        for word, places in _LEXEME.findall(text)
    }


def _write_query(phrases: Sequence[Sequence[str]], operator: str = " | ") -> str:
    return operator.join(f"({' <-> '.join(map(_quote, phrase))})" for phrase in phrases)


# --- words ---------------------------------------------------------------------------------


def _cut_rows(table: FullTextTable, rows: Sequence[Sequence[str]]) -> list[dict[str, list[int]]]:
    """Return the places of each word in each row."""
    columns = len(table.columns)
    found: list[dict[str, list[int]]] = [{} for _ in rows]
    last = [(place + 1) * _FIRST - 1 for place in range(columns - 1)] + [_LAST]
    for word, text, offset in _cut([text for row in rows for text in row], table.tokenizer):
        row, column = divmod(text, columns)
        place = min(column * _FIRST + offset + 1, last[column])
        found[row].setdefault(word, []).append(place)
    return found


def _cut_terms(table: FullTextTable, terms: Sequence[str]) -> list[list[str]]:
    """Return the words of each term in their order."""
    found: list[list[tuple[int, str]]] = [[] for _ in terms]
    for word, term, offset in _cut(terms, table.tokenizer):
        found[term].append((offset, word))
    return [[word for _, word in sorted(each)] for each in found]


_cutters: dict[str, sqlite3.Connection] = {}
_cutting = threading.Lock()


def _cut(texts: Sequence[str], tokenizer: str) -> list[tuple[str, int, int]]:
    """Return each word with the number of its text and its place in it, from 0: by word, then by text, then by place."""
    plain = (text.replace("\x00", "").encode("utf-8", "ignore").decode() for text in texts)
    with _cutting:
        cutter = _cutters.get(tokenizer)
        if cutter is None:
            cutter = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
            cutter.execute(
                f"CREATE VIRTUAL TABLE texts USING fts5(text, content = '', tokenize = '{tokenizer}')"
            )
            cutter.execute("CREATE VIRTUAL TABLE words USING fts5vocab(texts, instance)")
            _cutters[tokenizer] = cutter
        cutter.execute("BEGIN")
        try:
            cutter.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(plain))
            found = cutter.execute('SELECT term, doc, "offset" FROM words').fetchall()
        finally:
            cutter.execute("ROLLBACK")
    # A ``tsvector`` takes 2,046 bytes of a word.
    return [(word[:500], text, place) for word, text, place in found]
