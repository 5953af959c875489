"""Read the entities of a generation: by layer, id, name, parent or keyword; and its relations: by their ends, by layer, or a page."""

from collections.abc import Sequence
from functools import partial

from sqlalchemy import ColumnElement, Connection, bindparam, func, select, union

from leanrag_engine.adapters.sql import collections as collection_rows
from leanrag_engine.adapters.sql.dialect import fulltext
from leanrag_engine.adapters.sql.dialect.fulltext_index import RowCounts, SearchedRows
from leanrag_engine.adapters.sql.dialect.statements import among, fetch, in_order, list_value
from leanrag_engine.adapters.sql.schema.tables import entities, names, relations, select_unparsed
from leanrag_engine.core.model import Entity, EntityHead, Hit, Relation
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.nearest import similarity

from .fields import list_columns, read_items, visible

# Limits of the search for names that look like a given one. None of them was tuned.
_CANDIDATES = 200  # Names sharing trigrams with the given one that are compared letter by letter
_KEY_LENGTH = 80  # Characters of the given name that are used: comparing is quadratic
_SHORT_KEY = 5  # Up to this length names of about that length with its first letter are candidates
_WORD_WEIGHT = 0.95  # Factor of a match word by word: one of the whole name comes first

_COLUMNS = list_columns(entities, Entity)
_entities = partial(read_items, Entity, _COLUMNS)
_SELECTED = select_unparsed(*_COLUMNS)
_ENTITIES = _SELECTED.where(visible(entities))
_WITH_IDS = _ENTITIES.where(among(entities.c.id, bindparam("ids")))
_IN_LAYER = _ENTITIES.where(
    entities.c.position >= bindparam("first"), entities.c.position < bindparam("after")
).order_by(entities.c.position)
_AT = _ENTITIES.where(among(entities.c.position, bindparam("positions"))).order_by(entities.c.position)
_IDS = _ENTITIES.where(among(entities.c.position, bindparam("positions"))).with_only_columns(
    entities.c.position, entities.c.id
)
_BEARERS = select(names.c.entity).where(visible(names), among(names.c.key, bindparam("keys")))
_NAMED = _ENTITIES.where(entities.c.position.in_(_BEARERS)).order_by(entities.c.position)


def in_layer(connection: Connection, generation: int, layer: int) -> list[Entity]:
    """Return the entities of a layer by position, which is the order of the build."""
    first, after = (collection_rows.first_position(each) for each in (layer, layer + 1))
    return _entities(fetch(connection, _IN_LAYER, generation=generation, first=first, after=after))


def at_positions(connection: Connection, generation: int, positions: Sequence[int]) -> list[Entity]:
    """Return the entities at these positions in ascending order."""
    return _entities(fetch(connection, _AT, generation=generation, positions=list_value(positions)))


def with_ids(connection: Connection, generation: int, ids: Sequence[str]) -> list[Entity]:
    rows = fetch(connection, _WITH_IDS, generation=generation, ids=list_value(ids))
    return in_order(ids, _entities(rows), lambda entity: entity.id)


def heads(connection: Connection, generation: int) -> list[EntityHead]:
    statement = (
        select(*list_columns(entities, EntityHead))
        .where(visible(entities, generation))
        .order_by(entities.c.layer.desc(), entities.c.mentions.desc(), entities.c.position)
    )
    return [EntityHead(*row) for row in connection.execute(statement)]


def members(connection: Connection, generation: int, id_: str, offset: int, limit: int) -> list[Entity]:
    statement = (
        _SELECTED.where(visible(entities, generation), entities.c.parent_id == id_)
        .order_by(entities.c.mentions.desc(), entities.c.position)
        .offset(max(offset, 0))
        .limit(max(limit, 0))
    )
    return _entities(connection.execute(statement).all())


def search(
    connection: Connection, generation: int, text: str, limit: int, layer: int | None, counts: RowCounts
) -> list[Hit]:
    """Search names, aliases and descriptions by keyword; ``layer`` None: all. ``counts`` are kept between searches."""
    held = collection_rows.find_rows(connection, generation)
    if held is None or (layer is not None and layer not in held.layers):
        return []
    within = None if layer is None else held.layers[layer]
    index = fulltext.open_entities(connection, held.edition)
    hits = fulltext.search(index, text, limit, SearchedRows(counts, generation, within))
    places = list_value(position for position, _ in hits)
    ids = dict(fetch(connection, _IDS, generation=generation, positions=places))
    # Of an earlier generation a query under way may find what an update has added.
    return [Hit(ids[position], score) for position, score in hits if position in ids]


def find_by_name(connection: Connection, generation: int, wanted: Sequence[str]) -> list[Entity]:
    keys = {key for name in wanted if (key := fulltext.make_key(name))}
    return _entities(fetch(connection, _NAMED, generation=generation, keys=list_value(keys)))


def find_by_prefix(
    connection: Connection, generation: int, prefix: str, limit: int, *, aggregated: bool
) -> list[Entity]:
    key = _encodable_key(prefix)
    first = collection_rows.first_position(1)
    statement = (
        _SELECTED.join(
            names, (names.c.edition == entities.c.edition) & (names.c.entity == entities.c.position)
        )
        # A range of the key, by which the table is sorted; LIKE would read the whole table.
        .where(visible(names, generation), names.c.key >= key, names.c.key < f"{key}\U0010ffff")
        .where(visible(entities, generation))
        .where(names.c.entity >= first if aggregated else names.c.entity < first)
        .order_by(names.c.key, names.c.entity)
        .limit(max(limit, 0))
    )
    return _entities(connection.execute(statement).all())


def find_similar(connection: Connection, generation: int, name: str, limit: int) -> list[Entity]:
    key = _encodable_key(name)
    held = collection_rows.find_rows(connection, generation)
    if not key or limit < 1 or held is None:
        return []
    positions = _find_spelled_alike(connection, generation, held.edition, key)
    statement = _SELECTED.where(visible(entities, generation), among(entities.c.position, positions))

    def order(entity: Entity) -> tuple[float, int, int, str, str]:
        alike = max(_compare_keys(key, name_key(name)) for name in (entity.name, *entity.aliases))
        return -alike, entity.layer, -entity.mentions, entity.name, entity.id

    return sorted(_entities(connection.execute(statement).all()), key=order)[:limit]


def _encodable_key(name: str) -> str:
    """Return the name key without lone surrogates, which SQLite cannot bind."""
    return name_key(name[:_KEY_LENGTH]).encode("utf-8", "ignore").decode()


def _find_spelled_alike(connection: Connection, generation: int, edition: int, key: str) -> list[int]:
    """Return positions of entities whose names are worth comparing: they share trigrams with ``key`` or, for
    a short one, contain it or have its first letter and about its length."""
    found = fulltext.entities_spelled_like(connection, edition, key, _CANDIDATES)
    if len(key) > _SHORT_KEY:
        return found
    length = func.length(names.c.key)
    alike = names.c.key.startswith(key[0], autoescape=True) & length.between(len(key) - 1, len(key) + 2)
    statement = (
        select(names.c.entity)
        .where(visible(names, generation), names.c.key.contains(key, autoescape=True) | alike)
        .order_by(length, names.c.key, names.c.entity)
        .limit(_CANDIDATES)
    )
    return [*found, *connection.execute(statement).scalars()]


def _compare_keys(key: str, other: str) -> float:
    """Return the similarity of two name keys, from 0 to 1, the greater of that as a whole and of each word of
    ``key`` with its best match in ``other``."""
    words = key.split()
    best = [max((similarity(word, each) for each in other.split()), default=0.0) for word in words]
    by_word = _WORD_WEIGHT * sum(best) / len(words) if words else 0.0
    return max(similarity(key, other), by_word)


_STRONGEST = (relations.c.strength.desc(), relations.c.weight.desc(), relations.c.position)
_RELATION_COLUMNS = list_columns(relations, Relation)
_relations = partial(read_items, Relation, _RELATION_COLUMNS)
_SELECTED_RELATIONS = select_unparsed(*_RELATION_COLUMNS)
_RELATIONS = _SELECTED_RELATIONS.where(visible(relations))
_RELATIONS_IN_LAYER = _RELATIONS.where(relations.c.layer == bindparam("number")).order_by(
    relations.c.position
)
_JOINING = _RELATIONS.where(
    among(relations.c.source_id, bindparam("ids")), among(relations.c.target_id, bindparam("ids"))
).order_by(*_STRONGEST)
_RELATIONS_WITH_IDS = _RELATIONS.where(among(relations.c.id, bindparam("ids")))
_RELATIONS_AT = _RELATIONS.where(among(relations.c.position, bindparam("positions"))).order_by(
    relations.c.position
)


def relations_touching(
    connection: Connection, generation: int, ids: Sequence[str], limit: int
) -> list[Relation]:
    touching = _SELECTED_RELATIONS.where(visible(relations, generation), _touches(generation, ids))
    return _relations(connection.execute(touching.order_by(*_STRONGEST).limit(max(limit, 0))).all())


def relations_joining(connection: Connection, generation: int, ids: Sequence[str]) -> list[Relation]:
    return _relations(fetch(connection, _JOINING, generation=generation, ids=list_value(ids)))


def relations_with_ids(connection: Connection, generation: int, ids: Sequence[str]) -> list[Relation]:
    return _relations(fetch(connection, _RELATIONS_WITH_IDS, generation=generation, ids=list_value(ids)))


def relations_in_layer(connection: Connection, generation: int, layer: int) -> list[Relation]:
    """Return the relations of a layer by position, which is the order of the build."""
    return _relations(fetch(connection, _RELATIONS_IN_LAYER, generation=generation, number=layer))


def relations_at(connection: Connection, generation: int, positions: Sequence[int]) -> list[Relation]:
    """Return the relations at these positions in ascending order."""
    return _relations(
        fetch(connection, _RELATIONS_AT, generation=generation, positions=list_value(positions))
    )


def page_relations(
    connection: Connection,
    generation: int,
    *,
    layer: int | None,
    cluster: str | None = None,
    min_strength: int,
    offset: int = 0,
    limit: int,
) -> tuple[list[Relation], int]:
    wanted = relations.c.strength >= min_strength
    wanted &= relations.c.layer > 0 if layer is None else relations.c.layer == layer
    if cluster is not None:
        wanted &= _touches(generation, [cluster])
    statement = _SELECTED_RELATIONS.where(visible(relations, generation), wanted)
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
