"""Stacking layers on G0 until one root is left (paper, "Hierarchical Knowledge Graph Aggregation")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from leanrag_engine.errors import InvalidInput, NotReady
from leanrag_engine.language import name_key
from leanrag_engine.model import Entity, Graph, Hierarchy, Vectors
from leanrag_engine.ports import Embedder, Progress, ProgressReport

from .aggregation import aggregate
from .balancing import cluster_means
from .clustering import check_sizes, cluster
from .invariants import check
from .naming import Terms, find_terms
from .relations import Step, inter_cluster_relations

_BATCH = 512
_REPORTED = 50

Labels = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class _Site:
    """What every layer of one build has in common. ``taken`` are the name keys in use; it grows."""

    base: Graph
    terms: Terms
    taken: set[str]
    tau: int
    progress: ProgressReport


async def build(
    graph: Graph, embedder: Embedder, *, cluster_size: int, cap: int, tau: int, progress: ProgressReport
) -> tuple[Hierarchy, list[Vectors]]:
    """Build G1 … Gk on ``graph`` (G0); returns all layers and for each its (n, d) vectors in the same order.

    A layer of more than ``cluster_size`` entities is clustered (no cluster exceeds ``cap`` members); the
    first of at most that many gets the root. G0's entities keep their order and gain their ``parent_id``.
    Raises :class:`NotReady` without entities, :class:`InvalidInput` for sizes that contradict each other or
    vectors that are not finite, and whatever ``progress`` raises.
    """
    _check_input(graph, cluster_size, cap)
    progress(Progress("name", 0, len(graph.entities)))
    terms = await anyio.to_thread.run_sync(find_terms, graph)
    site = _Site(graph, terms, {name_key(entity.name) for entity in graph.entities}, tau, progress)
    layers = [graph]
    vectors = [await _embed(graph.entities, embedder, progress)]
    ancestors = np.arange(len(graph.entities))
    while len(layers) == 1 or len(layers[-1].entities) > 1:
        top = layers[-1]
        labels = np.zeros(len(top.entities), dtype=np.intp)
        if len(top.entities) > cluster_size:
            pulse = partial(progress, Progress("cluster", 0, len(top.entities), f"layer {len(layers)}"))
            points = vectors[0] if len(layers) == 1 else _with_members(vectors[-1], vectors[0], ancestors)
            job = partial(cluster, points, mean_size=cluster_size, cap=cap, pulse=pulse)
            labels = (await anyio.to_thread.run_sync(job)).labels
        ancestors = labels[ancestors]
        step = Step(top, labels, graph, ancestors)
        upper = await anyio.to_thread.run_sync(_raise_layer, site, step, vectors[-1])
        layers[-1] = _with_parents(top, labels, upper)
        layers.append(upper)
        vectors.append(await _embed(upper.entities, embedder, progress))
    hierarchy = Hierarchy(tuple(layers))
    progress(Progress("check", 0, sum(hierarchy.sizes)))
    await anyio.to_thread.run_sync(check, hierarchy, cap)
    return hierarchy, vectors


def _check_input(graph: Graph, cluster_size: int, cap: int) -> None:
    if not graph.entities:
        raise NotReady(
            "There are no entities to build a hierarchy on.", "Ingest documents that hold text, then build."
        )
    check_sizes(cluster_size, cap)


async def _embed(entities: Sequence[Entity], embedder: Embedder, progress: ProgressReport) -> Vectors:
    """The (n, d) vectors of ``entities``. Raises :class:`InvalidInput` naming the first that is not finite."""
    rows = []
    for start in range(0, len(entities), _BATCH):
        progress(Progress("embed", start, len(entities), f"layer {entities[0].layer}"))
        rows.append(
            await embedder.embed([entity.indexed_text for entity in entities[start : start + _BATCH]])
        )
    vectors = np.concatenate(rows)
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        text = entities[broken[0]].indexed_text
        raise InvalidInput(
            f"The embedder {embedder.identity!r} gave values that are not finite for {len(broken)} texts,"
            f" the first is {text[:80]!r}.",
            "Check the embedder on that text, or set another one.",
        )
    return vectors


def _with_members(vectors: Vectors, base: Vectors, ancestors: Labels) -> Vectors:
    """What an aggregated layer is clustered by, (n, 2d): half what an entity says of itself, half the mean
    of the base entities beneath it.

    A short text made of a few members' sentences is a poor sample of them all: on prose and on technical
    text, clusters by both kept clearly more of the relations inside than clusters by the text alone.
    """
    means = cluster_means(base.astype(np.float64), ancestors, len(vectors))
    lengths = np.linalg.norm(means, axis=1)
    means /= np.where(lengths > 0, lengths, 1.0)[:, None]
    return np.asarray(np.hstack((vectors, means)) / np.sqrt(2.0), dtype=np.float32)


def _raise_layer(site: _Site, step: Step, vectors: Vectors) -> Graph:
    """The layer above ``step.lower``: aggregated entities and the relations between them."""
    count = int(step.labels.max()) + 1
    layer = f"layer {step.lower.entities[0].layer + 1}"
    kind = "cluster" if count > 1 else "root"
    entities: list[Entity] = []
    for entity in aggregate(step, vectors, site.terms, site.taken, kind=kind):
        if len(entities) % _REPORTED == 0:
            site.progress(Progress("aggregate", len(entities), count, layer))
        entities.append(entity)
    site.progress(Progress("relate", 0, len(step.lower.relations), layer))
    return Graph(tuple(entities), inter_cluster_relations(step, entities, tau=site.tau))


def _with_parents(lower: Graph, labels: Labels, upper: Graph) -> Graph:
    entities = tuple(
        replace(entity, parent_id=upper.entities[label].id)
        for entity, label in zip(lower.entities, labels.tolist(), strict=True)
    )
    return Graph(entities, lower.relations)
