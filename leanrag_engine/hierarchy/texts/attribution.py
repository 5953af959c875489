"""Find the chunks that each sentence of a written text rests on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from leanrag_engine.core.graphs.support import cut_description
from leanrag_engine.core.model import Entity, Evidence, Relation
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import STOPWORDS, words
from leanrag_engine.core.text.scripts import has_cjk


class ChunkFinder:
    """Finds at most ``most`` chunks behind sentences on a cluster or on two, from the entities and the first
    ``tried`` relations beneath, best first."""

    def __init__(
        self, members: Sequence[Entity], relations: Sequence[Relation], *, most: int = 3, tried: int = 200
    ) -> None:
        self._members = members
        self._relations = relations[:tried]
        self._most = most

    def chunks(self, text: str) -> tuple[str, ...]:
        """Return at least one chunk behind ``text``, if any is known: of the relations both of whose ends it
        names; else of the sentences beneath with most of its words; else of the best relations and
        members."""
        return self.supporting(text) or self._first(map(origin, self._items))

    def supporting(self, text: str) -> tuple[str, ...]:
        """Return as :meth:`chunks` does, but none for a text that shares no name or word with what lies beneath."""
        return self._of_named_relations(text) or self._of_similar_sentences(text)

    def evidence(self, text: str) -> tuple[Evidence, ...]:
        """Return the chunks behind each sentence of ``text``."""
        return tuple(
            Evidence(start, end, id_)
            for start, end in sentences(text)
            for id_ in self.chunks(text[start:end])
        )

    def _of_named_relations(self, text: str) -> tuple[str, ...]:
        named = {
            each.id
            for each in self._members
            if any(names_entity(name, text) for name in (each.name, *each.aliases))
        }
        if len(named) < 2:  # noqa: PLR2004 - a relation has two ends
            return ()
        found = (
            origin(each) for each in self._relations if each.source_id in named and each.target_id in named
        )
        return self._first(found)

    def _of_similar_sentences(self, text: str, *, near: float = 0.5) -> tuple[str, ...]:
        """Return the chunks of the sentences that share at least ``near`` of what the most similar one does."""
        mine = _content_words(text)
        shares = [(len(mine & said), ids) for said, ids in self._statements]
        most = max((share for share, _ in shares), default=0)
        if not most:
            return ()
        alike = sorted((each for each in shares if each[0] >= near * most), key=lambda each: -each[0])
        return self._first(ids[0] for _, ids in alike)

    def _first(self, ids: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, ids)))[: self._most]

    @property
    def _items(self) -> list[Entity | Relation]:
        return [*self._relations, *self._members]

    @cached_property
    def _statements(self) -> list[tuple[frozenset[str], tuple[str, ...]]]:
        """Return the content words of each sentence beneath, and the chunks that it rests on."""
        said = [
            (item.description[each.start : each.end], each.chunk_ids)
            for item in self._items
            for each in cut_description(item)
        ]
        said += [
            (f"{each.summary} {each.explanation}", each.chunk_ids)
            for member in self._members
            for each in member.findings
        ]
        return [(_content_words(text), ids) for text, ids in said if ids]


def _content_words(text: str) -> frozenset[str]:
    return frozenset(words(text)) - STOPWORDS


def best_first(relations: Iterable[Relation]) -> list[Relation]:
    """Sort by support, weight and id, so that the order does not depend on the source of the relations."""
    return sorted(relations, key=lambda each: (-each.support, -each.weight, each.id))


def origin(item: Entity | Relation) -> str:
    """Return the id of the chunk that best describes an entity or relation; "" if none is known."""
    if item.evidence:
        return item.evidence[0].chunk_id
    return item.chunk_ids[0] if item.chunk_ids else ""


def names_entity(name: str, text: str) -> bool:
    """Return whether ``name`` occurs in ``text`` as a whole word, ignoring case."""
    return names_exactly(name.casefold(), text.casefold())


def names_exactly(name: str, text: str, *, shortest: int = 2) -> bool:
    """Return whether ``name`` occurs in ``text`` as a whole word, with its capitals: Will is not will."""
    # A name of one character occurs in many words that do not mean it.
    if len(name) < shortest or name not in text:
        return False
    return has_cjk(name) or re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
