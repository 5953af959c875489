"""Tell apart the entities that share a name: the King of one book is not the King of another.

Titles and first names name someone else in every document, and so do capitalised words of the language that stand after
articles (*the Lion*; not *China*, *Python*). Two documents mean the same one if they mention it beside something that is the
same in both: another name, an identifier or a term of several words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from leanrag_engine.core.model import Extract
from leanrag_engine.core.text.language.parts_of_speech import parts_of_speech

from .heuristic.names.mentions import Kind
from .heuristic.words import vocabulary as known

__all__ = ["find_namesakes"]


@dataclass(frozen=True, slots=True)
class NamesakeOptions:
    """When two bearers of a name count as two entities. Set by reading; no experiment fixed a value."""

    common_words: int = 5
    """Lone words of the language that two contexts must share if they share nothing more specific."""
    common_share: float = 0.3
    """Their least share of the smaller context."""
    few_documents: int = 10
    """Documents below which no name counts as wide."""
    wide: float = 0.5
    """A name in more than this share of the documents says nothing about which of them belong together."""
    with_article: float = 1 / 3
    """Least share of its mentions in which a word of the language stands after an article or the like, if it is to name
    someone else in every document."""


DEFAULT_OPTIONS = NamesakeOptions()

_ARTICLE = re.compile(
    r"\b(?:an?|the|this|that|these|those|my|your|his|her|its|our|their|every|each|another|some|any|no|one)\s+$",
    re.IGNORECASE,
)
_NEXT_WORD = re.compile(r"\s+([a-z]+)")


@dataclass(slots=True)
class _Surroundings:
    """What stands beside a name: the ``telling`` and the ``common`` keys. ``small``: the name begins with a small letter."""

    small: bool
    telling: set[str] = field(default_factory=set)
    common: set[str] = field(default_factory=set)

    def agrees(self, other: _Surroundings) -> bool:
        if self.small or other.small:
            return self.small == other.small  # a wall is not *The Wall*, whoever speaks of both
        if not self.telling.isdisjoint(other.telling):
            return True
        shared = len(self.common & other.common)
        return shared >= max(
            DEFAULT_OPTIONS.common_words,
            DEFAULT_OPTIONS.common_share * min(len(self.common), len(other.common)),
        )


@dataclass(slots=True)
class _Namesake:
    """Mentions of one name in documents whose contexts agree."""

    key: str
    context: _Surroundings


def find_namesakes(
    extracts: Sequence[Extract],
    keys: Mapping[str, str],
    forms: Mapping[str, str],
    documents: Mapping[str, str],
    merged: Collection[str] = (),
) -> dict[tuple[str, str], str]:
    """Map (chunk id, key) to the key of the entity meant, for the keys that mean several entities.

    ``keys`` are name keys by name, ``forms`` other forms of a key, ``documents`` the document id of each chunk, ``merged``
    keys that are one entity everywhere. The entity that comes first keeps the plain key. Linear in the number of mentions, but for names that very many documents share.
    """
    shared = _find_shared_names(extracts, keys, forms, documents).difference(merged)
    if not shared:
        return {}
    found: dict[tuple[str, str], str] = {}
    wide = _wide_names(extracts, keys, forms, documents)
    namesakes: dict[str, list[_Namesake]] = {}
    for document, chunks in _by_document(extracts, documents):
        for key, context in _contexts(chunks, keys, forms, shared, wide).items():
            known_ = namesakes.setdefault(key, [])
            one = next((each for each in known_ if each.context.agrees(context)), None)
            if one is None:
                # The key ends up in an id alone.
                one = _Namesake(f"{key}\x00{document}" if known_ else key, context)
                known_.append(one)
            one.context.telling |= context.telling
            one.context.common |= context.common
            if one.key != key:
                found |= {(extract.chunk_id, key): one.key for extract in chunks}
    return found


def _keys_of(
    extract: Extract, keys: Mapping[str, str], forms: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the key and the name of each entity of an extract."""
    for entity in extract.entities:
        if key := keys[entity.name]:
            yield forms.get(key, key), entity.name


def _find_shared_names(
    extracts: Sequence[Extract],
    keys: Mapping[str, str],
    forms: Mapping[str, str],
    documents: Mapping[str, str],
) -> frozenset[str]:
    """Return the keys of the names that many may have and that several documents mention, and of the works that are
    called like a thing which another document mentions: *The Wall*."""
    seen: dict[str, str] = {}
    several: set[str] = set()
    words: set[str] = set()
    works = _find_titled_words(extracts, keys, forms)
    for extract in extracts:
        document = documents.get(extract.chunk_id, "")
        for key, name in _keys_of(extract, keys, forms):
            noun = _is_capitalised_noun(key, name)
            if not (noun or key in works or _is_common_name(key, name)):
                continue
            if noun:
                words.add(key)
            if seen.setdefault(key, document) != document:
                several.add(key)
    words = (words & several) - works - known.HONORIFICS - known.FIRST_NAMES
    return frozenset(several - words) | _find_words_after_articles(extracts, keys, forms, words)


def _find_words_after_articles(
    extracts: Sequence[Extract], keys: Mapping[str, str], forms: Mapping[str, str], words: set[str]
) -> frozenset[str]:
    """Return those of ``words`` that often stand after an article: *the Lion*. Before a noun it is the noun's: *the Python
    language*."""
    bare = dict.fromkeys(words, 0)
    after = dict.fromkeys(words, 0)
    for extract in extracts if words else ():
        for entity in extract.entities:
            key = forms.get(keys[entity.name], keys[entity.name])
            if key not in words:
                continue
            text = entity.description
            for found in re.finditer(rf"\b{re.escape(entity.name)}\b", text):
                following = _NEXT_WORD.match(text, found.end())
                if following and parts_of_speech(following[1])[:1] == "n":
                    continue
                counts = after if _ARTICLE.search(text[max(0, found.start() - 12) : found.start()]) else bare
                counts[key] += 1
    return frozenset(
        key
        for key in words
        if after[key] >= DEFAULT_OPTIONS.with_article * (after[key] + bare[key]) and after[key]
    )


def _find_titled_words(
    extracts: Sequence[Extract], keys: Mapping[str, str], forms: Mapping[str, str]
) -> frozenset[str]:
    """Return the keys of works that are called by a single noun of the language."""
    titles = ((keys[each.name], each) for extract in extracts for each in extract.entities)
    return frozenset(
        forms.get(key, key)
        for key, each in titles
        if each.type == Kind.WORK.value and " " not in key and parts_of_speech(key)[:1] == "n"
    )


def _is_common_name(key: str, name: str) -> bool:
    return _is_capitalised(key, name) and (key in known.HONORIFICS or key in known.FIRST_NAMES)


def _is_capitalised_noun(key: str, name: str) -> bool:
    return _is_capitalised(key, name) and parts_of_speech(key)[:1] == "n"


def _is_capitalised(key: str, name: str) -> bool:
    return " " not in key and name[:1].isupper() and name[1:].islower()


def _wide_names(
    extracts: Sequence[Extract],
    keys: Mapping[str, str],
    forms: Mapping[str, str],
    documents: Mapping[str, str],
) -> frozenset[str]:
    mentioned: dict[str, set[str]] = {}
    for extract in extracts:
        for key, _ in _keys_of(extract, keys, forms):
            mentioned.setdefault(key, set()).add(documents.get(extract.chunk_id, ""))
    total = len(set(documents.values()))
    if total < DEFAULT_OPTIONS.few_documents:
        return frozenset()
    return frozenset(key for key, where in mentioned.items() if len(where) > DEFAULT_OPTIONS.wide * total)


def _by_document(
    extracts: Sequence[Extract], documents: Mapping[str, str]
) -> Iterator[tuple[str, list[Extract]]]:
    chunks: dict[str, list[Extract]] = {}
    for extract in extracts:
        chunks.setdefault(documents.get(extract.chunk_id, ""), []).append(extract)
    yield from chunks.items()


def _contexts(
    chunks: Sequence[Extract],
    keys: Mapping[str, str],
    forms: Mapping[str, str],
    shared: frozenset[str],
    wide: frozenset[str],
) -> dict[str, _Surroundings]:
    """Return the context of each shared name of one document in its chunks."""
    found: dict[str, _Surroundings] = {}
    for extract in chunks:
        here = dict(_keys_of(extract, keys, forms))
        names = here.keys() & shared
        if names:
            telling = {key for key in here if _is_telling(key) and key not in wide}
            common = here.keys() - telling - known.HONORIFICS
            for name in names:
                one = found.setdefault(name, _Surroundings(small=True))
                one.small = one.small and here[name][:1].islower()
                one.telling.update(telling - {name})
                one.common.update(common - {name})
    return found


def _is_telling(key: str) -> bool:
    """Whether a name hardly means two things: several words, a first name, or no word of the language."""
    if " " in key:
        return True
    return key not in known.HONORIFICS and (key in known.FIRST_NAMES or not parts_of_speech(key))
