"""Read frozen values from JSON columns, which also store them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


class UnknownFields(ValueError):
    """A stored record has not the fields that this version writes."""


def from_json(kind: type[T], stored: Mapping[str, Any], *, whole: bool = True) -> T:
    """Return the ``kind`` of dataclass that a JSON column holds; ``whole``: with all of its fields.

    Raises :class:`UnknownFields` if a field is missing or of another form.
    """
    adapter, names = _adapter(kind)  # type: ignore[arg-type] # mypy takes no class for hashable
    if whole and names != stored.keys():
        raise UnknownFields(f"{kind.__name__}: {', '.join(sorted(names ^ stored.keys()))}")
    try:
        value: T = adapter.validate_python(stored)
    except ValidationError as problem:
        fault = problem.errors()[0]
        place = ".".join(map(str, (kind.__name__, *fault["loc"])))
        raise UnknownFields(f"{place}: {fault['msg']}") from problem
    return value


@cache
def _adapter(kind: type[Any]) -> tuple[TypeAdapter[Any], set[str]]:
    return TypeAdapter(kind), {each.name for each in fields(kind)}
