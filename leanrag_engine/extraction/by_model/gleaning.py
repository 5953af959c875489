"""Gleaning: a further call for a chunk that asks only for what the first one missed."""

from __future__ import annotations

from dataclasses import replace

from leanrag_engine.core.model import Chunk, Extract, ExtractionSchema, content_id
from leanrag_engine.core.text.fencing import fence
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.llm.batching import Task, TaskKind

from .reply import read_extract


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
