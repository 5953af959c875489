"""Extraction by a model: what it is told, what it is shown of each chunk, and how a whole corpus is read.

A calling agent that does the same work gets the same instructions and is read by the same reader.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import anyio

from leanrag_engine.core.errors import LeanRAGError
from leanrag_engine.core.model import Chunk, Extract, content_id
from leanrag_engine.core.text.fencing import fence
from leanrag_engine.llm.batching import ModelWork, Task, TaskKind, ask_each, for_each
from leanrag_engine.llm.packing import pack
from leanrag_engine.llm.prompts import BUILT_IN, Prompts

from .gleaning import add_new, gleaning_kind, gleaning_task
from .reply import MOST_IMPORTANT, read_extract
from .tuple_reply import read_tuples

__all__ = ["extract_by_model", "extraction_groups", "extraction_kind", "extraction_task"]

Took = Callable[[Sequence[Extract]], Awaitable[None]]
Report = Callable[[int, int], None]
"""Hears how many chunks are done, of how many; what it raises ends the work."""

TEXT_TOKENS = 1200
"""Tokens of text in one call. More would save little, for the instructions are short, and long lists lose entities."""

PLACES = 2
"""Groups under way for each call that the model takes at once: one is read and stored while another is answered."""

_ROOM_PER_TOKEN = 4
_LEAST_ROOM, _MOST_ROOM = 1000, 8000
"""Tokens of a reply: names, descriptions and braces are longer than what they are taken from."""

_TEXT = {"type": "string"}


def _rows(**fields: Any) -> dict[str, Any]:
    row = {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
    return {"type": "array", "items": row}


_ITEM = {
    "type": "object",
    "properties": {
        "entities": _rows(name=_TEXT, type=_TEXT, description=_TEXT),
        "relations": _rows(
            source=_TEXT,
            target=_TEXT,
            description=_TEXT,
            importance={"type": "integer", "description": f"1 to {MOST_IMPORTANT}"},
        ),
    },
    "required": ["entities", "relations"],
    "additionalProperties": False,
}


def extraction_kind(tokens: int = 512, prompts: Prompts = BUILT_IN) -> TaskKind:
    """What a model is told that extracts; ``tokens`` are those of the longest chunk that it is given at once."""
    room = min(_MOST_ROOM, max(_LEAST_ROOM, _ROOM_PER_TOKEN * tokens))
    return TaskKind("extract", prompts.fill("extract"), _ITEM, room, read_tuples, prompts)


def extraction_task(chunk: Chunk) -> Task[Extract]:
    """Read one chunk. The answer is an extract made by a model; an agent's is that with another method.

    Raises ``ReplyUnusable`` while reading, with a reason to act on, if nothing in an answer can be used.
    """
    seen = passage_of(chunk)
    shown = fence(seen)
    return Task(
        content_id("x", chunk.id, shown),
        shown,
        lambda item: read_extract(item, chunk.id, seen),
        (chunk.id,),
    )


def passage_of(chunk: Chunk) -> str:
    """What is shown of a chunk: where it stands, and its text. A title may be anybody's words, as the text may."""
    title, heading = (" ".join(each.split()) for each in (chunk.title, chunk.heading))
    place = " › ".join(dict.fromkeys(filter(None, (title, heading))))
    return f"{place}\n\n{chunk.text}" if place else chunk.text


def extraction_groups(chunks: Sequence[Chunk], batch: int) -> Iterator[Sequence[Chunk]]:
    """The chunks of each call: at most ``batch`` neighbours of at most ``TEXT_TOKENS`` together, a longer one alone.

    Only chunks that follow each other in the collection share a call. If the groups in their midst are done, the
    groups of the rest stay what they were.
    """
    return pack(chunks, most=batch, room=TEXT_TOKENS, size=lambda chunk: chunk.tokens, parts=_apart)


def _apart(one: Chunk, other: Chunk) -> bool:
    """Whether ``other`` cannot be the next chunk after ``one``."""
    if one.document_id == other.document_id:
        return other.number != one.number + 1
    return other.number != 1 or _document(other) - _document(one) > 1


def _document(chunk: Chunk) -> int:
    """The number of its document, as its citation (``d3:c12``) gives it; 0 before it was stored."""
    number = chunk.citation.partition(":")[0].removeprefix("d")
    return int(number) if number.isdigit() else 0


async def extract_by_model(
    work: ModelWork, chunks: Sequence[Chunk], took: Took, report: Report, *, gleaning: int
) -> None:
    """Have the model read ``chunks``, given in reading order, and hand over their extracts as they come.

    ``took`` gets the extracts of whole calls, in no fixed order, never twice at once. A chunk without a usable answer
    is noted in ``work.fallbacks`` and not handed over: it keeps the extract that it has. ``gleaning`` further calls for
    each group of chunks ask what is missing, as long as something new comes. What ``report`` and ``took`` raise, and
    ``InvalidInput`` that every request would meet, ends the work; what was read until then is handed over first.
    """
    outbox = _Outbox(took)
    total, done = len(chunks), 0
    report(done, total)

    async def read(group: Sequence[Chunk]) -> None:
        nonlocal done
        await outbox.add(await _extracts(work, group, gleaning))
        done += len(group)
        report(done, total)

    try:
        await for_each(extraction_groups(chunks, work.batch), read, places=PLACES * work.model.concurrency)
    finally:
        with anyio.CancelScope(shield=True):
            await outbox.flush()


async def _extracts(work: ModelWork, group: Sequence[Chunk], gleaning: int) -> list[Extract]:
    """The extracts of those chunks of one group that got a usable answer."""
    kind = extraction_kind(max(chunk.tokens for chunk in group), work.prompts)
    found = await ask_each(work.model, kind, [extraction_task(chunk) for chunk in group], work.meter)
    read: dict[str, Extract] = {}
    for chunk, answer in zip(group, found, strict=True):
        if isinstance(answer, LeanRAGError):
            work.fallbacks.note(kind.step, answer)
        else:
            read[chunk.id] = answer
    again = [chunk for chunk in group if chunk.id in read]
    for _ in range(gleaning):
        again = await _glean(work, again, read)
    return list(read.values())


async def _glean(work: ModelWork, group: Sequence[Chunk], read: dict[str, Extract]) -> list[Chunk]:
    """One round of gleaning: what it adds to ``read``, and the chunks for which another may add more."""
    if not group:
        return []
    kind = gleaning_kind(extraction_kind(max(chunk.tokens for chunk in group), work.prompts))
    tasks = [gleaning_task(chunk, passage_of(chunk), read[chunk.id]) for chunk in group]
    found = await ask_each(work.model, kind, tasks, work.meter)
    richer = []
    for chunk, answer in zip(group, found, strict=True):
        if isinstance(answer, LeanRAGError):
            work.fallbacks.note(kind.step, answer)
            continue
        more = add_new(read[chunk.id], answer)
        if more != read[chunk.id]:
            read[chunk.id] = more
            richer.append(chunk)
    return richer


class _Outbox:
    """Hands extracts over, one lot at a time: what comes while one is stored goes with the next."""

    def __init__(self, took: Took) -> None:
        self._took = took
        self._waiting: list[Extract] = []
        self._lock = anyio.Lock()

    async def add(self, extracts: Sequence[Extract]) -> None:
        self._waiting += extracts
        if not self._lock.locked():
            await self.flush()

    async def flush(self) -> None:
        async with self._lock:
            while self._waiting:
                lot = tuple(self._waiting)
                await self._took(lot)
                del self._waiting[: len(lot)]
