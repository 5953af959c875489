"""Write a build as a new generation, and delete the generations that are no longer read."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, zip_longest
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table, delete, func, insert, select, update

from leanrag_engine.adapters.sql import collections as collection_rows
from leanrag_engine.adapters.sql.collections import first_position
from leanrag_engine.adapters.sql.dialect import fulltext
from leanrag_engine.adapters.sql.dialect.fulltext import IndexedEntity
from leanrag_engine.adapters.sql.dialect.statements import among, fetch, insert_rows
from leanrag_engine.adapters.sql.generations import history
from leanrag_engine.adapters.sql.generations.fields import visible, write_rows
from leanrag_engine.adapters.sql.schema import tables
from leanrag_engine.adapters.sql.schema.tables import (
    ENDED,
    OPEN,
    editions,
    embedders,
    entities,
    generations,
    relations,
)
from leanrag_engine.core.errors import InvalidInput, StoreUnusable
from leanrag_engine.core.graphs.graph import GenerationContent, Graph, Hierarchy, PublishedLayers, find_misfit
from leanrag_engine.core.graphs.rows import T, match_rows
from leanrag_engine.core.graphs.stored import StoredPlaces
from leanrag_engine.core.history import READ_GENERATIONS, Publication
from leanrag_engine.core.model import Entity, Generation, Relation
from leanrag_engine.core.ports import Progress, ProgressReport, ignore_progress

GAP = 1 << 10
"""Distance of the positions of neighbours that are written at the same time. A choice by cost: a full-text index stores
distances, in two bytes up to this one."""


@dataclass(slots=True)
class RowChanges(Generic[T]):
    """The positions of rows that end, rows to add, each with its position, and the positions of all rows afterwards."""

    ended: list[int] = field(default_factory=list)
    added: list[tuple[int, T]] = field(default_factory=list)
    positions: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def extend(self, other: "RowChanges[T]") -> None:
        self.ended += other.ended
        self.added += other.added
        self.positions = np.concatenate((self.positions, other.positions))


def place_rows(layer: int, items: Sequence[T]) -> RowChanges[T]:
    """Return what writes all rows of a layer anew."""
    first = first_position(layer) + GAP
    positions = range(first, first + GAP * len(items), GAP)
    return RowChanges([], list(zip(positions, items, strict=True)), np.array(positions, dtype=np.int64))


def compare_rows(
    layer: int, before: Sequence[T], positions: NDArray[np.int64], after: Sequence[T]
) -> RowChanges[T] | None:
    """Return what turns the rows ``before`` of a layer, which have these positions in their order, into those ``after`` in
    theirs; None if the free positions do not suffice. O(n log n)."""
    ranks = _find_equal(before, after)
    places = np.where(ranks >= 0, np.append(positions, -1)[ranks], -1)
    kept = _find_rising(places)
    ends = np.ones(len(positions), dtype=bool)
    ends[ranks[kept]] = False
    ended: list[int] = positions[ends].tolist()
    added: list[tuple[int, T]] = []
    # Between each two rows that stay, and before the first and after the last of them.
    stays = np.concatenate(([-1], kept, [len(after)]))
    bounds = np.concatenate(([first_position(layer)], places[kept], [first_position(layer + 1)]))
    for gap in np.flatnonzero(np.diff(stays) > 1).tolist():
        (left, right), (low, high) = stays[gap : gap + 2].tolist(), bounds[gap : gap + 2].tolist()
        vacant = ended[bisect_left(ended, low) : bisect_left(ended, high)]
        found = _choose_positions(low, high, vacant, right - left - 1, last=right == len(after))
        if found is None:
            return None
        added += zip(found, after[left + 1 : right], strict=True)
        places[left + 1 : right] = found
    return RowChanges(ended, added, places)


def _find_equal(before: Sequence[T], after: Sequence[T]) -> NDArray[np.intp]:
    """Return for each row of ``after`` the rank of the row of ``before`` that it is equal to, −1 if there is none."""
    matches = match_rows(before, after)
    for place, (then, now) in matches.differing.items():
        if then != now:
            matches.origins[place] = -1
    return matches.origins


def _find_rising(places: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the indices of a longest rising sequence of the values that are not negative."""
    held = np.flatnonzero(places >= 0)
    values = places[held]
    if (np.diff(values) > 0).all():
        return held
    tails: list[int] = []
    last: list[int] = []
    before = np.full(len(values), -1, dtype=np.intp)
    for number, value in enumerate(values.tolist()):
        rank = bisect_left(tails, value)
        before[number] = last[rank - 1] if rank else -1
        tails[rank : rank + 1] = [value]
        last[rank : rank + 1] = [number]
    chosen = []
    place = last[-1]
    while place >= 0:
        chosen.append(place)
        place = int(before[place])
    return held[chosen[::-1]]


def _choose_positions(
    low: int, high: int, vacant: Sequence[int], count: int, *, last: bool
) -> list[int] | None:
    """Return ``count`` rising positions between ``low`` and ``high``, those of rows that end first; None if there are too few."""
    if count <= len(vacant):
        return list(vacant[:count])
    if last:
        first = low + GAP
        return list(range(first, first + count * GAP, GAP)) if first + count * GAP < high else None
    if high - low <= count:
        return None
    return [low + (high - low) * number // (count + 1) for number in range(1, count + 1)]


_Row = TypeVar("_Row")

BATCH = 10_000
"""Rows per insert: a build of a million relations must not be in memory a second time as rows. A batch takes a tenth of
a second, and between two batches a publish can be cancelled."""

_POSITIONS = [
    select(each.c.position).where(visible(each)).order_by(each.c.position) for each in (entities, relations)
]


@dataclass(frozen=True, slots=True)
class SharedRows:
    """The published layers that an update starts from, and the positions of their rows in order, of all layers."""

    published: PublishedLayers
    entities: NDArray[np.int64]
    relations: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Build:
    """A hierarchy prepared for writing: slow steps are done before the write lock is taken. ``base`` is the
    generation whose rows it shares, None if it is written as a whole. ``words`` are those of the entities that
    are added. ``names`` are pairs of key and position, sorted like their table, so that rows are appended."""

    content: GenerationContent
    base: int | None
    entities: RowChanges[Entity]
    relations: RowChanges[Relation]
    words: list[tuple[int, IndexedEntity]]
    names: list[tuple[str, int]]

    @property
    def all_entities(self) -> Iterator[Entity]:
        """The entities of all layers."""
        return (entity for layer in self.content.hierarchy.layers for entity in layer.entities)

    @property
    def rows(self) -> int:
        """The number of rows that are added to all tables; an entity has two."""
        return 2 * len(self.words) + len(self.relations.added) + len(self.names)

    @property
    def layers(self) -> list[tuple[int, int, int]]:
        """Number, count of entities and count of relations of each layer."""
        layers = self.content.hierarchy.layers
        return [(number, len(each.entities), len(each.relations)) for number, each in enumerate(layers)]


def prepare_build(
    content: GenerationContent, shared: SharedRows | None = None, report: ProgressReport = ignore_progress
) -> Build:
    """Check the hierarchy, find what differs from the published one, whose rows are ``shared``, and segment
    its texts. Raises ``InvalidInput`` if the layers do not fit together, and what ``report`` raises."""
    hierarchy = content.hierarchy
    if fault := find_misfit(hierarchy):
        raise InvalidInput(
            f"The hierarchy does not fit together: {fault}.",
            "Build the hierarchy again; if that does not help, report it.",
        )
    changes = _find_changes(shared, hierarchy) if shared else None
    base = shared if changes else None
    added, joined = changes or (RowChanges[Entity](), RowChanges[Relation]())
    if not changes:
        for layer, graph in enumerate(hierarchy.layers):
            added.extend(place_rows(layer, graph.entities))
            joined.extend(place_rows(layer, graph.relations))
    words = [
        (position, fulltext.make_indexed_entity(each))
        for batch in _Watch(report, "preparing", len(added.added)).batches(added.added)
        for position, each in batch
    ]
    names = sorted((key, position) for position, each in words for key in each.keys)
    return Build(content, base.published.generation if base else None, added, joined, words, names)


def _find_changes(
    shared: SharedRows, hierarchy: Hierarchy
) -> tuple[RowChanges[Entity], RowChanges[Relation]] | None:
    """Return what differs from the published generation; None if the hierarchy is better written as a whole."""
    entities_, relations_ = RowChanges[Entity](), RowChanges[Relation]()
    for number, (old, new) in enumerate(
        zip_longest(shared.published.hierarchy.layers, hierarchy.layers, fillvalue=Graph((), ()))
    ):
        nodes = compare_rows(number, old.entities, _of_layer(shared.entities, number), new.entities)
        edges = compare_rows(number, old.relations, _of_layer(shared.relations, number), new.relations)
        if nodes is None or edges is None:
            return None
        entities_.extend(nodes)
        relations_.extend(edges)
    changed = len(entities_.ended) + len(entities_.added)
    # Beyond half of the rows, writing all of them costs about as much, by reasoning, and leaves no rows to
    # pass by.
    return None if changed > 0.5 * len(shared.entities) else (entities_, relations_)


def _of_layer(positions: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    first, after = np.searchsorted(
        positions, [collection_rows.first_position(number), collection_rows.first_position(number + 1)]
    )
    return positions[first:after]


@dataclass(slots=True)
class _Watch:
    """Split rows into batches and report progress before each of them."""

    report: ProgressReport
    what: str
    total: int
    done: int = 0

    def batches(self, rows: Iterable[_Row]) -> Iterator[list[_Row]]:
        remaining = iter(rows)
        while batch := list(islice(remaining, BATCH)):
            self.report(Progress("publish", self.done, self.total, self.what))
            yield batch
            self.done += len(batch)


# --- in a transaction ----------------------------------------------------------------------


def publish(
    connection: Connection,
    collection: int,
    revision: int,
    build: Build,
    publication: Publication,
    report: ProgressReport = ignore_progress,
) -> Generation:
    """Write ``build`` as the collection's newest generation, and its entry in the history; the commit
    publishes it. An error that ``report`` raises rolls the transaction back: nothing is published. Raises
    ``StoreUnusable`` if the generation whose rows it shares is no longer the published one."""
    watch = _Watch(report, "writing", build.rows)
    edition = _choose_edition(connection, collection, build.base)
    number = _insert_generation(connection, collection, edition, revision, build)
    if build.base is None:
        for open_index in fulltext.EDITION:
            open_index(connection, edition).create()
    else:
        _end_rows(connection, edition, number, build)
    _insert_all(
        connection, entities, watch.batches(write_rows(entities, edition, number, build.entities.added))
    )
    for words in watch.batches(build.words):
        fulltext.add_entities(connection, edition, words)
    _insert_all(
        connection, relations, watch.batches(write_rows(relations, edition, number, build.relations.added))
    )
    named = ((edition, *name, number, OPEN) for name in build.names)
    _insert_all(connection, tables.names, watch.batches(named))
    published = collection_rows.find_generations(connection, collection, limit=1)[0]
    history.record(connection, collection, published, publication)
    return published


def find_positions(connection: Connection, generation: int) -> StoredPlaces:
    """Return the positions of the entities and of the relations of a generation, in ascending order."""
    found = (fetch(connection, each, generation=generation) for each in _POSITIONS)
    entities_, relations_ = (np.array(rows, dtype=np.int64).reshape(-1) for rows in found)
    return entities_, relations_


def _choose_edition(connection: Connection, collection: int, base: int | None) -> int:
    """Return the edition of the generation ``base``, or a new one. Raises as :func:`publish`."""
    if base is None:
        added = insert(editions).values(collection=collection).returning(editions.c.number)
        return int(connection.execute(added).scalar_one())
    newest = select(func.max(generations.c.number)).where(generations.c.collection == collection)
    found = connection.execute(
        select(generations.c.edition).where(generations.c.number == base, generations.c.number.in_(newest))
    ).scalar()
    if found is None:
        raise StoreUnusable(
            f"Another build was published after generation {base}, which this one started from.",
            "Build again.",
        )
    return int(found)


def _end_rows(connection: Connection, edition: int, number: int, build: Build) -> None:
    """End the rows that generation ``number`` no longer has, and remove them from the full-text tables."""
    for table, column, ended in (
        (entities, entities.c.position, build.entities.ended),
        (tables.names, tables.names.c.entity, build.entities.ended),
        (relations, relations.c.position, build.relations.ended),
    ):
        here = update(table).where(table.c.edition == edition, table.c.until == OPEN, among(column, ended))
        connection.execute(here.values(until=number))
    fulltext.open_entities(connection, edition).remove_rows(build.entities.ended)
    fulltext.open_names(connection, edition).remove_rows(build.entities.ended)


def prune(connection: Connection, collection: int, kept: int, age: timedelta) -> None:
    found = collection_rows.find_generations(connection, collection)
    oldest = datetime.now(UTC) - age
    delete_generations(
        connection,
        [
            old
            for place, (newer, old) in enumerate(pairwise(found), start=1)
            if place >= READ_GENERATIONS and (place >= kept or newer.created_at < oldest)
        ],
    )


def delete_generations(connection: Connection, found: Iterable[Generation]) -> None:
    """Delete generations, the rows that only they have, full-text tables that nothing reads, and embedder states without a generation."""
    for each in found:
        here = generations.c.number == each.number
        edition = connection.execute(select(generations.c.edition).where(here)).scalar_one()
        connection.execute(delete(generations).where(here))
        oldest = select(func.min(generations.c.number)).where(generations.c.edition == edition)
        _delete_rows_before(connection, edition, connection.execute(oldest).scalar())
    connection.execute(delete(embedders).where(embedders.c.identity.not_in(select(generations.c.embedder))))


def purge_words(connection: Connection, generation: int) -> None:
    """Remove from the full-text tables of a generation what they still hold of rows that were deleted."""
    held = select(generations.c.edition).where(generations.c.number == generation)
    edition = connection.execute(held).scalar_one()
    for open_index in fulltext.EDITION:
        open_index(connection, edition).purge()


def _delete_rows_before(connection: Connection, edition: int, generation: int | None) -> None:
    """Delete the rows of an edition that ended before or with this generation, its oldest; None: it has no generation."""
    if generation is None:
        for open_index in fulltext.EDITION:
            open_index(connection, edition).drop()
        connection.execute(delete(editions).where(editions.c.number == edition))
        return
    for table in (entities, tables.names, relations):
        ended = (table.c.edition == edition, table.c.until <= generation, ENDED)
        connection.execute(delete(table).where(*ended))


def _insert_generation(
    connection: Connection, collection: int, edition: int, revision: int, build: Build
) -> int:
    content = build.content
    known = select(embedders.c.identity).where(embedders.c.identity == content.embedder)
    if connection.execute(known).first() is None:
        connection.execute(insert(embedders).values(identity=content.embedder, state=content.embedder_state))
    row = {
        "collection": collection,
        "edition": edition,
        "revision": revision,
        "embedder": content.embedder,
        "dimension": content.dimension,
        "created_at": datetime.now(UTC),
        "layers": build.layers,
        "settings": content.record,
    }
    added = insert(generations).values(row).returning(generations.c.number)
    return int(connection.execute(added).scalar_one())


def _insert_all(connection: Connection, target: Table, batches: Iterable[list[tuple[object, ...]]]) -> None:
    for batch in batches:
        insert_rows(connection, target, batch)
