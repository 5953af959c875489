"""Note which vectors of a space are being changed, so that a build that did not end leaves no doubt about them."""

from collections.abc import Iterable

from sqlalchemy import Connection, delete, insert, select

from leanrag_engine.adapters.sql.schema.tables import unsettled_vectors


def note(connection: Connection, space: str, ids: Iterable[str]) -> None:
    rows = [{"space": space, "id": id_} for id_ in set(ids) - find(connection, space)]
    if rows:
        connection.execute(insert(unsettled_vectors), rows)


def find(connection: Connection, space: str) -> set[str]:
    held = select(unsettled_vectors.c.id).where(unsettled_vectors.c.space == space)
    return set(connection.execute(held).scalars())


def settle(connection: Connection, space: str) -> None:
    connection.execute(delete(unsettled_vectors).where(unsettled_vectors.c.space == space))
