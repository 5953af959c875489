"""Stack layers on G0 until one root is left (paper, "Hierarchical Knowledge Graph Aggregation")."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.errors import InvalidInput, NotReady
from leanrag_engine.core.graphs.graph import Flags, Graph, Hierarchy
from leanrag_engine.core.graphs.rows import compose_rows, replace_rows, select_rows
from leanrag_engine.core.graphs.texts import EmbeddedTexts
from leanrag_engine.core.model import Entity, HierarchyHealth, Vectors
from leanrag_engine.core.ports import Embedder, Progress, ProgressReport
from leanrag_engine.core.vectors import find_infinite, unit_rows

from .aggregation import aggregate
from .by_model.write import TextSources, apply_sentences, apply_summaries, write_sentences, write_summaries
from .changes.carrying import (
    CarriedSentences,
    CarriedSummaries,
    Lineage,
    Origins,
    PreviousBuild,
    carry_sentences,
    carry_summaries,
    find_continued,
)
from .changes.comparing import find_touched, find_unchanged
from .clustering.balancing import ClusterSizes, Labels, cap_for, cluster_sums
from .clustering.methods import ClusteringOptions, partition, select_links
from .clustering.mixture import Clusters, check_sizes, measure_memberships, reduce_dimensions
from .clustering.placement import Memberships, place
from .health import check_hierarchy, measure_hierarchy
from .relations import LayerStep, PairCounts, count_pairs, fit_threshold, inter_cluster_relations
from .texts.naming import PhraseTable, TakenNames, find_phrases

BuildMode = Literal["update", "rebuild"]


in_thread = partial(anyio.to_thread.run_sync, abandon_on_cancel=True)
"""Run a pure function in a thread. A cancelled build does not wait for its result."""


@dataclass(frozen=True, slots=True)
class HierarchyOptions:
    """Say how a hierarchy is built. ``cap`` None: half as much again as ``cluster_size`` (paper, appendix B.4). A relation with
    λ > ``tau`` gets a text of its own; "auto": a τ per layer for which ``relation_calls`` calls of ``batch`` texts suffice."""

    cluster_size: int = 20
    cap: int | None = None
    tau: int | Literal["auto"] = 3
    clustering: ClusteringOptions = field(default_factory=ClusteringOptions)
    relation_calls: int = 100
    batch: int = 4

    def sizes(self) -> ClusterSizes:
        """Return the sizes. Raises :class:`InvalidInput` if they contradict each other."""
        cap = cap_for(self.cluster_size) if self.cap is None else self.cap
        sizes = ClusterSizes(self.cluster_size, cap)
        check_sizes(sizes)
        return sizes

    def threshold(self, strengths: NDArray[np.int64]) -> int:
        """Return τ of a layer whose relations have these λ."""
        return fit_threshold(strengths, self.relation_calls, self.batch) if self.tau == "auto" else self.tau


@dataclass(frozen=True, slots=True)
class BuiltHierarchy:
    """A hierarchy, the (n, d) vectors of each layer in the same order, and its health record."""

    hierarchy: Hierarchy
    vectors: list[Vectors]
    health: HierarchyHealth


@dataclass(frozen=True, slots=True)
class _BuildContext:
    """What all layers of one build share. ``taken`` are the names in use; it grows."""

    base: Graph
    options: HierarchyOptions
    taken: TakenNames
    embedder: Embedder
    sources: TextSources
    progress: ProgressReport
    previous: PreviousBuild | None
    mode: BuildMode


@dataclass(slots=True)
class _LayerStack:
    """The layers so far, their vectors and, above G0, thresholds. ``ancestors`` are the places of the base entities'
    ancestors in the highest layer, ``lineage`` what the entities of that layer continue, ``touched`` which of them have
    something beneath them that differs from the previous build. ``sums`` (n, d) are those of the vectors of the base entities
    beneath each entity of the highest layer. ``phrases`` are those of G0, None before they are needed."""

    graphs: list[Graph]
    vectors: list[Vectors]
    ancestors: Labels
    lineage: Lineage
    touched: Flags
    sums: NDArray[np.floating[Any]]
    phrases: PhraseTable | None = None
    thresholds: list[int] = field(default_factory=list)

    @property
    def points(self) -> Vectors:
        """The vectors by which the highest layer is clustered."""
        if len(self.graphs) == 1:
            return self.vectors[0]
        # The vector of an aggregated entity is a poor sample of all members: in equal parts, (n, 2d), beside it
        # stands the direction of the sums of the base entities beneath.
        both = np.hstack((self.vectors[-1], unit_rows(self.sums)))
        return np.asarray(both / np.sqrt(2.0), dtype=np.float32)


async def build(
    graph: Graph,
    embedder: Embedder,
    options: HierarchyOptions,
    *,
    progress: ProgressReport,
    sources: TextSources | None = None,
    previous: PreviousBuild | None = None,
    mode: BuildMode = "rebuild",
    name_keys: Mapping[str, str] = MappingProxyType({}),
    note_base: Callable[[Vectors], None] = lambda _: None,
) -> BuiltHierarchy:
    """Build G1 … Gk on ``graph`` (G0).

    A layer of more than the cluster size is clustered; a smaller one gets the root. G0's entities keep their order
    and gain their ``parent_id`` and runner-up. Texts from ``sources`` replace the heuristic ones.

    With a ``previous`` build, written texts are carried over. The ``mode`` "update" also keeps its clusters: new entities
    join them, and only those past the cap are split. ``name_keys`` are keys of names, as far as they are known;
    ``note_base`` gets the vectors of G0 when they are there. Raises :class:`NotReady` without entities; :class:`InvalidInput` for contradicting sizes, vectors that are not finite or
    a model that rejects every request; and whatever ``progress`` raises.
    """
    if not graph.entities:
        raise NotReady(
            "There are no entities to build a hierarchy on.", "Ingest documents that hold text, then build."
        )
    sizes = options.sizes()
    taken = TakenNames(graph.nodes.find_name_keys(name_keys).tolist())
    context = _BuildContext(
        graph, options, taken, embedder, sources or TextSources(), progress, previous, mode
    )
    vectors = await _embed(graph, embedder, progress)
    note_base(vectors)
    lineage = await in_thread(Lineage.of_base, graph, previous)
    nothing = np.zeros(len(graph.entities), dtype=bool)
    stack = _LayerStack([graph], [vectors], np.arange(len(graph.entities)), lineage, nothing, vectors)
    while len(stack.graphs) == 1 or len(stack.graphs[-1].entities) > 1:
        await _add_layer(context, stack, sizes)
    hierarchy = Hierarchy(tuple(stack.graphs))
    progress(Progress("check", 0, sum(hierarchy.sizes)))
    await in_thread(check_hierarchy, hierarchy, sizes.cap)
    progress(Progress("measure", 0, sum(hierarchy.sizes)))
    measure = partial(
        measure_hierarchy,
        hierarchy,
        stack.vectors,
        clustering=options.clustering,
        sizes=sizes,
        thresholds=stack.thresholds,
    )
    return BuiltHierarchy(hierarchy, stack.vectors, await in_thread(measure))


async def _add_layer(context: _BuildContext, stack: _LayerStack, sizes: ClusterSizes) -> None:
    """Cluster the highest layer and put the layer above on the stack: first its summaries, then its sentences."""
    lower = stack.graphs[-1]
    number = len(stack.graphs)
    pulse = partial(context.progress, Progress("cluster", 0, len(lower.entities), f"layer {number}"))
    clusters, origins, means = await in_thread(_cluster_layer, context, stack, sizes, pulse)
    stack.ancestors = clusters.labels[stack.ancestors]
    if means is None:
        stack.sums = await in_thread(cluster_sums, stack.sums, clusters.labels, clusters.count)
    else:
        stack.sums = means * np.bincount(clusters.labels)[:, None]
    step = LayerStep(lower, clusters.labels, context.base, stack.ancestors)
    summaries = CarriedSummaries()
    if context.previous is not None:
        if origins is None:
            origins = find_continued(stack.ancestors, context.base, number, context.previous)
        summaries = await in_thread(carry_summaries, step, stack.lineage, origins, context.previous)
        stack.touched = await in_thread(_lift_touched, step, stack.touched, context.previous)
    if stack.phrases is None:

        def note(done: int) -> None:
            context.progress(Progress("name", done, len(context.base.entities)))

        note(0)
        scales = _choose_examples(stack.ancestors, summaries.has_text) if context.mode == "update" else None
        stack.phrases = await in_thread(partial(find_phrases, context.base, scales, note=note))
    drafted, counts, threshold = await in_thread(_draft_layer, context, stack, step, summaries)
    written = await write_summaries(step, counts, context.sources, context.progress, summaries)
    context.taken.add_all(np.delete(drafted.nodes.name_keys, [*written]))
    upper = drafted.replace_entities(apply_summaries(drafted.entities, written, context.taken))
    carried = CarriedSentences()
    if context.previous is not None:
        carried = await in_thread(carry_sentences, step, counts, summaries.origins, context.previous)
    sentences = await write_sentences(
        step, counts, threshold, drafted.entities, written, upper, context.sources, context.progress, carried
    )
    stack.graphs[-1] = await in_thread(_assign_parents, lower, clusters, upper)
    stack.graphs.append(replace(upper, relations=apply_sentences(upper.relations, sentences, carried)))
    stack.thresholds.append(threshold)
    if context.previous is not None:
        stack.lineage = await in_thread(Lineage.of_clusters, upper.entities, summaries.origins)
    stack.vectors.append(await _embed(stack.graphs[-1], context.embedder, context.progress))


def _cluster_layer(
    context: _BuildContext, stack: _LayerStack, sizes: ClusterSizes, pulse: Callable[[], None]
) -> tuple[Clusters, Origins | None, NDArray[np.float64] | None]:
    """Return the clusters of the highest layer, one if it is small enough for a root; in an update also the previous
    clusters that they continue (None: clustered anew), and the means of the vectors of G0, if found on the way."""
    lower, points, previous = stack.graphs[-1], stack.points, context.previous
    if len(points) <= sizes.mean:
        return _one_cluster(points), None, None
    options = context.options.clustering
    links = select_links(lower, context.base, stack.ancestors, options.method)
    above = previous.layer(len(stack.graphs)) if previous and context.mode == "update" else None
    if previous is not None and above is not None and (len(above.entities) > 1 or len(points) <= sizes.cap):
        if len(above.entities) == 1:
            return _one_cluster(points), None, None
        before = _find_memberships(stack.lineage, lower.entities[0].layer, previous)
        if (before.homes >= 0).any():
            found = place(points, links, before, sizes, options, pulse=pulse)
            means = found.means if points is stack.vectors[0] else None
            return found.clusters, Origins(above.entities, found.origins), means
    return partition(points, links, sizes, options, pulse=pulse), None, None


def _find_memberships(lineage: Lineage, layer: int, previous: PreviousBuild) -> Memberships:
    """Return the memberships of the previous build for the entities of the lineage, which are of this layer."""
    lower, above = previous.layer(layer), previous.layer(layer + 1)
    assert lower is not None
    assert above is not None
    rows, nodes = lineage.origins, lower.nodes
    # The last value is that of an entity without an origin.
    homes, seconds = (
        np.append(above.find_places(each), -1)[rows] for each in (nodes.parents, nodes.second_parents)
    )
    own, runner_up = (
        np.append(each, 0.0)[rows] for each in (nodes.responsibilities, nodes.second_responsibilities)
    )
    sizes = above.nodes.members.astype(np.intp)
    return Memberships(homes, seconds, own, runner_up, lineage.changed, sizes)


def _one_cluster(points: Vectors) -> Clusters:
    return measure_memberships(reduce_dimensions(points), np.zeros(len(points), dtype=np.intp))


async def _embed(graph: Graph, embedder: Embedder, progress: ProgressReport) -> Vectors:
    """Return the (n, d) vectors of a layer's entities. Raises :class:`InvalidInput` that names the first text without a finite vector."""

    def report(step: Progress) -> None:
        progress(replace(step, message=", ".join(filter(None, [f"layer {number}", step.message]))))

    number = graph.entities[0].layer
    texts = EmbeddedTexts.of_entities(graph.entities, graph.nodes)
    report(Progress("embed", 0, len(texts)))
    vectors = await embedder.embed(texts, report)
    broken = find_infinite(vectors)
    if len(broken):
        text = texts[int(broken[0])]
        raise InvalidInput(
            f"The embedder {embedder.identity!r} gave values that are not finite for {len(broken)} texts,"
            f" the first is {text[:80]!r}.",
            "Check the embedder on that text, or set another one.",
        )
    return vectors


def _lift_touched(step: LayerStep, beneath: Flags, previous: PreviousBuild) -> Flags:
    """Return which clusters of a step have something beneath them that differs from the previous build."""
    touched = find_touched(step.lower, previous.layer(step.lower.entities[0].layer), beneath)
    return np.asarray(np.bincount(step.labels, weights=touched) > 0)


def _choose_examples(ancestors: Labels, has_text: Flags) -> NDArray[np.float64]:
    """Return for how many base entities each stands where phrases are counted, (n,): those beneath clusters
    with new texts for themselves, an even sample for the others."""
    scales = np.ones(len(ancestors))
    rest = np.flatnonzero(has_text[ancestors])
    # 2,000 entities stand for all: a choice by cost, as reading so many takes a fifth of a second.
    sample = rest[:: max(1, -(-len(rest) // 2_000))]
    scales[rest] = 0.0
    scales[sample] = len(rest) / max(1, len(sample))
    return scales


def _draft_layer(
    context: _BuildContext, stack: _LayerStack, step: LayerStep, summaries: CarriedSummaries
) -> tuple[Graph, PairCounts, int]:
    """Return the layer above ``step.lower`` with heuristic texts, the counts of its cluster pairs and its τ. The
    entities of ``summaries`` have the texts that are carried over; relations between untouched clusters keep theirs."""
    assert stack.phrases is not None
    total = int(step.labels.max()) + 1
    number = step.lower.entities[0].layer + 1
    unchanged = summaries.unchanged if len(summaries.unchanged) else np.full(total, -1, dtype=np.intp)
    held = summaries.origins.rows
    taken = context.taken.copy()
    if (unchanged >= 0).any():  # else no key of a name has to be made
        taken.add_all(Graph(held, ()).nodes.name_keys[unchanged[unchanged >= 0]])
    numbers = np.flatnonzero(unchanged < 0).tolist()
    entities: dict[int, Entity] = {}
    for entity in aggregate(
        step,
        stack.vectors[-1],
        stack.phrases,
        taken,
        kind="cluster" if total > 1 else "root",
        kept=summaries.kept,
        unchanged=unchanged >= 0,
    ):
        if len(entities) % 50 == 0:
            context.progress(Progress("aggregate", len(entities), len(numbers), f"layer {number}"))
        entities[numbers[len(entities)]] = entity
    upper = Graph(compose_rows(held, unchanged, entities), ())
    context.progress(Progress("relate", 0, 0, f"layer {number}"))
    counts = count_pairs(step)

    def note(done: int) -> None:
        context.progress(Progress("relate", done, len(counts.strengths), f"layer {number}"))

    threshold = context.options.threshold(counts.strengths)
    worded = None
    if context.previous is not None:
        worded = find_unchanged(upper, stack.touched, context.previous.layer(number))
    relations = inter_cluster_relations(
        step, upper.entities, tau=threshold, counts=counts, unchanged=worded, note=note
    )
    return replace(upper, relations=relations), counts, threshold


def _assign_parents(lower: Graph, clusters: Clusters, upper: Graph, digits: int = 6) -> Graph:
    """Return ``lower`` with parents and runners-up in ``upper``, responsibilities rounded to ``digits``. Rows that have them stay the same."""
    ids = np.append(upper.nodes.ids, b"")
    parents, seconds = ids[clusters.labels], ids[clusters.second]
    own, runner_up = (
        np.round(each, digits) for each in (clusters.responsibility, clusters.second_responsibility)
    )
    nodes = lower.nodes
    moved = np.flatnonzero(
        (nodes.parents != parents)
        | (nodes.second_parents != seconds)
        | (nodes.responsibilities != own)
        | (nodes.second_responsibilities != runner_up)
    )
    placed = {
        row: replace(
            entity,
            parent_id=str(parents[row], "utf-8"),
            second_parent_id=str(seconds[row], "utf-8") or None,
            responsibility=float(own[row]),
            second_responsibility=float(runner_up[row]),
        )
        for row, entity in zip(moved.tolist(), select_rows(lower.entities, moved.tolist()), strict=True)
    }
    return lower.replace_parents(replace_rows(lower.entities, placed))
