"""The task of describing in one sentence how two clusters are related, for a model (paper eq. 5, λ > τ)."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from leanrag_engine.core.errors import ReplyUnusable
from leanrag_engine.core.model import Entity, JsonObject, Relation, content_id
from leanrag_engine.core.text.cleaning import fence
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.sentences import ends_sentence, sentences
from leanrag_engine.core.text.language.words import word_count
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.hierarchy.texts.attribution import names_exactly
from leanrag_engine.llm.batching import Task, TaskKind
from leanrag_engine.llm.item_schema import TEXT, object_schema
from leanrag_engine.llm.prompts import BUILT_IN, Prompts

from .prompt_lines import DEFAULT, PromptSheet, by_text, ends_of, short_name, shorten_text
from .summaries import list_origins, read_text

STEP = "relation"

_ITEM = object_schema({"sentence": TEXT})


def relation_kind(prompts: Prompts = BUILT_IN) -> TaskKind:
    """Return the kind of task in which a model relates clusters."""
    instructions = prompts.fill("relate", words=str(DEFAULT.sentence_words))
    return TaskKind(STEP, instructions, _ITEM, room=300, prompts=prompts)


def relation_task(
    near: Entity, far: Entity, relations: Sequence[Relation], members: Mapping[str, Entity]
) -> Task[str]:
    """Say how ``near`` and ``far`` are related by the ``relations`` between their ``members`` (paper, appendix D.2). Its
    reader raises ``ReplyUnusable`` for what is no single sentence, is too long, or names more than a few members."""
    text = _format_task(near, far, relations, members)
    names = tuple(_member_names(near, far, members.values()))
    id_ = content_id("t", near.id, far.id, text)
    origins = list_origins([*members.values()], relations)
    return Task(id_, text, partial(_read, names), (near.id, far.id, *origins))


def _format_task(
    near: Entity, far: Entity, relations: Sequence[Relation], members: Mapping[str, Entity]
) -> str:
    sheet = PromptSheet()
    for title, group in (("First", near), ("Second", far)):
        sheet.title(f"{title} group: {short_name(group)}")
        sheet.title(shorten_text(group.description, 70))
    sheet.title("Relations between members of the two:")
    room = sheet.tokens + DEFAULT.pair_tokens
    shown = 0
    for alike in by_text(relations):
        if not sheet.add(ends_of(alike, members), alike[0].description, words=35, room=room):
            break
        shown += len(alike)
    total = "1 relation joins them" if len(relations) == 1 else f"{len(relations)} relations join them"
    missing = len(relations) - shown
    lead = f"{total} ({missing} left out for length)." if missing else f"{total}."
    return f"{lead}\n\n{fence(sheet.text)}"


def _member_names(near: Entity, far: Entity, members: Iterable[Entity]) -> Iterable[str]:
    """Yield the proper names of members that are no part of a group's name. Terms in small letters are ordinary words."""
    allowed = f"{name_key(near.name)} \n {name_key(far.name)}"
    for member in members:
        key = name_key(member.name)
        if _is_proper(member.name) and key and key not in allowed:
            yield member.name


def _is_proper(name: str, *, shortest_cjk: int = 3) -> bool:
    if has_cjk(name):
        return len(name) >= shortest_cjk
    return any(character.isupper() for character in name)


def _read(names: Sequence[str], item: JsonObject, *, least_words: int = 4) -> str:
    text = read_text(item, "sentence")
    if word_count(text) < least_words:
        raise ReplyUnusable("The sentence is empty or says too little.")
    if not ends_sentence(text):
        raise ReplyUnusable("The sentence breaks off: end it with a full stop.")
    if len(sentences(text)) > 1:
        raise ReplyUnusable(f"These are {len(sentences(text))} sentences: give one.")
    if word_count(text) > DEFAULT.longest_sentence:
        raise ReplyUnusable(
            f"The sentence has {word_count(text)} words: give one of {DEFAULT.sentence_words} at most."
        )
    named = [name for name in names if names_exactly(name, text)]
    if len(named) > DEFAULT.named_members:
        raise ReplyUnusable(
            f"The sentence names {len(named)} members: name {DEFAULT.named_members} at most, and speak of the groups"
            " as wholes."
        )
    return text
