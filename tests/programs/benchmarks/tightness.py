"""How tight clusters of real entities are, and whether they come out again, beside scikit-learn. Prints one JSON line.

Run it as ``python tests/programs/benchmarks/tightness.py --openie FILE --graphrag FOLDER [--embedder NAME]``: the entities of
an OpenIE file in HippoRAG's format, and those of a GraphRAG index (parquet; read only if pyarrow is installed, else
left out with the reason). Each of our three ways beside KMeans with the same number of clusters and no cap, and
beside one Gaussian mixture: tightness (mean cosine to the own cluster's mean), share of relations inside clusters,
clusters above the cap, and the adjusted Rand index of a second run with another seed, and of one without a tenth
of the entities.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import anyio
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from leanrag_engine.adapters.wiring import embedder_source
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Chunk, Entity, Relation, Vectors
from leanrag_engine.extraction.merging import ExtractSource, merge_source
from leanrag_engine.extraction.openie import extracts_from, read_openie
from leanrag_engine.hierarchy.clustering.balancing import ClusterSizes
from leanrag_engine.hierarchy.clustering.links import EdgeList
from leanrag_engine.hierarchy.clustering.methods import ClusteringMethod, ClusteringOptions, partition
from leanrag_engine.hierarchy.health import tightness

SIZES = ClusterSizes(20, 30)

Labels = np.ndarray
Way = Callable[[Vectors, EdgeList, int], Labels]


def openie_graph(path: Path) -> Graph:
    """G0 of an OpenIE file, each passage a document of one chunk."""
    extracts = []
    for number, entry in enumerate(read_openie(path).entries):
        title, _, text = entry.text.partition("\n")
        chunk = Chunk(f"d{number}", f"d{number}", 1, text, 0, len(text), 1)
        extracts += extracts_from(entry, title, [chunk])
    return merge_source(ExtractSource.of(extracts)).graph


def graphrag_graph(folder: Path) -> Graph | str:
    """The entities and relations of a GraphRAG index, or why they cannot be read."""
    if importlib.util.find_spec("pyarrow") is None:
        return "left out: pyarrow is not installed"
    from pyarrow.parquet import read_table  # noqa: PLC0415 - only where it is installed

    rows = read_table(folder / "entities.parquet").to_pylist()
    entities = tuple(Entity(row["id"], row["title"], description=row["description"] or "") for row in rows)
    ids = {entity.name: entity.id for entity in entities}
    stated = read_table(folder / "relationships.parquet").to_pylist()
    relations = tuple(
        Relation(row["id"], ids[row["source"]], ids[row["target"]])
        for row in stated
        if row["source"] in ids and row["target"] in ids
    )
    return Graph(entities, relations)


async def embedded(graph: Graph, name: str) -> Vectors:
    texts = [entity.indexed_text for entity in graph.entities]
    embedder, _ = await embedder_source(load_settings(embedder=name)).fit(texts)
    return await embedder.embed(texts)


def of_ours(way: ClusteringMethod) -> Way:
    def labels(vectors: Vectors, links: EdgeList, seed: int) -> Labels:
        return partition(vectors, links, SIZES, ClusteringOptions(way), seed=seed, pulse=lambda: None).labels

    return labels


def kmeans(vectors: Vectors, _: EdgeList, seed: int) -> Labels:
    count = -(-len(vectors) // SIZES.mean)
    return np.asarray(KMeans(count, n_init=1, random_state=seed).fit(vectors).labels_)


def gaussian_mixture(vectors: Vectors, _: EdgeList, seed: int) -> Labels:
    """One mixture on what 32 principal axes hold, with as many components."""
    centred = vectors - vectors.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:32]
    count = -(-len(vectors) // SIZES.mean)
    model = GaussianMixture(count, covariance_type="diag", random_state=seed, reg_covar=1e-4)
    return np.asarray(model.fit_predict(centred @ axes.T))


METHODS: dict[str, Way] = {
    **{way.value: of_ours(way) for way in ClusteringMethod},
    "kmeans": kmeans,
    "gaussian_mixture": gaussian_mixture,
}


def judged(way: Way, vectors: Vectors, links: EdgeList, *, once: bool) -> dict[str, float]:
    labels = way(vectors, links, 0)
    sizes = np.bincount(labels)
    again = {} if once else steadiness(way, vectors, links, labels)
    return {
        "clusters": int(np.count_nonzero(sizes)),
        "largest": int(sizes.max()),
        "over_cap": int((sizes > SIZES.cap).sum()),
        "lone": int((sizes == 1).sum()),
        "tightness": round(tightness(vectors, labels), 4),
        "inside": round(links.inside(labels), 4),
        **again,
    }


def steadiness(way: Way, vectors: Vectors, links: EdgeList, labels: Labels) -> dict[str, float]:
    kept = np.sort(np.random.default_rng(0).permutation(len(vectors))[: round(0.9 * len(vectors))])
    part = np.full(len(vectors), -1)
    part[kept] = 0
    (_, fewer), *_ = links.within(part)
    return {
        "other_seed": round(float(adjusted_rand_score(labels, way(vectors, links, 1))), 3),
        "without_a_tenth": round(float(adjusted_rand_score(labels[kept], way(vectors[kept], fewer, 0))), 3),
    }


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--openie", type=Path)
    parser.add_argument("--graphrag", type=Path)
    parser.add_argument("--embedder", default="fitted")
    parser.add_argument("--once", action="store_true", help="leave out the second runs and the mixture")
    asked = parser.parse_args()
    graphs: dict[str, Graph | str] = {}
    if asked.openie:
        graphs[asked.openie.stem] = openie_graph(asked.openie)
    if asked.graphrag:
        graphs[asked.graphrag.name] = graphrag_graph(asked.graphrag)
    found: dict[str, object] = {"embedder": asked.embedder}
    for name, graph in graphs.items():
        if isinstance(graph, str):
            found[name] = graph
            continue
        vectors, links = await embedded(graph, asked.embedder), EdgeList.of(graph)
        ways = [way for way in METHODS if not asked.once or way != "gaussian_mixture"]
        figures = {way: judged(METHODS[way], vectors, links, once=asked.once) for way in ways}
        for each in figures.values():
            each["of_kmeans"] = round(each["tightness"] / figures["kmeans"]["tightness"], 4)
        found[name] = {"entities": len(vectors), "relations": len(links.ends), **figures}
    print(json.dumps(found))


if __name__ == "__main__":
    anyio.run(main)
