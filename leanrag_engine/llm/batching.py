"""Asking a model: its reply read and checked, one second chance, and what it all used.

:func:`ask` is one question. :func:`ask_each` gives a model several tasks of one kind in one request, and takes
of its reply what can be used, task by task; a calling agent that does the same work is read the same way.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel

from leanrag_engine.core.errors import CapReached, LeanRAGError, ModelUnavailable, ReplyUnusable
from leanrag_engine.core.ports import ChatModel, ChatRequest, FinishReason, Message, Reply
from leanrag_engine.core.text.shortening import cut_end, one_line

from .prompts import BUILT_IN, Prompts

S = TypeVar("S")
T = TypeVar("T")

_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
"""Some local servers leave a reasoning model's thoughts in its reply."""

_QUOTED = 80
"""Characters of a bad reply that an error shows."""

ROOM = 2
"""A reply that was cut off gets so many times the room at the second try."""


@dataclass(slots=True)
class Meter:
    """Adds up what replies used, also those that could not be used. ``cost`` leaves out ``unpriced`` replies."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def note(self, reply: Reply) -> None:
        """A reply that was kept from before used nothing."""
        if reply.kept:
            return
        self.calls += 1
        self.prompt_tokens += reply.prompt_tokens
        self.completion_tokens += reply.completion_tokens
        self.cost += reply.cost or 0.0
        self.unpriced += reply.cost is None


async def ask(
    model: ChatModel,
    request: ChatRequest,
    read: Callable[[str], T],
    meter: Meter,
    prompts: Prompts = BUILT_IN,
) -> T:
    """What ``read`` makes of the reply. A reply that is not whole, or that ``read`` refuses with
    ``ReplyUnusable``, is asked for once more with the problem quoted; then its error is the caller's."""
    reply = await model.complete(request)
    meter.note(reply)
    try:
        return read(complete_text(reply))
    except ReplyUnusable as problem:
        second = retry_request(request, reply, problem.message, prompts)
    reply = await model.complete(second)
    meter.note(reply)
    return read(complete_text(reply))


@dataclass(slots=True)
class Fallbacks:
    """Tasks without a usable answer, whose heuristic result stands instead: how many by step, and why."""

    counts: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, Counter[str]] = field(default_factory=dict)

    def note(self, step: str, problem: LeanRAGError) -> None:
        self.counts[step] += 1
        self.reasons.setdefault(step, Counter())[problem.message] += 1


@dataclass(frozen=True, slots=True)
class ModelWork:
    """A model at work on a build: so many small tasks in one call, what it used, and what it could not do."""

    model: ChatModel
    batch: int = 1
    prompts: Prompts = BUILT_IN
    meter: Meter = field(default_factory=Meter)
    fallbacks: Fallbacks = field(default_factory=Fallbacks)


# --- many tasks ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskKind:
    """A kind of task: what explains it, and what one task's answer must look like.

    ``item`` is the JSON schema of one answer, an object; ``room`` the output tokens that one may take. ``step``
    is what the ledger adds up by. ``other_form`` reads replies that hold no JSON, if they may come in
    another form; it gives the answers in the order of the tasks.
    """

    step: str
    instructions: str
    item: Mapping[str, Any]
    room: int
    other_form: Callable[[str], list[Mapping[str, Any]]] | None = None
    prompts: Prompts = BUILT_IN


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    """One piece of work. ``id`` is derived from all that the answer may depend on.

    ``text`` is what is read, with documents' text fenced; ``chunk_ids`` are all the chunks that it comes from,
    none if they are not known.
    ``read`` makes the answer of a JSON object, or raises ``ReplyUnusable`` with a reason to act on.
    """

    id: str
    text: str
    read: Callable[[Mapping[str, Any]], T]
    chunk_ids: tuple[str, ...] = ()


ITEMS, NUMBER = "items", "task"
"""The keys of a reply: its list of answers, and in each the number of its task, from 1."""


def batch_request(
    kind: TaskKind, tasks: Sequence[Task[Any]], problems: Sequence[str] = (), room: int = 1
) -> ChatRequest:
    """What is asked for these tasks; ``problems``: what was wrong with each one's last answer.

    The instructions come first and are always the same, so that services that cache prompts can do so.
    """
    shown = [f"## Task {number}\n\n{task.text}" for number, task in enumerate(tasks, 1)]
    if problems:
        listed = "\n".join(f"- Task {number}: {problem}" for number, problem in enumerate(problems, 1))
        shown.append(kind.prompts.fill("ask_again_each", problems=listed))
    item = {
        **kind.item,
        "properties": {NUMBER: {"type": "integer"}, **kind.item["properties"]},
        "required": [NUMBER, *kind.item["required"]],
    }
    return ChatRequest(
        (Message("system", kind.instructions), Message("user", "\n\n".join(shown))),
        max_tokens=room * kind.room * len(tasks),
        schema={
            "title": kind.step,
            "type": "object",
            "properties": {ITEMS: {"type": "array", "items": item}},
            "required": [ITEMS],
            "additionalProperties": False,
        },
        step=kind.step,
        chunk_ids=_chunks_of(tasks),
    )


def _chunks_of(tasks: Sequence[Task[Any]]) -> tuple[str, ...]:
    """All the chunks that they come from; none if those of one are not known."""
    if not all(task.chunk_ids for task in tasks):
        return ()
    return tuple(dict.fromkeys(id_ for task in tasks for id_ in task.chunk_ids))


async def ask_each(
    model: ChatModel, kind: TaskKind, tasks: Sequence[Task[T]], meter: Meter
) -> list[T | LeanRAGError]:
    """For each task its answer, or why there is none (``ReplyUnusable``, ``ModelUnavailable``, ``CapReached``),
    in their order.

    One request for all of them; if the service does not take that, one for each. Those without a usable answer
    are asked once more, together, with what was wrong. What every request would meet is raised.
    """
    first = await _ask_once(model, kind, tasks, batch_request(kind, tasks), meter)
    answers = first.answers
    if not first.taken:
        if len(tasks) == 1:
            return answers
        alone = [await ask_each(model, kind, [task], meter) for task in tasks]
        return [answer for answers in alone for answer in answers]
    bad = [number for number, each in enumerate(answers) if isinstance(each, ReplyUnusable)]
    if bad:
        again = [tasks[number] for number in bad]
        problems = [_reason(answers[number]) for number in bad]
        request = batch_request(kind, again, problems, ROOM if first.cut else 1)
        second = await _ask_twice(model, kind, again, request, meter)
        for number, each in zip(bad, second.answers, strict=True):
            answers[number] = each
    return answers


@dataclass(frozen=True, slots=True)
class _Round(Generic[T]):
    """What one request gave: whether the service took it, and whether its reply was cut off or kept from before."""

    answers: list[T | LeanRAGError]
    taken: bool = True
    cut: bool = False
    kept: bool = False

    @property
    def unusable(self) -> bool:
        return any(isinstance(each, ReplyUnusable) for each in self.answers)


async def _ask_twice(
    model: ChatModel, kind: TaskKind, tasks: Sequence[Task[T]], request: ChatRequest, meter: Meter
) -> _Round[T]:
    """Ask the model; if the cached reply is unusable, ask once more without the cache.

    The newer reply replaces the cached one, so later builds find it."""
    found = await _ask_once(model, kind, tasks, request, meter)
    if found.kept and found.unusable:
        newer = await _ask_once(model, kind, tasks, replace(request, anew=True), meter)
        return newer if newer.taken else found
    return found


async def _ask_once(
    model: ChatModel, kind: TaskKind, tasks: Sequence[Task[T]], request: ChatRequest, meter: Meter
) -> _Round[T]:
    try:
        reply = await model.complete(request)
    except ReplyUnusable as problem:
        return _Round([problem for _ in tasks], taken=False)
    except (ModelUnavailable, CapReached) as problem:
        return _Round([problem for _ in tasks])
    meter.note(reply)
    cut = reply.finish_reason is FinishReason.LENGTH
    try:
        found = _items(kind, reply, len(tasks))
    except ReplyUnusable as problem:
        return _Round([problem for _ in tasks], cut=cut, kept=reply.kept)
    answers: list[T | LeanRAGError] = []
    for number, task in enumerate(tasks, 1):
        answer = _read(task, found.get(number))
        answers.append(answer)
    return _Round(answers, cut=cut, kept=reply.kept)


def _items(kind: TaskKind, reply: Reply, count: int) -> dict[int, Mapping[str, Any]]:
    """The answers of a reply by the number of their task; of one that was cut off, all but the last."""
    cut = reply.finish_reason is FinishReason.LENGTH
    text = complete_text(replace(reply, finish_reason=FinishReason.STOP) if cut else reply)
    items = _find_items(kind, text)
    if cut:
        items = items[:-1]
        if not items:
            complete_text(reply)
    numbered = {number: each for each in reversed(items) if (number := _number(each)) in range(1, count + 1)}
    # A model that was given one task, or all of them in a row, may leave the numbers out.
    return numbered or (dict(enumerate(items, 1)) if len(items) == count else {})


def _number(item: Mapping[str, Any]) -> int:
    """The number of the task that it answers; 0 if it has none."""
    try:
        return int(item.get(NUMBER) or 0)
    except (TypeError, ValueError):
        return 0


def _find_items(kind: TaskKind, text: str) -> list[Mapping[str, Any]]:
    try:
        found = read_object(text, kind.item["required"])
    except ReplyUnusable:
        if kind.other_form and (other := kind.other_form(text)):
            return other
        raise
    items = found.get(ITEMS)
    if isinstance(items, Mapping):
        items = [items]
    if isinstance(items, list):
        return [each for each in items if isinstance(each, Mapping)]
    return [found]


def _read(task: Task[T], item: Mapping[str, Any] | None) -> T | LeanRAGError:
    if item is None:
        return ReplyUnusable("The reply has no answer for this task.")
    try:
        return task.read(item)
    except ReplyUnusable as problem:
        return problem


def _reason(problem: object) -> str:
    return problem.message if isinstance(problem, LeanRAGError) else str(problem)


async def for_each(items: Iterable[S], work: Callable[[S], Awaitable[None]], *, places: int) -> None:
    """Do ``work`` for each item, ``places`` of them at once: none waits for a slow one while a place is free.

    The first error ends the rest, and is raised as it is.
    """
    rest = iter(items)

    async def place() -> None:
        for item in rest:
            await work(item)
            # A reply that was kept from before is no wait: others must get their turn all the same.
            await anyio.lowlevel.checkpoint()

    try:
        async with anyio.create_task_group() as group:
            for _ in range(places):
                group.start_soon(place)
    except BaseExceptionGroup as problems:
        raise first_error(problems) from None


def first_error(problems: BaseExceptionGroup[BaseException]) -> BaseException:
    """What a group of tasks met first."""
    first = problems.exceptions[0]
    return first_error(first) if isinstance(first, BaseExceptionGroup) else first


# --- replies -------------------------------------------------------------------------------


def retry_request(
    request: ChatRequest, reply: Reply, problem: str, prompts: Prompts = BUILT_IN
) -> ChatRequest:
    """The same request after the reply and what is wrong with it."""
    given = (Message("assistant", reply.text),) if reply.text.strip() else ()
    note = Message("user", prompts.fill("ask_again", problem=problem))
    room = ROOM if reply.finish_reason is FinishReason.LENGTH else 1
    return replace(request, messages=(*request.messages, *given, note), max_tokens=room * request.max_tokens)


def complete_text(reply: Reply) -> str:
    """The text of a reply that is one. Raises ``ReplyUnusable`` for one that is cut off, refused or empty."""
    text = _THOUGHT.sub("", reply.text).strip()
    match reply.finish_reason:
        case FinishReason.LENGTH:
            raise ReplyUnusable(f"The reply was cut off after {reply.completion_tokens} tokens.")
        case FinishReason.REFUSAL:
            raise ReplyUnusable(f"The model refused: {quote(text)}" if text else "The model refused.")
        case FinishReason.EMPTY | FinishReason.STOP if not text:
            raise ReplyUnusable("The reply is empty.")
    return text


def read_object(text: str, answers: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON object in a reply: in a code fence, amid prose, with small faults. Raises ``ReplyUnusable``.

    A list of objects that all have the keys ``answers`` is as good as an object that holds it as its items.
    """
    from json_repair import loads  # noqa: PLC0415 - only where a model is asked

    found = loads(text)
    # Several stand in a list; the last is what the model arrived at.
    objects = [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict)]
    if (
        answers
        and isinstance(found, list)
        and objects
        and all(objects[0].get(key) is not None for key in answers)
    ):
        return {ITEMS: objects}
    if not objects:
        raise ReplyUnusable(f"The reply holds no JSON object; it is {quote(text)}")
    return objects[-1]


def quote(text: str) -> str:
    return f'"{cut_end(one_line(text), _QUOTED)}"'
