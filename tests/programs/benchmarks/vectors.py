"""The vector index: seconds to write a space, and recall@10 against every cosine computed. Prints one JSON line.

Run it as ``python tests/programs/benchmarks/vectors.py [--rows 20000] [--vectors FILE.npy ...]``. Without files the vectors are
a labelled mixture and the facts of a synthetic corpus as the fitted embedder puts them; ``--neighbours`` and
``--candidates`` try other settings of the index than the store's own.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import numpy as np
from clustering import labelled_mixture
from synthetic import corpus

from leanrag_engine.adapters.chroma.index import CONFIGURATION
from leanrag_engine.adapters.chroma.store import ChromaVectorStore
from leanrag_engine.adapters.embedders.fitted import FittedEmbedderSource
from leanrag_engine.core.model import Vectors
from leanrag_engine.extraction.merging import ExtractSource, merge_source
from leanrag_engine.pipeline.index import BATCH

QUERIES = 300
NEAREST = 10
NOISE = 0.5
"""Length of what is added to a row to make a query of it."""

HNSW = CONFIGURATION["hnsw"]

ALIKE = 1e-5
"""Rows whose cosines differ by less are as near as each other."""


async def facts(rows: int) -> Vectors:
    """So many facts, and the chunks that state them, embedded by the fitted embedder."""
    data = corpus(rows // 3, rows)
    texts = [text for _, text in merge_source(ExtractSource.of(data.all_extracts)).graph.facts()]
    embedder, _ = await FittedEmbedderSource().fit([chunk.text for each in data.chunks for chunk in each])
    return await embedder.embed(texts)


def queries(vectors: Vectors) -> Iterator[Vectors]:
    """Rows of the space with some noise, as what is asked is near what is said and never the same."""
    rng = np.random.default_rng(1)
    width = vectors.shape[1]
    for row in vectors[rng.integers(0, len(vectors), QUERIES)]:
        query = row + NOISE * rng.standard_normal(width).astype(np.float32) / np.float32(np.sqrt(width))
        yield query / np.linalg.norm(query)


async def measured(vectors: Vectors) -> dict[str, float | int]:
    ids = [f"r{number:07d}" for number in range(len(vectors))]
    with tempfile.TemporaryDirectory() as folder:
        store = ChromaVectorStore(Path(folder))
        started, worked = time.perf_counter(), time.process_time()
        for start in range(0, len(ids), BATCH):
            part = slice(start, start + BATCH)
            await store.upsert("space", ids[part], vectors[part])
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - worked
        found = []
        for query in queries(vectors):
            cosines = vectors @ query
            worst = np.partition(cosines, -NEAREST)[-NEAREST]
            hits = await store.search("space", query, NEAREST)
            found.append(sum(cosines[int(hit.id[1:])] >= worst - ALIKE for hit in hits))
        await store.close()
    return {
        "rows": len(vectors),
        "dimension": vectors.shape[1],
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        "recall": round(float(np.mean(found)) / NEAREST, 4),
        "worst_query": int(min(found)),
    }


async def figures(asked: argparse.Namespace) -> dict[str, object]:
    spaces = {path.stem: np.load(path) for path in asked.vectors}
    if not spaces:
        spaces = {
            "mixture": labelled_mixture(asked.rows, asked.dimension, 0.8)[0],
            "facts": await facts(asked.rows),
        }
    return {name: await measured(vectors) for name, vectors in spaces.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--vectors", type=Path, nargs="+", default=[], help="real embeddings, .npy files")
    parser.add_argument("--neighbours", type=int, default=HNSW["max_neighbors"])
    parser.add_argument("--candidates", type=int, default=HNSW["ef_construction"])
    asked = parser.parse_args()
    HNSW.update(max_neighbors=asked.neighbours, ef_construction=asked.candidates)
    print(json.dumps({"index": dict(HNSW), **anyio.run(figures, asked)}))


if __name__ == "__main__":
    main()
