"""Full-text tables on SQLite's FTS5."""

from collections.abc import Iterable, Sequence

from sqlalchemy import text

from leanrag_engine.adapters.sql.dialect.fulltext_index import FullTextIndex, FullTextTable, SearchedRows
from leanrag_engine.adapters.sql.dialect.statements import fetch_sql


class Fts5Index(FullTextIndex):
    def create(self) -> None:
        # With the texts: from a table without them rows can only be removed by giving exactly the old words, which another
        # version of a segmenter would not find.
        options = f"{', '.join(self.table.columns)}, tokenize = '{self.table.tokenizer}'"
        self.connection.execute(text(f"CREATE VIRTUAL TABLE {self.table.name} USING fts5({options})"))

    def add(self, rows: Sequence[tuple[int | str, ...]]) -> None:
        # SQLAlchemy's own inserts take twice as long.
        if rows:
            columns, marks = ", ".join(self.table.columns), ", ?" * len(self.table.columns)
            statement = f"INSERT INTO {self.table.name} (rowid, {columns}) VALUES (?{marks})"
            self.connection.exec_driver_sql(statement, [*rows])

    def fill_from(self, source: FullTextTable) -> None:
        columns = ", ".join(("rowid", *self.table.columns))
        self.connection.exec_driver_sql(
            f"INSERT INTO {self.table.name} ({columns}) SELECT {columns} FROM {source.name}"
        )

    def remove(self, numbers: range) -> None:
        statement = f"DELETE FROM {self.table.name} WHERE rowid BETWEEN ? AND ?"
        self.connection.exec_driver_sql(statement, (numbers.start, numbers.stop - 1))

    def remove_rows(self, numbers: Sequence[int]) -> None:
        if numbers:
            statement = f"DELETE FROM {self.table.name} WHERE rowid = ?"
            self.connection.exec_driver_sql(statement, [(number,) for number in numbers])

    def purge(self) -> None:
        # FTS5 keeps the words of deleted rows until it merges its segments.
        self.connection.execute(text(f"INSERT INTO {self.table.name}({self.table.name}) VALUES('optimize')"))

    def drop(self) -> None:
        self.connection.execute(text(f"DROP TABLE IF EXISTS {self.table.name}"))

    def count(self, rows: SearchedRows) -> int:
        # FTS5's shadow table of the rows' lengths is an ordinary table and fast to count.
        statement = f"SELECT count(*) FROM {self.table.name}_docsize"
        return rows.counts.get((self.table.name, rows.state), lambda: self._fetch_count(statement))

    def count_terms(self, rows: SearchedRows, terms: Sequence[str]) -> dict[str, int]:
        bound = rows.options.scored_rows + 1
        counts = {term: self._count_term(rows, term, bound) for term in terms}
        if all(count in (0, bound) for count in counts.values()):
            # Counting takes a twentieth of the time of ranking, so it pays to find the rarest term.
            return {term: self._count_term(rows, term, -1) if count else 0 for term, count in counts.items()}
        return counts

    def find(self, forms: Sequence[Sequence[str]], limit: int) -> list[int]:
        wanted = " OR ".join(f"({each})" for form in forms if (each := _join_terms(form, " AND ")))
        return self._find_matching(wanted, limit) if wanted else []

    def find_begun(self, letters: str, limit: int) -> list[int]:
        wanted = _any_of([letters])
        return self._find_matching(f"{wanted}*", limit) if wanted else []

    def _find_matching(self, wanted: str, limit: int) -> list[int]:
        statement = f"SELECT rowid FROM {self.table.name} WHERE {self.table.name} MATCH ? LIMIT ?"
        return [row for (row,) in fetch_sql(self.connection, statement, (wanted, limit))]

    def rank(
        self, rows: SearchedRows, terms: Sequence[str], required: Sequence[str], limit: int
    ) -> list[tuple[int, float]]:
        wanted = _any_of(terms)
        if not wanted:
            return []
        name = self.table.name
        matching, given = self._match(rows, wanted)
        if required:
            # The plus keeps SQLite from one search for each of the rows.
            matching += f" AND +rowid IN (SELECT rowid FROM {name} WHERE {name} MATCH ?)"
            given += (_any_of(required),)
        rank = f"bm25({name}, {', '.join(map(str, self.table.weights))})"
        found = fetch_sql(
            self.connection,
            f"SELECT rowid, {rank} AS cost FROM {name} WHERE {matching} ORDER BY cost, rowid LIMIT ?",
            (*given, limit),
        )
        return [(row, -cost) for row, cost in found]

    def _count_term(self, rows: SearchedRows, term: str, limit: int) -> int:
        """Return the number of rows that contain ``term``; counting stops at ``limit`` unless that is -1."""
        wanted = _any_of([term])
        if not wanted:
            return 0
        matching, given = self._match(rows, wanted)
        statement = f"SELECT count(*) FROM (SELECT rowid FROM {self.table.name} WHERE {matching} LIMIT ?)"
        return rows.counts.get(
            (self.table.name, rows.state, rows.within, wanted, limit),
            lambda: self._fetch_count(statement, *given, limit),
        )

    def _fetch_count(self, statement: str, *values: str | int) -> int:
        ((count,),) = fetch_sql(self.connection, statement, values)
        return int(count)

    def _match(self, rows: SearchedRows, wanted: str) -> tuple[str, tuple[str | int, ...]]:
        """Return the condition that a row matches ``wanted``, and its values."""
        if rows.within is None:
            return f"{self.table.name} MATCH ?", (wanted,)
        bounds = (rows.within.first, rows.within.last)
        return f"{self.table.name} MATCH ? AND rowid BETWEEN ? AND ?", (wanted, *bounds)


def _any_of(terms: Iterable[str]) -> str:
    """Return an FTS5 expression that matches any of ``terms``; "" if no term is left."""
    return _join_terms(terms, " OR ")


def _join_terms(terms: Iterable[str], operator: str) -> str:
    """Return ``terms`` as phrases of an FTS5 expression; "" if no term is left. Inside quotes only the quote
    itself is syntax. NUL would end the expression, and a lone surrogate cannot be encoded, so both are removed."""
    plain = (term.replace("\x00", "").encode("utf-8", "ignore").decode() for term in terms)
    return operator.join('"' + term.replace('"', '""') + '"' for term in plain if term)
