"""An update writes only the rows that differ: every generation reads as if it had been written as a whole."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, func, select, table

from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.adapters.sql.generations.publish import GAP, compare_rows, place_rows
from leanrag_engine.core.errors import StoreUnusable
from leanrag_engine.core.graphs.graph import GenerationContent, Graph, Hierarchy, PublishedLayers
from leanrag_engine.core.history import Publication
from leanrag_engine.core.model import BuildRecord, Entity, Generation

pytestmark = pytest.mark.anyio

MakeHierarchy = Callable[..., Hierarchy]
NAMES = [f"Node {number}" for number in range(40)]


# --- which rows and where -------------------------------------------------------------------

orders = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 2)), unique_by=lambda item: item[0], max_size=25
)


@given(st.lists(orders, min_size=2, max_size=6))
def test_after_any_changes_the_rows_by_position_are_the_items_in_their_order(
    versions: list[list[tuple[int, int]]],
) -> None:
    layers = [[Entity(f"e{id_}", f"Text {text}") for id_, text in each] for each in versions]
    rows = dict(place_rows(1, layers[0]).added)
    for before, after in pairwise(layers):
        changes = compare_rows(1, before, np.array(sorted(rows), dtype=np.int64), after)
        if changes is None:
            changes = place_rows(1, after)
            rows = {}
        for place in changes.ended:
            del rows[place]
        assert not rows.keys() & dict(changes.added).keys()
        rows |= dict(changes.added)
        assert [rows[place] for place in sorted(rows)] == after
        assert all(1 << 40 < place < 2 << 40 for place in rows)


def test_one_item_more_or_less_is_one_row() -> None:
    before = [Entity(f"e{number}", "") for number in range(1000)]
    rows = {each.id: place for place, each in place_rows(0, before).added}
    more = Entity("more", "")
    for after in ([more, *before], [*before, more], [*before[:500], more, *before[500:]]):
        changes = compare_rows(0, before, np.array([*rows.values()]), after)
        assert changes is not None
        assert (changes.ended, [each for _, each in changes.added]) == ([], [more])
    changes = compare_rows(0, before, np.array([*rows.values()]), [*before[:7], *before[8:]])
    assert changes is not None
    assert (changes.ended, changes.added) == ([rows["e7"]], [])


def test_without_free_positions_all_rows_are_written_anew() -> None:
    items = [Entity("first", ""), Entity("last", "")]
    for number in range(GAP):
        first = place_rows(0, items[:1]).added[0][0]
        rows = np.array([first, first + GAP - number])
        if compare_rows(0, items, rows, [items[0], Entity("between", ""), items[1]]) is None:
            assert number == GAP - 1
            return
    raise AssertionError


# --- in a database --------------------------------------------------------------------------


async def publish(
    store: SqlDatabase, collection: str, built: Hierarchy, previous: PublishedLayers | None = None
) -> Generation:
    return await store.generations.publish(
        collection,
        0,
        GenerationContent(built, "toy", 4, b"fit", BuildRecord()),
        Publication(),
        previous=previous,
    )


async def read(store: SqlDatabase, generation: Generation) -> Hierarchy:
    number = generation.number
    layers = [
        Graph(
            tuple(await store.generations.layer(number, each.layer)),
            tuple(await store.generations.relations(number, each.layer)),
        )
        for each in generation.layers
    ]
    return Hierarchy(tuple(layers))


async def search(store: SqlDatabase, generation: Generation) -> list[Any]:
    """What each way of finding rows finds, with scores to nine digits."""
    number, stored = generation.number, store.generations
    hits = [
        *[await stored.search_entities(number, query, 20) for query in ("Node 3", "said", "Cluster", "new")],
        *[await stored.search_entities(number, "said of Node", 20, layer) for layer in (0, 1)],
    ]
    heads = await stored.entity_heads(number)
    return [
        *[[(hit.id, round(hit.score, 9)) for hit in each] for each in hits],
        await stored.entities_by_name(number, ["node 7", "new 1", "Cluster 1.2"]),
        await stored.entities_by_prefix(number, "n", 9, aggregated=False),
        await stored.entities_by_prefix(number, "c", 9, aggregated=True),
        await stored.similar_entities(number, "Node 33", 5),
        heads,
        [await stored.members(number, each.id, 0, 9) for each in heads],
        await stored.relations_page(number, layer=None, cluster=None, min_strength=1, offset=0, limit=9),
        await stored.relations_among(number, [each.id for each in heads]),
        await stored.relations_of(number, [each.id for each in heads[:5]], 9),
    ]


async def count(store: SqlDatabase, *names: str) -> list[int]:
    def work(connection: Connection) -> list[int]:
        return [
            connection.execute(select(func.count()).select_from(table(name))).scalar_one() for name in names
        ]

    return await store._transactions.read(work)


@pytest.mark.parametrize("seed", range(4))
async def test_after_random_updates_each_generation_reads_as_one_that_was_written_whole(
    store: SqlDatabase, hierarchy: MakeHierarchy, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeatable
    for collection in ("shared", "whole"):
        await store.documents.create_collection(collection)
    names = list(NAMES)
    built = hierarchy(*names)
    shared = await publish(store, "shared", built)
    for step in range(8):
        for _ in range(chance.randint(1, 3)):
            if chance.random() < 0.6:
                names.insert(chance.randint(0, len(names)), f"New {step}.{chance.random()}")
            elif len(names) > 1:
                name = names.pop(chance.randrange(len(names)))
                if chance.random() < 0.3:
                    names.insert(chance.randint(0, len(names)), name)
        before, previous = built, shared
        built = hierarchy(*names, key=" anew" if chance.random() < 0.3 else "")
        shared = await publish(store, "shared", built, PublishedLayers(previous.number, before))
        whole = await publish(store, "whole", built)
        assert await read(store, shared) == built
        assert await read(store, previous) == before
        assert await search(store, shared) == await search(store, whole)
        if chance.random() < 0.4:
            await store.generations.prune("shared", 1, timedelta(days=9))
            assert await read(store, previous) == before


async def test_an_update_of_one_entity_writes_few_rows_and_pruning_leaves_no_others(
    store: SqlDatabase, hierarchy: MakeHierarchy
) -> None:
    await store.documents.create_collection("default")
    tables = ("entities", "relations", "names", "editions")
    built = hierarchy(*NAMES)
    published = await publish(store, "default", built)
    first = await count(store, *tables)
    for number in range(5):
        before, built = built, hierarchy(*NAMES, f"New {number}")
        held = PublishedLayers(published.number, before)
        published = await publish(store, "default", built, held)
        await store.generations.prune("default", 2, timedelta(days=9))
    entities, relations, names, editions = await count(store, *tables)
    assert editions == 1
    assert entities - first[0] <= 8
    assert relations - first[1] <= 16
    assert names - first[2] <= 8
    await store.documents.delete_collection("default", "")
    assert await count(store, *tables) == [0, 0, 0, 0]


async def test_pruning_leaves_no_row_that_no_kept_generation_has(
    store: SqlDatabase, hierarchy: MakeHierarchy
) -> None:
    await store.documents.create_collection("default")
    built = hierarchy(*NAMES, "Gone")
    published = await publish(store, "default", built)
    for _ in range(2):
        before, built = built, hierarchy(*NAMES)
        published = await publish(store, "default", built, PublishedLayers(published.number, before))
    await store.generations.prune("default", 2, timedelta(days=9))
    # Both generations that are kept are the same.
    expected = [sum(len(getattr(each, name)) for each in built.layers) for name in ("entities", "relations")]
    assert await count(store, "entities", "relations") == expected


async def test_what_an_update_adds_is_found_by_no_search_of_the_generation_before(
    store: SqlDatabase, hierarchy: MakeHierarchy
) -> None:
    await store.documents.create_collection("default")
    built = hierarchy(*NAMES)
    old = await publish(store, "default", built)
    await publish(
        store, "default", hierarchy(*NAMES[:20], "Newcomer", *NAMES[20:]), PublishedLayers(old.number, built)
    )
    assert await store.generations.search_entities(old.number, "Newcomer", 5) == []
    assert await store.generations.entities_by_name(old.number, ["Newcomer"]) == []
    assert "Newcomer" not in {
        each.name for each in await store.generations.similar_entities(old.number, "Newcomer", 5)
    }
    # A search of the tables as they are now finds what both generations have.
    hits = await store.generations.search_entities(old.number, "Node 33", 5)
    assert hits[0].id == next(each.id for each in built.layers[0].entities if each.name == "Node 33")


async def test_an_update_of_a_generation_that_is_no_longer_published_is_refused(
    store: SqlDatabase, hierarchy: MakeHierarchy
) -> None:
    await store.documents.create_collection("default")
    built = hierarchy(*NAMES)
    first = await publish(store, "default", built)
    second = await publish(store, "default", built)
    with pytest.raises(StoreUnusable, match="Another build"):
        await publish(store, "default", built, PublishedLayers(first.number, built))
    assert [each.number for each in await store.generations.find_all("default")] == [
        second.number,
        first.number,
    ]
