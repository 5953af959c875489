"""Which rows of an edition a generation has."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Integer, Table, and_, bindparam, literal, select

from leanrag_engine.adapters.sql.schema.tables import generations

_GENERATION = bindparam("generation", type_=Integer)


def visible(table: Table, generation: int | None = None) -> ColumnElement[bool]:
    """Return the condition that a row of ``table`` is of the generation, by default of the one that is bound
    by that name."""
    number = _GENERATION if generation is None else literal(generation, Integer)
    edition = select(generations.c.edition).where(generations.c.number == number).scalar_subquery()
    return and_(table.c.edition == edition, table.c.since <= number, table.c.until > number)
