"""Write the explorer's page of a made-up collection: ``python tests/programs/explorer/large_page.py 50000 FILE.html``.

Clusters have 10 to 30 members; each entity has three relations, most of them within its cluster. Names and sentences are
made of syllables. It goes through what ``leanrag explore --out`` writes a collection with, and measures the page alone:
no index is built.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Chunk, Entity, Evidence, Relation, content_id
from leanrag_engine.exchange.exporting.graph import ExportedGraph
from leanrag_mcp.explorer.data import describe_graph
from leanrag_mcp.explorer.page import render_page

SYLLABLES = ["ka", "lo", "mir", "ten", "sha", "vel", "dor", "nu", "pri", "gan", "os", "fe"]


def make_names(count: int, rng: np.random.Generator) -> list[str]:
    words = rng.integers(len(SYLLABLES), size=(count, 6))
    return [
        f"{SYLLABLES[a]}{SYLLABLES[b]}{SYLLABLES[c]} {SYLLABLES[d]}{SYLLABLES[e]}{SYLLABLES[f]}".title()
        for a, b, c, d, e, f in words
    ]


def make_graph(count: int) -> ExportedGraph:
    rng = np.random.default_rng(0)
    layers: list[Graph] = []
    chunks: dict[str, Chunk] = {}
    members: list[int] = [0] * count
    while True:
        number = len(layers)
        names = make_names(len(members), rng)
        ids = [
            content_id("e" if number == 0 else "c", str(number), str(place)) for place in range(len(members))
        ]
        parents = (
            np.repeat(np.arange(len(members)), rng.integers(10, 31, size=len(members)))[: len(members)]
            if len(members) > 20
            else np.zeros(len(members), dtype=int)
        )
        is_root = len(members) == 1
        entities = []
        for place, (id_, name) in enumerate(zip(ids, names, strict=True)):
            text = f"{name} lies near {names[place - 1]}."
            chunk_id = content_id("k", id_)
            if number == 0:
                citation = f"d{1 + place // 500}:c{1 + place % 500}"
                start = 60 * (place % 500)
                chunks[chunk_id] = Chunk(
                    chunk_id, "made", 1 + place % 500, text, start, start + len(text), 10, citation=citation
                )
            entities.append(
                Entity(
                    id_,
                    name,
                    "place" if number == 0 else "cluster",
                    number,
                    text if number == 0 else "",
                    mentions=int(rng.integers(1, 40)),
                    members=members[place],
                    parent_id=None if is_root else content_id("c", str(number + 1), str(parents[place])),
                    chunk_ids=(chunk_id,) if number == 0 else (),
                    evidence=(Evidence(0, len(text), chunk_id),) if number == 0 else (),
                )
            )
        layers.append(Graph(tuple(entities), tuple(make_relations(ids, number, rng))))
        if is_root:
            return ExportedGraph("made-up", (), chunks, tuple(layers))
        sizes = Counter(parents.tolist())
        members = [sizes[place] for place in range(len(sizes))]


def make_relations(ids: list[str], layer: int, rng: np.random.Generator) -> list[Relation]:
    found: dict[tuple[int, int], int] = {}
    for place in range(len(ids)):
        for distance in rng.geometric(0.1, size=3):
            other = (place + int(distance)) % len(ids)
            if other != place:
                found[min(place, other), max(place, other)] = int(rng.geometric(0.2))
    return [
        Relation(f"r{layer}-{a}-{b}", ids[a], ids[b], layer, strength=strength if layer else 1)
        for (a, b), strength in found.items()
    ]


if __name__ == "__main__":
    graph = make_graph(int(sys.argv[1]))
    page = render_page({**describe_graph(graph), "history": []})
    Path(sys.argv[2]).write_text(page, encoding="utf-8")
    print(f"{[len(layer.entities) for layer in graph.layers]} entities by layer, {len(page) / 1e6:.1f} MB")
