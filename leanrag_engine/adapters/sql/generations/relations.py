"""Read the relations of a generation: by their ends, by layer, by keyword, or a page."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, select, union

from leanrag_engine.adapters.sql.dialect.statements import among, fetch, list_value
from leanrag_engine.adapters.sql.schema.tables import relations, select_unparsed
from leanrag_engine.core.model import Relation

from .fields import list_columns, read_items, visible

_STRONGEST = (relations.c.strength.desc(), relations.c.weight.desc(), relations.c.position)
_relations = partial(read_items, Relation, relations)
_SELECTED = select_unparsed(*list_columns(relations, Relation))
_RELATIONS = _SELECTED.where(visible(relations))
_IN_LAYER = _RELATIONS.where(relations.c.layer == bindparam("number")).order_by(relations.c.position)
_JOINING = _RELATIONS.where(
    among(relations.c.source_id, bindparam("ids")), among(relations.c.target_id, bindparam("ids"))
).order_by(*_STRONGEST)
_NAMED = _RELATIONS.where(among(relations.c.id, bindparam("ids")))
_AT = _RELATIONS.where(among(relations.c.position, bindparam("positions"))).order_by(relations.c.position)


def find_touching(connection: Connection, generation: int, ids: Sequence[str], limit: int) -> list[Relation]:
    statement = _of(generation, _touches(generation, ids)).order_by(*_STRONGEST).limit(max(limit, 0))
    return _relations(connection.execute(statement).all())


def find_joining(connection: Connection, generation: int, ids: Sequence[str]) -> list[Relation]:
    return _relations(fetch(connection, _JOINING, generation=generation, ids=list_value(ids)))


def find_by_id(connection: Connection, generation: int, ids: Sequence[str]) -> list[Relation]:
    return _relations(fetch(connection, _NAMED, generation=generation, ids=list_value(ids)))


def in_layer(connection: Connection, generation: int, layer: int) -> list[Relation]:
    """Return the relations of a layer by position, which is the order of the build."""
    return _relations(fetch(connection, _IN_LAYER, generation=generation, number=layer))


def at_positions(connection: Connection, generation: int, positions: Sequence[int]) -> list[Relation]:
    """Return the relations at these positions in ascending order."""
    return _relations(fetch(connection, _AT, generation=generation, positions=list_value(positions)))


def page(
    connection: Connection,
    generation: int,
    *,
    layer: int | None,
    cluster: str | None,
    min_strength: int,
    offset: int,
    limit: int,
) -> tuple[list[Relation], int]:
    wanted = relations.c.strength >= min_strength
    wanted &= relations.c.layer > 0 if layer is None else relations.c.layer == layer
    if cluster is not None:
        wanted &= _touches(generation, [cluster])
    statement = _of(generation, wanted)
    total = connection.execute(statement.with_only_columns(func.count())).scalar_one()
    shown = statement.order_by(*_STRONGEST).offset(max(offset, 0)).limit(max(limit, 0))
    return _relations(connection.execute(shown).all()), int(total)


def _touches(generation: int, ids: Sequence[str]) -> ColumnElement[bool]:
    # A union, so that each half uses its index: for an OR of two lists SQLite reads the whole generation.
    ends = (
        select(relations.c.position).where(visible(relations, generation), among(end, ids))
        for end in (relations.c.source_id, relations.c.target_id)
    )
    return relations.c.position.in_(union(*ends))


def _of(generation: int, wanted: ColumnElement[bool]) -> Select[Any]:
    return _SELECTED.where(visible(relations, generation), wanted)
