"""How nouns are shown to whoever writes about them: short lines, the best first, within a budget, fenced."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leanrag_engine.language import clean, has_cjk, whole_sentences, word_count
from leanrag_engine.model import Entity, Relation

_NAME = 80
"""Characters of a name that are shown."""

_BYTES = 4
"""Bytes of UTF-8 that make about one token: near enough for Latin letters, and for Han on the safe side."""

_ENDED = re.compile(r"[.!?…。！？][\"'”’»)\]」』]*$")

_SHORTEST_NAME = 2
"""A name of one character stands in many words that don't mean it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Lines that fit, and how many did not."""

    lines: tuple[str, ...]
    left: int

    @property
    def tokens(self) -> int:
        return sum(map(tokens_about, self.lines))


def tokens_about(text: str) -> int:
    """About how many tokens a text has, and one for its line break; no tokenizer is needed for a budget."""
    return len(text.encode("utf-8", "surrogatepass")) // _BYTES + 1


def fitting(lines: Sequence[str], budget: int) -> Shown:
    """The first of ``lines`` that fit into about ``budget`` tokens; the very first always does."""
    kept: list[str] = []
    for line in lines:
        budget -= tokens_about(line)
        if kept and budget < 0:
            break
        kept.append(line)
    return Shown(tuple(kept), len(lines) - len(kept))


def entity_line(entity: Entity, words: int) -> str:
    """``- name (type): description``, of which at most ``words`` words are shown."""
    kind = f" ({entity.type})" if not entity.layer and entity.type not in ("", "concept") else ""
    told = shortened(entity.description, words)
    return f"- {short_name(entity)}{kind}: {told}" if told else f"- {short_name(entity)}{kind}"


def relation_line(relation: Relation, source: Entity, target: Entity, words: int) -> str:
    """``- name — name: description``, of which at most ``words`` words are shown."""
    ends = f"- {short_name(source)} — {short_name(target)}"
    told = shortened(relation.description, words)
    return f"{ends}: {told}" if told else ends


def short_name(entity: Entity) -> str:
    name = " ".join(clean(entity.name).split())
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def shortened(text: str, words: int) -> str:
    """On one line: the first sentences of at most ``words`` words, or the beginning of the first."""
    line = " ".join(clean(text).split())
    found = whole_sentences(line, words)
    if found or not line:
        return found
    parts = line.split()
    # Chinese and Japanese have no spaces: two of their characters count as a word.
    cut = " ".join(parts[:words]) if word_count(line) <= 2 * len(parts) else line[: 2 * words]
    return f"{cut}…"


def best_first(relations: Iterable[Relation]) -> list[Relation]:
    """By support, then weight; equals by their ids: what the nouns tell, wherever they come from."""
    return sorted(relations, key=lambda each: (-each.support, -each.weight, each.id))


def origin(item: Entity | Relation) -> str:
    """The chunk that says best what an entity or relation is; "" where none is known."""
    if item.evidence:
        return item.evidence[0].chunk_id
    return item.chunk_ids[0] if item.chunk_ids else ""


def is_ended(text: str) -> bool:
    """Whether it ends as a sentence does."""
    return _ENDED.search(text) is not None


def stands_in(name: str, text: str) -> bool:
    """Whether ``text`` names it, as a whole word; small and capital letters are the same."""
    return _stands(name.casefold(), text.casefold())


def stands_as_written(name: str, text: str) -> bool:
    """As :func:`stands_in`, but capital letters count: Will is not will."""
    return _stands(name, text)


def _stands(name: str, text: str) -> bool:
    if len(name) < _SHORTEST_NAME or name not in text:
        return False
    return has_cjk(name) or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
