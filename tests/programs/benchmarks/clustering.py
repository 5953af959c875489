"""Clustering beside scikit-learn's own: seconds, memory, cap, agreement with the truth, stability. Prints one JSON line.

Run it as ``python tests/programs/benchmarks/clustering.py [--rows 2000 5000 10000] [--peers]``. The data are labelled
mixtures with natural clusters of 10 to 30; each way runs on each set in a process of its own.
``--vectors FILE.npy --links FILE.npy`` measures real embeddings (n, d) and relations (m, 2) instead: tightness and
the share of relations inside clusters, for our three ways and for KMeans with as many clusters.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from leanrag_engine.core.model import Vectors
from leanrag_engine.hierarchy.clustering.balancing import ClusterSizes
from leanrag_engine.hierarchy.clustering.links import EdgeList
from leanrag_engine.hierarchy.clustering.methods import ClusteringMethod, ClusteringOptions, partition
from leanrag_engine.hierarchy.clustering.mixture import cluster
from leanrag_engine.hierarchy.health import tightness

MEAN_SIZE = 20
CAP = 30

Figures = dict[str, float | int | bool]


def labelled_mixture(rows: int, dimension: int, spread: float) -> tuple[Vectors, np.ndarray]:
    """Unit vectors whose clusters lie in groups, as topics do, and the cluster of each."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(10, 31, size=rows // 10)
    truth = np.repeat(np.arange(len(sizes)), sizes)[:rows]
    count = int(truth.max()) + 1
    groups = unit(rng.standard_normal((max(1, count // 15), dimension)))
    centres = unit(
        groups[rng.integers(0, len(groups), count)] + unit(rng.standard_normal((count, dimension)))
    )
    points = unit(centres[truth] + spread * rng.standard_normal((rows, dimension)) / np.sqrt(dimension))
    order = rng.permutation(rows)
    return points[order].astype(np.float32), truth[order]


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def ours(vectors: Vectors, seed: int) -> np.ndarray:
    return cluster(vectors, ClusterSizes(MEAN_SIZE, CAP), seed=seed).labels


def kmeans(vectors: Vectors, seed: int) -> np.ndarray:
    count = -(-len(vectors) // MEAN_SIZE)
    return np.asarray(KMeans(count, n_init=1, random_state=seed).fit(vectors).labels_)


def gaussian_mixture(vectors: Vectors, seed: int) -> np.ndarray:
    """One mixture with n / 20 components, as LeanRAG's published code fits it, without its UMAP."""
    count = -(-len(vectors) // MEAN_SIZE)
    model = GaussianMixture(count, covariance_type="diag", random_state=seed)
    return np.asarray(model.fit_predict(vectors))


METHODS: dict[str, Callable[[Vectors, int], np.ndarray]] = {
    way.__name__: way for way in (ours, kmeans, gaussian_mixture)
}


def measured(name: str, rows: int, dimension: int, spread: float) -> Figures:
    """One way on one set, twice with the same seed and once with another: what it costs, how much the runs agree.

    ``peak_mb`` is what the first run took above what the process held before.
    """
    vectors, truth = labelled_mixture(rows, dimension, spread)
    METHODS[name](vectors[:200], 0)  # imports and thread pools
    before = peak_mb()
    started, worked = time.perf_counter(), time.process_time()
    labels = METHODS[name](vectors, 0)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - worked
    return {
        "rows": rows,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "peak_mb": peak_mb() - before,
        "process_peak_mb": peak_mb(),
        **sizes_of(labels),
        "adjusted_rand_index": round(float(adjusted_rand_score(truth, labels)), 3),
        "same_again": bool(np.array_equal(labels, METHODS[name](vectors, 0))),
        "agreement_of_seeds": round(float(adjusted_rand_score(labels, METHODS[name](vectors, 1))), 3),
    }


def sizes_of(labels: np.ndarray) -> Figures:
    sizes = np.bincount(labels)
    return {
        "clusters": len(sizes),
        "largest": int(sizes.max()),
        "over_cap": int((sizes > CAP).sum()),
        "lone": int((sizes == 1).sum()),
    }


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def on_real(vectors: Vectors, ends: np.ndarray) -> dict[str, Figures]:
    """Our ways, and KMeans with as many clusters as ``gmm`` has."""
    links = EdgeList(len(vectors), ends, np.ones(len(ends)))
    found: dict[str, Figures] = {}
    for way in ClusteringMethod:
        started = time.perf_counter()
        labels = partition(
            vectors, links, ClusterSizes(MEAN_SIZE, CAP), ClusteringOptions(way), pulse=lambda: None
        ).labels
        found[way.value] = judged(vectors, links, labels, time.perf_counter() - started)
    started = time.perf_counter()
    labels = kmeans(vectors, 0)
    found["kmeans"] = judged(vectors, links, labels, time.perf_counter() - started)
    return found


def judged(vectors: Vectors, links: EdgeList, labels: np.ndarray, seconds: float) -> Figures:
    return {
        "seconds": round(seconds, 2),
        **sizes_of(labels),
        "tightness": round(tightness(vectors, labels), 4),
        "inside": round(links.inside(labels), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--spread", type=float, default=0.8)
    parser.add_argument("--peers", action="store_true", help="also run KMeans and one Gaussian mixture")
    parser.add_argument("--vectors", type=Path, help="real embeddings, a .npy file")
    parser.add_argument("--links", type=Path, help="relations among them as pairs of rows, a .npy file")
    asked = parser.parse_args()
    if asked.vectors:
        print(json.dumps(on_real(np.load(asked.vectors), np.load(asked.links))))
        return
    names = list(METHODS) if asked.peers else ["ours"]
    tasks = [(name, rows, asked.dimension, asked.spread) for name in names for rows in asked.rows]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        figures = [pool.apply(measured, task) for task in tasks]
    found: dict[str, list[Figures]] = {name: [] for name in names}
    for (name, *_), figure in zip(tasks, figures, strict=True):
        found[name].append(figure)
    print(json.dumps({"dimension": asked.dimension, "spread": asked.spread, **found}))


if __name__ == "__main__":
    main()
