"""Find names and identifiers in a sentence by capital letters, quotation and code marks, closed word classes,
and statistics of the document."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.parts_of_speech import is_english_word, parts_of_speech
from leanrag_engine.core.text.language.words import POSSESSIVE, STOPWORDS
from leanrag_engine.core.text.records import TABLE_ROW
from leanrag_engine.core.text.scripts import FREQUENT_FOREIGN
from leanrag_engine.extraction.heuristic.words import vocabulary as known
from leanrag_engine.extraction.heuristic.words.tokens import (
    CERTAIN_CODE,
    LONGEST_PHRASE,
    NOTHING,
    OPENING,
    ROMAN,
    Token,
    WordUsage,
    bare,
    count_marker,
    lower_shouted,
)


class Kind(StrEnum):
    """How a mention was recognised. The values serve as entity types if no better one is found."""

    NAME = "name"
    CODE = "code"
    WORK = "work"
    TERM = "term"
    CONCEPT = "concept"


class Mention(NamedTuple):
    """``text[start:end]`` of a sentence mentions an entity, called ``name``; a weak one was recognised by its shape alone."""

    name: str
    kind: Kind
    start: int
    end: int
    weak: bool = False


def keep_longest(found: Sequence[Mention]) -> list[Mention]:
    """Drop overlapping mentions, the shorter and later ones first; return the rest in text order."""
    kept: list[Mention] = []
    for mention in sorted(found, key=lambda m: (m.start - m.end, m.weak, m.start)):
        place = bisect_left(kept, mention.start, key=lambda m: m.start)
        free_before = place == 0 or kept[place - 1].end <= mention.start
        if free_before and (place == len(kept) or mention.end <= kept[place].start):
            kept.insert(place, mention)
    return kept


_CELL = re.compile(rf"(?:{TABLE_ROW}|; )(?:[^:;]*: )?(?P<value>[^;]+)")
_SMALL_WORDS = frozenset(
    ["and", "da", "de", "del", "der", "di", "du", "for", "la", "le", "of", "the", "van", "von"]
)


def find_in_row(line: str, most: int = 5) -> Iterator[Mention]:
    """Yield the names in a row of a table: cells of two to ``most`` capitalised words. One word may be anything."""
    for cell in _CELL.finditer(line):
        words = cell["value"].split()
        capitals = all(word[0].isupper() or word in _SMALL_WORDS for word in words)
        if 1 < len(words) <= most and capitals and words[0][0].isupper():
            yield Mention(cell["value"].strip(), Kind.NAME, *cell.span("value"))


# --- names ---------------------------------------------------------------------------------

_SHORT_NUMBER = 3  # Digits of a number that may belong to a name, and letters of a certain acronym
_YEAR = re.compile(r"(?:1[0-9]|20)\d\d")
_PRONOUN_LIKE = frozenset(["US", "WHO"])  # Acronyms that are function words in lower case
_NEVER_ALONE = (
    STOPWORDS
    | FREQUENT_FOREIGN
    | known.NO_NAMES
    | known.LABELS
    | known.FORMS_OF_ADDRESS
    | (known.STARTERS - known.FIRST_NAMES)
)
"""Words that are no name by themselves."""
_NO_NUMBER_AFTER = known.LABELS | known.CALENDAR
_VERBS_OF_SUBJECTS = known.BE | known.PERSON_VERBS | known.VERB_FORMS
_HEADS_OF_OWNED = known.ORGANISATION_WORDS | known.PLACE_WORDS | known.EVENT_WORDS
_OWNED = ("'s", "’s", "s'", "s’")
_DRAWN_OUT = re.compile(r"([^\W\d_])\1\1")
_HYPHENED = re.compile(
    r"(.{2,})-(?:[a-z]+ed|like|style|driven|built|made|led|bound|written|specific|aware|compatible|only|free|wide|native|first|centric)"
)
"""*Debian-based* mentions Debian."""
_RUSSIAN_ADJECTIVE = re.compile("ск(?:ий|ого|ому|ом|им|ая|ой|ую|ое|ие|их)$")
_RUSSIAN_NOUN = re.compile("(?!.*(?:л|ла|ло|ли|[^с]ть|ся|сь)$)[а-яё]{4,}")
"""A word of four letters that is no preposition and has no ending of a verb in the past."""
_DEGREE = re.compile(r"Ph\.\s?D\.?|PhD|MBA|[BM]Sc|(?:[BM]\.){1,2}[ASD]\.?|[BM]\.Sc\.?|LL\.[BMD]\.?|Esq\.?")
"""An academic degree, which is no part of a name and none by itself."""
_CLOSING = "\"'”’»)]}*_ .!?…"
_NO_NOUNS = frozenset("vroi")  # Parts of speech of a word that begins a name only seldom
_COMMON_ENDINGS = ("ly", "ing", "ed", "tion", "ment", "ness", "ity")


def find_names(tokens: Sequence[Token], text: str, usage: WordUsage) -> Iterator[Mention]:
    """Yield the capitalised phrases, quoted titles and identifiers of ``text``, whose tokens are given, in order."""
    return _NameReader(tokens, text, usage).read()


class _NameReader:
    """Reads one sentence from left to right. ``start`` and ``end`` count tokens, ``end`` exclusive."""

    def __init__(self, tokens: Sequence[Token], text: str, usage: WordUsage) -> None:
        self._tokens = tokens
        self._text = text
        self._usage = usage

    def read(self) -> Iterator[Mention]:
        position = count_marker(self._tokens)
        initial = True
        while position < len(self._tokens):
            token = self._tokens[position]
            end = position + 1
            if token.kind == "c" or self._opens_event(position):
                end = self._end(position)
                yield from self._names_in_capitals(position, end, initial=initial)
            elif token.kind == "i":
                yield from self._code(token, self._at(end))
            elif token.kind in "st" and not (
                token.lower in STOPWORDS or token.lower in self._usage.parameters
            ):
                kind = Kind.WORK if token.kind == "t" else Kind.CONCEPT
                yield Mention(token.text, kind, token.start, token.end)
            last = self._tokens[end - 1]
            initial = (initial and end == position + 1 and last.kind in "pn") or last.text in OPENING
            position = end

    def _at(self, position: int) -> Token:
        return self._tokens[position] if 0 <= position < len(self._tokens) else NOTHING

    def _code(self, token: Token, following: Token) -> Iterator[Mention]:
        """Yield an identifier; a plain word in code marks takes a following noun with it: *the "with" statement*."""
        name = re.sub(r"\(.*", "", token.text.lstrip("~!@")).strip() or token.text
        if CERTAIN_CODE.search(token.text) or not token.text.islower():
            if name.lower() not in known.LITERALS:
                yield Mention(name, Kind.CODE, token.start, token.end)
        elif token.lower in self._usage.parameters:
            return
        elif following.lower in known.CODE_HEADS:
            yield Mention(
                f"{name} {known.CODE_HEADS[following.lower]}", Kind.CODE, token.start, following.end
            )
        elif token.lower not in STOPWORDS and token.lower not in known.GENERIC_NOUNS and len(name) > 1:
            # *A `public` index*: an adjective or a verb in code marks is a value as often as it is an option.
            weak = parts_of_speech(token.lower)[:1] in {"a", "v"}
            yield Mention(name, Kind.TERM if weak else Kind.CODE, token.start, token.end, weak=weak)

    # where a name ends

    def _opens_event(self, position: int) -> bool:
        """Return whether a year opens the name of an event: *2012 Summer Olympics*, but not *in 1963 Kennedy …*."""
        if self._tokens[position].kind != "n" or not _YEAR.fullmatch(self._tokens[position].text[:4]):
            return False
        end = position + 1
        while self._at(end).kind == "c":
            end += 1
        return any(token.lower in known.EVENT_WORDS for token in self._tokens[position + 1 : end])

    def _end(self, start: int) -> int:
        end = start + 1
        while step := self._step(start, end):
            end += step
        return end

    def _step(self, start: int, end: int) -> int:
        """Return how many tokens from ``end`` on belong to the name that begins at ``start``; 0 at its end."""
        token, last = self._at(end), self._at(end - 1)
        if token.kind in "ct":
            quoted = token.kind == "t"
            return 2 * self._is_nickname(start, end) if quoted else int(not self._is_russian_head(end - 1))
        if token.kind == "n" or self._is_russian_head(end):
            return int(token.kind == "w" or self._is_numbered(start, end))
        if last.kind != "c" or last.text[-1:] in "'’" or not (token.kind == "w" or token.text == "&"):
            return 0
        if self._at(end + 1).kind == "c":
            return 2 * self._joins(start, end)
        if self._at(end + 1).lower in known.INNER_ARTICLES and self._at(end + 2).kind == "c":
            body = token.lower == "for" and self._is_body(start, end, "for")
            return 3 * (body or token.lower in known.SMALL_CONNECTORS)
        return 0

    def _is_russian_head(self, position: int) -> bool:
        """Return whether a small word is the noun of a name that a Russian adjective opens: *Казанский собор*."""
        word, before = self._at(position), self._at(position - 1)
        return (
            word.kind == "w"
            and before.kind == "c"
            and _RUSSIAN_ADJECTIVE.search(before.lower) is not None
            and _RUSSIAN_NOUN.fullmatch(word.lower) is not None
        )

    def _is_nickname(self, start: int, position: int) -> bool:
        """Return whether a word in quotes stands within a person's name: *Louis "Louie" Zamperini*."""
        words = [*self._tokens[start : position + 1], self._at(position + 1)]
        return (
            words[-3].kind == words[-1].kind == "c"
            and " " not in words[-2].text
            and words[-1].lower not in known.STARTERS
            and any(word.lower in known.FIRST_NAMES for word in words[:-1])
        )

    def _joins(self, start: int, end: int) -> bool:
        """Return whether the lower-case word at ``end`` joins the capitalised words around it to one name."""
        word, last, following = self._tokens[end].lower, self._tokens[end - 1], self._tokens[end + 1]
        if following.lower in known.CALENDAR:
            return False
        return (
            word in known.SMALL_CONNECTORS
            or self._tokens[end].text == "&"
            or (word == "the" and following.lower in known.GREAT)
            or self._usage.joints[f"{bare(last)} {word} {bare(following)}"] > 1
            or self._is_body(start, end, word)
        )

    def _is_body(self, start: int, end: int, joint: str) -> bool:
        """Return whether the name is that of a body, which may be long: *Council for …*, *Department of Health and …*."""
        words = [token.lower for token in self._tokens[start:end]]
        if joint == "and":
            return words[0] in known.BODIES and ("of" in words or "for" in words)
        return joint in {"for", "on"} and words[-1] in known.ORGANISATION_WORDS | known.EVENT_WORDS

    def _is_numbered(self, start: int, end: int) -> bool:
        """Return whether a number belongs to the name: *Apollo 11*, *PEP 3107*; not *Figure 2*, *March 12* or a page."""
        last, number = self._tokens[end - 1], self._tokens[end].text
        following = self._at(end + 1)
        if last.lower in _NO_NUMBER_AFTER or following.kind == "c" or following.text == "%":
            return False
        if last.text.isupper() and len(last.text) > 1:
            return True
        short = number.isdigit() and len(number) <= _SHORT_NUMBER
        return end - start == 1 and (short or "." in number)

    # what of a capitalised phrase is a name

    def _names_in_capitals(self, start: int, end: int, *, initial: bool) -> Iterator[Mention]:
        start = self._without_number(self._without_opening(start, end, initial=initial), end)
        for part, stop in self._split_owners(start, end):
            last = stop
            while last > part and (
                (self._tokens[last - 1].kind in "wt" and not self._is_russian_head(last - 1))
                or self._tokens[last - 1].text == "&"
                or _DEGREE.fullmatch(self._tokens[last - 1].text)
            ):
                last -= 1
            first = self._without_address(part, last)
            if (
                last > first
                and not self._is_label(first, last)
                and self._is_name(first, last, initial=initial and part == start)
            ):
                yield from self._clean_name(first, last)

    def _clean_name(self, first: int, last: int) -> Iterator[Mention]:
        """Yield the name without a possessive ending, and not all in capitals unless it is short."""
        start, end = self._tokens[first].start, self._tokens[last - 1].end
        name = POSSESSIVE.sub("", self._text[start:end])
        if last - first == 1 and (compound := _HYPHENED.fullmatch(name)):
            name = compound[1]
        shouted = (
            name.isupper() and last - first > 1 and any(len(word) > LONGEST_PHRASE for word in name.split())
        )
        if not shouted:
            common = self._usage.capital_nouns and last - first == 1 and self._usage.capital[name] <= 1
            yield Mention(name, Kind.TERM if common else Kind.NAME, start, end, weak=common)
        elif last - first <= LONGEST_PHRASE and not self._is_shouted_sentence(first, last):
            yield Mention(lower_shouted(name), Kind.NAME, start, end)

    def _is_shouted_sentence(self, first: int, last: int) -> bool:
        """Return whether words in capitals are said rather than name something: ordinary words, or a last one without content."""
        words = [token.lower for token in self._tokens[first:last]]
        return words[-1] in STOPWORDS or all(map(is_english_word, words))

    def _without_opening(self, start: int, end: int, *, initial: bool) -> int:
        """Return where the name begins without words that are capitalised only by their position."""
        if not self._usage.english:  # *Geben Sie den Entkalker*
            polite = (at + 1 for at in range(start, end) if self._tokens[at].lower in known.POLITE_PRONOUNS)
            behind = max(polite, default=start)
            start, initial = behind, initial and behind == start
            if start == end:
                return end
        letter = self._tokens[start]
        with_stop = 2  # characters of an initial
        if end - start > 1 and len(letter.text) == with_stop and letter.text[1] == ".":
            # *It is I. Your uncle …*: the full stop ends a sentence.
            ends = self._tokens[start + 1].lower in known.STARTERS
            start, initial = start + ends, initial or ends
        while start < end and self._tokens[start].kind != "n":
            token = self._tokens[start]
            alone = end - start == 1
            greets = token.lower in known.GREETING_OPENERS and self._at(start + 1).lower in known.TIMES_OF_DAY
            # *Good Morning America* is a name within a sentence; *Guten Morgen* is no name behind a sign.
            opens = greets and token.lower != "good" and self._is_behind_mark(token)
            if token.kind == "c" and not opens and not self._is_dropped(token, alone=alone, initial=initial):
                return start
            start += 1 + greets
            while start < end and self._tokens[start].kind == "w":
                start += 1
        return min(start, end)

    def _without_number(self, start: int, end: int) -> int:
        """Return where the name begins behind the number of a chapter or the like: *Chapter II*, *Stave One*."""
        if end - start > 1 and self._tokens[start].lower.rstrip(".") in known.LABELS:
            number = self._tokens[start + 1]
            is_number = number.kind == "n" or number.lower in known.NUMBER_WORDS
            if is_number or ROMAN.fullmatch(number.text.rstrip(".")):
                return start + 2
        return start

    def _is_dropped(self, token: Token, *, alone: bool, initial: bool) -> bool:
        if not alone and _is_calendar(token.lower) and token.lower not in known.CALENDAR:
            return True  # *Wednesdays Theo has the cello*
        if token.lower in known.GREETINGS and self._is_behind_mark(token):
            return True
        if initial:
            foreign = not self._usage.english and token.lower in known.FOREIGN_STARTERS
            return foreign or token.lower in known.STARTERS or (not alone and self._is_ordinary(token))
        # *Yet to Come*: within a sentence a capital is deliberate, except that of an article.
        return (
            token.lower in STOPWORDS
            and (alone or token.lower in known.DETERMINERS)
            and token.text not in _PRONOUN_LIKE
        )

    def _is_behind_mark(self, token: Token) -> bool:
        """Return whether a word begins a sentence or follows a sign, as a greeting does."""
        return not self._text[: token.start].rstrip()[-1:].isalnum()

    def _is_ordinary(self, token: Token) -> bool:
        """Return whether a capitalised first word is usually lower-case in the document or in the language."""
        word = token.lower
        if word in known.HONORIFICS or word in known.FIRST_NAMES:
            return False
        small, capital = self._usage.small[word], self._usage.capital[token.text]
        letters = parts_of_speech(word) if self._usage.english else ""
        if letters[:1] in _NO_NOUNS and letters and capital <= small:
            return True
        if letters == "n" and not word.endswith("s") and word not in known.GENERIC_NOUNS:
            # A sentence that begins with a common noun has an article before it: *Lake Como is a lake.*
            return False
        if word.endswith("ly") and len(word) > LONGEST_PHRASE and not capital:
            return word not in known.NOT_ADVERBS
        return (small > 0 and small > 2 * capital) or word in known.VERB_FORMS

    def _split_owners(self, start: int, end: int) -> list[tuple[int, int]]:
        """Split at possessives: *Scrooge's Christmas* is two names, *St. Mary's Church* is one."""
        parts: list[tuple[int, int]] = []
        first = start
        for position in range(start, end - 1):
            if self._tokens[position].text.endswith(_OWNED) and not self._owner_belongs(first, end):
                parts.append((first, position + 1))
                first = position + 1
        return [*parts, (first, end)]

    def _owner_belongs(self, first: int, end: int) -> bool:
        last = self._tokens[end - 1].lower
        return (
            last in _HEADS_OF_OWNED or self._tokens[first].lower.replace("’", "'") in known.OPEN_OWNED_NAMES
        )

    def _without_address(self, first: int, last: int) -> int:
        word = self._tokens[first].lower.rstrip(".") if last - first > 1 else ""
        return first + (word in known.FORMS_OF_ADDRESS and word not in known.FEMALE_ADDRESS)

    def _is_label(self, first: int, last: int) -> bool:
        """Return whether the words announce what follows in brackets: the language in *Winner (Hangul: 위너)*."""
        start, end = self._tokens[first].start, self._tokens[last - 1].end
        if self._text[end : end + 1] != ":":
            return False
        before = self._text[:start].rstrip()
        return before[-1:] in {"(", ",", ";"} and before.rfind("(") > before.rfind(")")

    def _is_name(self, first: int, last: int, *, initial: bool, longest: int = 12) -> bool:
        if last - first == 1:
            return self._is_single_name(self._tokens[first], self._at(last), initial=initial)
        words = [(token.lower.rstrip("."), token.kind) for token in self._tokens[first:last]]
        if last - first > longest or all(len(word) == 1 for word, _ in words):
            return False
        if last - first > LONGEST_PHRASE and all(is_english_word(word) for word, _ in words):
            # The head of a table; a name of so many words of the language has small words in it.
            return any(kind == "w" for _, kind in words)
        return not all(
            kind != "c" or word == "i" or _is_calendar(word) or name_key(word) in known.LABELS
            for word, kind in words
        )

    def _is_single_name(self, token: Token, following: Token, *, initial: bool) -> bool:
        word = bare(token)
        lower = word.lower().rstrip(".")
        if word in _PRONOUN_LIKE:
            return True
        if (
            token.kind == "n"
            or len(lower) == 1
            or lower in _NEVER_ALONE
            or _is_calendar(lower)
            or _is_drawn_out(word)
            or (word.isupper() and lower in known.CARDINALS)
            or known.CALENDAR.issuperset(lower.split("-"))
            or self._is_abbreviated(token)
            or ROMAN.fullmatch(word.rstrip("."))
        ):
            return False
        adjective = lower in known.DEMONYMS and following.kind == "w" and following.lower not in STOPWORDS
        honorific = lower in known.HONORIFICS and not self._usage.capital[word]
        return not (adjective or honorific) and self._is_evident(word, token, following, initial=initial)

    def _is_abbreviated(self, token: Token) -> bool:
        """Return whether a full stop within the sentence follows the word: *Dept. of Statistics*."""
        return (
            self._text[token.end : token.end + 1] == "." and self._text[token.end + 1 :].strip(_CLOSING) != ""
        )

    def _is_evident(self, word: str, token: Token, following: Token, *, initial: bool) -> bool:
        """Return whether the use of a capitalised word indicates a name: not four times as often in lower case (not tuned)."""
        lower = word.lower()
        small, capital = self._usage.small[lower], self._usage.capital[word]
        letters = parts_of_speech(lower) if self._usage.english else ""
        if "i" in letters or (letters and word.isupper() and len(word) > LONGEST_PHRASE):
            return False
        if len(word) > 1 and sum(letter.isupper() for letter in word) > 1:
            return small <= capital or len(word) <= _SHORT_NUMBER
        if letters and not (lower in known.FIRST_NAMES and capital > small):
            alone = initial and not capital
            return self._is_deliberate(lower, letters, small, capital) and (
                not alone
                or (lower in known.FIRST_NAMES and not small and _is_subject(word, token, following))
            )
        if capital or not initial:
            return small < 4 * max(1, capital) and not (initial and lower in known.STARTERS)
        if small or lower in known.STARTERS or lower in known.VERB_FORMS or lower.endswith(_COMMON_ENDINGS):
            return False
        return lower in known.FIRST_NAMES or (
            lower not in known.GENERIC_NOUNS and _is_subject(word, token, following)
        )

    def _is_deliberate(self, lower: str, letters: str, small: int, capital: int) -> bool:
        """Return whether the capital of a word of the language makes it a name: the document writes it small less often."""
        if lower in known.GENERIC_NOUNS:
            # A very wide word must have a capital so often, and so many times more often than not.
            surely = 3
            return capital >= surely and surely * small <= capital
        if lower in known.FIRST_NAMES or (letters[0] == "n" and not lower.endswith(("ing", "ed"))):
            return small <= capital
        return capital > 1 and 3 * small < capital


def _is_calendar(word: str) -> bool:
    """Return whether a word in lower case is a day, a month or the like, also in the plural."""
    return word in known.CALENDAR or word.removesuffix("s") in known.CALENDAR


def _is_drawn_out(word: str) -> bool:
    """Return whether letters are repeated as in a cry: *AAAAAH*, *Scro-o-o-oge*; not an abbreviation such as *AAAA*."""
    letters = word.replace("-", "").lower()
    shortest = 5  # letters; *IIIF* and *www* have fewer
    return _DRAWN_OUT.search(letters) is not None and len(set(letters)) > 1 and len(letters) >= shortest


def _is_subject(word: str, token: Token, following: Token) -> bool:
    """Return whether a sentence's first word, seen nowhere else, is a subject or owner: *Belle was …*, *Darwin's …*."""
    if token.text != word:
        return not word.endswith(("er", "or", "ist"))
    verb = following.lower in _VERBS_OF_SUBJECTS
    past = following.kind == "w" and (following.lower.endswith("ed") or following.lower in {"has", "had"})
    return (verb or past) and not word.endswith("s")
