"""Write and read the corrections of a collection's graph."""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from leanrag_engine.core.model import Correction

from . import collections as collection_rows
from .schema.tables import corrections, from_json


def put(connection: Connection, collection: int, new: Correction) -> Correction:
    """Store a correction, unless an equal one is stored, and return it with its number; the build becomes stale."""
    for held in find_all(connection, collection):
        if replace(held, number=new.number) == new:
            return held
    collection_rows.raise_revision(connection, collection)
    row = asdict(new) | {"collection": collection, "created_at": datetime.now(UTC)}
    del row["number"]
    return _correction(connection.execute(insert(corrections).values(row).returning(corrections)).one())


def find_all(connection: Connection, collection: int) -> list[Correction]:
    """Return the corrections in the order in which they were made."""
    here = corrections.c.collection == collection
    rows = connection.execute(select(corrections).where(here).order_by(corrections.c.number))
    return [_correction(row) for row in rows]


def remove(connection: Connection, collection: int, number: int) -> None:
    """Delete a correction, if it exists. The published generation becomes stale then."""
    this = (corrections.c.collection == collection) & (corrections.c.number == number)
    if connection.execute(delete(corrections).where(this)).rowcount:
        collection_rows.raise_revision(connection, collection)


def _correction(row: Row[Any]) -> Correction:
    return from_json(Correction, row._asdict(), whole=False)
