"""How the fields of entities and relations stand in the columns that are called like them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import starmap
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy import Column, ColumnElement, Integer, Table, and_, bindparam, literal, select

from leanrag_engine.adapters.sql.schema.tables import OPEN, as_json, generations, parse_columns
from leanrag_engine.core.model import METHODS, Attribute, Entity, Evidence, Finding, Relation, Staleness

T = TypeVar("T", bound=Entity | Relation)

_WRITE: Mapping[str, Callable[[Any], object]] = {
    "method": attrgetter("value"),
    "aliases": as_json,
    "chunk_ids": as_json,
    "types": as_json,
    "findings": lambda held: as_json([(each.summary, each.explanation, each.chunk_ids) for each in held]),
    "evidence": lambda held: as_json([(each.start, each.end, each.chunk_id) for each in held]),
    "attributes": lambda held: as_json([(each.name, each.value, each.chunk_ids) for each in held]),
    "stale": lambda held: as_json(held and (held.joined, held.left, held.changed, held.cut)),
}
_READ: Mapping[str, Callable[[Any], object]] = {
    "method": METHODS.__getitem__,
    "aliases": tuple,
    "chunk_ids": tuple,
    "types": tuple,
    "findings": lambda held: tuple([Finding(said, why, tuple(chunks)) for said, why, chunks in held]),
    "evidence": lambda held: tuple([Evidence(*each) for each in held]),
    "attributes": lambda held: tuple([Attribute(name, value, tuple(ids)) for name, value, ids in held]),
    "stale": lambda held: Staleness(*held) if held else None,
}


def list_columns(table: Table, kind: type[Any]) -> list[Column[Any]]:
    """Return the columns of the fields of ``kind``, in their order."""
    return [table.c[each.name] for each in fields(kind)]


def read_items(kind: type[T], columns: Sequence[Column[Any]], rows: Sequence[Sequence[Any]]) -> list[T]:
    """Return the items in rows of ``columns``, those of :func:`list_columns`."""
    values = zip(columns, parse_columns(rows, *columns), strict=False)
    found = (map(_READ[column.name], held) if column.name in _READ else held for column, held in values)
    return list(starmap(kind, zip(*found, strict=True)))


def write_rows(
    table: Table, edition: int, since: int, added: Iterable[tuple[int, T]]
) -> Iterator[tuple[object, ...]]:
    """Yield the rows of items with their positions, as they are published in generation ``since``."""
    names = [each.name for each in table.c if each.name not in ("edition", "position", "since", "until")]
    find, write = attrgetter(*names), [_WRITE.get(name) for name in names]
    for position, item in added:
        values = zip(write, find(item), strict=False)
        yield (edition, position, since, OPEN, *[make(value) if make else value for make, value in values])


_GENERATION = bindparam("generation", type_=Integer)


def visible(table: Table, generation: int | None = None) -> ColumnElement[bool]:
    """Return the condition that a row of ``table`` is of the generation, by default of the one that is bound by that name."""
    number = _GENERATION if generation is None else literal(generation, Integer)
    edition = select(generations.c.edition).where(generations.c.number == number).scalar_subquery()
    return and_(table.c.edition == edition, table.c.since <= number, table.c.until > number)
