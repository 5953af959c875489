"""Rows of which most are stored: they are the sequence that plain rows are, and few of them are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.core.errors import StoreUnusable
from leanrag_engine.core.graphs.graph import EntityColumns, Graph, RelationColumns
from leanrag_engine.core.graphs.rows import (
    LayerRows,
    compose_rows,
    find_rows,
    find_same,
    match_rows,
    replace_rows,
    select_rows,
)
from leanrag_engine.core.graphs.stored import open_layers, pack_layers
from leanrag_engine.core.model import Entity, LayerCount, Method, Relation

NAMES = ["Oban", "Tiree", "Iona", "Mull", "Islay", "Jura", "Coll", "Barra"]
ENTITIES = tuple(
    Entity(
        f"e{number}",
        name,
        description=f"{name} is an island." if number % 2 else "",
        method=Method.MODEL if number == 3 else Method.HEURISTIC,
        mentions=number + 1,
        parent_id=f"c{number // 4}",
        second_parent_id=None if number == 5 else f"c{1 - number // 4}",
        responsibility=0.5 + number / 20,
    )
    for number, name in enumerate(NAMES)
)
RELATIONS = tuple(
    Relation(f"r{number}", f"e{number}", f"e{number + 1}", description=f"Ferry {number // 2}.", weight=number)
    for number in range(len(NAMES) - 1)
)
GRAPH = Graph(ENTITIES, RELATIONS)


def open_graph() -> tuple[Graph, list[int]]:
    """``GRAPH`` as it is opened from its columns, and the list of the places that are read."""
    read: list[int] = []

    def read_entities(places: Sequence[int]) -> list[Entity]:
        read.extend(places)
        return [ENTITIES[place // 10] for place in places]

    def read_relations(places: Sequence[int]) -> list[Relation]:
        read.extend(places)
        return [RELATIONS[place // 10] for place in places]

    places = tuple(10 * np.arange(len(rows)) for rows in (ENTITIES, RELATIONS))
    arrays = pack_layers([GRAPH], (places[0], places[1]))
    found = open_layers(arrays, [LayerCount(0, len(ENTITIES), len(RELATIONS))], read_entities, read_relations)
    assert found is not None
    return found.layers[0], read


def test_columns_are_known_without_reading_a_row() -> None:
    graph, read = open_graph()
    for name in EntityColumns.names:
        assert getattr(graph.nodes, name).tolist() == getattr(GRAPH.nodes, name).tolist(), name
    for name in RelationColumns.names:
        assert getattr(graph.edges, name).tolist() == getattr(GRAPH.edges, name).tolist(), name
    assert graph.ends.tolist() == GRAPH.ends.tolist()
    assert not read
    assert graph == GRAPH


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("keep"), st.integers(0, len(NAMES) - 1)),
        st.tuples(st.just("change"), st.integers(0, len(NAMES) - 1)),
        st.tuples(st.just("add"), st.integers(100, 120)),
    ),
    max_size=12,
    unique_by=lambda change: change[1],
)


@given(CHANGES)
def test_stored_rows_and_plain_ones_are_composed_changed_and_compared_alike(
    changes: list[tuple[str, int]],
) -> None:
    graph, _ = open_graph()
    places = np.array([number if what == "keep" else -1 for what, number in changes], dtype=np.intp)
    own = {
        at: replace(ENTITIES[number], name=f"New {NAMES[number]}")
        if what == "change"
        else Entity(f"e{number}", f"Rock {number}")
        for at, (what, number) in enumerate(changes)
        if what != "keep"
    }
    stored, plain = (compose_rows(rows, places, own) for rows in (graph.entities, ENTITIES))
    assert isinstance(stored, LayerRows)
    assert stored == plain
    assert [*stored] == [*plain]
    for before, after in ((graph.entities, stored), (ENTITIES, plain)):
        assert find_same(before, after).tolist() == places.tolist()
        matches = match_rows(before, after)
        ids = [f"e{number}" for _, number in changes]
        known = [NAMES[int(id_[1:])] if len(id_) == 2 else None for id_ in ids]
        assert [None if at < 0 else NAMES[at] for at in matches.origins.tolist()] == known
        assert {at: pair[1] for at, pair in matches.differing.items()} == own
        assert {ENTITIES[at].id for at in matches.gone.tolist()} == {each.id for each in ENTITIES} - {*ids}
        assert find_rows(after, [*ids, "e99"]) == [*range(len(ids)), -1]
    nodes, expected = EntityColumns(stored), EntityColumns(plain)
    for name in EntityColumns.names:
        assert getattr(nodes, name).tolist() == getattr(expected, name).tolist(), name
    if changes:
        again = {len(changes) - 1: Entity("e50", "Skerry")}
        assert replace_rows(stored, again) == replace_rows(plain, again)


def test_rows_that_are_wanted_together_are_read_once() -> None:
    graph, read = open_graph()
    assert select_rows(graph.entities, [5, 1, 5]) == [ENTITIES[5], ENTITIES[1], ENTITIES[5]]
    assert graph.entities[1] is graph.entities[1]
    assert graph.entities[-3:] == list(ENTITIES[-3:])
    assert read == [10, 50, 60, 70]


def test_ends_follow_entities_that_move_change_and_leave() -> None:
    graph, _ = open_graph()
    changed = replace(ENTITIES[2], name="Iona Abbey")
    entities = compose_rows(graph.entities, np.array([4, -1, 3, -1]), {1: changed, 3: Entity("e9", "Coll")})
    new = Relation("r9", "e9", "e4")
    relations = compose_rows(graph.relations, np.array([2, 3, -1]), {2: new})
    assert Graph(entities, relations).ends.tolist() == [[1, 2], [2, 0], [3, 0]]
    with pytest.raises(KeyError):
        _ = Graph(entities, graph.relations).ends


def test_facts_are_the_first_relations_with_their_descriptions() -> None:
    graph, _ = open_graph()
    assert (
        graph.facts()
        == GRAPH.facts()
        == [(f"r{n}", f"{NAMES[n]}, {NAMES[n + 1]}: Ferry {n // 2}.") for n in (0, 2, 4, 6)]
    )


def test_columns_of_other_rows_are_an_error_that_says_what_to_do() -> None:
    arrays = pack_layers([GRAPH], (np.arange(len(ENTITIES)), np.arange(len(RELATIONS))))
    sizes = [LayerCount(0, len(ENTITIES), len(RELATIONS))]
    found = open_layers(arrays, sizes, lambda _: ENTITIES[:1], lambda _: RELATIONS[:1])
    assert found is not None
    with pytest.raises(StoreUnusable, match="rebuild"):
        _ = found.layers[0].entities[3]
    assert open_layers(arrays, [LayerCount(0, 3, 2)], lambda _: [], lambda _: []) is None
    lacking = {name: array for name, array in arrays.items() if name != "relations-ends"}
    assert open_layers(lacking, sizes, lambda _: [], lambda _: []) is None
