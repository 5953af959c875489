"""Stacking layers on G0 until one root is left (paper, "Hierarchical Knowledge Graph Aggregation")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from leanrag_engine.errors import InvalidInput, NotReady
from leanrag_engine.language import name_key
from leanrag_engine.model import Entity, Graph, Hierarchy, Vectors
from leanrag_engine.ports import Embedder, Progress, ProgressReport

from .aggregation import aggregate
from .balancing import SizeChoice, cluster_means
from .clustering import Clusters, check_sizes, memberships, reduced_space
from .health import Health, measure
from .invariants import check
from .links import Links
from .naming import Terms, find_terms
from .relations import Step, inter_cluster_relations
from .sizing import USUAL, cap_for, size_from
from .ways import Manner, partition

_REPORTED = 50
_DIGITS = 6
"""Decimal places of a responsibility that are kept."""

Labels = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class _Site:
    """What every layer of one build has in common. ``taken`` are the name keys in use; it grows."""

    base: Graph
    terms: Terms
    taken: set[str]
    tau: int
    progress: ProgressReport


@dataclass(frozen=True, slots=True)
class Plan:
    """How a hierarchy is to be built.

    ``cluster_size`` None: chosen from the data. ``cap`` None: half as much again as the size. A relation
    whose strength λ exceeds ``tau`` gets a text of its own.
    """

    cluster_size: int | None = USUAL
    cap: int | None = None
    tau: int = 3
    manner: Manner = field(default_factory=Manner)

    def sizes(self) -> SizeChoice | None:
        """The sizes, if the data have no say in them. Raises :class:`InvalidInput` if they contradict each other."""
        if self.cluster_size is None:
            return None
        cap = cap_for(self.cluster_size) if self.cap is None else self.cap
        check_sizes(self.cluster_size, cap)
        return SizeChoice(self.cluster_size, cap, f"{self.cluster_size}, as set.")


@dataclass(frozen=True, slots=True)
class Built:
    """A hierarchy, for each layer its (n, d) vectors in the same order, and how good it is."""

    hierarchy: Hierarchy
    vectors: list[Vectors]
    health: Health


async def build(graph: Graph, embedder: Embedder, plan: Plan, *, progress: ProgressReport) -> Built:
    """Build G1 … Gk on ``graph`` (G0).

    A layer of more than the cluster size is clustered; the first of at most that many entities gets the
    root. G0's entities keep their order and gain their ``parent_id`` and runner-up. Raises
    :class:`NotReady` without entities, :class:`InvalidInput` for sizes that contradict each other or vectors
    that are not finite, and whatever ``progress`` raises.
    """
    if not graph.entities:
        raise NotReady(
            "There are no entities to build a hierarchy on.", "Ingest documents that hold text, then build."
        )
    sizes = plan.sizes()
    progress(Progress("name", 0, len(graph.entities)))
    terms = await anyio.to_thread.run_sync(find_terms, graph)
    site = _Site(graph, terms, {name_key(entity.name) for entity in graph.entities}, plan.tau, progress)
    layers = [graph]
    vectors = [await _embed(graph.entities, embedder, progress)]
    if sizes is None:
        progress(Progress("size", 0, len(graph.entities)))
        pulse = partial(progress, Progress("size", 0, len(graph.entities)))
        sizes = await anyio.to_thread.run_sync(partial(size_from, vectors[0], cap=plan.cap, pulse=pulse))
    ancestors = np.arange(len(graph.entities))
    while len(layers) == 1 or len(layers[-1].entities) > 1:
        top = layers[-1]
        pulse = partial(progress, Progress("cluster", 0, len(top.entities), f"layer {len(layers)}"))
        points = vectors[0] if len(layers) == 1 else _with_members(vectors[-1], vectors[0], ancestors)
        found = await anyio.to_thread.run_sync(_clusters, points, top, sizes, plan.manner, pulse)
        ancestors = found.labels[ancestors]
        step = Step(top, found.labels, graph, ancestors)
        upper = await anyio.to_thread.run_sync(_raise_layer, site, step, vectors[-1])
        layers[-1] = _with_parents(top, found, upper)
        layers.append(upper)
        vectors.append(await _embed(upper.entities, embedder, progress))
    hierarchy = Hierarchy(tuple(layers))
    progress(Progress("check", 0, sum(hierarchy.sizes)))
    await anyio.to_thread.run_sync(check, hierarchy, sizes.cap)
    progress(Progress("measure", 0, sum(hierarchy.sizes)))
    job = partial(measure, hierarchy, vectors, manner=plan.manner, sizes=sizes, tau=plan.tau)
    return Built(hierarchy, vectors, await anyio.to_thread.run_sync(job))


def _clusters(
    points: Vectors, layer: Graph, sizes: SizeChoice, manner: Manner, pulse: Callable[[], None]
) -> Clusters:
    """One cluster for a layer that is small enough for a root."""
    if len(points) <= sizes.mean:
        return memberships(reduced_space(points), np.zeros(len(points), dtype=np.intp))
    return partition(points, Links.of(layer), sizes, manner, pulse=pulse)


async def _embed(entities: Sequence[Entity], embedder: Embedder, progress: ProgressReport) -> Vectors:
    """The (n, d) vectors of ``entities``. Raises :class:`InvalidInput` naming the first that is not finite."""

    def report(step: Progress) -> None:
        progress(replace(step, message=f"layer {entities[0].layer}"))

    report(Progress("embed", 0, len(entities)))
    vectors = await embedder.embed([entity.indexed_text for entity in entities], report)
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


def _with_parents(lower: Graph, found: Clusters, upper: Graph) -> Graph:
    ids = [entity.id for entity in upper.entities]
    rows = zip(
        lower.entities,
        found.labels.tolist(),
        found.second.tolist(),
        np.round(found.responsibility, _DIGITS).tolist(),
        np.round(found.second_responsibility, _DIGITS).tolist(),
        strict=True,
    )
    entities = tuple(
        replace(
            entity,
            parent_id=ids[parent],
            second_parent_id=ids[second] if second >= 0 else None,
            responsibility=own,
            second_responsibility=runner_up,
        )
        for entity, parent, second, own, runner_up in rows
    )
    return Graph(entities, lower.relations)
