"""Describe an entity by quoting its passage: whole sentences, or whole clauses of long ones, within a limit."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache

from leanrag_engine.core.text.language.sentences import PieceKind, ends_sentence, is_statement
from leanrag_engine.core.text.language.words import word_count

from .names.mentions import Mention
from .passages import ParsedChunk

_DEFINES_AFTER = re.compile(
    r"[\"”’*)]{0,2}(?:\s*\([^)]*\))?(?:,[^,.]{1,60},)?\s+(?:is|are|was|were|means|refers? to|denotes?|consists? of|represents?)\s+(?!not\b|\w+ed\b)|, (?:an?|the) "
    r"|\s*(?:是|指的?是|为|とは|は、?)"
)
_DEFINES_BEFORE = re.compile(r"(?:called|known as|termed|named|i\.e\.,?)\s+(?:an?\s+|the\s+)?[\"“*]{0,2}$")
_COMMENTS = ("//", "#", "/*", "--")
_QUOTES = frozenset("\"'“‘「")
_SHORT, _LONG = 5, 40  # Words of sentences that rank lower


class Describer:
    """Selects the best sentences or clauses of a chunk about an entity, at most ``limit`` words."""

    def __init__(self, passage: ParsedChunk, limit: int) -> None:
        self._limit = limit
        self._sentences = passage.sentences
        self._headings = passage.headings
        self._words = [word_count(sentence.text) for sentence in passage.sentences]

    def entity(self, key: str, places: Mapping[int, Mention]) -> str:
        """Return one or two sentences, "" if the chunk holds only headings and code. ``places`` maps
        sentences to the first mention in each."""
        prose, ranked = self._rank(places)
        if not prose:
            return self._opening(key, places)
        best = self.clause(ranked[0], prose[ranked[0]])
        if len(ranked) == 1 or not ends_sentence(best):
            return best
        second = ranked[1]
        left = self._limit - word_count(best)
        fits = _SHORT < self._words[second] <= left and ends_sentence(self._sentences[second].text)
        return f"{best} {self._plain(second)}" if fits else best

    def _rank(self, places: Mapping[int, Mention]) -> tuple[dict[int, Mention], list[int]]:
        """Return the places in prose, and their positions, the best explanation first."""
        prose = {p: m for p, m in places.items() if self._sentences[p].kind is PieceKind.PROSE}
        return prose, sorted(prose, key=lambda p: (-self._merit(p, prose[p]), p))

    def best_statement(self, places: Mapping[int, Mention]) -> str:
        """Return the best sentence about an entity that states something; "" if none does."""
        prose, ranked = self._rank(places)
        stated = (self.statement(position, prose[position]) for position in ranked)
        return next((text for text in stated if text), "")

    def _merit(self, position: int, mention: Mention) -> float:
        """Score how well a sentence explains what the mentioned entity is."""
        text, words = self._sentences[position].text, self._words[position]
        beginning = 5  # characters; a mention there is the subject of its sentence
        merit = 1.5 * (mention.start <= beginning) - 0.02 * position
        merit -= (
            3.0 * (words < _SHORT)
            + 1.5 * (words > _LONG)
            + 1.5 * (text[-1] in ":?：？")
            + (text[0] in _QUOTES)
            + 2.0 * (not ends_sentence(text))
        )
        if _DEFINES_AFTER.match(text, mention.end):
            merit += 4.0 if mention.start <= 2 * beginning else 2.0
        return merit + 3.0 * (_DEFINES_BEFORE.search(text[: mention.start]) is not None)

    def _opening(self, key: str, places: Mapping[int, Mention]) -> str:
        """Return the line itself for code, and the first sentence of its section for a heading that no sentence repeats."""
        code = [p for p in places if self._sentences[p].kind is PieceKind.CODE]
        if code:
            line = self._plain(code[0])
            remark = self._plain(code[0] - 1) if code[0] else ""
            return f"{remark} {line}" if remark.startswith(_COMMENTS) else line
        below = [p for p, heading in enumerate(self._headings) if heading == key or p in places]
        for position in range(below[0] if below else 0, len(self._sentences)):
            sentence = self._sentences[position]
            complete = self._words[position] >= _SHORT and sentence.text[-1] not in ":："
            if sentence.kind is PieceKind.PROSE and complete:
                return self.clause(position)
        return ""

    def statement(self, position: int, *mentions: Mention) -> str:
        """Return the clause, or "" if it states nothing (a heading, a question, a call); part of a sentence
        states something if it ends as clauses do."""
        text = self.clause(position, *mentions)
        if not text or is_statement(text):
            return text
        whole = self._plain(position)
        rest = whole.partition(text)[2].lstrip()
        clause = _CLAUSE_SIGN.match(rest) is not None and is_statement(whole) and is_statement(f"{text}.")
        return text if clause else ""

    def clause(self, position: int, *mentions: Mention) -> str:
        """Return the sentence, or its clauses around the mentions if it is too long; empty if these are too long."""
        if self._words[position] <= self._limit:
            return self._plain(position)
        text = self._sentences[position].text
        clauses = (_within_borders(text, mentions, border, self._limit) for border in (_CLAUSE_END, _COMMA))
        return _plain(next(filter(None, clauses), ""))

    def _plain(self, position: int) -> str:
        return _plain(self._sentences[position].text)


_CLAUSE_END = re.compile(
    r"[;:—]\s+|--|,\s+(?=(?:and|but|or|which|who|whose|while|whereas|so|because|although|where|when|if)\s)|[；，：]"
)
_CLAUSE_SIGN = re.compile(r"[;:—；：]|--")
_COMMA = re.compile(r",\s+|[，、]")
_BULLET = re.compile(
    r"^(?:[-*•–]|\(?\d{1,3}[.)]|\([a-z]{1,4}\)|\d{1,2}(?:\.[A-Z\d]{1,2}){1,3}\.?(?=\s+[\"“‘']?[^\W\d_a-z]))\s+"
)
_EMPHASIS = re.compile(
    r"(?<![\w*])\*{1,2}([^\s*](?:[^*]*[^\s*])?)\*{1,2}(?![\w*])|(?<![\w_])_([^\s_](?:[^_]*[^\s_])?)_(?![\w_])"
)


@lru_cache(maxsize=1 << 10)  # a sentence describes each of its names
def _plain(text: str) -> str:
    """Remove a leading bullet and emphasis marks."""
    return _EMPHASIS.sub(lambda m: m[1] or m[2], _BULLET.sub("", text)).strip()


def _within_borders(text: str, mentions: Sequence[Mention], border: re.Pattern[str], limit: int) -> str:
    """Return the shortest run of whole clauses with all mentions, at least 8 and at most ``limit`` words."""
    least = 8
    borders = [0, *(match.end() for match in border.finditer(text)), len(text)]
    low = min((m.start for m in mentions), default=0)
    high = max((m.end for m in mentions), default=0)
    first = bisect_right(borders[:-1], low) - 1
    last = max(first + 1, bisect_left(borders, high))
    while word_count(text[borders[first] : borders[last]]) < least and last + 1 < len(borders):
        last += 1
    clause = text[borders[first] : borders[last]].strip(" ;:,—-；，：")
    return clause if word_count(clause) <= limit else ""
