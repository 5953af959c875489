"""Graphs to build on, and an embedder whose vectors the test decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Entity, Relation, Vectors, content_id
from leanrag_engine.core.ports import Progress
from leanrag_engine.core.vectors import unit_rows

WORDS = [
    "harbour",
    "river",
    "mill",
    "tower",
    "bridge",
    "market",
    "garden",
    "chapel",
    "library",
    "orchard",
    "lantern",
    "anchor",
    "barrel",
    "compass",
    "engine",
    "furnace",
    "gallery",
    "hammer",
    "island",
    "journal",
    "kettle",
    "ladder",
    "meadow",
    "needle",
    "oven",
    "pulley",
    "quarry",
    "rudder",
    "saddle",
    "tavern",
]


class FixedEmbedder:
    """Gives each text the vector that was set for it; a text that is new gets the mean of all."""

    def __init__(self, texts: Sequence[str], vectors: Vectors) -> None:
        self._known = dict(zip(texts, vectors, strict=True))
        self._other = vectors.mean(axis=0)

    @property
    def identity(self) -> str:
        return "fixed"

    @property
    def dimension(self) -> int:
        return int(self._other.shape[0])

    async def embed(self, texts: Sequence[str], report: Callable[[Progress], None] | None = None) -> Vectors:
        if report is not None:
            report(Progress("embed", 0, len(texts)))
        rows = [self._known.get(text, self._other) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(-1, self.dimension)


def unit(rows: np.ndarray) -> Vectors:
    return np.asarray(unit_rows(rows), dtype=np.float32)


def vectors_of(kind: str, rows: int, seed: int, dimension: int = 12) -> Vectors:
    """Unit rows of one ``kind``: spread, clustered, duplicated, equal, zero, nested, or mixed (some zero)."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((rows, dimension))
    if kind == "clustered":
        centres = rng.standard_normal((max(1, rows // 15), dimension))
        vectors += 4 * centres[np.arange(rows) % len(centres)]
    elif kind == "nested":  # 16 regions of 4 groups
        region, group = np.arange(rows) % 16, np.arange(rows) % 64
        vectors = 9 * rng.standard_normal((16, dimension))[region] + 3 * vectors[group] + 0.2 * vectors
    elif kind == "duplicated":
        vectors = vectors[np.arange(rows) % max(1, rows // 40)]
    elif kind == "equal":
        vectors[:] = vectors[0]
    elif kind == "zero":
        vectors[:] = 0
    elif kind == "mixed":
        vectors[rng.random(rows) < 0.4] = 0
    return unit(vectors)


def random_graph(rng: np.random.Generator, count: int, density: float) -> Graph:
    """``count`` entities, some of the same name, and about ``density`` relations for each."""
    entities = tuple(
        Entity(
            id=content_id("e", str(place)),
            name=f"{WORDS[rng.integers(30)]} {WORDS[rng.integers(30)]}",
            description=f"Number {place} stands by the {WORDS[rng.integers(30)]} of this test.",
            mentions=int(rng.integers(1, 9)),
        )
        for place in range(count)
    )
    drawn = rng.integers(count, size=(int(density * count), 2))
    ends = {tuple(sorted(pair)): pair for pair in drawn.tolist() if pair[0] != pair[1]}
    relations = tuple(
        Relation(
            id=content_id("r", entities[first].id, entities[second].id),
            source_id=entities[first].id,
            target_id=entities[second].id,
            description=f"A road leads from number {first} to number {second}.",
            weight=int(rng.integers(1, 5)),
        )
        for first, second in ends.values()
    )
    return Graph(entities, relations)


@pytest.fixture(scope="session")
def some_vectors() -> Callable[..., Vectors]:
    """``(kind, rows, seed)`` → unit rows of that kind."""
    return vectors_of


@pytest.fixture(scope="session")
def random_case() -> Callable[..., tuple[Graph, FixedEmbedder]]:
    """A random graph, and an embedder that gives its entities vectors of one kind."""

    def make(
        count: int, *, kind: str = "spread", density: float = 0.0, seed: int = 0, broken: int | None = None
    ) -> tuple[Graph, FixedEmbedder]:
        graph = random_graph(np.random.default_rng(seed), count, density)
        vectors = vectors_of(kind, count, seed)
        if broken is not None:
            vectors[broken] = np.nan
        return graph, FixedEmbedder([entity.indexed_text for entity in graph.entities], vectors)

    return make


@pytest.fixture(scope="session")
def labelled_mixture() -> Callable[..., tuple[Vectors, np.ndarray]]:
    """Unit vectors of ``rows`` points in natural clusters of 10–30, and the cluster of each."""

    def make(
        rows: int, *, dimension: int = 96, spread: float = 0.8, seed: int = 0
    ) -> tuple[Vectors, np.ndarray]:
        rng = np.random.default_rng(seed)
        sizes = rng.integers(10, 31, size=rows // 10)
        labels = np.repeat(np.arange(len(sizes)), sizes)[:rows]
        centres = unit(rng.standard_normal((int(labels.max()) + 1, dimension)))
        points = centres[labels] + spread * rng.standard_normal((rows, dimension)) / np.sqrt(dimension)
        order = rng.permutation(rows)
        return unit(points[order]), labels[order]

    return make
