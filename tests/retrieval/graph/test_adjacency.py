"""The compact graph against the nouns that it is made of, and where it is kept."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leanrag_engine.adapters.files.arrays import ArrayFiles
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Chunk, Entity, Relation
from leanrag_engine.retrieval.graph.adjacency import Adjacency, EdgeKind
from leanrag_engine.retrieval.graph.adjacency_cache import PreviousAdjacency, make_adjacency

BASE = Graph(
    (
        Entity("e1", "Skerryvore", parent_id="c1", chunk_ids=("k1", "k2"), responsibility=0.8,
               second_parent_id="c2", second_responsibility=0.2),
        Entity("e2", "Alan Stevenson", parent_id="c1", chunk_ids=("k1", "gone")),
        Entity("e3", "Paris", parent_id="c2"),
    ),
    (
        Relation("r2", "e1", "e2", description="Alan Stevenson built Skerryvore.", weight=3),
        Relation("r1", "e2", "e3", description="Alan Stevenson built Skerryvore."),
        Relation("r3", "e1", "e3", description="far"),
    ),
)  # fmt: skip
ABOVE = Graph(
    (Entity("c1", "Lighthouses", layer=1), Entity("c2", "Cities", layer=1)),
    (Relation("r9", "c1", "c2", layer=1, strength=2),),
)
CHUNKS = [
    Chunk("k2", "doc", 2, "text", 0, 4, 1, title="Engineers"),
    Chunk("k1", "doc", 1, "text", 0, 4, 1, title="skerryvore"),
    Chunk("k0", "doc", 3, "text", 0, 4, 1, title="Nothing"),
]


@pytest.fixture
def graph() -> Adjacency:
    return make_adjacency([BASE, ABOVE], CHUNKS)


def edges(graph: Adjacency) -> set[tuple[str, str, EdgeKind, float]]:
    ids = [*graph.chunk_ids.tolist(), *graph.entity_ids.tolist()]
    return {
        (
            str(ids[node], "ascii"),
            str(ids[graph.targets[edge]], "ascii"),
            EdgeKind(graph.kinds[edge]),
            round(float(graph.strengths[edge]), 4),
        )
        for node in range(graph.nodes)
        for edge in range(graph.offsets[node], graph.offsets[node + 1])
    }


def test_every_edge_is_there_in_both_directions_with_its_kind_and_strength(graph: Adjacency) -> None:
    one_way = {
        ("e1", "k1", EdgeKind.TITLE, 1.0),
        ("e1", "k2", EdgeKind.MENTION, 1.0),
        ("e2", "k1", EdgeKind.MENTION, 1.0),
        ("e1", "e2", EdgeKind.RELATION, round(1 + math.log(3), 4)),
        ("e2", "e3", EdgeKind.RELATION, 1.0),
        ("e1", "e3", EdgeKind.RELATION, 1.0),
    }
    assert edges(graph) == one_way | {(other, one, kind, strength) for one, other, kind, strength in one_way}


def test_ids_become_nodes_and_what_is_unknown_becomes_minus_one(graph: Adjacency) -> None:
    assert graph.chunk_nodes(["k1", "k9", "gone", "é"]).tolist() == [1, -1, -1, -1]
    assert graph.chunks_at(np.arange(3)) == ["k0", "k1", "k2"]
    assert (graph.entity_nodes(["c1", "e3", "x"]) - 3).tolist() == [0, 4, -4]
    assert graph.base_nodes(["c1", "e1"]).tolist() == [-1, 5]
    # A killed update leaves vectors of entities that the published build does not know.
    few = make_adjacency([Graph((Entity("e1", "Skerryvore", chunk_ids=("k1",)),), ())], CHUNKS)
    assert few.base_nodes(["e1", "gone"]).tolist() == [3, -1]


def test_documents_named_after_what_a_chunk_mentions_come_with_how_many_chunks_mention_it(
    graph: Adjacency,
) -> None:
    assert graph.find_named_by("k2") == {"k1": 2}
    assert graph.find_named_by("k0") == graph.find_named_by("gone") == {}


def test_ancestors_are_those_of_the_tree_not_the_second_best(graph: Adjacency) -> None:
    assert graph.ancestors(["e1", "e2"]) == ["c1"]
    assert sorted(graph.ancestors(["e1", "e3", "unknown"])) == ["c1", "c2"]
    assert graph.ancestors(["c1"]) == graph.ancestors([]) == []


def test_under_a_filter_only_entities_that_an_allowed_chunk_mentions_count(graph: Adjacency) -> None:
    allowed = np.array([True, False, True])  # k0 and k2
    assert (graph.base_nodes(["e1", "e2", "e3"], allowed) >= 0).tolist() == [True, False, False]
    assert graph.entities_in(["k1"]) == ["e1", "e2"]
    assert graph.entities_in(["k0", "unknown"]) == []


def test_a_graph_of_nothing_has_no_nodes() -> None:
    empty = make_adjacency([Graph((), ())], [])
    assert empty.nodes == 0
    assert empty.entity_nodes(["e1"]).tolist() == [-1]


# --- where it is kept ----------------------------------------------------------------------


def same(one: dict[str, Any] | None, other: dict[str, Any]) -> bool:
    return one is not None and set(one) == set(other) and all(np.array_equal(one[k], other[k]) for k in one)


@pytest.mark.anyio
async def test_what_was_saved_is_loaded_by_another_process(graph: Adjacency, tmp_path: Path) -> None:
    await ArrayFiles(tmp_path, read_only=False).save("one-1", graph.arrays())
    loaded = await ArrayFiles(tmp_path, read_only=True).load("one-1")
    assert same(loaded, graph.arrays())
    assert loaded is not None
    kept = Adjacency.from_arrays(loaded)
    assert kept is not None
    assert edges(kept) == edges(graph)


@pytest.mark.anyio
async def test_what_is_missing_damaged_or_of_another_version_is_none(
    graph: Adjacency, tmp_path: Path
) -> None:
    files = ArrayFiles(tmp_path, read_only=False)
    assert await files.load("one-1") is None
    await files.save("one-1", graph.arrays())
    (tmp_path / "one-1" / "targets.npy").write_bytes(b"torn")
    assert await files.load("one-1") is None
    await files.save("one-1", graph.arrays())
    assert same(await files.load("one-1"), graph.arrays())
    assert Adjacency.from_arrays({"chunk_ids": graph.chunk_ids}) is None
    for name, array in graph.arrays().items():
        assert Adjacency.from_arrays({**graph.arrays(), name: array[:-1]}) is None, name


@pytest.mark.anyio
async def test_where_nothing_can_be_written_nothing_is_kept(graph: Adjacency, tmp_path: Path) -> None:
    await ArrayFiles(tmp_path, read_only=True).save("one-1", graph.arrays())
    assert list(tmp_path.iterdir()) == []
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    await ArrayFiles(blocked, read_only=False).save("one-1", graph.arrays())
    assert await ArrayFiles(blocked, read_only=False).load("one-1") is None


@pytest.mark.anyio
async def test_a_sweep_drops_old_and_unfinished_arrays_of_its_own_collection_alone(
    graph: Adjacency, tmp_path: Path
) -> None:
    files = ArrayFiles(tmp_path, read_only=False)
    for key in ("one-1", "one-2", "two-1"):
        await files.save(key, graph.arrays())
    (tmp_path / "one-3.unfinished-abc").mkdir()
    await files.drop_all_but("one-", {"one-2"})
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["one-2", "two-1"]


# --- from the adjacency of the build before ------------------------------------------------


def test_mentions_of_entities_that_stayed_the_same_are_those_that_their_rows_say(graph: Adjacency) -> None:
    """A chunk goes, one gets another title, one that e2 cites comes (back), and e3 is another row."""
    chunks = [
        replace(CHUNKS[1], title="Paris"),
        replace(CHUNKS[2], id="gone", title="Alan Stevenson"),
        replace(CHUNKS[2], id="k9", title="Skerryvore"),
    ]
    first, second, third = BASE.entities
    changed = replace(third, chunk_ids=("k9", "k1", "k9"), parent_id="c1")
    new = Entity("e0", "Hyskeir", parent_id="c1", chunk_ids=("k1", "k0"))
    layers = [Graph((second, new, changed, first), BASE.relations[:2]), ABOVE]
    carried = make_adjacency(layers, chunks, before=PreviousAdjacency(graph, [BASE, ABOVE]))
    assert same(carried.arrays(), make_adjacency(layers, chunks).arrays())
    assert ("e2", "gone", EdgeKind.TITLE, 1.0) in edges(carried)
    again = make_adjacency([BASE, ABOVE], CHUNKS, before=PreviousAdjacency(carried, layers))
    assert same(again.arrays(), graph.arrays())


def test_a_graph_before_that_is_another_one_changes_nothing(graph: Adjacency) -> None:
    nothing = make_adjacency([], [])
    for before in (
        PreviousAdjacency(nothing, [BASE, ABOVE]),
        PreviousAdjacency(graph, [ABOVE]),
        PreviousAdjacency(graph, []),
    ):
        assert same(make_adjacency([BASE, ABOVE], CHUNKS, before=before).arrays(), graph.arrays())
    assert same(make_adjacency([], [], before=PreviousAdjacency(graph, [BASE])).arrays(), nothing.arrays())
