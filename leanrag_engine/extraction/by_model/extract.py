"""Extraction by a model: instructions, one task per chunk, and the run over a corpus. An agent gets the same
instructions and schema; its answers must be right in every part."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import anyio

from leanrag_engine.core.model import (
    TYPE_KINDS,
    Chunk,
    Extract,
    ExtractionSchema,
    JsonObject,
    JsonSchema,
    content_id,
)
from leanrag_engine.core.text.cleaning import fence
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.extraction.by_model.reply import LIMITS, read_extract, read_strictly
from leanrag_engine.llm.batching import ModelWork, Task, TaskKind, for_each, pack
from leanrag_engine.llm.item_schema import TEXT, object_schema
from leanrag_engine.llm.prompts import BUILT_IN, Prompts

_QUOTES = "\"'“”‘’„«»`*"
_BETWEEN = re.compile(r"\s*<\|#?\|?>\s*")
_HEAD = re.compile(rf"\(?\s*[{_QUOTES}]*(entity|relation(?:ship)?)[{_QUOTES}]*\s*<\|#?\|?>", re.IGNORECASE)
_END = re.compile(r"\)?\s*(?:##|<\|COMPLETE\|>|\Z|\n\s*\n)|\)\s*(?:\n|\d+\.\s*\Z)", re.IGNORECASE)
_COMPLETE = re.compile(r"<\|COMPLETE\|>", re.IGNORECASE)
_TASK = re.compile(r"^\W*task\s+(\d{1,3})\W*$", re.IGNORECASE | re.MULTILINE)
_IMPORTANCE = re.compile(r"\d+(?:\.\d+)?")


def read_tuples(text: str) -> list[JsonObject]:
    """Return the unchecked answers in ``text``, with the numbers of their tasks if it names them, else in order."""
    # The text before the first heading, then number and answer for each heading.
    _, *parts = _TASK.split(text)
    if parts:
        answers = zip(parts[::2], parts[1::2], strict=True)
        return [{"task": int(number), **answer} for number, part in answers if (answer := _answer(part))]
    return [answer for part in _COMPLETE.split(text) if (answer := _answer(part))] or _empty_answer(text)


def _empty_answer(text: str) -> list[JsonObject]:
    """Return one empty answer for a reply that holds nothing but the completion mark."""
    bare = _COMPLETE.sub("", text)
    return [{"entities": [], "relations": []}] if bare != text and not bare.strip(f"{_QUOTES} \n#") else []


def _answer(text: str) -> JsonObject:
    """Return the tuples of one answer; {} if there are none."""
    heads = list(_HEAD.finditer(text))
    answer: dict[str, list[JsonObject]] = {"entities": [], "relations": []}
    for number, head in enumerate(heads, 1):
        end = heads[number].start() if number < len(heads) else len(text)
        body = _END.split(text[head.end() : end], maxsplit=1)[0]
        fields = [field.strip(f" \n{_QUOTES}") for field in _BETWEEN.split(body)]
        if head[1].lower() == "entity":
            answer["entities"].append(dict(zip(("name", "type", "description"), fields, strict=False)))
        else:
            answer["relations"].append(_relation(fields))
    return answer if heads else {}


def _relation(fields: Sequence[str]) -> JsonObject:
    """Take the longest text after the two ends as the description: keywords may precede or follow it."""
    rest = fields[2:]
    figures = [each for each in rest if _IMPORTANCE.fullmatch(each)]
    return {
        **dict(zip(("source", "target"), fields, strict=False)),
        "description": max([each for each in rest if not _IMPORTANCE.fullmatch(each)], key=len, default=""),
        "importance": figures[-1] if figures else None,
    }


StoreExtracts = Callable[[Sequence[Extract]], Awaitable[None]]
Report = Callable[[int, int], None]
"""Called with the number of finished chunks or descriptions and their total; an exception that it raises ends the work."""


def _rows(most: int, optional: Sequence[str] = (), **fields: JsonSchema) -> JsonSchema:
    return {"type": "array", "maxItems": most, "items": object_schema(fields, optional)}


_NAME: JsonSchema = {**TEXT, "maxLength": LIMITS.name_characters}
_CONFIDENCE: JsonSchema = {"type": "number", "minimum": 0, "maximum": 1}
_ATTRIBUTES = _rows(
    LIMITS.attributes,
    name=_NAME,
    value={**TEXT, "maxLength": LIMITS.value_characters},
    confidence=_CONFIDENCE,
    optional=["confidence"],
)


def _item(
    entity: Mapping[str, JsonSchema], relation: Mapping[str, JsonSchema], optional: Sequence[str]
) -> JsonSchema:
    """Return the JSON schema of an answer with further fields of each entity and relation."""
    entities = _rows(
        LIMITS.entities,
        name=_NAME,
        type=TEXT,
        description=TEXT,
        aliases={"type": "array", "maxItems": LIMITS.aliases, "items": _NAME},
        **entity,
        optional=["aliases", *optional],
    )
    relations = _rows(
        LIMITS.relations,
        source=_NAME,
        target=_NAME,
        description=TEXT,
        importance={"type": "integer", "minimum": 1, "maximum": LIMITS.importance},
        **relation,
        optional=optional,
    )
    return object_schema({"entities": entities, "relations": relations})


_ITEM = _item({}, {}, ())
_ITEM_BY_SCHEMA = _item(
    {"attributes": _ATTRIBUTES, "confidence": _CONFIDENCE},
    {"type": TEXT, "confidence": _CONFIDENCE},
    ("attributes", "confidence"),
)


def extraction_kind(
    tokens: int = 512, prompts: Prompts = BUILT_IN, schema: ExtractionSchema | None = None
) -> TaskKind:
    """Return the instructions and reply form of extraction; ``tokens`` is the length of the longest chunk in a call."""
    # Names, descriptions and braces are longer than their source.
    room = min(8000, max(1000, 4 * tokens))
    if schema is None:
        return TaskKind("extract", prompts.fill("extract"), _ITEM, room, read_tuples, prompts)
    entities, relations, attributes = (_list_types(schema.types(kind)) for kind in TYPE_KINDS)
    instructions = prompts.fill(
        "extract_by_schema", entities=entities, relations=relations, attributes=attributes
    )
    return TaskKind("extract", instructions, _ITEM_BY_SCHEMA, room, read_tuples, prompts)


def _list_types(types: Mapping[str, str]) -> str:
    """Return a line for each type of one kind."""
    lines = (f"- {name}: {said}" if said else f"- {name}" for name, said in types.items())
    return "\n".join(lines) or "- any, in one or two English words in lower case"


def extraction_task(chunk: Chunk, schema: ExtractionSchema | None = None) -> Task[Extract]:
    """Return the task to read one chunk; reading an answer of which nothing is usable raises ``ReplyUnusable``."""
    seen = passage_of(chunk)
    shown = fence(seen)
    return Task(
        content_id("x", chunk.id, shown),
        shown,
        lambda item: read_extract(item, chunk.id, seen, schema=schema),
        (chunk.id,),
    )


def submission_task(chunk: Chunk, schema: ExtractionSchema | None = None) -> Task[Extract]:
    """Return the task to read one chunk for an agent: no part of its answer may be unusable."""
    task = extraction_task(chunk, schema)
    return replace(task, read=lambda item: read_strictly(item, chunk.id, passage_of(chunk), schema))


def passage_of(chunk: Chunk) -> str:
    """Return what the model sees of a chunk: title and heading, then the text. All of it is untrusted."""
    title, heading = (" ".join(each.split()) for each in (chunk.title, chunk.heading))
    place = " › ".join(dict.fromkeys(filter(None, (title, heading))))
    return f"{place}\n\n{chunk.text}" if place else chunk.text


def extraction_groups(chunks: Sequence[Chunk], batch: int) -> Iterator[Sequence[Chunk]]:
    """Group adjacent chunks of each call: at most ``batch`` with at most 1,200 tokens, a longer one alone.
    More tokens would save little, and entities get lost in long lists (not tuned)."""
    return pack(chunks, most=batch, room=1200, size=lambda chunk: chunk.tokens, parts=_apart)


def _apart(one: Chunk, other: Chunk) -> bool:
    """Return whether ``other`` is certainly not the next chunk after ``one``."""
    if one.document_id == other.document_id:
        return other.number != one.number + 1
    return other.number != 1 or other.place[0] - one.place[0] > 1


async def extract_by_model(
    work: ModelWork,
    chunks: Sequence[Chunk],
    store: StoreExtracts,
    report: Report,
    *,
    gleaning: int,
    schema: ExtractionSchema | None = None,
) -> None:
    """Have the model read ``chunks``, given in reading order, and pass their extracts to ``store`` as they arrive. ``store`` gets
    those of whole calls, one after another. A chunk without a usable answer keeps its extract and is noted in ``work.fallbacks``.
    ``gleaning`` further calls ask for what is missing. An exception ends the work after what arrived is stored."""
    outbox = _Outbox(store)
    total, done = len(chunks), 0
    report(done, total)

    async def read(group: Sequence[Chunk]) -> None:
        nonlocal done
        await outbox.add(await _extracts(work, group, gleaning, schema))
        done += len(group)
        report(done, total)

    try:
        await for_each(extraction_groups(chunks, work.batch), read, places=2 * work.model.concurrency)
    finally:
        with anyio.CancelScope(shield=True):
            await outbox.flush()


async def _extracts(
    work: ModelWork, group: Sequence[Chunk], gleaning: int, schema: ExtractionSchema | None
) -> list[Extract]:
    """Return the extracts of the chunks of one group that got a usable answer."""
    kind = extraction_kind(max(chunk.tokens for chunk in group), work.prompts, schema)
    found = await work.ask(kind, [extraction_task(chunk, schema) for chunk in group])
    read = {chunk.id: answer for chunk, answer in zip(group, found, strict=True) if answer is not None}
    again = [chunk for chunk in group if chunk.id in read]
    for _ in range(gleaning):
        again = await _glean(work, again, read, schema)
    return list(read.values())


async def _glean(
    work: ModelWork, group: Sequence[Chunk], read: dict[str, Extract], schema: ExtractionSchema | None
) -> list[Chunk]:
    """Run one round of gleaning, update ``read``, and return the chunks for which it found something new."""
    if not group:
        return []
    kind = gleaning_kind(extraction_kind(max(chunk.tokens for chunk in group), work.prompts, schema))
    tasks = [gleaning_task(chunk, passage_of(chunk), read[chunk.id], schema) for chunk in group]
    found = await work.ask(kind, tasks)
    richer = []
    for chunk, answer in zip(group, found, strict=True):
        more = add_new(read[chunk.id], answer) if answer is not None else read[chunk.id]
        if more != read[chunk.id]:
            read[chunk.id] = more
            richer.append(chunk)
    return richer


class _Outbox:
    """Stores extracts in one batch at a time: what arrives while a batch is stored goes into the next one."""

    def __init__(self, store: StoreExtracts) -> None:
        self._store = store
        self._waiting: list[Extract] = []
        self._lock = anyio.Lock()

    async def add(self, extracts: Sequence[Extract]) -> None:
        self._waiting += extracts
        if not self._lock.locked():
            await self.flush()

    async def flush(self) -> None:
        async with self._lock:
            while self._waiting:
                batch = tuple(self._waiting)
                await self._store(batch)
                del self._waiting[: len(batch)]


def gleaning_kind(extraction: TaskKind) -> TaskKind:
    """Return the kind of extraction with the additional instructions of gleaning."""
    more = extraction.prompts.fill("glean")
    return replace(extraction, step="glean", instructions=f"{extraction.instructions}\n\n{more}")


def gleaning_task(
    chunk: Chunk, passage: str, found: Extract, schema: ExtractionSchema | None = None
) -> Task[Extract]:
    """Return the task to find what ``found`` misses. ``passage`` is the text that the model saw of the chunk."""
    shown = f"{fence(passage)}\n\nFound already:\n\n{fence(_list_found(found))}"
    return Task(
        content_id("g", chunk.id, shown),
        shown,
        lambda item: read_extract(item, chunk.id, passage, found.entities, schema),
        (chunk.id,),
    )


def _list_found(found: Extract) -> str:
    """Format the numbered names and the pairs of related ones, so that the model repeats nothing."""
    numbers = {name_key(entity.name): number for number, entity in enumerate(found.entities, 1)}
    names = "\n".join(f"{number} {entity.name}" for number, entity in enumerate(found.entities, 1))
    pairs = ", ".join(
        f"{numbers[name_key(relation.source)]}–{numbers[name_key(relation.target)]}"
        for relation in found.relations
    )
    return "\n".join(filter(None, (names, pairs))) or "nothing"


def add_new(found: Extract, more: Extract) -> Extract:
    """Return ``found`` with the entities of ``more``, all of them new, and with its relations of new pairs."""
    pairs = {_pair(relation.source, relation.target) for relation in found.relations}
    fresh = tuple(each for each in more.relations if _pair(each.source, each.target) not in pairs)
    return replace(found, entities=(*found.entities, *more.entities), relations=(*found.relations, *fresh))


def _pair(one: str, other: str) -> frozenset[str]:
    return frozenset((name_key(one), name_key(other)))
