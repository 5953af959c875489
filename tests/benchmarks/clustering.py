"""Clustering beside scikit-learn's own: seconds, largest cluster, agreement with the truth. Prints one JSON line.

Run it as ``python tests/benchmarks/clustering.py [--rows 2000 5000 10000] [--peers]``. The data are labelled
mixtures with natural clusters of 10 to 30; all ways run in one process, one after the other.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from leanrag_engine.hierarchy.clustering import cluster
from leanrag_engine.model import Vectors

MEAN_SIZE = 20
CAP = 30


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


def measured(
    way: Callable[[Vectors, int], np.ndarray], vectors: Vectors, truth: np.ndarray
) -> dict[str, float | int]:
    """One way on one set, twice with different seeds: what it costs, and how much the two runs agree."""
    started = time.perf_counter()
    labels = way(vectors, 0)
    seconds = time.perf_counter() - started
    sizes = np.bincount(labels)
    return {
        "rows": len(vectors),
        "seconds": round(seconds, 2),
        "clusters": len(sizes),
        "largest": int(sizes.max()),
        "over_cap": int((sizes > CAP).sum()),
        "lone": int((sizes == 1).sum()),
        "adjusted_rand_index": round(float(adjusted_rand_score(truth, labels)), 3),
        "agreement_of_seeds": round(float(adjusted_rand_score(labels, way(vectors, 1))), 3),
        "process_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def ours(vectors: Vectors, seed: int) -> np.ndarray:
    return cluster(vectors, mean_size=MEAN_SIZE, cap=CAP, seed=seed).labels


def kmeans(vectors: Vectors, seed: int) -> np.ndarray:
    count = -(-len(vectors) // MEAN_SIZE)
    return np.asarray(KMeans(count, n_init=1, random_state=seed).fit(vectors).labels_)


def gaussian_mixture(vectors: Vectors, seed: int) -> np.ndarray:
    """One mixture with n / 20 components, as LeanRAG's published code fits it, without its UMAP."""
    count = -(-len(vectors) // MEAN_SIZE)
    model = GaussianMixture(count, covariance_type="diag", random_state=seed)
    return np.asarray(model.fit_predict(vectors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--spread", type=float, default=0.8)
    parser.add_argument("--peers", action="store_true", help="also run KMeans and one Gaussian mixture")
    asked = parser.parse_args()
    ways = [ours, kmeans, gaussian_mixture] if asked.peers else [ours]
    found: dict[str, list[dict[str, float | int]]] = {way.__name__: [] for way in ways}
    for rows in asked.rows:
        vectors, truth = labelled_mixture(rows, asked.dimension, asked.spread)
        for way in ways:
            found[way.__name__].append(measured(way, vectors, truth))
    print(json.dumps({"dimension": asked.dimension, "spread": asked.spread, **found}))


if __name__ == "__main__":
    main()
