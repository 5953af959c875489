"""Stacking layers on G0 until one root is left (paper, "Hierarchical Knowledge Graph Aggregation")."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.errors import InvalidInput, NotReady
from leanrag_engine.core.model import Entity, Graph, Hierarchy, Vectors
from leanrag_engine.core.ports import Embedder, Progress, ProgressReport
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.vectors import unit_rows
from leanrag_engine.llm.batching import first_error

from .aggregation import aggregate
from .by_model.write import Ascent, Desk, Draft, TextSources, apply_summaries
from .clustering.balancing import SizeChoice, cluster_means
from .clustering.links import EdgeList
from .clustering.methods import ClusteringOptions, partition
from .clustering.mixture import Clusters, check_sizes, measure_memberships, reduce_dimensions
from .clustering.sizing import USUAL, cap_for, choose_size
from .health import HierarchyHealth, measure_hierarchy
from .invariants import check_hierarchy
from .relations import LayerStep, PairCounts, count_pairs, inter_cluster_relations
from .texts.naming import PhraseTable, find_phrases
from .texts.thresholds import Threshold, fit_threshold

_REPORTED = 50
_DIGITS = 6
"""Decimal places of a responsibility that are kept."""

Labels = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class _BuildContext:
    """What every layer of one build has in common. ``taken`` are the name keys in use; it grows."""

    base: Graph
    plan: HierarchyOptions
    terms: PhraseTable
    taken: set[str]
    embedder: Embedder
    progress: ProgressReport


in_thread = partial(anyio.to_thread.run_sync, abandon_on_cancel=True)
"""For work that has no effect but its result: somebody who cancels the build does not wait for it."""


@dataclass(frozen=True, slots=True)
class HierarchyOptions:
    """How a hierarchy is to be built.

    ``cluster_size`` None: chosen from the data. ``cap`` None: half as much again as the size. A relation
    whose strength λ exceeds ``tau`` gets a text of its own; "auto": τ is chosen for each layer, so that
    ``relation_calls`` calls that write ``batch`` such texts each are enough.
    """

    cluster_size: int | None = USUAL
    cap: int | None = None
    tau: int | Literal["auto"] = 3
    clustering: ClusteringOptions = field(default_factory=ClusteringOptions)
    relation_calls: int = 100
    batch: int = 4

    def sizes(self) -> SizeChoice | None:
        """The sizes, if the data have no say in them. Raises :class:`InvalidInput` if they contradict each other."""
        if self.cluster_size is None:
            return None
        cap = cap_for(self.cluster_size) if self.cap is None else self.cap
        check_sizes(self.cluster_size, cap)
        return SizeChoice(self.cluster_size, cap, f"{self.cluster_size}, as set.")

    def threshold(self, strengths: NDArray[np.int64]) -> Threshold:
        """τ of a layer whose relations have these λ."""
        if self.tau == "auto":
            return fit_threshold(strengths, self.relation_calls, self.batch)
        return Threshold(self.tau, f"{self.tau}, as set.")


@dataclass(frozen=True, slots=True)
class BuiltHierarchy:
    """A hierarchy, for each layer its (n, d) vectors in the same order, and how good it is."""

    hierarchy: Hierarchy
    vectors: list[Vectors]
    health: HierarchyHealth


@dataclass(slots=True)
class _LayerStack:
    """The layers so far: their drafts, vectors and, above G0, thresholds; ``ancestors`` are the places of the
    base entities' ancestors in the highest layer."""

    drafts: list[Draft]
    vectors: list[Vectors]
    ancestors: Labels
    thresholds: list[Threshold] = field(default_factory=list)

    @property
    def top(self) -> Draft:
        return self.drafts[-1]

    @property
    def points(self) -> Vectors:
        """What the highest layer is clustered by."""
        if len(self.drafts) == 1:
            return self.vectors[0]
        return _mix_with_members(self.vectors[-1], self.vectors[0], self.ancestors)


async def build(
    graph: Graph,
    embedder: Embedder,
    plan: HierarchyOptions,
    *,
    progress: ProgressReport,
    writer: TextSources | None = None,
) -> BuiltHierarchy:
    """Build G1 … Gk on ``graph`` (G0).

    A layer of more than the cluster size is clustered; the first of at most that many entities gets the
    root. G0's entities keep their order and gain their ``parent_id`` and runner-up. What ``writer`` has or gets
    to say of clusters and their relations takes the place of the heuristic texts. Raises
    :class:`NotReady` without entities, :class:`InvalidInput` for sizes that contradict each other, vectors
    that are not finite or a model that takes no request at all, and whatever ``progress`` raises.
    """
    if not graph.entities:
        raise NotReady(
            "There are no entities to build a hierarchy on.", "Ingest documents that hold text, then build."
        )
    sizes = plan.sizes()
    progress(Progress("name", 0, len(graph.entities)))
    terms = await in_thread(find_phrases, graph)
    taken = {name_key(entity.name) for entity in graph.entities}
    site = _BuildContext(graph, plan, terms, taken, embedder, progress)
    vectors = await _embed(graph.entities, embedder, progress)
    if sizes is None:
        progress(Progress("size", 0, len(graph.entities)))
        pulse = partial(progress, Progress("size", 0, len(graph.entities)))
        sizes = await in_thread(partial(choose_size, vectors, cap=plan.cap, pulse=pulse))
    tower = await _stack_layers(site, vectors, sizes, writer or TextSources())
    hierarchy = Hierarchy(tuple(draft.graph for draft in tower.drafts))
    progress(Progress("check", 0, sum(hierarchy.sizes)))
    await in_thread(check_hierarchy, hierarchy, sizes.cap)
    progress(Progress("measure", 0, sum(hierarchy.sizes)))
    job = partial(
        measure_hierarchy,
        hierarchy,
        tower.vectors,
        clustering=plan.clustering,
        sizes=sizes,
        thresholds=tower.thresholds,
    )
    return BuiltHierarchy(hierarchy, tower.vectors, await in_thread(job))


async def _stack_layers(
    site: _BuildContext, vectors: Vectors, sizes: SizeChoice, writer: TextSources
) -> _LayerStack:
    """All layers, with all that is written of them. The first error ends everything, and is raised as it is."""
    ground = Draft(site.base)
    ground.settle()
    tower = _LayerStack([ground], [vectors], np.arange(len(site.base.entities)))
    try:
        async with anyio.create_task_group() as group:
            desk = Desk(writer, group, site.progress)
            while len(tower.drafts) == 1 or len(tower.top.entities) > 1:
                await _add_layer(site, tower, sizes, desk)
            await desk.finish(tower.drafts)
    except BaseExceptionGroup as problems:
        raise first_error(problems) from None
    return tower


async def _add_layer(site: _BuildContext, tower: _LayerStack, sizes: SizeChoice, desk: Desk) -> None:
    """Put one layer on the tower. Its sentences may still be under way then: no layer above waits for all of them."""
    top = site.base if len(tower.drafts) == 1 else tower.top.graph
    stale = not tower.top.settled.is_set()
    pulse = partial(site.progress, Progress("cluster", 0, len(top.entities), f"layer {len(tower.drafts)}"))
    found = await in_thread(_cluster_layer, tower.points, top, sizes, site.plan.clustering, pulse)
    tower.ancestors = found.labels[tower.ancestors]
    step = LayerStep(top, found.labels, site.base, tower.ancestors)
    raised = await in_thread(_draft_layer, site, step, tower.vectors[-1])
    upper = Draft(raised.graph)
    ascent = Ascent.of(step, tower.top, upper, raised.counted, raised.threshold.value, stale=stale)
    written = await desk.write(ascent)
    upper.entities = apply_summaries(ascent.heuristic, written, site.taken)
    tower.top.entities = _assign_parents(top.entities, found, upper.entities)
    tower.drafts.append(upper)
    tower.thresholds.append(raised.threshold)
    tower.vectors.append(await _embed(upper.entities, site.embedder, site.progress))


def _cluster_layer(
    points: Vectors, layer: Graph, sizes: SizeChoice, clustering: ClusteringOptions, pulse: Callable[[], None]
) -> Clusters:
    """One cluster for a layer that is small enough for a root."""
    if len(points) <= sizes.mean:
        return measure_memberships(reduce_dimensions(points), np.zeros(len(points), dtype=np.intp))
    return partition(points, EdgeList.of(layer), sizes, clustering, pulse=pulse)


async def _embed(entities: Sequence[Entity], embedder: Embedder, progress: ProgressReport) -> Vectors:
    """The (n, d) vectors of ``entities``. Raises :class:`InvalidInput` naming the first that is not finite."""

    def report(step: Progress) -> None:
        said = [f"layer {entities[0].layer}", step.message]
        progress(replace(step, message=", ".join(filter(None, said))))

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


def _mix_with_members(vectors: Vectors, base: Vectors, ancestors: Labels) -> Vectors:
    """What an aggregated layer is clustered by, (n, 2d): half what an entity says of itself, half the mean
    of the base entities beneath it.

    A short text made of a few members' sentences is a poor sample of them all: on prose and on technical
    text, clusters by both kept clearly more of the relations inside than clusters by the text alone.
    """
    means = cluster_means(base.astype(np.float64), ancestors, len(vectors))
    return np.asarray(np.hstack((vectors, unit_rows(means))) / np.sqrt(2.0), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class _DraftLayer:
    """A layer with its heuristic texts, and what was counted on the way."""

    graph: Graph
    counted: PairCounts
    threshold: Threshold


def _draft_layer(site: _BuildContext, step: LayerStep, vectors: Vectors) -> _DraftLayer:
    """The layer above ``step.lower``: aggregated entities and the relations between them."""
    count = int(step.labels.max()) + 1
    layer = f"layer {step.lower.entities[0].layer + 1}"
    kind = "cluster" if count > 1 else "root"
    entities: list[Entity] = []
    for entity in aggregate(step, vectors, site.terms, set(site.taken), kind=kind):
        if len(entities) % _REPORTED == 0:
            site.progress(Progress("aggregate", len(entities), count, layer))
        entities.append(entity)
    site.progress(Progress("relate", 0, len(step.lower.relations), layer))
    counted = count_pairs(step)
    threshold = site.plan.threshold(counted.strengths)
    relations = inter_cluster_relations(step, entities, tau=threshold.value, counted=counted)
    return _DraftLayer(Graph(tuple(entities), relations), counted, threshold)


def _assign_parents(
    entities: Sequence[Entity], found: Clusters, upper: Sequence[Entity]
) -> tuple[Entity, ...]:
    ids = [entity.id for entity in upper]
    rows = zip(
        entities,
        found.labels.tolist(),
        found.second.tolist(),
        np.round(found.responsibility, _DIGITS).tolist(),
        np.round(found.second_responsibility, _DIGITS).tolist(),
        strict=True,
    )
    return tuple(
        replace(
            entity,
            parent_id=ids[parent],
            second_parent_id=ids[second] if second >= 0 else None,
            responsibility=own,
            second_responsibility=runner_up,
        )
        for entity, parent, second, own, runner_up in rows
    )
