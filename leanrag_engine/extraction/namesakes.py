"""Tell apart the entities that share a name: titles, first names, and words that stand after articles (*the Lion*).
Two documents mean the same one if they mention it beside the same other name, identifier or longer term."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.graphs.graph import Flags
from leanrag_engine.core.model import ExtractedEntity
from leanrag_engine.core.text.language.parts_of_speech import parts_of_speech
from leanrag_engine.core.text.word_lists import read_pattern

from .heuristic.words import vocabulary as known
from .mentions import MentionTable, Numbers, Trait, count_rows, find_traits

# When two bearers of a name count as two entities. Set by reading; no experiment fixed a value.
_COMMON_WORDS = 5  # Words of the language that two contexts must share, lacking others
_COMMON_SHARE = 0.3  # Their least share of the smaller context
_FEW_DOCUMENTS = 10  # Documents below which no name counts as wide
_WIDE = 0.5  # Share of documents beyond which a name tells nothing, unless it is a first name
_WITH_ARTICLE = 1 / 3  # Least share of mentions after an article of a word that names others

_ARTICLE = read_pattern("phrases", "article")
_NEXT_WORD = re.compile(r"\s+([a-z]+)")


@dataclass(slots=True)
class _Surroundings:
    """What stands beside a name: the ``telling`` and the ``common`` keys. ``small``: the name begins with a small letter; ``key``
    is that of the entity, once it is known."""

    small: bool
    key: str = ""
    telling: set[str] = field(default_factory=set)
    common: set[str] = field(default_factory=set)

    def agrees(self, other: "_Surroundings") -> bool:
        if self.small or other.small:
            return self.small == other.small  # a wall is not *The Wall*
        if not self.telling.isdisjoint(other.telling):
            return True
        shared = len(self.common & other.common)
        return shared >= max(_COMMON_WORDS, _COMMON_SHARE * min(len(self.common), len(other.common)))


@dataclass(frozen=True, slots=True, eq=False)
class _Mentioned:
    """The mentions of a table: their rows, documents and the numbers of their keys after other forms were resolved, −1 for
    blank names; and the traits of the names with these keys."""

    table: MentionTable
    rows: NDArray[np.intp]
    documents: NDArray[np.int64]
    keys: Numbers
    traits: NDArray[np.uint8]

    @classmethod
    def of(cls, table: MentionTable, name_keys: Numbers) -> "_Mentioned":
        rows = count_rows(table.starts)
        traits = table.traits
        for number in np.flatnonzero(name_keys != table.name_keys).tolist():
            traits[number] = find_traits(table.words.keys[name_keys[number]], table.words.names[number])
        numbers = np.array([each.document for each in table.states], dtype=np.int64)
        return cls(table, rows, numbers[rows], name_keys[table.mentions], traits[table.mentions])

    def count_documents(self, chosen: Flags) -> NDArray[np.intp]:
        """Return in how many documents each key is mentioned, of the ``chosen`` mentions."""
        span = int(self.documents.max(initial=0)) + 1
        pairs = np.unique(self.keys[chosen].astype(np.int64) * span + self.documents[chosen])
        return np.bincount(pairs // span, minlength=len(self.table.words.keys))


def find_namesakes(
    table: MentionTable, name_keys: Numbers, documents: int, merged: Collection[str] = ()
) -> dict[tuple[int, str], str]:
    """Return for a document's number and a key that means several entities the key that is meant there.
    ``name_keys`` are resolved already, ``merged`` keys are one entity everywhere. The entity that comes first
    keeps the plain key. Linear, but for names that very many of the ``documents`` share."""
    mentioned = _Mentioned.of(table, name_keys)
    keys = table.words.keys
    shared = _find_shared_names(mentioned).difference(
        number for key in merged if (number := table.words.key_numbers.get(key)) is not None
    )
    if not shared:
        return {}
    found: dict[tuple[int, str], str] = {}
    wide = _find_wide_names(mentioned, documents)
    namesakes: dict[str, list[_Surroundings]] = {}
    rows = np.unique(mentioned.rows[np.isin(mentioned.keys, list(shared))])
    names = {keys[number] for number in shared} - (wide & known.FIRST_NAMES)
    for document, chosen in groupby(rows.tolist(), lambda row: table.states[row].document):
        contexts = [_names_in(table, row, name_keys) for row in chosen]
        id_ = ""
        for key, context in _contexts(contexts, names, wide).items():
            known_ = namesakes.setdefault(key, [])
            one = next((each for each in known_ if each.agrees(context)), None)
            if one is None:
                if not id_:
                    id_ = next(each.document_id for each in table.states if each.document == document)
                # The key ends up in an id alone.
                one, context.key = context, f"{key}\x00{id_}" if known_ else key
                known_.append(one)
            one.telling |= context.telling
            one.common |= context.common
            if one.key != key:
                found[document, key] = one.key
    return found


def _names_in(table: MentionTable, row: int, name_keys: Numbers) -> dict[str, str]:
    """Return the names in an extract by their keys, the last one of each."""
    words = table.words
    mentions = table.mentions[table.starts[row] : table.starts[row + 1]]
    pairs = zip(name_keys[mentions].tolist(), mentions.tolist(), strict=True)
    return {words.keys[key]: words.names[name] for key, name in pairs if key >= 0}


def _find_shared_names(mentioned: _Mentioned) -> frozenset[int]:
    """Return the keys of the names that many may have and that several documents mention, and of the works that are
    called like a thing which another document mentions: *The Wall*."""
    table, keys = mentioned.table, mentioned.table.words.keys
    valid = mentioned.keys >= 0
    works = np.zeros(len(keys) + 1, dtype=bool)  # the last place is that of no key
    works[mentioned.keys[table.works & valid]] = True
    nouns = valid & ((mentioned.traits & Trait.NOUN) > 0)
    chosen = nouns | (valid & (((mentioned.traits & Trait.COMMON) > 0) | works[mentioned.keys]))
    several = mentioned.count_documents(chosen) > 1
    words = np.zeros(len(keys), dtype=bool)
    words[mentioned.keys[nouns]] = True
    words &= several & ~works[:-1]
    for number in np.flatnonzero(words).tolist():
        words[number] = keys[number] not in known.HONORIFICS and keys[number] not in known.FIRST_NAMES
    after = _find_words_after_articles(mentioned, words)
    return frozenset(np.flatnonzero((several & ~words) | after).tolist())


def _find_words_after_articles(mentioned: _Mentioned, words: Flags) -> Flags:
    """Return those of ``words`` that often stand after an article: *the Lion*. Before a noun it is the noun's: *the Python language*."""
    table = mentioned.table
    places = np.flatnonzero(np.append(words, False)[mentioned.keys])
    new = places[table.articles[places, 0] < 0]
    table.load(np.unique(mentioned.rows[new]).tolist())
    for place, row in zip(new.tolist(), mentioned.rows[new].tolist(), strict=True):
        table.articles[place] = _count_articles(table.fresh[row].entities[place - int(table.starts[row])])
    bare, after = (
        np.bincount(mentioned.keys[places], weights=table.articles[places, column], minlength=len(words))
        for column in (0, 1)
    )
    return np.asarray(words & (after >= _WITH_ARTICLE * (after + bare)) & (after > 0))


def _count_articles(entity: ExtractedEntity) -> tuple[int, int]:
    """Return how often the description has the name without and with an article before it."""
    counts = [0, 0]
    text = entity.description
    for found in re.finditer(rf"\b{re.escape(entity.name)}\b", text):
        following = _NEXT_WORD.match(text, found.end())
        if not (following and parts_of_speech(following[1])[:1] == "n"):
            counts[bool(_ARTICLE.search(text[max(0, found.start() - 12) : found.start()]))] += 1
    return counts[0], counts[1]


def _find_wide_names(mentioned: _Mentioned, documents: int) -> frozenset[str]:
    if documents < _FEW_DOCUMENTS:
        return frozenset()
    counts = mentioned.count_documents(mentioned.keys >= 0)
    keys = mentioned.table.words.keys
    return frozenset(keys[number] for number in np.flatnonzero(counts > _WIDE * documents).tolist())


def _contexts(
    extracts: Sequence[Mapping[str, str]], shared: Collection[str], wide: frozenset[str]
) -> dict[str, _Surroundings]:
    """Return the context of each shared name of one document in its extracts, given as names by their keys."""
    found: dict[str, _Surroundings] = {}
    for here in extracts:
        telling = {key for key in here if _is_telling(key) and (key not in wide or key in known.FIRST_NAMES)}
        common = here.keys() - telling - known.HONORIFICS
        for name in here.keys() & shared:
            one = found.setdefault(name, _Surroundings(small=True))
            one.small = one.small and here[name][:1].islower()
            one.telling.update(telling - {name})
            one.common.update(common - {name})
    return found


def _is_telling(key: str) -> bool:
    """Return whether a name hardly means two things: several words, a first name, or no word of the language."""
    if " " in key:
        return True
    return key not in known.HONORIFICS and (key in known.FIRST_NAMES or not parts_of_speech(key))
