"""Texts of a layer that a model or an agent writes in place of heuristic ones: first the summaries, then the
sentences. Nothing depends on the order of the replies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import TypeVar

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.errors import ReplyUnusable, open_task_group
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.graphs.rows import read_rows, replace_rows, select_rows
from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Entity, Evidence, JsonObject, Method, Relation, Staleness
from leanrag_engine.core.ports import Progress, ProgressReport
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.hierarchy.changes.carrying import CarriedSentences, CarriedSummaries
from leanrag_engine.hierarchy.relations import LayerStep, PairCounts
from leanrag_engine.hierarchy.texts.attribution import ChunkFinder, best_first
from leanrag_engine.hierarchy.texts.naming import NameKeys
from leanrag_engine.llm.batching import ModelWork, Task, TaskKind, for_each, pack
from leanrag_engine.llm.prompts import Prompts

from .prompt_lines import DEFAULT, approximate_tokens
from .summaries import (
    ClusterSummary,
    aggregation_kind,
    aggregation_task,
    estimate_tokens,
    relation_kind,
    relation_task,
)

BEAT = 1.0
"""Seconds between two progress reports while calls are under way: the listener may cancel the build then."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TextSources:
    """Where the texts of a hierarchy come from: a model, if there is one, the ``summaries`` that agents wrote, by task id,
    and their ``sentences`` on two clusters, by the id of the relation. The model is not asked for what an agent wrote, and
    for sentences only if it ``relates``."""

    work: ModelWork | None = None
    summaries: Mapping[str, JsonObject] = field(default_factory=dict)
    sentences: Mapping[str, str] = field(default_factory=dict)
    relates: bool = True


@dataclass(frozen=True, slots=True)
class WrittenSummary:
    """A summary, who wrote it, and what has changed beneath it since then."""

    summary: ClusterSummary
    method: Method
    stale: Staleness | None = None


# --- summaries -----------------------------------------------------------------------------


async def write_summaries(
    step: LayerStep,
    counts: PairCounts,
    sources: TextSources,
    progress: ProgressReport,
    carried: CarriedSummaries,
) -> dict[int, WrittenSummary]:
    """Return the summaries of the clusters of ``step`` that an agent or the model wrote since the previous
    build; the model is not asked for what is ``carried`` over and not due."""
    if sources.work is None and not sources.summaries:
        return {}
    clusters = _list_clusters(step, counts)
    found = await anyio.to_thread.run_sync(_read_agent_summaries, clusters, sources, carried)
    if sources.work is None:
        return found
    layer = f"layer {step.lower.entities[0].layer + 1}"
    asked = [number for number in range(len(clusters)) if number not in found and carried.lacks_text(number)]
    batches = await anyio.to_thread.run_sync(
        _batch_clusters, {number: clusters[number] for number in asked}, sources.work.batch
    )
    # The calls on most base entities first: a cap may end them. Which clusters share one must not depend on that.
    beneath = [sum(each.mentions if each.layer else 1 for each in members) for members, _ in clusters]
    batches.sort(key=lambda batch: -sum(beneath[number] for number in batch))
    by_model = await _ask_batches(
        sources,
        aggregation_kind,
        batches,
        lambda number: aggregation_task(*clusters[number]),
        lambda done: progress(Progress("summarise", done, len(asked), layer)),
    )
    return found | {number: WrittenSummary(text, Method.MODEL) for number, text in by_model.items()}


Cluster = tuple[list[Entity], list[Relation]]
"""Members of a cluster and the relations among them."""


def _list_clusters(step: LayerStep, counts: PairCounts) -> list[Cluster]:
    total = int(step.labels.max()) + 1
    near, far = counts.parents[:, 0], counts.parents[:, 1]
    inside = np.flatnonzero(near == far)
    members = _group_by_label(np.arange(len(step.labels)), step.labels, total)
    inner = _group_by_label(inside, near[inside], total)
    entities, relations = list(step.lower.entities), step.lower.relations
    read_rows(relations, inside.tolist())
    return [
        ([entities[row] for row in rows], select_rows(relations, numbers))
        for rows, numbers in zip(members, inner, strict=True)
    ]


def _group_by_label(values: NDArray[np.intp], labels: NDArray[np.intp], count: int) -> list[list[int]]:
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=count))[:-1]
    return [part.tolist() for part in np.split(values[order], ends)]


def _batch_clusters(clusters: Mapping[int, Cluster], most: int) -> list[Sequence[int]]:
    """Group clusters in their order into calls of at most ``most`` clusters and about ``TaskOptions.call_tokens`` tokens."""

    def measure(number: int) -> int:
        members, inner = clusters[number]
        if members[0].layer:
            return estimate_tokens(members, len(inner))
        return approximate_tokens(aggregation_task(members, inner).text)

    return [*pack(clusters, most=most, room=DEFAULT.call_tokens, size=measure)]


def _read_agent_summaries(
    clusters: Sequence[Cluster], sources: TextSources, carried: CarriedSummaries
) -> dict[int, WrittenSummary]:
    """Return what agents submitted since the previous build: for a cluster as it is now, or as it was published then."""
    if not sources.summaries:
        return {}
    found: dict[int, WrittenSummary] = {}
    by_cluster = group((str(item.get("cluster")), item) for item in sources.summaries.values())
    for number, cluster in enumerate(clusters):
        task = aggregation_task(*cluster)
        origin = carried.origin(number)
        exact = sources.summaries.get(task.id)
        for item in by_cluster[origin.id] if origin and exact is None else filter(None, [exact]):
            try:
                summary = task.read(item)
            except ReplyUnusable:
                # It was valid when it was submitted. If it no longer is, the model or the heuristic writes it.
                continue
            # What the previous build used already is carried over with what has changed beneath it since.
            if exact is not None:
                found[number] = WrittenSummary(summary, Method.AGENT)
            elif origin and (origin.method, origin.description) != (Method.AGENT, summary.description):
                found[number] = WrittenSummary(summary, Method.AGENT, carried.changes.get(number))
    return found


def apply_summary(entity: Entity, written: WrittenSummary | None) -> Entity:
    """Return the entity with the written texts in place of its heuristic ones."""
    if written is None:
        return entity
    summary = written.summary
    return replace(
        entity,
        name=summary.name,
        description=summary.description,
        findings=summary.findings,
        evidence=summary.evidence,
        method=written.method,
        stale=written.stale if written.stale and written.stale.total else None,
    )


def apply_summaries(
    drafts: Sequence[Entity], written: Mapping[int, WrittenSummary], taken: NameKeys
) -> Sequence[Entity]:
    """Return a layer with the ``written`` texts and unique names, which ``taken`` gains: of equal written
    names the first stays, and the others add their heuristic name in brackets."""
    found = {}
    for number in sorted(written):
        entity = drafts[number]
        new = apply_summary(entity, written[number])
        found[number] = replace(new, name=_free_name(new.name, entity.name, taken))
        taken.add(name_key(found[number].name))
    return replace_rows(drafts, found)


def _qualify_name(name: str, term: str) -> str:
    return f"{name} ({term})"


def _free_name(name: str, term: str, taken: NameKeys) -> str:
    longer = _qualify_name(name, term)
    candidates = chain((name, longer, term), (f"{longer} {number}" for number in count(2)))
    return next(each for each in candidates if name_key(each) not in taken)


# --- relation sentences --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WrittenSentence:
    """A sentence on two clusters, who wrote it, and the chunks that it rests on, the best first."""

    text: str
    method: Method
    chunk_ids: tuple[str, ...] = ()


class _PairEnds:
    """What lies beneath both ends of each pair of clusters, for the task to relate them and for its citations."""

    def __init__(
        self, step: LayerStep, counts: PairCounts, upper: Sequence[tuple[Entity, WrittenSummary | None]]
    ) -> None:
        self._relations = step.lower.relations
        self._pairs = counts.pairs
        self._upper = upper
        self._members: list[dict[str, Entity]] = [{} for _ in upper]
        for entity, label in zip(step.lower.entities, step.labels.tolist(), strict=True):
            self._members[label][entity.id] = entity

    def _list_relations(self, pair: int) -> list[Relation]:
        return [self._relations[number] for number in self._pairs.relations_of(pair)]

    def cite(self, pair: int, text: str, method: Method) -> WrittenSentence:
        """Return the sentence with the chunks that it rests on."""
        ends = (self._pairs.first[pair], self._pairs.second[pair])
        both = [each for end in ends for each in self._members[end].values()]
        finder = ChunkFinder(both, best_first(self._list_relations(pair)))
        return WrittenSentence(text, method, finder.chunks(text))

    def make_task(self, pair: int) -> Task[str]:
        first, second = int(self._pairs.first[pair]), int(self._pairs.second[pair])
        near, far = (apply_summary(*self._upper[cluster]) for cluster in (first, second))
        # The names as written, before they were made unique: requests must not depend on other clusters' names.
        if name_key(near.name) == name_key(far.name):
            far = replace(far, name=_qualify_name(far.name, self._upper[second][0].name))
        both = self._members[first] | self._members[second]
        return relation_task(near, far, self._list_relations(pair), both)


async def write_sentences(
    step: LayerStep,
    counts: PairCounts,
    tau: int,
    drafts: Sequence[Entity],
    written: Mapping[int, WrittenSummary],
    published: Graph,
    sources: TextSources,
    progress: ProgressReport,
    carried: CarriedSentences,
) -> dict[int, WrittenSentence]:
    """Return the sentences of agents and of the model on pairs with λ > ``tau``, by the number of the pair.
    ``drafts`` are the clusters before anything was ``written`` of them, ``published`` as they are published."""
    if sources.work is None and not sources.sentences:
        return {}
    layer = f"layer {drafts[0].layer}"
    upper = [(entity, written.get(cluster)) for cluster, entity in enumerate(drafts)]
    ends = _PairEnds(step, counts, upper)
    above = np.flatnonzero(counts.strengths > tau)
    # In the order of their second and first clusters
    order = np.lexsort((counts.pairs.first[above], counts.pairs.second[above]))
    pairs: list[int] = above[order].tolist()
    by_agents = _read_agent_sentences(pairs, published, sources, carried)
    found = {pair: ends.cite(pair, text, Method.AGENT) for pair, text in by_agents.items()}
    if sources.work is None or not sources.relates:
        return found
    lacking = [pair for pair in pairs if pair in carried.due or pair not in carried.kept]
    rest = [pair for pair in lacking if pair not in found]
    batches = [rest[start : start + sources.work.batch] for start in range(0, len(rest), sources.work.batch)]
    by_model = await _ask_batches(
        sources,
        relation_kind,
        batches,
        ends.make_task,
        lambda done: progress(Progress("connect", done, len(rest), layer)),
    )
    return found | {pair: ends.cite(pair, text, Method.MODEL) for pair, text in by_model.items()}


def _read_agent_sentences(
    pairs: Sequence[int], published: Graph, sources: TextSources, carried: CarriedSentences
) -> dict[int, str]:
    """Return what agents submitted since the previous build: for a relation as it is now, or as it was published then."""
    found: dict[int, str] = {}
    for pair in pairs if sources.sentences else ():
        now, then = published.relations[pair].id, carried.find_origin(pair)
        sentence = sources.sentences.get(now) or sources.sentences.get(then)
        old = carried.kept.get(pair)
        # What the previous build used already is carried over with what has changed beneath it since.
        if sentence and (old is None or (old.method, old.description) != (Method.AGENT, sentence)):
            found[pair] = sentence
    return found


def apply_sentences(
    relations: Sequence[Relation], sentences: Mapping[int, WrittenSentence], carried: CarriedSentences
) -> Sequence[Relation]:
    """Return ``relations`` with the ``sentences`` by their numbers in place of the heuristic texts, else with those ``carried`` over."""
    found = {}
    for number, old in carried.kept.items():
        found[number] = replace(
            relations[number],
            description=old.description,
            method=old.method,
            evidence=old.evidence,
            stale=old.stale,
        )
    for number, sentence in sentences.items():
        old = relations[number]
        evidence = tuple(Evidence(0, len(sentence.text), id_) for id_ in sentence.chunk_ids)
        found[number] = replace(old, description=sentence.text, method=sentence.method, evidence=evidence)
    return replace_rows(relations, found)


# --- calls ---------------------------------------------------------------------------------


async def _ask_batches(
    sources: TextSources,
    kind_with: Callable[[Prompts], TaskKind],
    batches: Sequence[Sequence[int]],
    make_task: Callable[[int], Task[T]],
    report: Callable[[int], None],
) -> dict[int, T]:
    """Return the model's usable answers by the numbers in ``batches``, a call for each batch, within the model's
    concurrency; the others are noted as fallbacks. ``report`` gets how many are done. The first error ends all."""
    work = sources.work
    assert work is not None
    kind = kind_with(work.prompts)
    found: dict[int, T] = {}
    done = 0

    async def call(batch: Sequence[int]) -> None:
        nonlocal done
        answers = await work.ask(kind, [*map(make_task, batch)])
        found.update((number, text) for number, text in zip(batch, answers, strict=True) if text is not None)
        done += len(batch)
        report(done)

    async def beat() -> None:
        while True:
            await anyio.sleep(BEAT)
            report(done)

    async with open_task_group() as group:
        group.start_soon(beat)
        await for_each(batches, call, places=work.model.concurrency)
        group.cancel_scope.cancel()
    return found
