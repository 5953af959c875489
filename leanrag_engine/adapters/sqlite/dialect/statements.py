"""Parts of statements in SQLite's dialect: lists of ids, lists in a column, insert or update.

A list of ids of any length is passed as one JSON value instead of thousands of variables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, exists, func, select, tuple_
from sqlalchemy.dialects.sqlite import insert as insert_or_update

__all__ = ["among", "among_pairs", "in_order", "insert_or_update", "is_empty_list", "lists_any"]

T = TypeVar("T")


def among(column: ColumnElement[Any], values: Iterable[object]) -> ColumnElement[bool]:
    """Return the condition that ``column`` is one of ``values``."""
    listed = func.json_each(json.dumps(list(values))).table_valued("value")
    return column.in_(select(listed.c.value))


def among_pairs(
    columns: tuple[ColumnElement[Any], ColumnElement[Any]], pairs: Iterable[tuple[int, int]]
) -> ColumnElement[bool]:
    """Return the condition that two columns hold one of ``pairs``. An index on both finds them."""
    listed = func.json_each(json.dumps(list(pairs))).table_valued("value")
    parts = (func.json_extract(listed.c.value, f"$[{place}]") for place in (0, 1))
    return tuple_(*columns).in_(select(*parts))


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
