"""Replace many descriptions of one entity or relation, written by models or agents, by one: a step after merging."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from leanrag_engine.core.errors import ReplyUnusable
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.graphs.rows import find_rows, replace_rows, select_rows
from leanrag_engine.core.model import Entity, Evidence, JsonObject, Method, Relation, content_id
from leanrag_engine.core.text.cleaning import clean, fence
from leanrag_engine.core.text.language.sentences import sentences, whole_sentences
from leanrag_engine.core.text.language.words import content_words, word_count
from leanrag_engine.extraction.by_model.extract import Report
from leanrag_engine.extraction.merging import DESCRIPTION_WORDS, LongDescription
from leanrag_engine.llm.batching import ModelWork, Task, TaskKind, for_each, pack
from leanrag_engine.llm.item_schema import TEXT, object_schema
from leanrag_engine.llm.prompts import BUILT_IN, Prompts

_MOST_WORDS, _WORDS_A_LINE = 300, 10
"""A description is as long as its list: what many passages say does not fit into few words. Each sentence is searched alone."""
_SLACK = 1.25  # models count words badly
_GROUP_STARTS = frozenset("abcdefgh")
_ITEM = object_schema({"description": TEXT})

E = TypeVar("E", Entity, Relation)


@dataclass(frozen=True, slots=True)
class Description:
    """A description by a model, with the chunk that each part of it was taken from."""

    text: str
    evidence: tuple[Evidence, ...]


def description_kind(prompts: Prompts = BUILT_IN) -> TaskKind:
    """Return the instructions and reply form for merging descriptions."""
    instructions = prompts.fill("merge_descriptions", least=str(DESCRIPTION_WORDS), words=str(_MOST_WORDS))
    return TaskKind("describe", instructions, _ITEM, room=1500, prompts=prompts)


def description_tasks(graph: Graph, overlong: Sequence[LongDescription]) -> list[Task[Description]]:
    """Return a task for each of ``overlong`` in that order; its ids are those of ``graph``."""
    names = {entity.id: entity.name for entity in graph.entities}
    wanted = {long.id for long in overlong}
    ends = {
        each.id: f"{names[each.source_id]} – {names[each.target_id]}"
        for each in graph.relations
        if each.id in wanted
    }
    return [_task(names.get(long.id) or ends[long.id], long) for long in overlong]


def _task(name: str, long: LongDescription) -> Task[Description]:
    texts = _thin_out(long.texts)
    lines = "\n".join(f"- {text}" for text, _ in texts)
    shown = fence(f"{name}\n\n{lines}")
    chunk_ids = tuple(dict.fromkeys(chunk_id for _, chunk_id in texts))
    return Task(content_id("m", long.id, shown), shown, lambda item: _read(item, texts), chunk_ids)


def _thin_out(texts: Sequence[tuple[str, str]], limit: int = 900) -> Sequence[tuple[str, str]]:
    """Return every n-th text with the smallest n that meets the ``limit`` of words, so that all documents contribute."""
    step = 1
    while sum(word_count(text) for text, _ in texts[::step]) > limit and step < len(texts):
        step += 1
    return texts[::step]


async def describe_by_model(
    work: ModelWork, graph: Graph, overlong: Sequence[LongDescription], report: Report
) -> dict[str, Description]:
    """Return the model's description of each of ``overlong`` by the item's id; those without one are noted in ``work.fallbacks``."""
    kind = description_kind(work.prompts)
    tasks = list(zip(overlong, description_tasks(graph, overlong), strict=True))
    found: dict[str, Description] = {}
    done = 0
    report(done, len(tasks))

    async def describe(group: Sequence[tuple[LongDescription, Task[Description]]]) -> None:
        nonlocal done
        answers = await work.ask(kind, [task for _, task in group])
        found.update(
            (long.id, answer) for (long, _), answer in zip(group, answers, strict=True) if answer is not None
        )
        done += len(group)
        report(done, len(tasks))

    await for_each(_groups(tasks, work.batch), describe, places=2 * work.model.concurrency)
    return found


def _groups(
    tasks: Sequence[tuple[LongDescription, Task[Description]]], batch: int
) -> Iterator[Sequence[tuple[LongDescription, Task[Description]]]]:
    """Group the tasks into calls of at most ``batch`` tasks and 1,200 words (not tuned). Some ids always
    begin a group, so that a change moves only the groups near it: the others' replies are cached."""
    return pack(
        tasks,
        most=batch,
        room=1200,
        size=lambda pair: word_count(pair[1].text),
        parts=lambda _, pair: pair[0].id[-1] in _GROUP_STARTS,
    )


def apply_descriptions(
    graph: Graph, descriptions: Mapping[str, Description], method: Method = Method.MODEL
) -> Graph:
    """Return ``graph`` with new descriptions, given by the id of the entity or relation and made by ``method``."""
    if not descriptions:
        return graph

    def update(items: Sequence[E]) -> Sequence[E]:
        numbers = [number for number in find_rows(items, [*descriptions]) if number >= 0]
        changed = {}
        for number, item in zip(numbers, select_rows(items, numbers), strict=True):
            new = descriptions[item.id]
            changed[number] = replace(
                item, description=new.text, evidence=new.evidence, method=method, statements=""
            )
        return replace_rows(items, changed)

    return Graph(update(graph.entities), update(graph.relations))


def _read(item: JsonObject, texts: Sequence[tuple[str, str]]) -> Description:
    """Read a description; raise ``ReplyUnusable`` if it is empty or its first sentence is too long."""
    given = item.get("description")
    text = " ".join(clean(given).split()) if isinstance(given, str) else ""
    if not any(sign.isalnum() for sign in text):
        raise ReplyUnusable('The answer has no "description": give one text.')
    most = min(max(DESCRIPTION_WORDS, _WORDS_A_LINE * len(texts)), _MOST_WORDS)
    description = whole_sentences(text, round(_SLACK * most))
    if not description:
        raise ReplyUnusable(
            f"The first sentence of the description is longer than {round(_SLACK * most)} words: "
            f"write several short ones, {most} words in all."
        )
    return Description(description, tuple(_evidence(description, texts)))


def _evidence(text: str, texts: Sequence[tuple[str, str]]) -> Iterator[Evidence]:
    """Attribute each sentence to the chunk with most of its words, and to those that hold what this one lacks of it."""
    vocabularies = [(content_words(source), chunk_id) for source, chunk_id in texts]
    for start, end in sentences(text):
        for chunk_id in _cover(content_words(text[start:end]), vocabularies):
            yield Evidence(start, end, chunk_id)


def _cover(
    wanted: frozenset[str], texts: Sequence[tuple[frozenset[str], str]], least: float = 0.4, more: float = 0.1
) -> list[str]:
    """Return the chunks that hold the words of a sentence, best first: each further one at least ``more`` of them and two
    that the others lack. None if they hold fewer than ``least`` of the words together. Neither share was tuned."""
    left, chosen = wanted, list[str]()
    few = 2
    while left and texts:
        held, chunk_id = max(texts, key=lambda each: len(left & each[0]))
        new = left & held
        if not new or (chosen and len(new) < max(few, more * len(wanted))):
            break
        chosen.append(chunk_id)
        left -= new
    return list(dict.fromkeys(chosen)) if len(left) <= (1 - least) * len(wanted) else []
