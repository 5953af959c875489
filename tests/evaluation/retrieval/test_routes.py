"""The routes of Youtu-GraphRAG, on a graph whose every similarity is chosen, and by the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from leanrag_engine.evaluation.retrieval.routes import KnowledgeTree, RouteLimits, find_relations_beside
from leanrag_mcp.cli.evaluate.commands import app


def vectors(*similarities: float) -> np.ndarray:
    """Unit rows with these similarities to the question, which is the first axis."""
    rows = [(each, (1 - each**2) ** 0.5) for each in similarities]
    return np.array(rows, dtype=np.float32)


QUESTION = np.array([1.0, 0.0], dtype=np.float32)

# A chain of entities 0 - 1 - 2 - 3, and 4 apart. Entities 0, 1 form a community, 2, 3, 4 another.
ENDS = np.array([[0, 1], [2, 1], [2, 3]])
TREE = KnowledgeTree(
    entities=vectors(0.9, 0.2, 0.1, 0.0, 0.8),
    entity_chunks=[["a"], ["a", "b"], ["b"], ["c"], ["d"]],
    labels=np.array([0, 0, 1, 1, 1]),
    communities=vectors(0.1, 0.7),
    ends=ENDS,
    beside=find_relations_beside(5, ENDS),
    relations=vectors(0.3, 0.6, 0.5),
    relation_chunks=[["a"], ["b"], ["c"]],
)
FEW = RouteLimits(entities=2, triples=2, communities=1, starts=1, depth=3, branches=5)


def test_each_route_ranks_by_its_own_evidence() -> None:
    found = TREE.rank(QUESTION, FEW)
    assert found["entity"] == ["a", "d"]  # entities 0 (0.9) and 4 (0.8)
    assert found["triple"] == ["b", "c"]  # relations 1 (0.6) and 2 (0.5)
    assert found["community"] == ["d", "b", "c"]  # members 4 (0.8), 2 (0.1), 3 (0.0)
    # From entity 0: a path of relation 0 (0.3), then with relation 1 (mean 0.45), then with 2 (mean 0.4667).
    assert found["path"] == ["c", "b", "a"]
    assert set(found["routes"]) == {"a", "b", "c", "d"}


def test_paths_are_no_longer_than_the_depth_and_visit_nothing_twice() -> None:
    short = RouteLimits(starts=1, depth=2)
    assert TREE.rank(QUESTION, short)["path"] == ["b", "a"]
    ring = np.array([[0, 1], [1, 2], [2, 0]])
    around = KnowledgeTree(
        vectors(0.9, 0.1, 0.1),
        [[], [], []],
        np.zeros(3, dtype=np.intp),
        vectors(0.5),
        ring,
        find_relations_beside(3, ring),
        vectors(0.5, 0.5, 0.5),
        [["x"], ["y"], ["z"]],
    )
    assert set(around.rank(QUESTION, RouteLimits(starts=1, depth=50))["path"]) == {"x", "y", "z"}


@pytest.mark.parametrize("seed", range(3))
def test_the_relations_beside_an_entity_are_those_that_it_ends(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, 7, (12, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    found = find_relations_beside(8, ends)
    expected = [{place for place, pair in enumerate(ends.tolist()) if entity in pair} for entity in range(8)]
    assert [set(each.tolist()) for each in found] == expected


def test_a_graph_without_relations_has_no_triple_and_no_path() -> None:
    ends = np.zeros((0, 2), dtype=np.intp)
    lone = KnowledgeTree(
        vectors(0.9),
        [["a"]],
        np.zeros(1, dtype=np.intp),
        vectors(0.5),
        ends,
        find_relations_beside(1, ends),
        np.zeros((0, 2), dtype=np.float32),
        [],
    )
    found = lone.rank(QUESTION, RouteLimits())
    assert (found["entity"], found["triple"], found["path"], found["routes"]) == (["a"], [], [], ["a"])


def test_the_command_shows_the_routes_beside_ours(tiny_path: Path, tmp_path: Path) -> None:
    options = ["--routes", "--compare", "lca,paper", "--budgets", "500", "--data-dir", str(tmp_path / "kept")]
    ran = CliRunner().invoke(app, ["retrieval", str(tiny_path), *options])
    assert ran.exit_code == 0, ran.stderr
    header = next(line for line in ran.stdout.splitlines() if "lca" in line)
    assert header.split() == ["lca", "paper", "entity", "triple", "community", "path", "routes"]
    (recall,) = [line.split() for line in ran.stdout.splitlines() if "recall@10" in line]
    assert len(recall) == 9
    # All five passages are within the first ten of whatever finds them.
    assert float(recall[2]) == 100.0
    assert float(recall[-1]) > 50
    refused = CliRunner().invoke(app, ["retrieval", str(tiny_path), "--routes", "--json"])
    assert (refused.exit_code, "--routes asks for more" in refused.stderr) == (1, True)
