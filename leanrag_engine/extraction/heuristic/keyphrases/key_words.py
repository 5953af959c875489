"""Find something to name a text by that has no names and no terms: its most frequent words."""

from __future__ import annotations

from collections import Counter

from leanrag_engine.core.model import ExtractedEntity
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import STOPWORDS, words
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.extraction.heuristic.names.mentions import Kind


def find_key_words(text: str, most: int = 3, longest_name: int = 60) -> tuple[ExtractedEntity, ...]:
    """Return the ``most`` frequent words with content, each described by its first sentence; without any, the
    beginning of ``text``."""
    said = [text[start:end] for start, end in sentences(text)] or text.split("\n")
    found: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for sentence in said:
        for word in words(sentence):
            if word not in STOPWORDS and word[0].isalpha() and len(word) > (1 if has_cjk(word) else 2):
                counts[word] += 1
                found.setdefault(word, " ".join(sentence.split()))
    best = sorted(found, key=lambda word: -counts[word])[:most]
    if not best and (opening := " ".join(text.split())):
        found, best = {opening[:longest_name].strip(): opening}, [opening[:longest_name].strip()]
    return tuple(ExtractedEntity(word, Kind.TERM.value, found[word]) for word in best)
