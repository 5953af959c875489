"""Parts of statements that each database writes in its own way: lists of ids, lists in a column, inserts of many rows.
A list of ids of any length is passed as one JSON value instead of thousands of variables. What every query asks is a
constant of its module with values bound by name: SQLAlchemy takes up to a millisecond to make a statement anew."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeVar

from sqlalchemy import (
    BindParameter,
    Boolean,
    ColumnElement,
    Connection,
    Dialect,
    Executable,
    Integer,
    Table,
    insert,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

T = TypeVar("T")

POSTGRES = "postgresql"  # SQLAlchemy's name of the dialect; every other one is SQLite's

Bound = BindParameter[Any]
"""A value that is given when the statement is executed, a list as :func:`list_value`."""


def among(column: ColumnElement[Any], values: Iterable[object] | Bound) -> ColumnElement[bool]:
    """Return the condition that ``column`` is one of ``values``."""
    return _IsAmong(column, _bind_list(values))


def among_pairs(
    columns: tuple[ColumnElement[Any], ColumnElement[Any]], pairs: Iterable[tuple[int, int]] | Bound
) -> ColumnElement[bool]:
    """Return the condition that two columns of numbers hold one of ``pairs``. An index on both finds them."""
    return _AreAmong(*columns, _bind_list(pairs))


def rests_on_others(
    column: ColumnElement[Any], held: ColumnElement[Any], untouched: Iterable[str]
) -> ColumnElement[bool]:
    """Return the condition that the JSON list in ``column`` is empty or has an id neither in the subquery ``held`` nor in ``untouched``."""
    return _RestsOnOthers(column, held, _bind_list(untouched))


def contains_letters(column: ColumnElement[str], letters: str) -> ColumnElement[bool]:
    """Return the condition that ``column`` contains ``letters`` in either case; SQLite ignores the case of ASCII only."""
    escaped = letters.replace("/", "//").replace("%", "/%").replace("_", "/_")
    return _IsLike(column, f"%{escaped}%")


def list_value(values: Iterable[object]) -> str:
    """Return a list as one value of a statement."""
    value = json.dumps(list(values))
    if "\\u" not in value:
        return value
    # A text with half a character was never stored, and no database takes it.
    return json.dumps([each for each in json.loads(value) if not isinstance(each, str) or _is_whole(each)])


def _is_whole(text: str) -> bool:
    return text == text.encode("utf-8", "ignore").decode()


def _bind_list(values: Iterable[object] | Bound) -> str | Bound:
    return values if isinstance(values, BindParameter) else list_value(values)


def in_order(ids: Sequence[str], found: Iterable[T], id_of: Callable[[T], str]) -> list[T]:
    """Return ``found`` in the order of ``ids``; an id given twice is returned twice, a missing one is left out."""
    by_id = {id_of(each): each for each in found}
    return [by_id[each] for each in ids if each in by_id]


def fetch(connection: Connection, statement: Executable, **values: object) -> list[tuple[Any, ...]]:
    """Return all rows of a constant statement as the driver gives them: SQLAlchemy takes 0.1 ms more to execute one."""
    sql, names = _compile(statement, connection.dialect)
    given = values if names is None else tuple([values[name] for name in names])
    return fetch_sql(connection, sql, given)


def fetch_sql(
    connection: Connection, sql: str, values: Mapping[str, object] | tuple[object, ...] = ()
) -> list[tuple[Any, ...]]:
    """Return all rows of a statement in the database's own words, as :func:`fetch`."""
    with closing(connection.connection.cursor()) as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


@lru_cache(maxsize=128)  # for each constant and dialect
def _compile(statement: Executable, dialect: Dialect) -> tuple[str, Sequence[str] | None]:
    """Return a statement as the dialect writes it, and the names of its values in their order if they have one."""
    compiled = statement.compile(dialect=dialect)  # type: ignore[attr-defined] # every statement has it
    return str(compiled), compiled.positiontup


def insert_rows(connection: Connection, target: Table, batch: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows in the database's own types, past SQLAlchemy, which takes three times as long for a million rows."""
    if not batch:
        return
    if connection.dialect.name != POSTGRES:
        connection.exec_driver_sql(str(insert(target).compile(dialect=connection.dialect)), [*batch])
        return
    quote = connection.dialect.identifier_preparer.quote
    columns = ", ".join(quote(each.name) for each in target.c)
    copy_rows(connection, f"{quote(target.name)} ({columns})", batch)


def copy_rows(connection: Connection, target: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows on PostgreSQL by COPY, the fastest way."""
    cursor: Any = connection.connection.cursor()  # psycopg's own
    with cursor, cursor.copy(f"COPY {target} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


# --- how each database writes them ---------------------------------------------------------
#
# On PostgreSQL a list of ids becomes an array: for a subquery its planner guesses the size and may read the whole table.


class _Condition(FunctionElement[bool]):
    """A condition with its arguments by place, as each database writes it. ``listed``: the last one, a list in JSON, as
    PostgreSQL's type; ``kind``: the type of what is in it."""

    type = Boolean()
    inherit_cache = True
    sqlite: ClassVar[str]
    postgres: ClassVar[str]

    def self_group(self, against: Any = None) -> Self:  # noqa: ARG002 - SQLAlchemy's argument
        # For SQLite, which has no type of its own for truth, SQLAlchemy would write "… = 1", which hides an index.
        return self


class _IsAmong(_Condition):
    inherit_cache = True
    sqlite = "{0} IN (SELECT value FROM json_each({1}))"
    postgres = (
        "{0} = ANY(ARRAY(SELECT value::{kind} FROM jsonb_array_elements_text({listed}) AS listed(value)))"
    )


class _AreAmong(_Condition):
    inherit_cache = True
    sqlite = (
        "({0}, {1}) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each({2}))"
    )
    postgres = (
        "({0}, {1}) IN (SELECT (value->>0)::integer, (value->>1)::integer"
        " FROM jsonb_array_elements({listed}) AS listed(value))"
    )


class _RestsOnOthers(_Condition):
    inherit_cache = True
    sqlite = (
        "({0} = '[]' OR EXISTS (SELECT 1 FROM json_each({0}) AS listed"
        " WHERE listed.value NOT IN {1} AND listed.value NOT IN (SELECT value FROM json_each({2}))))"
    )
    postgres = (
        "({0} = '[]' OR EXISTS (SELECT 1 FROM jsonb_array_elements_text({0}::jsonb) AS listed(value)"
        " WHERE listed.value NOT IN {1}"
        " AND listed.value NOT IN (SELECT value FROM jsonb_array_elements_text({listed}) AS kept(value))))"
    )


class _IsLike(_Condition):
    inherit_cache = True
    sqlite = "{0} LIKE {1} ESCAPE '/'"
    postgres = "{0} ILIKE {1} ESCAPE '/'"


@compiles(_Condition)
def _write(element: _Condition, compiler: SQLCompiler, **options: object) -> str:
    return element.sqlite.format(*(compiler.process(each, **options) for each in element.clauses))


@compiles(_Condition, POSTGRES)
def _write_postgres(element: _Condition, compiler: SQLCompiler, **options: object) -> str:
    written = [compiler.process(each, **options) for each in element.clauses]
    kind = "bigint" if isinstance(next(iter(element.clauses)).type, Integer) else "text"
    # Without NUL, which PostgreSQL's texts cannot contain.
    listed = rf"replace({written[-1]}::text, '\u0000', '')::jsonb"
    return element.postgres.format(*written, kind=kind, listed=listed)
