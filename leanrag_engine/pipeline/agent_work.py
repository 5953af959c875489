"""The calling agent as the model: pending chunks and clusters, and the agent's submissions.

No API key is needed. The tasks are those that a model is given, and the same functions parse the answers, one by one.
Accepted answers are stored at once, and the next build uses them. The work may stop at any point or be continued by
another agent or a model, since everything already has a heuristic form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from leanrag_engine.core.errors import InvalidInput, NotReady, ReplyUnusable
from leanrag_engine.core.model import Entity, Extract, Generation, Method
from leanrag_engine.core.ports import DocumentStore, GenerationStore, ReplyStore
from leanrag_engine.core.text.citation import parse_citation
from leanrag_engine.extraction.by_model.extract import extraction_kind, extraction_task
from leanrag_engine.hierarchy.by_model.summaries import aggregation_kind, aggregation_task
from leanrag_engine.llm.batching import Task, TaskKind
from leanrag_engine.llm.prompts import Prompts

WorkKind = Literal["extraction", "summary"]

MEMBERS = 1000
"""A limit above the size of any cluster."""

FORM = "\n---\n"
"""Separator in the instructions: the text after it is the reply format of chat models; agents have a schema."""

SHOWN = 24_000
"""Characters of all items in one reply: about 6,000 tokens. The first item is always whole."""


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One task: a short title and the text to read."""

    work_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class PendingWork:
    """Pending tasks with instructions and the JSON ``schema`` of one answer. ``remaining`` includes these items."""

    kind: WorkKind
    instructions: str
    schema: Mapping[str, Any]
    items: tuple[WorkItem, ...]
    remaining: int
    cursor: str = ""
    """The cursor of the next page, e.g. for a second agent; "" at the end."""


@dataclass(frozen=True, slots=True)
class Submission:
    """The accepted ids of a submission, and the rejected ones with reasons."""

    accepted: tuple[str, ...]
    rejected: tuple[tuple[str, str], ...]
    remaining: int


class AgentWork:
    """The tasks of a collection for agents."""

    def __init__(
        self,
        documents: DocumentStore,
        generations: GenerationStore,
        replies: ReplyStore,
        collection: str,
        prompts: Prompts,
    ) -> None:
        self._prompts = prompts
        self._documents = documents
        self._generations = generations
        self._replies = replies
        self._collection = collection

    async def pending(self, kind: WorkKind, limit: int, cursor: str) -> PendingWork:
        """Return at most ``limit`` items in reading order, after ``cursor``.

        Raises ``NotReady`` if there is no document, or no build whose clusters could be summarised.
        """
        if kind == "extraction":
            return await self._chunks(limit, cursor)
        return await self._clusters(limit, cursor)

    async def submit_extractions(self, items: Sequence[Mapping[str, Any]]) -> Submission:
        """Store extractions, each with a ``work_id``. Accepted ones replace earlier extracts."""
        ids = [str(item.get("work_id")) for item in items]
        chunks = {each.id: each for each in await self._documents.chunks(self._collection, ids)}
        found = {id_: extraction_task(chunk) for id_, chunk in chunks.items()}
        said, rejected = read_items(
            items, found, "get the pending work again, its document was changed or deleted"
        )
        extracts: list[Extract] = [replace(each, method=Method.AGENT) for each in said.values()]
        kept = await self._documents.put_extracts(self._collection, extracts, revise=True) if extracts else []
        gone = [(id_, "Its document was deleted meanwhile.") for id_ in said if id_ not in set(kept)]
        return Submission(tuple(kept), (*rejected, *gone), await self._unread())

    async def submit_summaries(self, items: Sequence[Mapping[str, Any]]) -> Submission:
        """Store summaries, each with a ``work_id`` and the name, description and findings of its cluster."""
        generation = await self._require_generation()
        ids = list(dict.fromkeys(str(item.get("work_id")) for item in items))
        clusters = [each for each in await self._generations.entities(generation.number, ids) if each.layer]
        tasks = {each.id: await self._task(generation, each) for each in clusters}
        said, rejected = read_items(
            items, tasks, "get the pending work again, a build has changed the clusters"
        )
        given = {str(item["work_id"]): item for item in items if item.get("work_id") in said}
        await self._replies.put_summaries(
            self._collection, {tasks[id_].id: {**item, "cluster": id_} for id_, item in given.items()}
        )
        return Submission(tuple(given), tuple(rejected), await self._count_unsummarised(generation))

    # --- chunks ---------------------------------------------------------------------------

    async def _chunks(self, limit: int, cursor: str) -> PendingWork:
        held = await self._documents.collection(self._collection)
        if held is None or not held.documents:
            raise NotReady(
                f"Collection {self._collection!r} holds no document yet.", "Ingest documents first."
            )
        chunks = await self._documents.heuristic_chunks(
            self._collection, due=False, after=parse_cursor(cursor), limit=limit + 1
        )
        items = [
            WorkItem(each.id, f"{each.citation} {each.title}", extraction_task(each).text) for each in chunks
        ]
        shown = limit_size(items[:limit])
        end = chunks[len(shown) - 1].citation if len(shown) < len(items) else ""
        return describe_work(
            "extraction", extraction_kind(prompts=self._prompts), shown, await self._unread(), end
        )

    async def _unread(self) -> int:
        return (await self._documents.count_extracts(self._collection)).get(Method.HEURISTIC, 0)

    # --- clusters -------------------------------------------------------------------------

    async def _clusters(self, limit: int, cursor: str) -> PendingWork:
        """Return clusters of the lowest layer with pending ones: layers above use its names and descriptions."""
        generation = await self._require_generation()
        waiting = await self._waiting(generation)
        start = next((place for place, each in enumerate(waiting, 1) if each.id == cursor), 0)
        items: list[WorkItem] = []
        for each in waiting[start : start + limit]:
            shown = (await self._task(generation, each)).text
            items.append(WorkItem(each.id, f"{each.members} members, now called {each.name}", shown))
        handed = limit_size(items)
        end = handed[-1].work_id if handed and start + len(handed) < len(waiting) else ""
        return describe_work(
            "summary",
            aggregation_kind(self._prompts),
            handed,
            await self._count_unsummarised(generation),
            end,
        )

    async def _waiting(self, generation: Generation) -> list[Entity]:
        """Return the clusters without a submission, of the lowest layer that has heuristic clusters."""
        given = {each.get("cluster") for each in (await self._replies.summaries(self._collection)).values()}
        for layer in generation.layers[1:]:
            clusters = await self._generations.layer(generation.number, layer.layer)
            heuristic = [each for each in clusters if each.method is Method.HEURISTIC]
            if heuristic:
                # Submissions count from the next build on: layers above wait for it.
                return [each for each in heuristic if each.id not in given]
        return []

    async def _count_unsummarised(self, generation: Generation) -> int:
        return len(await self._waiting(generation))

    async def _task(self, generation: Generation, cluster: Entity) -> Task[Any]:
        members = await self._generations.members(generation.number, cluster.id, 0, MEMBERS)
        among = await self._generations.relations_among(generation.number, [each.id for each in members])
        return aggregation_task(members, among)

    async def _require_generation(self) -> Generation:
        held = await self._documents.collection(self._collection)
        if held is None or held.generation is None:
            raise NotReady(f"Collection {self._collection!r} was never built.", "Build it first.", "build")
        return held.generation


def describe_work(
    kind: WorkKind, task_kind: TaskKind, items: Sequence[WorkItem], remaining: int, cursor: str
) -> PendingWork:
    schema = {
        **task_kind.item,
        "properties": {"work_id": {"type": "string"}, **task_kind.item["properties"]},
        "required": ["work_id", *task_kind.item["required"]],
    }
    instructions = task_kind.prompts.fill(
        "agent_work", instructions=task_kind.instructions.partition(FORM)[0].strip()
    )
    return PendingWork(kind, instructions, schema, tuple(items), remaining, cursor)


def limit_size(items: Sequence[WorkItem]) -> list[WorkItem]:
    """Return the first of ``items``, as many as one reply may hold."""
    handed: list[WorkItem] = []
    size = 0
    for item in items:
        size += len(item.text)
        if handed and size > SHOWN:
            break
        handed.append(item)
    return handed


def parse_cursor(cursor: str) -> tuple[int, int]:
    """Return the document and chunk number of a citation; (0, 0) for ""."""
    if not cursor:
        return 0, 0
    if place := parse_citation(cursor):
        return place
    raise InvalidInput(
        f"{cursor!r} is no cursor of pending work.", "Give the next_cursor of the reply before, or none."
    )


def read_items(
    items: Sequence[Mapping[str, Any]], tasks: Mapping[str, Task[Any]], gone: str
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the answers by ``work_id``, and the rejected ids with reasons."""
    said: dict[str, Any] = {}
    rejected: list[tuple[str, str]] = []
    for item in items:
        id_ = item.get("work_id")
        if not isinstance(id_, str) or not id_:
            rejected.append(("", "It has no work_id: copy that of the pending item."))
        elif id_ not in tasks:
            rejected.append((id_, f"There is no such work: {gone}."))
        elif id_ in said:
            rejected.append((id_, "It was handed in twice; the first one counts."))
        else:
            problem = read_item(said, id_, tasks[id_].read, item)
            rejected += [(id_, problem)] if problem else []
    return said, rejected


def read_item(
    said: dict[str, Any], id_: str, read: Callable[[Mapping[str, Any]], Any], item: Mapping[str, Any]
) -> str:
    """Parse one item into ``said``; return the problem, or ""."""
    try:
        said[id_] = read({key: value for key, value in item.items() if key != "work_id"})
    except ReplyUnusable as problem:
        return problem.message
    return ""
