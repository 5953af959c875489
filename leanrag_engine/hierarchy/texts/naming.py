"""Name clusters by the phrases of their members' names, in part of their descriptions, that distinguish them
from siblings: class-based TF-IDF (Grootendorst 2022)."""

import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Collection as AnyCollection
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, pairwise
from typing import NamedTuple

import numpy as np

from leanrag_engine.core.graphs.graph import Digests, Flags, Graph, Weights, digest_text
from leanrag_engine.core.graphs.rows import select_rows
from leanrag_engine.core.model import Entity
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.words import STOPWORDS, words
from leanrag_engine.core.text.scripts import FREQUENT_FOREIGN, has_cjk
from leanrag_engine.hierarchy.clustering.balancing import Labels

_AROUND = ',;:!?"“”‘«»'
BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
CODE = "code"  # The type of identifiers that were found without a model
_POSSESSIVE = re.compile(r"(?<=s)['’]$|['’]s$")

PHRASE_WORDS = 80  # Words of a text in which phrases are looked for


@dataclass(frozen=True, slots=True)
class TextOptions:
    """Dials of heuristic names and of the choice of sentences: what phrases and sentences are worth.
    No recorded measurement fixed any field: set by reading, not tuned."""

    phrases: int = 3  # Most phrases of a name, unless all such names are in use
    phrase_words: int = 3  # Words of a phrase on average, at most
    in_description: float = 0.25  # Worth of a phrase in a description; in a name it is 1
    ending: float = 0.8  # Worth of a part that a name ends with; a whole name is worth 1
    fragment: float = 0.3  # Worth of any other part of a name, which may be no more than an adjective
    code: float = 0.4  # Worth of an identifier: a person names the thing that it belongs to
    once: float = 0.8  # Worth of an entity that a single chunk mentions
    once_lowercase: float = 0.6  # The same of an entity whose name begins with a small letter
    topic: int = 8  # Relations from which on an entity counts in full although one chunk mentions it: the heading above the others
    mentions: float = 1.5  # What an entity gains per logarithm of its mentions; it starts from 1, and its relations count 0.5 per logarithm
    broad: float = 3.0  # Most that the number of members with a phrase counts, as log₂(1 + members): no more from seven on
    faint: float = 0.3  # Share of the best phrase's score below which a phrase says little about the cluster
    third: float = 0.5  # The same for a phrase beside two others, and for one that many names have in common, which comes first
    common: float = 0.4  # Share of a cluster's names from which on a phrase is what they have in common
    hub: float = 2.0  # What the name of the entity with most relations within the cluster gains; one without relations gains nothing
    alike: float = 0.5  # Share of common words from which on two names are near duplicates
    part_of: float = 0.6  # Share of a phrase's occurrences from which on a longer phrase takes its place
    personal: float = 0.75  # Factor of each pronoun, up to four: what they refer to is missing
    labelled: float = 0.6  # Factor of a sentence after a label ("Note: …"), which is often beside the point
    terse: int = 14  # Words added to the length of a sentence: otherwise the shortest would always say most for their length
    defining: float = 1.4  # Factor of a sentence that begins with its subject and says what it is


DEFAULT = TextOptions()


@dataclass(frozen=True, slots=True)
class PhraseTable:
    """Which phrases occur where: entity ``rows[i]`` has phrase ``columns[i]`` with ``weights[i]``.

    ``named[i]`` is 1 if the phrase is in the entity's name, else 0; ``whole[i]`` tells whether it is all of it.
    ``witnesses[i]`` is 1, but where the phrase occurs in a description alone that other entities have too: there
    it is a share of 1, for one sentence is one witness. ``keys`` are normalised phrases (words in single spaces),
    ``surfaces`` how they are best written, ``worths`` what each is worth as a name. Where an entity stands for several,
    ``weights``, ``witnesses`` and ``named`` are multiplied by their number.
    """

    keys: tuple[str, ...]
    surfaces: tuple[str, ...]
    worths: Weights
    rows: Labels
    columns: Labels
    weights: Weights
    witnesses: Weights
    named: Weights
    whole: Flags


@dataclass(frozen=True, slots=True)
class ClusterPhrases:
    """The phrases of one cluster, the most distinguishing first, their scores, and in which share of its names each is."""

    columns: Labels
    scores: Weights
    counts: Weights
    shares: Weights


class TakenNames:
    """The keys of the names in use, by their digests."""

    def __init__(self, digests: Iterable[int]) -> None:
        self._digests = set(digests)

    def __contains__(self, key: object, /) -> bool:
        return digest_text(str(key)) in self._digests

    def add(self, key: str, /) -> None:
        self._digests.add(digest_text(key))

    def add_all(self, digests: Digests) -> None:
        """Add keys by their digests."""
        self._digests.update(digests.tolist())

    def copy(self) -> "TakenNames":
        return TakenNames(self._digests)


NameKeys = set[str] | TakenNames
"""Keys of names."""


class NameRegister:
    """The names in use, by key, and the names of the siblings so far, by their words."""

    def __init__(self, taken: NameKeys) -> None:
        self._taken = taken
        self._siblings: dict[str, list[frozenset[str]]] = defaultdict(list)

    def add(self, name: str) -> None:
        self._taken.add(name_key(name))
        content = _content(name)
        for word in content:
            self._siblings[word].append(content)

    def has(self, name: str) -> bool:
        return name_key(name) in self._taken

    def sibling_overlap(self, name: str) -> frozenset[str]:
        """Return the words that make the name a near duplicate of a sibling's; empty if it is none."""
        content = _content(name)
        for word in sorted(content):
            for other in self._siblings.get(word, ()):
                if len(content & other) >= DEFAULT.alike * len(content | other):
                    return content & other
        return frozenset()


def _content(name: str) -> frozenset[str]:
    return frozenset(name_key(name).split()) - STOPWORDS


def find_phrases(
    graph: Graph, scales: Weights | None = None, *, note: Callable[[int], None] = lambda _: None
) -> PhraseTable:
    """Return the phrases of up to four words in the names of G0 and where they occur in names and
    descriptions. Occurrences weigh more, the more mentions and relations an entity has. ``scales`` (n,): for
    how many entities each stands, 0 for none. ``note`` gets the number of entities read so far."""
    if scales is None:
        scales = np.ones(len(graph.entities))
    numbers = np.flatnonzero(scales)
    entities = select_rows(graph.entities, numbers.tolist())
    names = [_tokens(entity.name) for entity in entities]
    spelled, worths = _spellings(entities, names)
    keys = tuple(sorted(spelled))
    column = {key: number for number, key in enumerate(keys)}
    openings = _find_openings(keys)
    _, group, sizes = np.unique(graph.nodes.openings, return_inverse=True, return_counts=True)
    alike = sizes[group[numbers]].tolist()
    rows, columns, weights, witnesses = array("q"), array("q"), array("d"), array("d")
    named, whole = array("d"), array("b")
    degrees = np.bincount(graph.ends.ravel(), minlength=len(graph.entities))[numbers].tolist()
    chosen = zip(numbers.tolist(), entities, names, degrees, scales[numbers].tolist(), alike, strict=True)
    for done, (row, entity, name, degree, scale, same) in enumerate(chosen):
        if done % 1000 == 0:
            note(row)
        importance = _importance(entity, degree)
        in_name = {key for key, _ in _runs(name[:PHRASE_WORDS], openings)}
        in_description = {key for key, _ in _runs(_tokens(entity.description)[:PHRASE_WORDS], openings)}
        share = 1.0 / same
        entire = " ".join(token.key for token in name)
        for key in sorted((in_name | in_description) & spelled.keys()):
            rows.append(row)
            columns.append(column[key])
            weights.append(scale * importance * (1.0 if key in in_name else DEFAULT.in_description * share))
            witnesses.append(scale if key in in_name else scale * share)
            named.append(scale if key in in_name else 0.0)
            whole.append(key == entire)
    return PhraseTable(
        keys=keys,
        surfaces=tuple(spelled[key] for key in keys),
        worths=np.array([worths[key] for key in keys]),
        rows=np.array(rows, dtype=np.intp),
        columns=np.array(columns, dtype=np.intp),
        weights=np.array(weights, dtype=np.float64),
        witnesses=np.array(witnesses, dtype=np.float64),
        named=np.array(named, dtype=np.float64),
        whole=np.array(whole, dtype=np.bool_),
    )


def _find_openings(keys: Sequence[str]) -> set[str]:
    """Return all first words of each key, with which a run must begin to become that key."""
    openings: set[str] = set()
    for key in keys:
        parts = key.split(" ")
        openings.update(" ".join(parts[:end]) for end in range(1, len(parts) + 1))
    return openings


def _spellings(
    entities: Sequence[Entity], names: "Sequence[Sequence[_PhraseWord]]"
) -> tuple[dict[str, str], dict[str, float]]:
    """Return the usual spelling of each whole name and each phrase in two names, and the worth of each, by key."""
    spelled: dict[str, Counter[str]] = defaultdict(Counter)
    worths: dict[str, float] = {}
    for entity, tokens in zip(entities, names, strict=True):
        for key, run in dict(_runs(tokens)).items():
            entire = len(run) == len(tokens)
            surface = entity.name if entire else _surface(run)
            if surface:
                spelled[key][surface] += 1
            part = DEFAULT.ending if run[-1] is tokens[-1] else DEFAULT.fragment
            worths[key] = max(1.0 if entire else part, worths.get(key, 0.0))
    found = {
        key: max(surfaces.items(), key=lambda item: (item[1], item[0]))[0]
        for key, surfaces in spelled.items()
        if worths[key] == 1.0 or surfaces.total() > 1
    }
    return found, worths


def _importance(entity: Entity, degree: int) -> float:
    plain = 1.0 + DEFAULT.mentions * math.log(max(1, entity.mentions)) + 0.5 * math.log1p(degree)
    return plain * _attestation(entity, degree)


_OPTION = re.compile(r"-|.*[_/=]|.*\.\w+$|[a-z]+$")


def _attestation(entity: Entity, degree: int) -> float:
    if entity.type == CODE and _OPTION.match(entity.name):
        return DEFAULT.code
    if entity.mentions > 1 or degree >= DEFAULT.topic:
        return 1.0
    return DEFAULT.once_lowercase if entity.name[:1].islower() else DEFAULT.once


def rank_phrases(terms: PhraseTable, labels: Labels, hubs: Weights, count: int) -> list[ClusterPhrases]:
    """Return the phrases of each of ``count`` clusters by class-based TF-IDF; ``labels`` are those of the base
    entities. It also counts in how many members a phrase occurs, and more in the names of ``hubs`` (0 to 1)."""
    width = max(1, len(terms.keys))
    cells, place = np.unique(labels[terms.rows] * width + terms.columns, return_inverse=True)
    weights = terms.weights * np.where(terms.whole, 1.0 + DEFAULT.hub * hubs[terms.rows], 1.0)
    counts = np.asarray(np.bincount(place, weights=weights, minlength=len(cells)), dtype=np.float64)
    members = np.bincount(place, weights=terms.witnesses, minlength=len(cells))
    clusters, columns = cells // width, cells % width
    sizes = np.maximum(1, np.bincount(labels, minlength=count))
    shares = np.bincount(place, weights=terms.named, minlength=len(cells)) / sizes[clusters]
    everywhere = np.bincount(columns, weights=counts, minlength=width)
    average = everywhere.sum() / count
    share = counts / everywhere[columns]
    scores = counts * np.sqrt(share) * np.log1p(average / everywhere[columns])
    scores *= np.minimum(np.log2(1.0 + members), DEFAULT.broad) * terms.worths[columns]
    order = np.lexsort((columns, -scores, clusters))
    starts = np.searchsorted(clusters[order], np.arange(count + 1))
    return [
        ClusterPhrases(columns[part], scores[part], counts[part], shares[part])
        for part in (order[starts[number] : starts[number + 1]] for number in range(count))
    ]


def choose_name(
    terms: PhraseTable,
    found: ClusterPhrases,
    fallback: Sequence[str],
    names: NameRegister,
    identifiers: AnyCollection[str] = (),
) -> str:
    """Return a unique name of two to six phrases that is no near duplicate of a sibling's; of ``fallback``, the names
    of central members, if there are too few. ``identifiers`` are keys of names that give way to others."""
    barred: frozenset[str] = frozenset()
    plain = ""
    usual = DEFAULT.phrases
    common = _has_common(terms, found)
    others = sorted(fallback, key=lambda name: name_key(name) in identifiers)
    # Three attempts to do without the words shared with a sibling.
    for most in (usual, usual, usual, *range(usual, 2 * usual + 1)):
        phrases = _select_phrases(terms, found, most, barred, identifiers)
        phrases += _select_unused(others, phrases, barred, common=common)[: max(0, 2 - len(phrases))]
        name = join_names(phrases)
        if not name or names.has(name):
            continue
        plain = plain or name
        repeated = names.sibling_overlap(name)
        if not repeated:
            return name
        barred |= repeated
    return plain or _add_number(phrases, fallback, names)


def _select_unused(
    names: Sequence[str], phrases: Sequence[str], barred: frozenset[str], *, common: bool
) -> list[str]:
    """Return the ``names`` that are not among the phrases, last those with ``barred`` words or with words of
    a phrase, of which one may repeat words in ``common``."""
    used = {_stem(token.key) for phrase in phrases for token in _tokens(phrase)} - STOPWORDS

    def repeats(name: str) -> bool:
        own = {_stem(token.key) for token in _tokens(name)}
        adds = common and not own <= used and STOPWORDS.isdisjoint(own)
        return not barred.isdisjoint(_content(name)) or not (adds or used.isdisjoint(own))

    return sorted((name for name in names if name not in phrases), key=repeats)


def _add_number(phrases: Sequence[str], fallback: Sequence[str], names: NameRegister) -> str:
    stem = join_names([*phrases, *(name for name in fallback[:1] if name not in phrases)]) or "Unnamed"
    numbered = (f"{stem} ({number})" for number in count(2))
    return next(name for name in numbered if not names.has(name))


def join_names(names: Sequence[str]) -> str:
    """Return ``a, b and c``; for Chinese and Japanese names ``甲、乙、丙``."""
    if names and all(map(has_cjk, names)):
        return "、".join(names)
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


# --- phrases -------------------------------------------------------------------------------


class _PhraseWord(NamedTuple):
    key: str
    text: str
    is_empty: bool


@lru_cache(maxsize=1 << 16)
def _read_word(text: str) -> tuple[str, bool]:
    """Return the key of a word, and whether it alone means nothing: a stop word, a number, a letter that is no initial."""
    key = name_key(text.strip(_AROUND + ".'’()[]{}"))
    if len(key) == 1:
        return key, not (text[0].isupper() and text.endswith("."))
    return key, key in STOPWORDS or key in FREQUENT_FOREIGN or not any(
        character.isalpha() for character in key
    )


def _tokens(text: str) -> list[_PhraseWord]:
    """Return the words in order; runs of Chinese or Japanese are segmented."""
    found = text.split()
    if has_cjk(text):
        found = [part for token in found for part in (words(token) if has_cjk(token) else [token])]
    read = zip(found, map(_read_word, found), strict=True)
    return [_PhraseWord(key, part, is_empty) for part, (key, is_empty) in read if key]


def _runs(
    tokens: Sequence[_PhraseWord], openings: AnyCollection[str] | None = None, *, longest: int = 4
) -> Iterator[tuple[str, Sequence[_PhraseWord]]]:
    """Yield (key, words) of every run of up to ``longest`` words within commas that neither starts nor ends with an
    empty word; with ``openings`` only of those whose key is among them, and so are those of all shorter runs."""
    for start, first in enumerate(tokens):
        if (openings is not None and first.key not in openings) or first.is_empty:
            continue
        key = ""
        for end in range(start, min(start + longest, len(tokens))):
            key = f"{key} {tokens[end].key}" if key else tokens[end].key
            if openings is not None and key not in openings:
                break
            if end == start or not tokens[end].is_empty:
                yield key, tokens[start : end + 1]
            if tokens[end].text.endswith(","):
                break


def _surface(tokens: Sequence[_PhraseWord]) -> str:
    """Return the words as written, without the punctuation and the possessive ending around them; empty if
    they open a bracket and don't close it."""
    text = tokens[0].text
    for before, after in pairwise(tokens):
        text += after.text if has_cjk(before.text) and has_cjk(after.text) else f" {after.text}"
    text = _POSSESSIVE.sub("", text.strip(_AROUND))
    for opening, closing in BRACKETS:
        if text.startswith(opening) and text.endswith(closing):
            text = text[1:-1]
        if text.count(opening) != text.count(closing):
            text = text.strip(opening + closing)
        if text.count(opening) != text.count(closing):
            return ""
    return text


@lru_cache(maxsize=1 << 12)  # a sentence is asked about for each name and relation in it
def phrase_keys(text: str) -> frozenset[str]:
    """Return the keys of all phrases among the first ``PHRASE_WORDS`` words of ``text``."""
    return frozenset(key for key, _ in _runs(_tokens(text)[:PHRASE_WORDS]))


def _select_phrases(
    terms: PhraseTable,
    found: ClusterPhrases,
    most: int,
    barred: frozenset[str],
    identifiers: AnyCollection[str],
) -> list[str]:
    """Return the best phrases that share no word but ``common`` ones (*South Dakota and North Dakota*) and do
    not consist of ``barred`` words, each as long as it stays common."""
    chosen: list[int] = []
    taken: list[set[str]] = []
    used: set[str] = set()
    length = 0
    common = _has_common(terms, found)
    free = _find_common_words(terms, found)
    for place in _order_places(terms, found):
        minor = len(chosen) > 1 or terms.keys[found.columns[place]] in identifiers
        least = DEFAULT.third if minor else DEFAULT.faint
        if len(chosen) == most:
            break
        if chosen and most == DEFAULT.phrases and found.scores[place] < least * found.scores[0]:
            continue
        for column in _find_forms(terms, found, place):
            parts = set(map(_stem, terms.keys[column].split()))
            kind = common and len(chosen) == 1 and _is_kind(terms, chosen[0], column)
            other = not parts & (used - free) and not any(parts <= each or each <= parts for each in taken)
            if (kind or other) and not set(terms.keys[column].split()) <= barred:
                break
        else:
            continue
        if chosen and length + len(parts) > most * DEFAULT.phrase_words:
            continue
        chosen.append(column)
        taken.append(parts)
        used |= parts
        length += len(parts)
    return [terms.surfaces[column] for column in chosen]


def _order_places(terms: PhraseTable, found: ClusterPhrases) -> list[int]:
    """Return the places of the best 50 phrases, first a whole name that many names contain, if it is not much worse."""
    places = list(range(min(50, len(found.columns))))
    for place in places:
        common = found.shares[place] >= DEFAULT.common and terms.worths[found.columns[place]] == 1.0
        if common and found.scores[place] >= DEFAULT.third * found.scores[0]:
            return [place, *(other for other in places if other != place)]
    return places


def _has_common(terms: PhraseTable, found: ClusterPhrases) -> bool:
    """Return whether the first phrase of the name is one that many names contain."""
    return any(found.shares[place] >= DEFAULT.common for place in _order_places(terms, found)[:1])


def _find_common_words(terms: PhraseTable, found: ClusterPhrases) -> set[str]:
    """Return the words that many names contain, which two phrases of a name may share."""
    often = found.columns[found.shares >= DEFAULT.common].tolist()
    return {_stem(terms.keys[column]) for column in often if " " not in terms.keys[column]}


def _find_forms(terms: PhraseTable, found: ClusterPhrases, place: int) -> tuple[int, ...]:
    """Return a phrase as long as it stays common, then as it is, unless it is one word that is no whole name."""
    longest = _longest_form(terms, found, place)
    # A word that many names have in common names them as it is: a family by its surname.
    if found.shares[place] < DEFAULT.common:
        longest = _whole_name(terms, found, longest)
    own = int(found.columns[place])
    lone = terms.worths[own] < 1.0 and " " not in terms.keys[own]
    return (longest,) if lone or own == longest else (longest, own)


def _is_kind(terms: PhraseTable, column: int, other: int, most_words: int = 3) -> bool:
    """Return whether a short whole name contains another one of a single word."""
    longer = terms.keys[other].split()
    whole = terms.worths[column] == terms.worths[other] == 1.0
    short = 1 < len(longer) <= most_words and STOPWORDS.isdisjoint(longer)
    return whole and short and terms.keys[column] in longer


def _stem(word: str, shortest: int = 6) -> str:
    """Return a word without the ending of its verb: *caching* and *cache* say the same in a name."""
    bare = word.removesuffix("ing") if len(word) >= shortest else word
    return bare.removesuffix("e")


def _longest_form(terms: PhraseTable, found: ClusterPhrases, place: int) -> int:
    best = int(found.columns[place])
    needed = DEFAULT.part_of * found.counts[place]
    whole = terms.worths[best] == 1.0
    if whole and " " in terms.keys[best]:
        return best
    key = f" {terms.keys[best]} "
    for other, times in zip(found.columns[:200].tolist(), found.counts[:200].tolist(), strict=True):
        longer = f" {terms.keys[other]} "
        if whole and not STOPWORDS.isdisjoint(longer.split()):
            continue
        if times >= needed and key in longer and len(longer) > len(f" {terms.keys[best]} "):
            best = other
    return best


def _whole_name(terms: PhraseTable, found: ClusterPhrases, column: int) -> int:
    """Return the cluster's best name that a part of names belongs to, if it is a single word: *Bloc* → *Eastern Bloc*."""
    key = terms.keys[column]
    if terms.worths[column] == 1.0 or " " in key:
        return column
    for other in found.columns[:200].tolist():
        if " " in terms.keys[other] and key in terms.keys[other].split():
            return int(other)
    return column
