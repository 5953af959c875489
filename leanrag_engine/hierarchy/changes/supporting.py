"""Find new evidence for the sentence on two clusters when every chunk that it cites is gone: all chunks of a
changed document have new ids, and other documents often say the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from leanrag_engine.core.model import Entity, Evidence, Relation
from leanrag_engine.core.text.language.words import STOPWORDS, words
from leanrag_engine.hierarchy.texts.attribution import ChunkFinder, best_first


def cite_again(
    sentence: Relation, members: Sequence[Entity], relations: Sequence[Relation], chunk_ids: Collection[str]
) -> Relation | None:
    """Return a relation of two clusters with evidence from their ``members`` and the ``relations`` between these, of the
    chunks that exist; None if there is none."""
    text = sentence.description
    found = ChunkFinder(members, best_first(relations)).supporting(text)
    evidence = tuple(Evidence(0, len(text), id_) for id_ in found if id_ in chunk_ids)
    return replace(sentence, evidence=evidence) if evidence else None


def find_unsaid_words(
    text: str, before: Iterable[Entity | Relation], now: Iterable[Entity | Relation]
) -> set[str]:
    """Return the words of ``text`` that entities and relations said ``before`` and say no longer."""
    found = _content_words(text)
    found &= set().union(*map(_words_of, before))
    for each in now:
        if not found:
            break
        found -= _words_of(each)
    return found


def _words_of(item: Entity | Relation) -> set[str]:
    if isinstance(item, Relation):
        return _content_words(item.description)
    findings = (f"{each.summary} {each.explanation}" for each in item.findings)
    return _content_words(" ".join((item.name, *item.aliases, item.description, *findings)))


def _content_words(text: str) -> set[str]:
    return set(words(text)) - STOPWORDS
