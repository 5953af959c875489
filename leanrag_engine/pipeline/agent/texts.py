"""Texts of the graph for an agent to write in place of heuristic ones, and what it submits. Summaries are
stored by the id of their task, which identifies everything that the agent saw, sentences by their relation,
descriptions of entities of G0 by the entity, with the chunks that they rest on."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from leanrag_engine.core.errors import ReplyUnusable
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import CheckedObject, Entity, Generation, JsonObject, Method, Relation
from leanrag_engine.core.ports import AgentText, AgentTextKind
from leanrag_engine.core.text.language.words import word_count
from leanrag_engine.extraction.by_model.describe import description_kind, description_tasks
from leanrag_engine.extraction.merging import LongDescription
from leanrag_engine.hierarchy.by_model.prompt_lines import approximate_tokens
from leanrag_engine.hierarchy.by_model.summaries import (
    ClusterSummary,
    aggregation_kind,
    aggregation_task,
    relation_kind,
    relation_task,
)
from leanrag_engine.hierarchy.texts.attribution import origin
from leanrag_engine.llm.batching import Task, TaskKind
from leanrag_engine.llm.prompts import Prompts
from leanrag_engine.pipeline.index import Stores

from .items import (
    PendingWork,
    QueuedWork,
    Reader,
    Submission,
    WorkItem,
    make_page,
    publish_schema,
    read_items,
    refuse_replacing,
    select_page,
)

MEMBERS = 1000  # A limit above the size of any cluster


BY_ANOTHER = "what another agent has submitted meanwhile"


@dataclass(frozen=True, slots=True)
class TextTask:
    """The task to write one text: ``key`` is what it is stored by, ``convert`` checks an item and returns the
    text, and ``earlier`` says what a model or an agent has written in the published build."""

    work_id: str
    title: str
    text: str
    key: str
    convert: Callable[[CheckedObject], AgentText]
    earlier: str = ""
    is_answered_by: Callable[[AgentText], bool] = lambda _: True
    """Whether a text that is stored under ``key`` is about what the task shows now."""


@dataclass(frozen=True, slots=True)
class TextQueue:
    """All work of one kind in its order, the number of what remains beyond it, and what has to be done before that."""

    works: tuple[QueuedWork, ...]
    later: int = 0
    note: str = ""


class TextWork(ABC):
    """The work of one kind on a published build; ``unit`` says what the values of its works count."""

    name: AgentTextKind
    unit: str

    def __init__(self, stores: Stores, generation: Generation, task_kind: TaskKind) -> None:
        self._stores = stores
        self._generation = generation
        self.task_kind = task_kind

    @abstractmethod
    async def queue(self, submitted: Mapping[str, AgentText]) -> TextQueue:
        """Return the work in its order; ``submitted`` are the texts that are stored, by their keys."""

    @abstractmethod
    async def tasks(self, ids: Sequence[str]) -> list[TextTask]:
        """Return the tasks of those of ``ids`` that are work of this kind."""

    async def pending(self, limit: int, cursor: str) -> PendingWork:
        queue = await self.queue(await self._read_submitted())
        tasks = await self.tasks(select_page(queue.works, limit, cursor))
        items = [WorkItem(each.work_id, each.title, each.text) for each in tasks]

        def measure(handed: Sequence[WorkItem]) -> float:
            return sum(approximate_tokens(each.text) for each in handed) / max(1, len(handed))

        return make_page(self.name, queue.works, cursor, items, self.unit, measure, queue.later, queue.note)

    async def submit(self, items: Sequence[JsonObject], replace: bool) -> Submission:
        ids = list(dict.fromkeys(str(item.get("work_id")) for item in items))
        tasks = {each.work_id: each for each in await self.tasks(ids)}
        schema = publish_schema(self.task_kind)
        readers = {id_: Reader(schema, each.convert) for id_, each in tasks.items()}
        said, rejected = read_items(items, readers, "get the pending work again, a build has changed it")
        held = await self._read_submitted()
        earlier = {id_: self._find_earlier(tasks[id_], text, held) for id_, text in said.items()}
        refused = {id_ for id_ in said if earlier[id_] and not replace}
        for outdated in (False, True):
            put = {
                tasks[id_].key: text
                for id_, text in said.items()
                if id_ not in refused and (tasks[id_].key in held and not earlier[id_]) is outdated
            }
            taken = await self._stores.replies.put_texts(
                self._generation.collection, self.name, put, replace=replace or outdated
            )
            if not (replace or outdated):
                refused |= {id_ for id_ in said if tasks[id_].key in taken}
        rejected += [(id_, refuse_replacing(earlier[id_] or BY_ANOTHER)) for id_ in said if id_ in refused]
        accepted = tuple(id_ for id_ in said if id_ not in refused)
        replaced = tuple((id_, earlier[id_]) for id_ in accepted if earlier[id_])
        queue = await self.queue(await self._read_submitted())
        remaining = sum(each.pending for each in queue.works)
        return Submission(self.name, accepted, replaced, tuple(rejected), remaining)

    def _find_earlier(self, task: TextTask, text: AgentText, held: Mapping[str, AgentText]) -> str:
        """Return what ``text`` would replace, "" if nothing that an agent or a model wrote."""
        before = held.get(task.key)
        if before is None or not task.is_answered_by(before):
            return task.earlier
        return "" if before == text else f"a {self.name} by an agent"

    async def _read_submitted(self) -> dict[str, AgentText]:
        return await self._stores.replies.texts(self._generation.collection, self.name)


# --- summaries -----------------------------------------------------------------------------


class SummaryWork(TextWork):
    """Clusters of the lowest layer that has heuristic or stale summaries, those above most entities first: the layers
    above use its names and descriptions."""

    name: AgentTextKind = "summary"
    unit = "the entities beneath the clusters of this layer that wait"

    async def queue(self, submitted: Mapping[str, AgentText]) -> TextQueue:
        given = {str(each.text.get("cluster")) for each in submitted.values()}
        due = []
        for layer in self._generation.layers[1:]:
            clusters = await self._stores.generations.layer(self._generation.number, layer.layer)
            due.append([each for each in clusters if each.method is Method.HEURISTIC or each.stale])
        lowest, *above = [each for each in due if each] or [[]]
        works = []
        for each in sorted(lowest, key=lambda cluster: (-cluster.mentions, cluster.id)):
            # A submission counts from the next build on, and only for the members that it was written for.
            done = each.id in given and (await self._task(each)).id in submitted
            works.append(QueuedWork(each.id, not done, each.mentions))
        return TextQueue(tuple(works), sum(map(len, above)))

    async def tasks(self, ids: Sequence[str]) -> list[TextTask]:
        found = await self._stores.generations.entities(self._generation.number, ids)
        return [await self._text_task(each) for each in found if each.layer]

    async def _text_task(self, cluster: Entity) -> TextTask:
        task = await self._task(cluster)

        def convert(item: CheckedObject) -> AgentText:
            check_whole(task.read(item), item)
            return AgentText({**item, "cluster": cluster.id})

        earlier = ""
        if cluster.method.written and not cluster.stale:
            earlier = f"a summary with {len(cluster.findings)} findings by {name_author(cluster.method)}"
        title = f"{cluster.members} members, now called {cluster.name}"
        if cluster.stale:
            title = f"{title}, members since it was written: {cluster.stale}"
        return TextTask(cluster.id, title, task.text, task.id, convert, earlier)

    async def _task(self, cluster: Entity) -> Task[ClusterSummary]:
        generations, number = self._stores.generations, self._generation.number
        members = await generations.members(number, cluster.id, 0, MEMBERS)
        among = await generations.relations_among(number, [each.id for each in members])
        return aggregation_task(members, among)


def check_whole(summary: ClusterSummary, item: CheckedObject) -> None:
    """Raise ``ReplyUnusable`` if reading the item as a model's reply has left out or cut a part of it."""
    if len(summary.findings) < len(item["findings"]):
        raise ReplyUnusable(
            f"findings: {len(item['findings']) - len(summary.findings)} of {len(item['findings'])} repeat the summary or "
            "the explanation of another; expected distinct ones."
        )
    given = " ".join(item["description"].split())
    if summary.description != given:
        raise ReplyUnusable(
            f"description has {word_count(given)} words and would be cut to {word_count(summary.description)}; expected "
            "whole sentences, no more words than the instructions say."
        )


# --- relations -----------------------------------------------------------------------------


class RelationWork(TextWork):
    """Inter-cluster relations with λ > τ, the strongest first, once both their clusters are written: the sentence is about them."""

    name: AgentTextKind = "relation"
    unit = "the strength of the relations that wait"

    async def queue(self, submitted: Mapping[str, AgentText]) -> TextQueue:
        due = [each for each in await self._strong() if not each.method.written or each.stale]
        ends = {end for each in due for end in (each.source_id, each.target_id)}
        clusters = await self._stores.generations.entities(self._generation.number, sorted(ends))
        written = {each.id for each in clusters if each.method.written}
        ready = [each for each in due if {each.source_id, each.target_id} <= written]
        waiting = len(due) - len(ready)
        works = []
        for relation in ready:
            given = submitted.get(relation.id)
            done = given and (not relation.stale or given.text["task"] == (await self._task(relation)).id)
            works.append(QueuedWork(relation.id, not done, relation.strength))
        note = f"{waiting} more relations come once the summaries of both their clusters are written: kind='summary'."
        return TextQueue(tuple(works), waiting, note if waiting else "")

    async def tasks(self, ids: Sequence[str]) -> list[TextTask]:
        wanted = set(ids)
        found = {each.id: each for each in await self._strong() if each.id in wanted}
        return [await self._text_task(found[id_]) for id_ in ids if id_ in found]

    async def _strong(self) -> list[Relation]:
        """Return the relations with λ above the τ of their layers, the strongest of each layer first."""
        health = self._generation.record.health
        found: list[Relation] = []
        for layer in health.layers if health else ():
            if layer.tau is not None:
                # The strongest ones of the layer.
                relations, _ = await self._stores.generations.relations_page(
                    self._generation.number, layer=layer.layer, min_strength=layer.tau + 1, limit=10_000
                )
                found += relations
        return found

    async def _ends(self, relation: Relation) -> list[Entity]:
        ends = [relation.source_id, relation.target_id]
        return await self._stores.generations.entities(self._generation.number, ends)

    async def _text_task(self, relation: Relation) -> TextTask:
        task = await self._task(relation)
        near, far = await self._ends(relation)

        def convert(item: CheckedObject) -> AgentText:
            return AgentText({"sentence": task.read(item), "task": task.id})

        fresh = relation.method.written and not relation.stale
        earlier = f"a sentence by {name_author(relation.method)}" if fresh else ""
        title = f"{near.name} – {far.name}, strength {relation.strength}"

        def is_answered_by(text: AgentText) -> bool:
            return not relation.stale or bool(text.text["task"] == task.id)

        return TextTask(relation.id, title, task.text, relation.id, convert, earlier, is_answered_by)

    async def _task(self, relation: Relation) -> Task[str]:
        generations, number = self._stores.generations, self._generation.number
        ends = await self._ends(relation)
        sides = [await generations.members(number, each.id, 0, MEMBERS) for each in ends]
        side_of = {member.id: side for side, members in enumerate(sides) for member in members}
        among = await generations.relations_among(number, list(side_of))
        between = [each for each in among if side_of[each.source_id] != side_of[each.target_id]]
        members = {member.id: member for members in sides for member in members}
        # In the order of their ids, so that the id of the task depends on nothing but what it shows.
        near, far = sorted(ends, key=lambda each: each.id)
        return relation_task(near, far, between, members)


# --- descriptions --------------------------------------------------------------------------


class DescriptionWork(TextWork):
    """Entities of G0 whose description is heuristic or joined from about as much as fits, the most mentioned first."""

    name: AgentTextKind = "description"
    unit = "the mentions of the entities that wait"

    async def queue(self, submitted: Mapping[str, AgentText]) -> TextQueue:
        entities = await self._stores.generations.layer(self._generation.number, 0)
        wanted = [each for each in entities if each.description and lacks_description(each)]
        return TextQueue(
            tuple(
                QueuedWork(each.id, not is_described(each, submitted.get(each.id)), each.mentions)
                for each in sorted(wanted, key=lambda each: (-each.mentions, each.id))
            )
        )

    async def tasks(self, ids: Sequence[str]) -> list[TextTask]:
        found = await self._stores.generations.entities(self._generation.number, ids)
        return [await self._text_task(each) for each in found if not each.layer]

    async def _text_task(self, entity: Entity) -> TextTask:
        relations = await self._stores.generations.relations_of(self._generation.number, [entity.id], 30)
        texts = [(entity.description[each.start : each.end], each.chunk_id) for each in entity.evidence]
        texts += [(each.description, origin(each)) for each in relations]
        shown = {text: chunk_id for text, chunk_id in texts if text and chunk_id}
        (task,) = description_tasks(Graph((entity,), ()), [LongDescription(entity.id, tuple(shown.items()))])

        def convert(item: CheckedObject) -> AgentText:
            described = task.read(item)
            given = " ".join(item["description"].split())
            if described.text != given:
                raise ReplyUnusable(
                    f"description has {word_count(given)} words and would be cut to {word_count(described.text)}; "
                    "expected no more than the instructions say."
                )
            evidence = [[each.start, each.end, each.chunk_id] for each in described.evidence]
            return AgentText({"description": described.text, "evidence": evidence}, task.chunk_ids)

        earlier = f"a description by {name_author(entity.method)}" if entity.method.written else ""
        title = f"{entity.name}, {entity.type}, mentioned in {entity.mentions} chunks"
        return TextTask(
            entity.id, title, task.text, entity.id, convert, earlier, partial(is_described, entity)
        )


def is_described(entity: Entity, text: AgentText | None) -> bool:
    """Return whether a submitted description is about what the entity means now: a split may have moved mentions."""
    return text is not None and set(text.chunk_ids) <= set(entity.chunk_ids)


def lacks_description(entity: Entity) -> bool:
    several = len({each.chunk_id for each in entity.evidence}) > 1
    long = 100  # words; joined texts have a limit of 120, and sentences that do not fit are left out
    joined = several and bool(entity.statements)
    return not entity.method.written or (joined and word_count(entity.description) >= long)


def name_author(method: Method) -> str:
    return "an agent" if method is Method.AGENT else "a model"


def open_text_work(kind: AgentTextKind, stores: Stores, generation: Generation, prompts: Prompts) -> TextWork:
    match kind:
        case "summary":
            return SummaryWork(stores, generation, aggregation_kind(prompts))
        case "relation":
            return RelationWork(stores, generation, relation_kind(prompts))
        case "description":
            return DescriptionWork(stores, generation, description_kind(prompts))


async def sort_by_kind(
    stores: Stores, generation: Generation, items: Sequence[JsonObject]
) -> dict[AgentTextKind, list[JsonObject]]:
    """Group submitted items by what their work is about: a cluster, an entity of G0, else a relation."""
    ids = list(dict.fromkeys(str(item.get("work_id")) for item in items))
    layers = {each.id: each.layer for each in await stores.generations.entities(generation.number, ids)}

    def kind_of(item: JsonObject) -> AgentTextKind:
        layer = layers.get(str(item.get("work_id")))
        return "relation" if layer is None else "summary" if layer else "description"

    return group((kind_of(item), item) for item in items)
