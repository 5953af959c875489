"""The task of describing in one sentence how two clusters are related, for a model (paper eq. 5, λ > τ)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from leanrag_engine.core.errors import ReplyUnusable
from leanrag_engine.core.model import Entity, Relation, content_id
from leanrag_engine.core.text.fencing import fence
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.sentences import ends_sentence, sentences
from leanrag_engine.core.text.language.words import word_count
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.llm.batching import Task, TaskKind
from leanrag_engine.llm.prompts import BUILT_IN, Prompts

from .prompt_lines import PromptSheet, by_text, ends_of, names_exactly, short_name, shorten_text
from .summaries import read_text

STEP = "relation"

WORDS = 40
"""Words of a sentence that the prompt asks for."""

BUDGET = 700
"""Tokens, about, of the relations shown of one pair."""

MOST_WORDS = 60
"""Longer sentences are rejected; a few words too many are no reason to pay for a second call."""

_LEAST_WORDS = 4
_DESCRIPTION_WORDS = 70
_RELATION_WORDS = 35
_TELLING = 3
"""Characters of the shortest Chinese or Japanese name that counts as a proper name."""

_ROOM = 300

_ITEM = {
    "type": "object",
    "properties": {"sentence": {"type": "string"}},
    "required": ["sentence"],
    "additionalProperties": False,
}


def relation_kind(prompts: Prompts = BUILT_IN) -> TaskKind:
    """What is asked of a model that relates clusters."""
    return TaskKind(STEP, prompts.fill("relate", words=str(WORDS)), _ITEM, _ROOM, prompts=prompts)


def relation_task(
    near: Entity,
    far: Entity,
    relations: Sequence[Relation],
    members: Mapping[str, Entity],
) -> Task[str]:
    """Say how ``near`` and ``far`` are related by the ``relations`` between their ``members`` (by id).

    Both names and descriptions are shown and the relations, the best attested first, but no member's description
    (paper, appendix D.2). Its reader raises ``ReplyUnusable`` for what is no single sentence, is too long, or names a
    member.
    """
    shown = _format_task(near, far, relations, members)
    barred = tuple(_forbidden_names(near, far, members.values()))
    id_ = content_id("t", near.id, far.id, shown)
    return Task(id_, shown, partial(_read, barred), _chunk_ids(relations, members))


def _chunk_ids(relations: Sequence[Relation], members: Mapping[str, Entity]) -> tuple[str, ...]:
    """Return the chunks that a task rests on; none above layer 0, as for summaries."""
    if relations[0].layer:
        return ()
    items: Iterable[Entity | Relation] = chain(members.values(), relations)
    return tuple(sorted({id_ for each in items for id_ in each.chunk_ids}))


def _format_task(
    near: Entity, far: Entity, relations: Sequence[Relation], members: Mapping[str, Entity]
) -> str:
    sheet = PromptSheet()
    for title, group in (("First", near), ("Second", far)):
        sheet.title(f"{title} group: {short_name(group)}")
        sheet.title(shorten_text(group.description, _DESCRIPTION_WORDS))
    sheet.title("Relations between members of the two:")
    room = sheet.tokens + BUDGET
    told = 0
    for alike in by_text(relations):
        if not sheet.add(ends_of(alike, members), alike[0].description, words=_RELATION_WORDS, room=room):
            break
        told += len(alike)
    total = "1 relation joins them" if len(relations) == 1 else f"{len(relations)} relations join them"
    lead = f"{total} ({len(relations) - told} left out for length)." if told < len(relations) else f"{total}."
    return f"{lead}\n\n{fence(sheet.text)}"


def _forbidden_names(near: Entity, far: Entity, members: Iterable[Entity]) -> Iterable[str]:
    """Yield the member names that a sentence on the groups must not hold: proper names that are no part of a group's
    name. Terms in small letters are ordinary words."""
    allowed = f"{name_key(near.name)} \n {name_key(far.name)}"
    for member in members:
        key = name_key(member.name)
        if _is_proper(member.name) and key and key not in allowed:
            yield member.name


def _is_proper(name: str) -> bool:
    if has_cjk(name):
        return len(name) >= _TELLING
    return any(character.isupper() for character in name)


def _read(barred: Sequence[str], item: Mapping[str, Any]) -> str:
    text = read_text(item, "sentence")
    if word_count(text) < _LEAST_WORDS:
        raise ReplyUnusable("The sentence is empty or says too little.")
    if not ends_sentence(text):
        raise ReplyUnusable("The sentence breaks off: end it with a full stop.")
    if len(sentences(text)) > 1:
        raise ReplyUnusable(f"These are {len(sentences(text))} sentences: give one.")
    if word_count(text) > MOST_WORDS:
        raise ReplyUnusable(f"The sentence has {word_count(text)} words: give one of {WORDS} at most.")
    named = [name for name in barred if names_exactly(name, text)]
    if named:
        raise ReplyUnusable(
            f"The sentence names the member “{named[0]}”: speak of the groups as wholes, by their names or what they"
            " are."
        )
    return text
