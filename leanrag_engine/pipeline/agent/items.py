"""What is handed to an agent and what comes back: items, pages, submissions, and the check of each item."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from leanrag_engine.core.errors import InvalidInput, ReplyUnusable
from leanrag_engine.core.model import CheckedObject, JsonObject, JsonSchema
from leanrag_engine.core.text.shortening import take_fitting
from leanrag_engine.llm.batching import TaskKind
from leanrag_engine.llm.item_schema import find_faults, join_faults

T = TypeVar("T")

WorkKind = Literal["extraction", "summary", "relation", "description"]

FORM = "\n---\n"
"""Separator in the instructions: the text after it is the reply format of chat models; agents have a schema."""
SHOWN = 24_000  # Characters of all items in one reply: about 6,000 tokens. The first item is always whole


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One task: a short title and the text to read."""

    work_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class QueuedWork:
    """A place in the order of work: one that is done keeps its place, so that a cursor stays valid. ``value``: what doing it
    brings, in the unit of its kind."""

    work_id: str
    pending: bool
    value: float = 1.0


@dataclass(frozen=True, slots=True)
class PendingWork:
    """A page of pending tasks; ``remaining`` includes them, and ``tokens`` is about what all that takes to
    read. ``instructions`` and the JSON ``schema`` of an answer are on the first page, and where they are
    asked for. ``names`` are in use near these items. ``note``: why there are fewer, or what comes first."""

    kind: WorkKind
    items: tuple[WorkItem, ...]
    remaining: int
    tokens: int
    cursor: str = ""
    """The cursor of the next page; "" at the end."""
    instructions: str = ""
    schema: JsonSchema | None = None
    names: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Submission:
    """The accepted ids of a submission, what they replaced, the rejected ids with reasons, how many remain,
    and the types ``outside`` the collection's schema."""

    kind: WorkKind
    accepted: tuple[str, ...]
    replaced: tuple[tuple[str, str], ...]
    rejected: tuple[tuple[str, str], ...]
    remaining: int
    outside: tuple[str, ...] = ()


def publish_schema(kind: TaskKind) -> JsonSchema:
    """Return the schema of one item as an agent sees it: an answer with the id of its work."""
    return {
        **kind.item,
        "properties": {"work_id": {"type": "string"}, **kind.item["properties"]},
        "required": ["work_id", *kind.item["required"]],
    }


def select_page(queue: Sequence[QueuedWork], limit: int, cursor: str) -> list[str]:
    """Return the first ``limit`` pending ids after ``cursor``, the last one of a page before. Raises ``InvalidInput`` if that is gone."""
    places = {each.work_id: place for place, each in enumerate(queue, 1)}
    if cursor and cursor not in places:
        raise InvalidInput(
            f"{cursor!r} is no cursor of pending work, or a build or a change of documents has changed the work.",
            "Call without a cursor to begin again: what was accepted is not listed any more.",
        )
    pending = (each.work_id for each in queue[places.get(cursor, 0) :] if each.pending)
    return [id_ for id_, _ in zip(pending, range(limit), strict=False)]


def _describe_gain(queue: Sequence[QueuedWork], cursor: str, tokens: float, unit: str) -> str:
    """Return what the next ten pending works after ``cursor`` bring of all that is pending, for ``tokens`` each; "" if they
    are all, or bring nothing that was measured."""
    values = {each.work_id: each.value for each in queue if each.pending}
    chosen = select_page(queue, 10, cursor)
    total = sum(values.values())
    if not total or len(chosen) in (0, len(values)):
        return ""
    share = sum(values[id_] for id_ in chosen) / total
    return f"The next {len(chosen)} hold {share:.0%} of {unit}, for about {len(chosen) * tokens:.0f} tokens to read."


def make_page(
    kind: WorkKind,
    queue: Sequence[QueuedWork],
    cursor: str,
    items: Sequence[WorkItem],
    unit: str,
    measure: Callable[[Sequence[WorkItem]], float],
    later: int = 0,
    note: str = "",
) -> PendingWork:
    """Return a page of the first of ``items``, as many as one reply may hold. ``measure`` gives the mean tokens of a work by those
    on the page, ``later`` works come after the ``queue``."""
    handed = take_fitting(items, [len(each.text) for each in items], SHOWN)
    fewer = f"{len(handed)} items and not {len(items)}: one reply holds about {SHOWN // 4:,} tokens of them."
    mean = measure(handed)
    remaining = sum(each.pending for each in queue)
    gain = _describe_gain(queue, cursor, mean, unit)
    last = handed[-1].work_id if handed else ""
    return PendingWork(
        kind,
        tuple(handed),
        remaining,
        round(mean * (remaining + later)),
        last if last and select_page(queue, 1, last) else "",
        note=" ".join(filter(None, (fewer if len(handed) < len(items) else "", gain, note))),
    )


def read_items(
    items: Sequence[JsonObject], readers: "Mapping[str, Reader[T]]", gone: str
) -> tuple[dict[str, T], list[tuple[str, str]]]:
    """Return the answers by ``work_id``, and the rejected ids with reasons. ``gone`` says what to do about unknown work."""
    said: dict[str, T] = {}
    rejected: list[tuple[str, str]] = []
    for item in items:
        id_ = item.get("work_id")
        if not isinstance(id_, str) or not id_:
            rejected.append(("", "work_id is missing; expected that of the pending item."))
        elif id_ not in readers:
            rejected.append((id_, f"There is no such work: {gone}."))
        elif id_ in said:
            rejected.append((id_, "It was handed in twice; the first one counts."))
        else:
            try:
                said[id_] = readers[id_].read(item)
            except ReplyUnusable as problem:
                rejected.append((id_, problem.message))
    return said, rejected


@dataclass(frozen=True, slots=True)
class Reader(Generic[T]):
    """Reads one item: its form is checked by the published schema, then its content by the task."""

    schema: JsonSchema
    convert: Callable[[CheckedObject], T]

    def read(self, item: JsonObject) -> T:
        """Return the answer. Raises ``ReplyUnusable`` with the path of each fault and what was expected there."""
        if faults := find_faults(self.schema, item):
            raise ReplyUnusable(join_faults(faults))
        return self.convert({key: value for key, value in item.items() if key != "work_id"})


def refuse_replacing(earlier: str) -> str:
    """Return the reason to reject an item that would replace what an agent or a model wrote."""
    return f"It would replace {earlier}. Submit it with replace=true if it is meant to."
