"""Send requests to a model: parse and check the reply, retry once, count the use. :func:`ask` sends one question. :func:`ask_each` sends
several tasks of one kind in one request and parses the reply task by task; the answers of a calling agent are parsed the same way."""

import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import anyio
import anyio.lowlevel

from leanrag_engine.core.errors import (
    CapReached,
    LeanRAGError,
    ModelUnavailable,
    ReplyUnusable,
    open_task_group,
)
from leanrag_engine.core.model import JsonObject, JsonSchema
from leanrag_engine.core.ports import ChatModel, ChatRequest, FinishReason, Message, Reply
from leanrag_engine.core.text.shortening import cut_end, one_line

from .item_schema import object_schema, service_schema
from .prompts import BUILT_IN, Prompts

S = TypeVar("S")
T = TypeVar("T")

_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
"""The thoughts of a reasoning model, which some local servers leave in its reply."""


ROOM = 2  # Factor of `max_tokens` at the second try after a reply that was cut off


@dataclass(slots=True)
class Meter:
    """The sum of what replies used, unusable ones included. ``cost`` leaves out ``unpriced`` replies."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def note(self, reply: Reply) -> None:
        """Add a reply; a cached one used nothing."""
        if reply.kept:
            return
        self.calls += 1
        self.prompt_tokens += reply.prompt_tokens
        self.completion_tokens += reply.completion_tokens
        self.cost += reply.cost or 0.0
        self.unpriced += reply.cost is None

    def format_use(self) -> str:
        """Return e.g. ``12 calls, 3,400 input and 560 output tokens``."""
        return (
            f"{self.calls:,} calls, {self.prompt_tokens:,} input and {self.completion_tokens:,} output tokens"
        )


async def ask(
    model: ChatModel,
    request: ChatRequest,
    read: Callable[[str], T],
    meter: Meter,
    prompts: Prompts = BUILT_IN,
) -> T:
    """Return what ``read`` makes of the reply; after an incomplete or unusable one, of the reply to the request with that problem."""
    reply = await model.complete(request)
    meter.note(reply)
    try:
        return read(complete_text(reply))
    except ReplyUnusable as problem:
        second = retry_request(request, reply, problem.message, prompts)
    reply = await model.complete(second)
    meter.note(reply)
    return read(complete_text(reply))


# --- many tasks ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskKind:
    """A kind of task: its instructions and the form of an answer.

    ``item`` is the JSON schema of one answer, an object: answers of agents are checked by all of it
    (``item_schema.find_faults``); models get it without its limits, as their answers are read with tolerance. ``room`` are the output tokens of one answer. Spending is summed by
    ``step``. ``other_form`` parses replies without JSON, if another form is allowed; it returns the answers in the
    order of the tasks.
    """

    step: str
    instructions: str
    item: JsonSchema
    room: int
    other_form: Callable[[str], list[JsonObject]] | None = None
    prompts: Prompts = BUILT_IN


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    """One task, whose ``id`` is derived from everything that the answer may depend on. ``text`` has documents
    fenced; ``chunk_ids`` are all chunks and aggregated entities that it comes from, empty if unknown.
    ``read`` converts a JSON object to the answer, or raises ``ReplyUnusable``."""

    id: str
    text: str
    read: Callable[[JsonObject], T]
    chunk_ids: tuple[str, ...] = ()


ITEMS, NUMBER = "items", "task"
"""The keys of a reply: its list of answers, and in each the number of its task, from 1."""


def batch_request(
    kind: TaskKind, tasks: Sequence[Task[T]], problems: Sequence[str] = (), room: int = 1
) -> ChatRequest:
    """Return the request for tasks, with the ``problems`` of their last answers. Equal instructions come first: services cache them."""
    shown = [f"## Task {number}\n\n{task.text}" for number, task in enumerate(tasks, 1)]
    if problems:
        listed = "\n".join(f"- Task {number}: {problem}" for number, problem in enumerate(problems, 1))
        shown.append(kind.prompts.fill("ask_again_each", problems=listed))
    item = service_schema(
        {**kind.item, "properties": {NUMBER: {"type": "integer"}, **kind.item["properties"]}}
    )
    known = all(task.chunk_ids for task in tasks)
    return ChatRequest(
        (Message("system", kind.instructions), Message("user", "\n\n".join(shown))),
        max_tokens=room * kind.room * len(tasks),
        schema={"title": kind.step, **object_schema({ITEMS: {"type": "array", "items": item}})},
        step=kind.step,
        chunk_ids=tuple(dict.fromkeys(id_ for task in tasks for id_ in task.chunk_ids)) if known else (),
    )


async def ask_each(
    model: ChatModel, kind: TaskKind, tasks: Sequence[Task[T]], meter: Meter
) -> list[T | LeanRAGError]:
    """Return the answer of each task, or its error (``ReplyUnusable``, ``ModelUnavailable``, ``CapReached``), in
    order. All tasks share one request; if the service rejects it, each gets its own. Tasks without a usable answer
    are sent once more, together, with what was wrong. Errors that every request would meet are raised."""
    first = await _ask_once(model, kind, tasks, batch_request(kind, tasks), meter)
    answers = first.answers
    if not first.taken:
        if len(tasks) == 1:
            return answers
        alone = [await ask_each(model, kind, [task], meter) for task in tasks]
        return [answer for answers in alone for answer in answers]
    bad = {number: each.message for number, each in enumerate(answers) if isinstance(each, ReplyUnusable)}
    if bad:
        again = [tasks[number] for number in bad]
        request = batch_request(kind, again, list(bad.values()), ROOM if first.cut else 1)
        second = await _ask_twice(model, kind, again, request, meter)
        for number, each in zip(bad, second.answers, strict=True):
            answers[number] = each
    return answers


@dataclass(frozen=True, slots=True)
class ModelWork:
    """A model at work on a build: tasks per request, what it used, and which tasks fell back."""

    model: ChatModel
    batch: int = 1
    prompts: Prompts = BUILT_IN
    meter: Meter = field(default_factory=Meter)
    fallbacks: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Tasks without a usable answer, which keep their heuristic result: their number by step and reason."""

    async def ask(self, kind: TaskKind, tasks: Sequence[Task[T]]) -> list[T | None]:
        """Return the answers as :func:`ask_each`; None for a task without a usable one, which is noted as a fallback."""
        answers: list[T | None] = []
        for answer in await ask_each(self.model, kind, tasks, self.meter):
            if isinstance(answer, LeanRAGError):
                self.fallbacks[kind.step][answer.message] += 1
            answers.append(None if isinstance(answer, LeanRAGError) else answer)
        return answers


@dataclass(frozen=True, slots=True)
class _Round(Generic[T]):
    """The answers of one request; whether the service accepted it, and whether its reply was cut off or cached."""

    answers: list[T | LeanRAGError]
    taken: bool = True
    cut: bool = False
    kept: bool = False


async def _ask_twice(
    model: ChatModel, kind: TaskKind, tasks: Sequence[Task[T]], request: ChatRequest, meter: Meter
) -> _Round[T]:
    """Ask the model; if the cached reply is unusable, once more without the cache, where the newer reply replaces it."""
    found = await _ask_once(model, kind, tasks, request, meter)
    if found.kept and any(isinstance(each, ReplyUnusable) for each in found.answers):
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


def _items(kind: TaskKind, reply: Reply, count: int) -> dict[int, JsonObject]:
    """Return the answers of a reply by the number of their task; all but the last if it was cut off."""
    cut = reply.finish_reason is FinishReason.LENGTH
    text = complete_text(replace(reply, finish_reason=FinishReason.STOP) if cut else reply)
    items = _find_items(kind, text)
    if cut and not (items := items[:-1]):
        complete_text(reply)
    numbered = {number: each for each in reversed(items) if (number := _number(each)) in range(1, count + 1)}
    # A model that got one task, or that answers all in order, may omit the numbers.
    return numbered or (dict(enumerate(items, 1)) if len(items) == count else {})


def _number(item: JsonObject) -> int:
    """Return the number of the task that an item answers; 0 if it has none."""
    given = item.get(NUMBER)
    try:
        return int(given) if isinstance(given, str | int | float) and not isinstance(given, bool) else 0
    except (ValueError, OverflowError):  # NaN, Infinity
        return 0


def _find_items(kind: TaskKind, text: str) -> list[JsonObject]:
    try:
        found = read_object(text, kind.item["required"])
    except ReplyUnusable:
        if kind.other_form and (other := kind.other_form(text)):
            return other
        raise
    items = found.get(ITEMS)
    if isinstance(items, Mapping):
        items = [items]
    return [each for each in items if isinstance(each, Mapping)] if isinstance(items, list) else [found]


def _read(task: Task[T], item: JsonObject | None) -> T | LeanRAGError:
    if item is None:
        return ReplyUnusable("The reply has no answer for this task.")
    try:
        return task.read(item)
    except ReplyUnusable as problem:
        return problem


async def for_each(items: Iterable[S], work: Callable[[S], Awaitable[None]], *, places: int) -> None:
    """Run ``work`` for each item, ``places`` of them at once. The first error cancels the rest and is raised."""
    rest = iter(items)

    async def place() -> None:
        for item in rest:
            await work(item)
            # A cached reply does not wait, but other tasks must run too.
            await anyio.lowlevel.checkpoint()

    async with open_task_group() as group:
        for _ in range(places):
            group.start_soon(place)


# --- replies -------------------------------------------------------------------------------


def retry_request(request: ChatRequest, reply: Reply, problem: str, prompts: Prompts) -> ChatRequest:
    """Return the request extended by the reply and what is wrong with it."""
    given = (Message("assistant", reply.text),) if reply.text.strip() else ()
    note = Message("user", prompts.fill("ask_again", problem=problem))
    room = ROOM if reply.finish_reason is FinishReason.LENGTH else 1
    return replace(request, messages=(*request.messages, *given, note), max_tokens=room * request.max_tokens)


def complete_text(reply: Reply) -> str:
    """Return the text of a complete reply. Raises ``ReplyUnusable`` if it is cut off, refused or empty."""
    text = _THOUGHT.sub("", reply.text).strip()
    match reply.finish_reason:
        case FinishReason.LENGTH:
            raise ReplyUnusable(f"The reply was cut off after {reply.completion_tokens} tokens.")
        case FinishReason.REFUSAL:
            raise ReplyUnusable(f"The model refused: {quote(text)}" if text else "The model refused.")
        case FinishReason.EMPTY | FinishReason.STOP if not text:
            raise ReplyUnusable("The reply is empty.")
    return text


def read_object(text: str, answers: Sequence[str] = ()) -> JsonObject:
    """Return the JSON object in a reply: in a code fence, amid prose, with small faults; of a list whose
    first object has all the keys ``answers``, its items. Raises ``ReplyUnusable``."""
    from json_repair import loads  # noqa: PLC0415 - only where a model is asked

    found = loads(text)
    # Several objects come as a list; the last one is the model's result.
    objects = [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict)]
    if not objects:
        raise ReplyUnusable(f"The reply holds no JSON object; it is {quote(text)}")
    listed = answers and isinstance(found, list) and all(objects[0].get(key) is not None for key in answers)
    return {ITEMS: objects} if listed else objects[-1]


def quote(text: str) -> str:
    """Return the beginning of a bad reply as an error shows it."""
    return f'"{cut_end(one_line(text), 80)}"'


def pack(
    items: Iterable[T],
    *,
    most: int,
    room: int,
    size: Callable[[T], int],
    parts: Callable[[T, T], bool] = lambda _one, _other: False,
) -> Iterator[Sequence[T]]:
    """Yield ``items`` in order, in groups of at most ``most`` items and ``room``, a larger one alone; ``parts``: two neighbours
    must not share a group. Groups stay the same when others are done or inserted: their replies are cached."""
    group: list[T] = []
    left = room
    for item in items:
        needed = size(item)
        if group and (len(group) == most or needed > left or parts(group[-1], item)):
            yield group
            group, left = [], room
        group.append(item)
        left -= needed
    if group:
        yield group
