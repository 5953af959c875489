"""One description where models or agents wrote many of one entity or relation: a pure step between merging and layers.

What is short stays as it is, and what is quoted from the documents too. Nothing else of the graph changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from leanrag_engine.core.errors import LeanRAGError, ReplyUnusable
from leanrag_engine.core.model import Entity, Evidence, Graph, Method, Relation, content_id
from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.core.text.fencing import fence
from leanrag_engine.core.text.language.sentences import sentences, whole_sentences
from leanrag_engine.core.text.language.words import STOPWORDS, word_count, words
from leanrag_engine.extraction.merging import DESCRIPTION_WORDS, LongDescription
from leanrag_engine.llm.batching import ModelWork, Task, TaskKind, ask_each, for_each
from leanrag_engine.llm.packing import pack
from leanrag_engine.llm.prompts import BUILT_IN, Prompts

__all__ = ["Description", "apply_descriptions", "describe_by_model", "description_kind", "description_tasks"]

Report = Callable[[int, int], None]
"""Hears how many descriptions are done, of how many; what it raises ends the work."""

SHOWN_WORDS = 900
"""Words of one entity or relation that a model is shown; of more, as many texts as fit, from all over the documents."""

CALL_WORDS = 1200
"""Words of all that one call is shown."""

PLACES = 2
"""Groups under way for each call that the model takes at once."""

_ROOM = 600
_MOST_WORDS = DESCRIPTION_WORDS + DESCRIPTION_WORDS // 4
"""A model does not count words: what is a little longer than it was told is not cut."""
_GROUP_STARTS = frozenset("abcdefgh")
_SHARED = 0.4
"""A sentence is taken from the text that has at least this share of its words."""
_ITEM = {
    "type": "object",
    "properties": {"description": {"type": "string"}},
    "required": ["description"],
    "additionalProperties": False,
}

E = TypeVar("E", Entity, Relation)


@dataclass(frozen=True, slots=True)
class Description:
    """What was written, and which chunk each part of it was taken from."""

    text: str
    evidence: tuple[Evidence, ...]


def description_kind(prompts: Prompts = BUILT_IN) -> TaskKind:
    """What a model is told that makes one description out of many."""
    instructions = prompts.fill("merge_descriptions", words=str(DESCRIPTION_WORDS))
    return TaskKind("describe", instructions, _ITEM, _ROOM, prompts=prompts)


def description_tasks(graph: Graph, overlong: Sequence[LongDescription]) -> list[Task[Description]]:
    """A task for each of ``overlong``, whose ids are of ``graph``, in that order."""
    names = {entity.id: entity.name for entity in graph.entities}
    wanted = {long.id for long in overlong}
    ends = {
        each.id: f"{names[each.source_id]} – {names[each.target_id]}"
        for each in graph.relations
        if each.id in wanted
    }
    return [_task(names.get(long.id) or ends[long.id], long) for long in overlong]


def _task(name: str, long: LongDescription) -> Task[Description]:
    kept = _thin_out(long.texts)
    said = "\n".join(f"- {text}" for text, _ in kept)
    shown = fence(f"{name}\n\n{said}")
    chunk_ids = tuple(dict.fromkeys(chunk_id for _, chunk_id in kept))
    return Task(content_id("m", long.id, shown), shown, lambda item: _read(item, kept), chunk_ids)


def _thin_out(texts: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """All of them, or every second, third, … so that the whole is short enough and no part of the documents is left out."""
    step = 1
    while sum(word_count(text) for text, _ in texts[::step]) > SHOWN_WORDS and step < len(texts):
        step += 1
    return texts[::step]


async def describe_by_model(
    work: ModelWork, graph: Graph, overlong: Sequence[LongDescription], report: Report
) -> dict[str, Description]:
    """What the model makes of all that is said of each of ``overlong``, by the id of the entity or relation.

    One without a usable answer is noted in ``work.fallbacks`` and left out: it keeps the description that it has.
    """
    kind = description_kind(work.prompts)
    tasks = list(zip(overlong, description_tasks(graph, overlong), strict=True))
    found: dict[str, Description] = {}
    done = 0
    report(done, len(tasks))

    async def describe(group: Sequence[tuple[LongDescription, Task[Description]]]) -> None:
        nonlocal done
        answers = await ask_each(work.model, kind, [task for _, task in group], work.meter)
        for (long, _), answer in zip(group, answers, strict=True):
            if isinstance(answer, LeanRAGError):
                work.fallbacks.note(kind.step, answer)
            else:
                found[long.id] = answer
        done += len(group)
        report(done, len(tasks))

    await for_each(_groups(tasks, work.batch), describe, places=PLACES * work.model.concurrency)
    return found


def _groups(
    tasks: Sequence[tuple[LongDescription, Task[Description]]], batch: int
) -> Iterator[Sequence[tuple[LongDescription, Task[Description]]]]:
    """Several in one call. Some begin a group of their own whatever stands before them, so that one entity more or
    less moves the groups next to it alone, and the others are the requests that they were."""
    return pack(
        tasks,
        most=batch,
        room=CALL_WORDS,
        size=lambda pair: word_count(pair[1].text),
        parts=lambda _, pair: pair[0].id[-1] in _GROUP_STARTS,
    )


def apply_descriptions(graph: Graph, told: Mapping[str, Description], method: Method = Method.MODEL) -> Graph:
    """``graph`` with the descriptions ``told`` by the ids of entities and relations, made by ``method``."""
    if not told:
        return graph

    def update(item: E) -> E:
        new = told.get(item.id)
        return replace(item, description=new.text, evidence=new.evidence, method=method) if new else item

    return Graph(tuple(map(update, graph.entities)), tuple(map(update, graph.relations)))


# --- answers -------------------------------------------------------------------------------


def _read(item: Mapping[str, Any], texts: Sequence[tuple[str, str]]) -> Description:
    """Raises ``ReplyUnusable`` for an answer that is empty, or a single sentence beyond all bounds."""
    given = item.get("description")
    text = " ".join(clean(given).split()) if isinstance(given, str) else ""
    if not any(sign.isalnum() for sign in text):
        raise ReplyUnusable('The answer has no "description": give one text.')
    kept = whole_sentences(text, _MOST_WORDS)
    if not kept:
        raise ReplyUnusable(
            f"The first sentence of the description is longer than {_MOST_WORDS} words: "
            f"write several short ones, {DESCRIPTION_WORDS} words in all."
        )
    return Description(kept, tuple(_evidence(kept, texts)))


def _evidence(text: str, texts: Sequence[tuple[str, str]]) -> Iterator[Evidence]:
    """Each sentence with the chunk of the text that says most of it.

    One that puts together what several say, and repeats none of them, is of no single chunk: for that stand all chunks
    of the entity or relation.
    """
    vocabularies = [(_content(said), chunk_id) for said, chunk_id in texts]
    for start, end in sentences(text):
        mine = _content(text[start:end])
        shares = [(len(mine & theirs) / max(1, len(mine)), chunk_id) for theirs, chunk_id in vocabularies]
        share, chunk_id = max(shares, key=lambda pair: pair[0], default=(0.0, ""))
        if share >= _SHARED:
            yield Evidence(start, end, chunk_id)


def _content(text: str) -> frozenset[str]:
    return frozenset(word for word in words(text) if word not in STOPWORDS)
