"""How a list of ids of any length goes into one statement: as one JSON value, not as thousands of variables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, func, select

T = TypeVar("T")


def among(column: ColumnElement[Any], values: Iterable[object]) -> ColumnElement[bool]:
    """``column`` is one of ``values``."""
    listed = func.json_each(json.dumps(list(values))).table_valued("value")
    return column.in_(select(listed.c.value))


def in_order(ids: Sequence[str], found: Iterable[T], id_of: Callable[[T], str]) -> list[T]:
    """``found`` in the order of ``ids``; one that is asked for twice comes twice, as in any lookup."""
    by_id = {id_of(each): each for each in found}
    return [by_id[each] for each in ids if each in by_id]
