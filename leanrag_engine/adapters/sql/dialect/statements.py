"""Parts of statements in SQLite's dialect: lists of ids, lists in a column, insert or update.

A list of ids of any length is passed as one JSON value instead of thousands of variables. What every query asks is
a constant of its module with values bound by name: SQLAlchemy takes up to a millisecond to make a statement anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from sqlalchemy import BindParameter, ColumnElement, exists, func, select, tuple_
from sqlalchemy.dialects.sqlite import insert as insert_or_update

__all__ = ["among", "among_pairs", "in_order", "insert_or_update", "is_empty_list", "list_value", "lists_any"]

T = TypeVar("T")


Bound = BindParameter[Any]
"""A value that is given when the statement is executed, a list as :func:`list_value`."""


def among(column: ColumnElement[Any], values: Iterable[object] | Bound) -> ColumnElement[bool]:
    """Return the condition that ``column`` is one of ``values``."""
    listed = func.json_each(_bind_list(values)).table_valued("value")
    return column.in_(select(listed.c.value))


def among_pairs(
    columns: tuple[ColumnElement[Any], ColumnElement[Any]], pairs: Iterable[tuple[int, int]] | Bound
) -> ColumnElement[bool]:
    """Return the condition that two columns hold one of ``pairs``. An index on both finds them."""
    listed = func.json_each(_bind_list(pairs)).table_valued("value")
    parts = (func.json_extract(listed.c.value, f"$[{place}]") for place in (0, 1))
    return tuple_(*columns).in_(select(*parts))


def list_value(values: Iterable[object]) -> str:
    """Return a list as one value of a statement."""
    return json.dumps(list(values))


def _bind_list(values: Iterable[object] | Bound) -> str | Bound:
    return values if isinstance(values, BindParameter) else list_value(values)


def lists_any(column: ColumnElement[Any], values: Iterable[object]) -> ColumnElement[bool]:
    """Return the condition that the JSON list in ``column`` has one of ``values``."""
    listed = func.json_each(column).table_valued("value")
    return exists(select(listed.c.value).where(among(listed.c.value, values)))


def is_empty_list(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that the JSON list in ``column`` is empty."""
    return func.json_array_length(column) == 0


def in_order(ids: Sequence[str], found: Iterable[T], id_of: Callable[[T], str]) -> list[T]:
    """Return ``found`` in the order of ``ids``; an id given twice is returned twice, a missing one is left out."""
    by_id = {id_of(each): each for each in found}
    return [by_id[each] for each in ids if each in by_id]
