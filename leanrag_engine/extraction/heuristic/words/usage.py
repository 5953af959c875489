"""Statistics of a document's own words, which decide where no list and no capital letter does."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from leanrag_engine.core.text.language.sentences import PieceKind
from leanrag_engine.core.text.language.words import STOPWORDS

from . import vocabulary as known
from .tokens import ROMAN, Sentence, Token


@dataclass(slots=True)
class WordUsage:
    """How often a document uses each word in lower case, capitalised within a sentence, as a noun and as a verb,
    and how often it uses each phrase (by :func:`name_key`)."""

    small: Counter[str] = field(default_factory=Counter)
    capital: Counter[str] = field(default_factory=Counter)
    nouns: Counter[str] = field(default_factory=Counter)
    verbs: Counter[str] = field(default_factory=Counter)
    phrases: Counter[str] = field(default_factory=Counter)
    joints: Counter[str] = field(default_factory=Counter)  # *Yet to Come* is a name if it is repeated
    parameters: set[str] = field(default_factory=set)
    often: int = 2  # How often a phrase must occur to be a term: one more per 15,000 words
    narrative: bool = False  # Long and with hardly an identifier: a participle before a noun describes
    _words: int = 0
    _functional: int = 0
    _identifiers: int = 0
    english: bool = True  # Whether the rules of English grammar may be used to find terms
    uncased: bool = False  # Whether the script has no capitals (Arabic, Hebrew, Hindi, …)
    capital_nouns: bool = False  # Whether every noun has a capital (German)

    @classmethod
    def of(cls, sentences: Sequence[Sentence]) -> Self:
        usage = cls()
        for sentence in sentences:
            if sentence.kind is PieceKind.PROSE:
                usage._read(sentence.tokens)
            elif sentence.kind is PieceKind.CODE:
                usage.parameters.update(re.findall(r"[(,]\s*\*{0,2}(\w+)", sentence.text))
        usage._judge_language()
        return usage

    def _read(self, tokens: Sequence[Token]) -> None:
        before = ""
        initial = True
        for position, token in enumerate(tokens[(first := count_marker(tokens)) :], first):
            self._words += token.kind in "cw"
            self._functional += token.lower in _FUNCTION_WORDS
            self._identifiers += token.kind == "i"
            if token.kind == "w":
                self.small[token.lower] += 1
                self._read_word_class(tokens, position, before)
            elif token.kind == "c" and not initial:
                self.capital[bare(token)] += 1
                if before in _JOINTS and position > 1 and tokens[position - 2].kind == "c":
                    self.joints[f"{bare(tokens[position - 2])} {before} {bare(token)}"] += 1
            initial = (initial and token.kind in "pn") or token.text in OPENING
            before = token.lower

    def _read_word_class(self, tokens: Sequence[Token], position: int, before: str) -> None:
        word = tokens[position].lower
        after = tokens[position + 1].lower if position + 1 < len(tokens) else ""
        if before in known.DETERMINERS and (after in STOPWORDS or not after):
            self.nouns[word] += 1
        elif before in known.VERB_LEFT or (after in known.VERB_RIGHT and before not in known.DETERMINERS):
            self.verbs[word] += 1

    def _judge_language(self) -> None:
        for joint, count in list(self.joints.items()):
            first, _, last = joint.split(" ", 2)
            if 2 * count < min(self.capital[first], self.capital[last]):
                del self.joints[joint]
        words = self._words
        self.english = 10 * self._functional >= words
        self.uncased = 2 * sum(count for word, count in self.small.items() if word == word.upper()) > words
        german = sum(self.small[word] for word in _GERMAN_WORDS)
        capitals = self.capital.total()
        self.capital_nouns = not self.english and 20 * german >= words and 6 * capitals >= words
        long = 15_000  # words; in a long text chance repeats phrases (not tuned)
        self.often += words // long
        self.narrative = words >= long and 100 * self._identifiers < words


_FUNCTION_WORDS = frozenset(["the", "of", "and", "to", "in", "is", "was", "a", "for", "that"])
_GERMAN_WORDS = ("der", "die", "das", "und", "ist", "nicht", "ein", "eine", "den", "von", "mit")
_JOINTS = frozenset(["to", "in", "on", "the", "with", "at", "a", "into", "without"])
OPENING = frozenset([*'"“‘’«:•*|.!?…—–', "'"])
"""After one of these, as at the beginning of a sentence, a capital letter is no evidence of a name."""
OWNER = re.compile(r"['’]s?$")


def count_marker(tokens: Sequence[Token]) -> int:
    """Return how many tokens the mark of a list item takes: *a)*, *(iv)*, *B.*; 0 if there is none."""
    opened = int(bool(tokens) and tokens[0].text == "(")
    if len(tokens) < opened + 2:
        return 0
    mark, sign = tokens[opened], tokens[opened + 1]
    letter = mark.text.isalpha() and (len(mark.text) == 1 or ROMAN.fullmatch(mark.text.upper()) is not None)
    return opened + 2 if letter and sign.text == ")" else 0


def bare(token: Token) -> str:
    """Return the word without a possessive ending."""
    return OWNER.sub("", token.text) if "'" in token.text or "’" in token.text else token.text
