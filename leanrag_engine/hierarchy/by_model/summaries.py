"""The tasks of writing the aggregated entity of a cluster, for a model or an agent (paper eq. 4), and of describing in one
sentence how two clusters are related (eq. 5, λ > τ). Their ids depend on entities and relations alone, not on their order."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from leanrag_engine.core.errors import ReplyUnusable
from leanrag_engine.core.model import Entity, Evidence, Finding, JsonObject, JsonSchema, Relation, content_id
from leanrag_engine.core.text.cleaning import fence
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.sentences import ends_sentence, sentences, whole_sentences
from leanrag_engine.core.text.language.words import word_count
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.hierarchy.texts.attribution import ChunkFinder, best_first, names_exactly
from leanrag_engine.llm.batching import Task, TaskKind
from leanrag_engine.llm.item_schema import TEXT, object_schema
from leanrag_engine.llm.prompts import BUILT_IN, Prompts

from .prompt_lines import DEFAULT, PromptSheet, kind_of, short_name, shorten_text

_AROUND = " \t\n\"'“”‘’«»*_#`"

_NAMES: JsonSchema = {"type": "array", "items": {"type": "string"}}
"""Names of members that a sentence or finding rests on; an answer may lack them."""
_FINDING = object_schema({"summary": TEXT, "explanation": TEXT, "support": _NAMES}, optional=["support"])
_SUMMARY = object_schema(
    {
        "name": TEXT,
        "description": TEXT,
        "support": {"type": "array", "items": _NAMES},
        "findings": {"type": "array", "items": _FINDING},
    },
    optional=["support"],
)


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """The written texts of a cluster. ``evidence`` cites chunks for each sentence of the description."""

    name: str
    description: str
    findings: tuple[Finding, ...]
    evidence: tuple[Evidence, ...] = ()


def aggregation_kind(prompts: Prompts = BUILT_IN) -> TaskKind:
    """Return the kind of task in which a model or an agent writes aggregated entities."""
    instructions = prompts.fill(
        "aggregate", words=str(DEFAULT.description_words), findings=str(DEFAULT.findings)
    )
    return TaskKind("summary", instructions, _SUMMARY, room=1500, prompts=prompts)


def aggregation_task(members: Sequence[Entity], relations: Sequence[Relation]) -> Task[ClusterSummary]:
    """Write the entity that stands for ``members``, the most central first, with the ``relations`` among
    them. Its reader raises ``ReplyUnusable`` for a member's name, a bad description, and no finding."""
    ordered = _central_first(members, relations)
    best = best_first(relations)
    text, shown = _format_cluster(ordered, best)
    keys = {name_key(name): each.name for each in ordered for name in (each.name, *each.aliases)}
    id_ = content_id("s", *(each.id for each in sorted(ordered, key=lambda each: each.id)), text)
    cite = _Citations(ChunkFinder(ordered, best), {name_key(short_name(each)): each.id for each in shown})
    return Task(id_, text, partial(_read_summary, keys, cite), list_origins(members, relations))


def estimate_tokens(members: Sequence[Entity], relations: int) -> int:
    """Estimate the tokens of a task from its members and the number of its relations."""
    sheet, _ = _list_members(_central_first(members, ()))
    return min(DEFAULT.cluster_tokens, sheet.tokens + relations * DEFAULT.relation_words)


def list_origins(members: Sequence[Entity], relations: Sequence[Relation]) -> tuple[str, ...]:
    """Return the chunks that a task rests on; above layer 0 the members instead, whose texts it shows."""
    if members[0].layer:
        return tuple(sorted(each.id for each in members))
    items: Iterable[Entity | Relation] = chain(members, relations)
    return tuple(sorted({id_ for each in items for id_ in each.chunk_ids}))


def _central_first(members: Sequence[Entity], relations: Sequence[Relation]) -> list[Entity]:
    degrees = Counter(end for each in relations for end in (each.source_id, each.target_id))
    most = math.log1p(max(degrees.values(), default=1))
    mentioned = math.log1p(max(each.mentions for each in members))

    def centrality(member: Entity) -> float:
        return math.log1p(degrees[member.id]) / most + math.log1p(member.mentions) / (mentioned or 1.0)

    return sorted(members, key=lambda each: (-round(centrality(each), 9), each.id))


def _format_cluster(members: Sequence[Entity], relations: Sequence[Relation]) -> tuple[str, Iterable[Entity]]:
    """Return the text of a task, and the members that it shows."""
    sheet, known = _list_members(members)
    words, room = DEFAULT.relation_words, DEFAULT.cluster_tokens
    if relations:
        sheet.title("Relations among them:")
    told = (each for each in relations if {each.source_id, each.target_id} <= known.keys())
    shown = sheet.add_relations(told, known, words=words, room=room)
    counts = (("member", len(members), len(known)), ("relation", len(relations), shown))
    lead = "; ".join(_format_count(*each) for each in counts)
    return f"{lead}.\n\n{fence(sheet.text)}", known.values()


def _list_members(members: Sequence[Entity]) -> tuple[PromptSheet, dict[str, Entity]]:
    """Return the lines on as many members as fit, and these members by id."""
    share = DEFAULT.member_share * DEFAULT.cluster_tokens
    least, most = DEFAULT.member_words
    words = min(most, max(least, int(share / 1.4 / len(members))))  # a word has about 1.4 tokens
    room = int(share)
    sheet = PromptSheet()
    sheet.title("Members, the most central first:")
    known: dict[str, Entity] = {}
    for each in members:
        head = f"{short_name(each)}{kind_of(each)}"
        if not sheet.add(head, each.description, words=words, room=room):
            break
        known[each.id] = each
    return sheet, known


def _format_count(noun: str, total: int, shown: int) -> str:
    count = f"{total} {noun}{'' if total == 1 else 's'}"
    return f"{count} ({total - shown} left out for length)" if shown < total else count


@dataclass(frozen=True, slots=True)
class _Citations:
    """Finds what a writer's sentences rest on; ``shown`` are the ids of the members in its task, by the keys of their names."""

    finder: ChunkFinder
    shown: Mapping[str, str]

    def ids(self, given: object) -> set[str]:
        """Return the ids of those names in ``given``, a list in an answer, that the task shows."""
        names = [each for each in given if isinstance(each, str)] if isinstance(given, list) else []
        return {self.shown[key] for key in map(name_key, names) if key in self.shown}


def _read_summary(members: Mapping[str, str], cite: _Citations, item: JsonObject) -> ClusterSummary:
    name = _name(item, members)
    description = _description(item, DEFAULT.description_words)
    findings = tuple(_findings(item, cite))
    if not findings:
        raise ReplyUnusable(
            "None of its findings can be used: give one to eight, each with a summary and an explanation."
        )
    support = item.get("support")
    given = [cite.ids(each) for each in support] if isinstance(support, list) else []
    return ClusterSummary(name, description, findings, cite.finder.evidence(description, given))


def _name(item: JsonObject, members: Mapping[str, str], *, most_words: int = 12) -> str:
    name = read_text(item, "name").strip(_AROUND)
    if name.count(".") == 1:  # a full stop, and no abbreviation's
        name = name.removesuffix(".").strip(_AROUND)
    if not name_key(name):
        raise ReplyUnusable("The name is empty: give the group one.")
    if word_count(name) > most_words:
        raise ReplyUnusable(f"The name has {word_count(name)} words: give one of two to six.")
    if name_key(name) in members:
        raise ReplyUnusable(
            f"The name “{name}” is that of a member, “{members[name_key(name)]}”: give the group one of its own."
        )
    return name


def _description(item: JsonObject, words: int, *, least: int = 6) -> str:
    """Return the description, cut at a sentence where it breaks off or has more than twice the ``words`` asked for."""
    text = whole_sentences(read_text(item, "description"), 2 * words)
    while text and not ends_sentence(text):
        spans = sentences(text)
        text = text[: spans[-2][1]] if len(spans) > 1 else ""
    if word_count(text) < least:
        raise ReplyUnusable(
            f"The description is too short or breaks off: give whole sentences of {words} words at most in all."
        )
    return text


def _findings(item: JsonObject, cite: _Citations) -> Iterable[Finding]:
    """Yield the findings with a summary and an explanation that repeat no earlier one."""
    given = item.get("findings")
    if not isinstance(given, list):
        raise ReplyUnusable(f"The findings are {_kind(given)}: give a list of objects.")
    seen: set[str] = set()
    for each in given:
        if not isinstance(each, Mapping):
            continue
        texts = (each.get(key) for key in ("summary", "explanation"))
        summary, explanation = (" ".join(text.split()) if isinstance(text, str) else "" for text in texts)
        keys = {summary.casefold(), explanation.casefold()}
        if summary and explanation and seen.isdisjoint(keys):
            seen |= keys
            chunk_ids = cite.finder.cite(f"{summary} {explanation}", cite.ids(each.get("support")))
            yield Finding(summary, explanation, chunk_ids)


def read_text(item: JsonObject, key: str) -> str:
    """Return the text under ``key`` on one line. Raises ``ReplyUnusable`` if there is none."""
    text = item.get(key)
    if not isinstance(text, str):
        raise ReplyUnusable(f"The {key} is {_kind(text)}: give text.")
    return " ".join(text.split())


def _kind(value: object) -> str:
    if value is None:
        return "missing"
    kinds = {str: "text", bool: "true or false", list: "a list", int: "a number", float: "a number"}
    return kinds.get(type(value), "an object")


_SENTENCE = object_schema({"sentence": TEXT})


def relation_kind(prompts: Prompts = BUILT_IN) -> TaskKind:
    """Return the kind of task in which a model relates clusters."""
    instructions = prompts.fill("relate", words=str(DEFAULT.sentence_words))
    return TaskKind("relation", instructions, _SENTENCE, room=300, prompts=prompts)


def relation_task(
    near: Entity, far: Entity, relations: Sequence[Relation], members: Mapping[str, Entity]
) -> Task[str]:
    """Say how ``near`` and ``far`` are related by the ``relations`` between their ``members`` (paper, appendix D.2). Its
    reader raises ``ReplyUnusable`` for what is no single sentence, is too long, or names more than a few members."""
    text = _format_pair(near, far, relations, members)
    names = tuple(_member_names(near, far, members.values()))
    id_ = content_id("t", near.id, far.id, text)
    origins = list_origins([*members.values()], relations)
    return Task(id_, text, partial(_read_sentence, names), (near.id, far.id, *origins))


def _format_pair(
    near: Entity, far: Entity, relations: Sequence[Relation], members: Mapping[str, Entity]
) -> str:
    sheet = PromptSheet()
    for title, group in (("First", near), ("Second", far)):
        sheet.title(f"{title} group: {short_name(group)}")
        sheet.title(shorten_text(group.description, 70))
    sheet.title("Relations between members of the two:")
    room = sheet.tokens + DEFAULT.pair_tokens
    shown = sheet.add_relations(relations, members, words=35, room=room)
    total = "1 relation joins them" if len(relations) == 1 else f"{len(relations)} relations join them"
    missing = len(relations) - shown
    lead = f"{total} ({missing} left out for length)." if missing else f"{total}."
    return f"{lead}\n\n{fence(sheet.text)}"


def _member_names(near: Entity, far: Entity, members: Iterable[Entity]) -> Iterable[str]:
    """Yield the proper names of members that are no part of a group's name. Terms in small letters are ordinary words."""
    allowed = f"{name_key(near.name)} \n {name_key(far.name)}"
    for member in members:
        key = name_key(member.name)
        is_proper = len(member.name) > 2 if has_cjk(member.name) else any(map(str.isupper, member.name))  # noqa: PLR2004
        if is_proper and key and key not in allowed:
            yield member.name


def _read_sentence(names: Sequence[str], item: JsonObject, *, least_words: int = 4) -> str:
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
