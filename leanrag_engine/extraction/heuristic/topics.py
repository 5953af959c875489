"""Find the names in the title and the headings of a document."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from leanrag_engine.core.text.language.names import name_key, without_remark
from leanrag_engine.core.text.language.sentences import PieceKind
from leanrag_engine.core.text.language.words import plain_apostrophes
from leanrag_engine.core.text.records import TABLE_NAME
from leanrag_engine.core.text.word_lists import read_pattern

from .names.mentions import Kind, Mention
from .passages import ParsedChunk
from .words import vocabulary as known
from .words.tokens import ROMAN, lower_shouted

_NUMBERING = re.compile(
    r"(?:#{1,6}\s+)?(?:(?:\d{1,3}(?:\.\d{1,3})*[.)、]?|(?:[A-Z]|[IVXLC]{1,6})(?:\.\d{1,3})*[.)、])\s+(?=\S{2})|第\S{1,4}[章节節回部]\s*)?"
)
_CHAPTER = re.compile(
    rf"(?i:(?:#{{1,6}}\s+)?(?:{'|'.join(sorted(known.DIVISIONS))})\.?\s+(?:the\s+)?(?:[ivxlc]{{1,7}}|\d{{1,3}}(?:\.\d{{1,3}})*|[a-z]|{'|'.join(sorted(known.NUMBER_WORDS))}))"
    r"(?:\s*[.:)–—-]\s*|\s+|$)"
)
"""The number of a chapter or the like: *Chapter XII.*, *STAVE ONE:*."""
_FILE = re.compile(r"[\w-]+\.(?:txt|md|pdf|docx?|html?|rst|py|csv|json)")
_IDENTIFIER = re.compile(r"\w_\w|__")
_MARKS = re.compile(r"[*_`“”\"]")
_NO_TITLE = re.compile(rf"^(?:{TABLE_NAME}|\||!!!|===|\?\?\?)|\|$|[.!?,]['’”\"]$")
"""A line of a table, the head of a box or tab, or a line that ends like direct speech."""
_CREDIT = read_pattern("phrases", "credit")
_QUESTION = re.compile(r"(?:how|what|why|when|where|who|which)\b", re.IGNORECASE)
_LEADS_ON = re.compile(r"(?:to|if|then|or|and|but|see|note) ", re.IGNORECASE)
_PLAIN_ARTICLE = re.compile(r"The [^A-Z]")
_SPELLED = re.compile(r"[^\W\d_]{2}")
_WORD = re.compile(r"[^\W_]+")
_STEP = " > "  # Separates the headings of a chunk's path, outermost first

_DEFINITION = re.compile(
    r"(?:(?:async )?(?:def|fn|func) |(?:class|struct|enum|trait|interface) (?=\w*[A-Z_]))(\w+)$"
)
"""A heading of source code."""
_NAMELESS = re.compile(r"__\w+__$|test_|Test[A-Z]")
"""What every program has, and tests, name nothing that is asked for."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The names in a document's title and headings."""

    title: str
    headings: dict[str, str]  # Heading as written → the name in it
    phrases: dict[str, list[tuple[int, str, str]]]
    """What prose may repeat, by its rarest word: its place (longest first), form, name."""

    @classmethod
    def of(cls, title: str, passages: Sequence[ParsedChunk]) -> Self:
        lines = [s.text for passage in passages for s in passage.sentences if s.kind is PieceKind.HEADING]
        lines += [part for passage in passages for part in passage.chunk.heading.split(_STEP)]
        headings = {line: topic for line in lines if (topic := _topic(line))}
        main = _topic(title) or next(iter(headings.values()), "")
        again = {topic.lower(): topic for topic in [*headings.values(), main] if len(topic.split()) > 1}
        if main:
            again.setdefault(without_remark(main).lower(), main)
        times = Counter(word for phrase in again for word in _WORD.findall(phrase))
        phrases: dict[str, list[tuple[int, str, str]]] = {}
        for at, phrase in enumerate(sorted(again, key=lambda phrase: (-len(phrase), phrase))):
            word = min(_WORD.findall(phrase), key=times.__getitem__, default="")
            phrases.setdefault(word, []).append((at, phrase, again[phrase]))
        return cls(main, headings, phrases)

    def mentions(self, text: str) -> Iterator[Mention]:
        """Yield the mentions of the title or of a heading of several words in a sentence."""
        small = text.lower()
        if len(small) != len(text):
            return
        held = {"", *_WORD.findall(small)}
        for _, phrase, name in sorted(each for word in held for each in self.phrases.get(word, ())):
            start = small.find(phrase)
            while start >= 0:
                end = start + len(phrase)
                if not (small[start - 1 : start].isalnum() or small[end : end + 1].isalnum()):
                    yield Mention(name, Kind.CONCEPT, start, end)
                start = small.find(phrase, end)


def _topic(line: str) -> str:
    """Return the name in a title or heading as written within a sentence; "" if it names nothing."""
    line = plain_apostrophes(line)
    if _NO_TITLE.search(line):
        return ""
    if defined := _DEFINITION.match(line):
        return "" if _NAMELESS.match(defined[1]) else defined[1]
    name = _NUMBERING.sub("", line[chapter.end() :] if (chapter := _CHAPTER.match(line)) else line, count=1)
    if not name:
        return ""
    if _FILE.fullmatch(name):
        name = re.sub(r"[_-]", " ", name.rsplit(".", 1)[0])
    # Remove marks, except for the underscores of an identifier.
    if _IDENTIFIER.search(name):
        name = name.replace("`", "").strip(' *":.#')
    else:
        name = _MARKS.sub("", name).strip(" :.#-–—\t")
    name = _NUMBERING.sub("", name, count=1)
    name = lower_shouted(name.strip("[]() ") if name[:1] in "[(" else name)
    if _PLAIN_ARTICLE.match(name):
        name = name[4:]
    return name if _names_something(name) else ""


def _names_something(name: str) -> bool:
    words = name.lower().split()
    most_words, most_characters, words_of_label = 10, 90, 2
    if (
        ROMAN.fullmatch(name.rstrip(".").upper())
        or _CREDIT.match(name)
        or _LEADS_ON.match(name)
        or (not known.BE.isdisjoint(words) and not _QUESTION.match(name))
        or name_key(name) in known.DULL_HEADINGS
        or ": " in name
        or not _SPELLED.search(name)
        or len(words) > most_words
        or len(name) > most_characters
    ):
        return False
    is_label = len(words) == words_of_label and words[0].rstrip(".:") in known.LABELS
    return not is_label and any(
        word.isalpha() and word not in known.STARTERS and word not in known.CALENDAR for word in words
    )
