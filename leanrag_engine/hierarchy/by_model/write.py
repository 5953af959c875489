"""The texts of a layer as a model or an agent writes them: what is asked when, and what becomes of the answers.

A layer has its heuristic texts first. Whatever was written takes their place; where nothing was, or nothing
that can be used, they stand. What is asked, and what is made of it, never depends on who answers first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
from anyio.abc import TaskGroup

from leanrag_engine.core.errors import LeanRAGError, ReplyUnusable
from leanrag_engine.core.model import Entity, Evidence, Graph, Hierarchy, Method, MethodCounts, Relation
from leanrag_engine.core.ports import Progress, ProgressReport
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.hierarchy.relations import LayerStep, PairCounts, inter_cluster_relations
from leanrag_engine.llm.batching import ModelWork, Task, TaskKind, ask_each
from leanrag_engine.llm.prompts import Prompts

from . import relation_sentences as relating
from . import summaries as summarising
from .prompt_lines import approximate_tokens
from .summaries import ClusterSummary

TOKENS = 3000
"""Clusters share a call only while what is shown of them stays within about so many tokens."""

BEAT = 1.0
"""Seconds after which somebody who waits for a model is asked again whether to go on."""


@dataclass(frozen=True, slots=True)
class TextSources:
    """Who writes the texts of a hierarchy: a model, if there is one, and what agents ``summaries`` have written, by
    the id of the task. What an agent wrote is not asked of the model; the tasks of which it was ``used`` are noted."""

    work: ModelWork | None = None
    summaries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class WrittenSummary:
    """A summary and who wrote it."""

    summary: ClusterSummary
    method: Method


class Draft:
    """A layer whose relations may still be waiting for their sentences.

    ``settled`` is set when all texts are final; ``made`` when the heuristic ones are.
    """

    def __init__(self, graph: Graph) -> None:
        self.entities: Sequence[Entity] = graph.entities
        self.relations: Sequence[Relation] = graph.relations
        self.made = anyio.Event()
        self.settled = anyio.Event()
        self._waiting: dict[int, anyio.Event] = {}
        self._sentences: dict[int, str] = {}
        self._answered = 0

    @property
    def graph(self) -> Graph:
        return Graph(tuple(self.entities), tuple(self.relations))

    def settle(self) -> None:
        """Take all sentences for good."""
        if self._sentences:
            self.relations = [self._told(number) for number in range(len(self.relations))]
            self._sentences.clear()
        self.made.set()
        self.settled.set()

    def await_sentences(self, numbers: Iterable[int]) -> None:
        self._waiting = {number: anyio.Event() for number in numbers}

    @property
    def progress(self) -> Progress:
        """How many of the sentences are in."""
        return Progress("connect", self._answered, len(self._waiting))

    def answer(self, number: int, sentence: str | None) -> None:
        """None: the heuristic text stands."""
        if sentence is not None:
            self._sentences[number] = sentence
        self._answered += 1
        self._waiting[number].set()

    async def answered(self) -> None:
        for event in self._waiting.values():
            await event.wait()

    async def final(self, numbers: Iterable[int]) -> list[Relation]:
        """These relations, once their texts are final."""
        await self.made.wait()
        found = []
        for number in numbers:
            if number in self._waiting:
                await self._waiting[number].wait()
            found.append(self._told(number))
        return found

    def _told(self, number: int) -> Relation:
        """The sentence rests on all relations beneath; the chunk that the heuristic text begins with says one of them best."""
        relation = self.relations[number]
        sentence = self._sentences.get(number)
        if sentence is None:
            return relation
        evidence = tuple(Evidence(0, len(sentence), each.chunk_id) for each in relation.evidence[:1])
        return replace(relation, description=sentence, method=Method.MODEL, evidence=evidence)


@dataclass(frozen=True, slots=True)
class Ascent:
    """One step up as the writer sees it: from the ``lower`` layer to the ``upper`` one.

    ``heuristic`` are the upper entities as they were made; ``members`` and ``inner`` are, for each of them, the
    places of its members and of the relations among them. ``stale``: not all texts of ``step.lower`` were final
    when the upper ones were made of them.
    """

    step: LayerStep
    lower: Draft
    upper: Draft
    counted: PairCounts
    tau: int
    stale: bool
    heuristic: Sequence[Entity]
    members: Sequence[Sequence[int]]
    inner: Sequence[Sequence[int]]

    @classmethod
    def of(
        cls, step: LayerStep, lower: Draft, upper: Draft, counted: PairCounts, tau: int, *, stale: bool
    ) -> Ascent:
        count = len(upper.entities)
        near, far = counted.parents[:, 0], counted.parents[:, 1]
        inside = np.flatnonzero(near == far)
        return cls(
            *(step, lower, upper, counted, tau, stale, upper.entities),
            _by_label(np.arange(len(step.labels)), step.labels, count),
            _by_label(inside, near[inside], count),
        )

    @property
    def layer(self) -> str:
        return f"layer {self.heuristic[0].layer}"

    def entities_of(self, cluster: int) -> list[Entity]:
        return [self.lower.entities[row] for row in self.members[cluster]]

    def size_of(self, cluster: int) -> int:
        """About how many tokens its task shows. Above G0 the relations' texts may be under way: whether they are
        there yet must not decide what shares a call."""
        members, inner = self.entities_of(cluster), self.inner[cluster]
        if members[0].layer:
            return summarising.estimate_tokens(members, len(inner))
        among = [self.lower.relations[number] for number in inner]
        return approximate_tokens(summarising.aggregation_task(members, among).text)


def _by_label(values: Any, labels: Any, count: int) -> list[list[int]]:
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=count))[:-1]
    return [part.tolist() for part in np.split(values[order], ends)]


class Desk:
    """Where the texts of one build are written. Its tasks live in ``group``; the model's limit is kept."""

    def __init__(self, writer: TextSources, group: TaskGroup, progress: ProgressReport) -> None:
        self._writer = writer
        self._group = group
        self._progress = progress
        self._places = anyio.CapacityLimiter(writer.work.model.concurrency if writer.work else 1)

    @property
    def idle(self) -> bool:
        return self._writer.work is None and not self._writer.summaries

    async def write(self, ascent: Ascent) -> dict[int, WrittenSummary]:
        """The summaries of the upper layer, by cluster. Its sentences are begun, and are done when it is settled."""
        if self.idle:
            ascent.upper.settle()
            return {}
        summaries = _Summaries(len(ascent.heuristic))
        for batch in await anyio.to_thread.run_sync(self._cluster_batches, ascent):
            self._group.start_soon(self._summarise, ascent, batch, summaries)
        for pairs in await self._pair_batches(ascent):
            self._group.start_soon(self._relate, ascent, pairs, summaries)
        self._group.start_soon(self._settle, ascent)
        await self._until(summaries.all_in, Progress("summarise", 0, summaries.total, ascent.layer))
        return summaries.found

    async def finish(self, drafts: Sequence[Draft]) -> None:
        """Wait until every layer is settled."""
        for draft in drafts:
            await self._until(draft.settled.wait, draft.progress)

    async def _until(self, ready: Callable[[], Awaitable[None]], at: Progress) -> None:
        """Wait, and now and then let the listener say whether to go on: a model may be slow to answer."""
        while True:
            with anyio.move_on_after(BEAT):
                await ready()
                return
            self._progress(at)

    # --- clusters -------------------------------------------------------------------------

    def _cluster_batches(self, ascent: Ascent) -> list[list[int]]:
        """Clusters in their order, several in a call while they are small."""
        most = self._writer.work.batch if self._writer.work else 1
        batches: list[list[int]] = []
        room = 0
        for cluster in range(len(ascent.heuristic)):
            size = ascent.size_of(cluster)
            if not batches or len(batches[-1]) == most or size > room:
                batches.append([])
                room = TOKENS
            batches[-1].append(cluster)
            room -= size
        return batches

    async def _summarise(self, ascent: Ascent, batch: Sequence[int], summaries: _Summaries) -> None:
        relations = [await ascent.lower.final(ascent.inner[cluster]) for cluster in batch]
        async with self._places:
            tasks = {
                cluster: summarising.aggregation_task(ascent.entities_of(cluster), among)
                for cluster, among in zip(batch, relations, strict=True)
            }
            found = self._given(tasks)
            rest = {cluster: task for cluster, task in tasks.items() if cluster not in found}
            told = await self._asked(summarising.aggregation_kind, rest)
        found |= {cluster: WrittenSummary(summary, Method.MODEL) for cluster, summary in told.items()}
        for cluster in batch:
            summaries.put(cluster, found.get(cluster))
        self._progress(Progress("summarise", summaries.done, summaries.total, ascent.layer))

    def _given(self, tasks: Mapping[int, Task[ClusterSummary]]) -> dict[int, WrittenSummary]:
        """What agents wrote of these."""
        found = {}
        for cluster, task in tasks.items():
            given = self._writer.summaries.get(task.id)
            if given is not None:
                try:
                    found[cluster] = WrittenSummary(task.read(given), Method.AGENT)
                    self._writer.used.add(task.id)
                except ReplyUnusable:
                    # It was read when it came in: whatever was changed since, the model or nobody writes it then.
                    continue
        return found

    async def _asked(
        self, kind_with: Callable[[Prompts], TaskKind], tasks: Mapping[int, Task[Any]]
    ) -> dict[int, Any]:
        """What the model answered, by the keys of ``tasks``; what it could not is noted."""
        work = self._writer.work
        if work is None or not tasks:
            return {}
        kind = kind_with(work.prompts)
        answers = await ask_each(work.model, kind, list(tasks.values()), work.meter)
        found = {}
        for key, answer in zip(tasks, answers, strict=True):
            if isinstance(answer, LeanRAGError):
                work.fallbacks.note(kind.step, answer)
            else:
                found[key] = answer
        return found

    # --- pairs ----------------------------------------------------------------------------

    async def _pair_batches(self, ascent: Ascent) -> list[list[_Pair]]:
        """The pairs that get a sentence, those first whose clusters come first, so that few summaries are waited for."""
        if self._writer.work is None:
            return []
        pairs = await anyio.to_thread.run_sync(_pairs_of, ascent)
        ascent.upper.await_sentences(pair.number for pair in pairs)
        most = self._writer.work.batch
        return [pairs[start : start + most] for start in range(0, len(pairs), most)]

    async def _relate(self, ascent: Ascent, pairs: Sequence[_Pair], summaries: _Summaries) -> None:
        beneath = []
        for pair in pairs:
            await summaries.wait_for(pair.first)
            await summaries.wait_for(pair.second)
            beneath.append(await ascent.lower.final(pair.beneath))
        async with self._places:
            tasks = {
                pair.number: self._pair_task(ascent, pair, relations, summaries)
                for pair, relations in zip(pairs, beneath, strict=True)
            }
            told = await self._asked(relating.relation_kind, tasks)
        for pair in pairs:
            ascent.upper.answer(pair.number, told.get(pair.number))
        self._progress(replace(ascent.upper.progress, message=ascent.layer))

    @staticmethod
    def _pair_task(
        ascent: Ascent, pair: _Pair, relations: Sequence[Relation], summaries: _Summaries
    ) -> Task[str]:
        """By the names as they were written: one that has to give way to another's is known only at the end."""
        near, far = (
            apply_summary(ascent.heuristic[cluster], summaries.found.get(cluster))
            for cluster in (pair.first, pair.second)
        )
        if name_key(near.name) == name_key(far.name):
            far = replace(far, name=qualify_name(far.name, ascent.heuristic[pair.second].name))
        members = {
            each.id: each for cluster in (pair.first, pair.second) for each in ascent.entities_of(cluster)
        }
        return relating.relation_task(near, far, relations, members)

    @staticmethod
    async def _settle(ascent: Ascent) -> None:
        """Heuristic texts are made of those beneath, and made anew if these were not final then."""
        await ascent.lower.settled.wait()
        if ascent.stale:
            step = replace(ascent.step, lower=ascent.lower.graph)
            job = partial(
                inter_cluster_relations, step, ascent.heuristic, tau=ascent.tau, counted=ascent.counted
            )
            ascent.upper.relations = await anyio.to_thread.run_sync(job)
        ascent.upper.made.set()
        await ascent.upper.answered()
        ascent.upper.settle()


@dataclass(frozen=True, slots=True)
class _Pair:
    """Relation ``number`` of the upper layer, its clusters, and the places of the relations beneath."""

    number: int
    first: int
    second: int
    beneath: Sequence[int]


def _pairs_of(ascent: Ascent) -> list[_Pair]:
    """Those with λ > τ."""
    rows = zip(
        ascent.counted.pairs.first.tolist(),
        ascent.counted.pairs.second.tolist(),
        ascent.counted.strengths.tolist(),
        ascent.counted.pairs.groups(),
        strict=True,
    )
    pairs = [
        _Pair(number, first, second, beneath)
        for number, (first, second, strength, beneath) in enumerate(rows)
        if strength > ascent.tau
    ]
    return sorted(pairs, key=lambda pair: (pair.second, pair.first))


class _Summaries:
    """The summaries of one layer as they come in."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.found: dict[int, WrittenSummary] = {}
        self._events = [anyio.Event() for _ in range(total)]

    def put(self, cluster: int, written: WrittenSummary | None) -> None:
        if written is not None:
            self.found[cluster] = written
        self.done += 1
        self._events[cluster].set()

    async def wait_for(self, cluster: int) -> None:
        await self._events[cluster].wait()

    async def all_in(self) -> None:
        for event in self._events:
            await event.wait()


# --- names ---------------------------------------------------------------------------------


def apply_summary(entity: Entity, written: WrittenSummary | None) -> Entity:
    """The entity with what was written in place of its heuristic texts."""
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
    )


def qualify_name(name: str, term: str) -> str:
    return f"{name} ({term})"


def apply_summaries(
    heuristic: Sequence[Entity], written: Mapping[int, WrittenSummary], taken: set[str]
) -> list[Entity]:
    """A layer with what was written, no name like another or like one in ``taken`` (name keys), which grows.

    Heuristic names are unlike each other already and keep theirs. Of clusters that were named alike the first
    keeps its name; the others add their heuristic name to it, which is made of what tells them apart.
    """
    taken |= {name_key(each.name) for number, each in enumerate(heuristic) if number not in written}
    found = []
    for number, entity in enumerate(heuristic):
        new = apply_summary(entity, written.get(number))
        if number in written:
            new = replace(new, name=_free_name(new.name, entity.name, taken))
            taken.add(name_key(new.name))
        found.append(new)
    return found


def _free_name(name: str, term: str, taken: set[str]) -> str:
    longer = qualify_name(name, term)
    for each in (name, longer, term):
        if name_key(each) not in taken:
            return each
    number = 2
    while name_key(f"{longer} {number}") in taken:
        number += 1
    return f"{longer} {number}"


# --- figures -------------------------------------------------------------------------------


def count_methods(hierarchy: Hierarchy) -> tuple[MethodCounts, ...]:
    """Count the aggregated entities and relations of each layer above G0 by the method that made them."""
    return tuple(
        MethodCounts(
            number,
            _by_method(each.method for each in layer.entities),
            _by_method(each.method for each in layer.relations),
        )
        for number, layer in enumerate(hierarchy.layers[1:], 1)
    )


def _by_method(methods: Iterable[Method]) -> dict[str, int]:
    return {method.value: count for method, count in sorted(Counter(methods).items())}
