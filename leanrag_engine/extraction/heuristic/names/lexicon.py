"""All names of one document with their spelling, type and short forms: *GMM* is *Gaussian mixture model* only within it.
Words in a name or next to it tell what it stands for: coarse types, and entries of a bibliography."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from leanrag_engine.core.text.language.names import name_key, split_humps
from leanrag_engine.core.text.language.words import STOPWORDS
from leanrag_engine.core.text.word_lists import read_pattern
from leanrag_engine.extraction.heuristic.words import vocabulary as known
from leanrag_engine.extraction.heuristic.words.tokens import Sentence, Token

from .mentions import Kind, Mention

_ACRONYM = re.compile(r"[A-Z][A-Za-z]?[A-Z0-9][A-Za-z0-9]{0,7}")
_NICKNAME = re.compile('[^"“”]+ ["“](\\S+)["”] ([^"“”]+)')
_PERSON_WORDS = range(2, 5)
_NO_FIRST_NAME = known.HONORIFICS | known.STARTERS | known.GENERIC_ADJECTIVES
_CONNECTORS = known.SMALL_CONNECTORS - {"van", "von", "de"}
_NO_PERSON = known.ORGANISATION_WORDS | known.PLACE_WORDS | known.EVENT_WORDS | _CONNECTORS
_KINDS = frozenset(kind.value for kind in Kind)


@dataclass(slots=True)
class Lexicon:
    """The names of a document, filled with its mentions in reading order; keys are those of :func:`name_key`."""

    surfaces: dict[str, Counter[str]] = field(default_factory=partial(defaultdict, Counter))
    kinds: dict[str, Counter[str]] = field(default_factory=partial(defaultdict, Counter))
    full: dict[str, str] = field(default_factory=dict)  # Short form → full form, both as keys
    preferred: dict[str, str] = field(default_factory=dict)  # Used even if others are more frequent
    persons: set[str] = field(default_factory=set)
    speakers: set[str] = field(default_factory=set)  # Keys of the speakers of a conversation
    addressed: set[str] = field(default_factory=set)  # Keys of names after a form of address

    def add(self, mention: Mention, type_: str = "") -> str:
        key = name_key(mention.name)
        if not key:
            return ""
        self.surfaces[key][mention.name] += 1
        self.kinds[key][type_ or mention.kind.value] += 1
        return key

    def know(self, name: str) -> None:
        """Add a name that no sentence mentions."""
        self.surfaces[name_key(name)][name] += 0

    def define(self, short: str, long: str) -> None:
        """Let ``short`` stand for ``long``, unless that would make a cycle."""
        short_key, long_key = name_key(short), name_key(long)
        if short_key and long_key and short_key != long_key and self.resolve(long_key) != short_key:
            self.full.setdefault(short_key, long_key)
            self.know(short)
            self.know(long)

    def join_humps(self) -> None:
        """Let *MeiLin* stand for *Mei Lin* if both occur."""
        for surfaces in list(self.surfaces.values()):
            for surface in surfaces:
                if (spaced := split_humps(surface)) and name_key(spaced) in self.surfaces:
                    self.define(surface, spaced)

    def resolve(self, key: str) -> str:
        seen = {key}
        while key in self.full and self.full[key] not in seen:
            key = self.full[key]
            seen.add(key)
        return key

    def count(self, key: str) -> int:
        return self.surfaces[key].total() if key in self.surfaces else 0

    def name(self, key: str) -> str:
        """Return the most frequent surface form; the first one wins ties."""
        surfaces = self.surfaces[key]
        return self.preferred.get(key) or max(surfaces, key=surfaces.__getitem__)

    def aliases(self, key: str) -> tuple[str, ...]:
        """Return the names of at most eight short forms that stand for ``key``."""
        shorts = [short for short, full in self.full.items() if full == key]
        return tuple(self.name(short) for short in shorts)[:8]

    def type(self, key: str) -> str:
        """Return the most frequent type; one with at least 30 % of the mentions (not tuned) beats a mere kind."""
        kinds = self.kinds.get(key) or self._kinds_of_forms(key)
        if key in self.persons or key in self.speakers:
            return "person"
        ranked = kinds.most_common()
        types = [name for name, count in ranked if name not in _KINDS and count >= 0.3 * kinds.total()]
        return (types or [name for name, _ in ranked] or [Kind.CONCEPT.value])[0]

    def _kinds_of_forms(self, key: str) -> Counter[str]:
        """Return the kinds of the other forms of a name that no sentence has itself."""
        forms = (self.kinds.get(short, Counter()) for short, full in self.full.items() if full == key)
        return sum(forms, Counter[str]())


def find_acronyms(tokens: Sequence[Token], text: str) -> Iterator[tuple[str, Mention]]:
    """Yield each acronym that a sentence defines, with its long form: *long form (LF)* or *LF (long form)*."""
    for position in range(1, len(tokens) - 2):
        if tokens[position].text != "(":
            continue
        before, inner = tokens[position - 1].text, tokens[position + 1].text.removesuffix("s")
        end = _bracket_end(tokens, position + 1)
        if end == position + 2 and _ACRONYM.fullmatch(inner):
            first = _find_spelling(tokens, position, inner)
            if first is not None:
                yield inner, _long_form(tokens, first, position, text)
        elif _ACRONYM.fullmatch(before) and _find_spelling(tokens, end, before) == position + 1:
            yield before, _long_form(tokens, position + 1, end, text)


def _bracket_end(tokens: Sequence[Token], start: int) -> int:
    """Return the position of the first closing sign within 16 tokens; ``start`` if there is none."""
    last = min(len(tokens), start + 16)
    return next((i for i in range(start, last) if tokens[i].text in {")", ",", ";"}), start)


def _long_form(tokens: Sequence[Token], first: int, last: int, text: str) -> Mention:
    start, end = tokens[first].start, tokens[last - 1].end
    return Mention(text[start:end], Kind.CONCEPT, start, end)


def _find_spelling(tokens: Sequence[Token], end: int, acronym: str) -> int | None:
    """Return where the words before ``end`` begin whose first letters spell ``acronym``; ``None`` if they do not."""
    wanted = [letter.lower() for letter in acronym if letter.isalnum()]
    position = end - 1
    while wanted and position >= 0 and tokens[position].kind in "cwn":
        token = tokens[position]
        initials = [part[0] for part in re.split(r"[-–]", token.lower) if part]
        if initials == wanted[-len(initials) :]:
            del wanted[-len(initials) :]
        elif initials and initials[0] == wanted[-1]:
            del wanted[-1]
        elif token.lower not in STOPWORDS:
            return None
        if not wanted:
            return position
        position -= 1
    return None


def find_nickname(name: str) -> str:
    """Return nickname and surname of a name with both: *Louis Silvie "Louie" Zamperini*; "" for any other."""
    match = _NICKNAME.fullmatch(name)
    return f"{match[1]} {match[2]}" if match else ""


def link_persons(lexicon: Lexicon, order: Sequence[str]) -> None:
    """Let *Rogers* and *Carl* stand for *Carl Rogers* if no other person shares them and the full name comes first: at
    most a tenth of the mentions in ``order`` precede it (not tuned). A surname mostly in the plural is the family's."""
    persons: dict[str, list[str]] = {}
    total = Counter(order)
    seen: Counter[str] = Counter()
    late: set[str] = set()
    for key in order:
        if not seen[key]:
            for part in _short_forms(lexicon, key):
                persons.setdefault(part, []).append(key)
                if seen[part] > 0.1 * total[part]:
                    late.add(key)
        seen[key] += 1
    for part, fulls in persons.items():
        full, *others = fulls
        if part in total and not others and full not in late and not _is_family(lexicon, part, full):
            lexicon.full.setdefault(part, full)
            lexicon.persons.add(full)


def _is_family(lexicon: Lexicon, surname: str, full: str) -> bool:
    """Return whether a surname is mostly written in the plural: *the Harvilles* are not Fanny Harville."""
    form, last = lexicon.name(surname), lexicon.name(full).split()[-1]
    return form in {f"{last}s", f"{last}es"}


def _short_forms(lexicon: Lexicon, key: str) -> list[str]:
    words = key.split()
    if len(words) not in _PERSON_WORDS or not _is_person(lexicon, key, words):
        return []
    name = lexicon.name(key).split()
    if len(name) != len(words):
        return []
    first = [words[0]] if words[0] in known.FIRST_NAMES or key in lexicon.speakers else []
    return [*first, name_key(name[-1])]


def _is_person(lexicon: Lexicon, key: str, words: Sequence[str]) -> bool:
    first, last = words[0], words[-1]
    if first == last or first in _NO_FIRST_NAME or not _NO_PERSON.isdisjoint(words):
        return False
    addressed = lexicon.count(key) > 1 and name_key(last) in lexicon.addressed
    return first in known.FIRST_NAMES or lexicon.kinds[key]["person"] > 0 or addressed


_PLACE_BEFORE = read_pattern("phrases", "place_before")
_PERSON_AFTER = re.compile(
    r"\s*\((?:born|b\.|c\.|\d{1,2} \w+ \d{4}|\w+ \d{1,2}, \d{4})"
    r"|,? (?:was|is) (?:born|married|an? (?:\S+ ){0,4}(?:actor|actress|singer|writer|author|politician|player|director|poet"
    r"|musician|composer|artist|scientist|physicist|historian|lawyer|king|queen|clerk))\b"
)
_WORK_NEAR = read_pattern("phrases", "work_near")
_PLACE_OPENINGS = frozenset(["lake", "mount", "river", "cape", "fort", "port"])


def coarse_type(mention: Mention, text: str) -> str:
    """Return person, event, organisation, place or work; "" without a cue. ``text`` is the sentence."""
    if mention.kind not in {Kind.NAME, Kind.WORK, Kind.CONCEPT} or not mention.name[:1].isupper():
        return ""
    words = [word.strip(".,'’") for word in mention.name.lower().split()]
    before, after = (text[max(0, mention.start - 24) : mention.start], text[mention.end : mention.end + 60])
    if (
        words[0] in known.PERSON_TITLES
        or before.lower().rstrip(". ").rsplit(" ", 1)[-1] in known.PERSON_TITLES
        or _PERSON_AFTER.match(after)
    ):
        return "person"
    if (
        len(words) > 1
        and mention.name.rsplit(None, 1)[-1][:1].isupper()
        and (type_ := _type_of_words(words, mention.kind))
    ):
        return type_
    if _PLACE_BEFORE.search(before):
        return "place"
    return "work" if mention.kind is Kind.WORK and _WORK_NEAR.search(f"{before} {after}") else ""


def _type_of_words(words: list[str], kind: Kind) -> str:
    first, last = words[0], words[-1]
    if last in known.EVENT_WORDS:
        return "event"
    head = words[words.index("of") - 1] if "of" in words[1:] else last
    if not known.ORGANISATION_WORDS.isdisjoint((first, head, last)):
        return "organisation"
    if last in known.PLACE_WORDS or first in _PLACE_OPENINGS:
        return "place"
    return "person" if kind is Kind.NAME and first in known.FIRST_NAMES else ""


_SIGNS = (
    re.compile(r"\b[A-Z]\.\s?(?:[A-Z]\.\s?)*[A-Z][a-z]+|[A-Z][a-z]+, (?:[A-Z]\.\s?)+"),
    re.compile(r"\b(?:1[6-9]|20)\d\d[a-z]?\b"),
    re.compile(r"\((?:1[6-9]|20)\d\d[a-z]?\)"),
    re.compile(r"\bpp?\.\s?\d|\bpages? \d|\d[-–]\d+\b"),
    re.compile(r"\b(?:vol(?:ume)?|no|iss(?:ue)?)\b\.?\s*\d|\d+\s?\(\d+\)", re.IGNORECASE),
    re.compile(
        r"\b(?:Proc|Trans|Conf|Rep|Tech|Univ|Dept|Inst|Symp|eds?|Press|Journal|Review|Letters|Proceedings|Transactions"
        r"|Annals|arXiv|doi|ISBN)\b"
    ),
)
"""Initials beside a surname, a year, a year in brackets, pages, a volume or number, a word of bibliographies."""


def is_reference(sentence: Sentence) -> bool:
    """Return whether a sentence without a verb has three signs of a bibliography's entry (not tuned); two persons are two."""
    words = {token.lower for token in sentence.tokens if token.kind == "w"}
    if not (words.isdisjoint(known.VERB_FORMS) and words.isdisjoint(known.BE)):
        return False
    several = len(_SIGNS[0].findall(sentence.text)) > 1
    enough = 3
    return several + sum(sign.search(sentence.text) is not None for sign in _SIGNS) >= enough


def is_author(mention: Mention) -> bool:
    """Return whether a mention in an entry of a bibliography is a person with initials or a first name, or a title in quotes."""
    words = mention.name.split()
    person = len(words) > 1 and (words[0].endswith(".") or words[0].lower() in known.FIRST_NAMES)
    return person or mention.kind is not Kind.NAME
