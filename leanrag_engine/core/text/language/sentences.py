"""Cut text into sentences, headings, lines of code and turns of a conversation, and tell sentences that state something."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from leanrag_engine.core.text.language.parts_of_speech import parts_of_speech
from leanrag_engine.core.text.language.words import STOPWORDS, is_contraction, plain_apostrophes, word_count
from leanrag_engine.core.text.records import TABLE_LINE
from leanrag_engine.core.text.scripts import CJK_CHARACTER, HAN, has_cjk
from leanrag_engine.core.text.word_lists import read_pattern, read_words

_TURN = re.compile(
    r"(?:\[(?P<time>\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?: ?[AaPp]\.?[Mm]\.?)?)\] )?(?P<speaker>[^\s:\[\]<>|][^:\n\[\]<>|]{0,39}): (?=\S)"
)
_LABELS = read_words("language", "labels_with_colon")
_SMALL_IN_NAMES = frozenset(["de", "da", "di", "del", "van", "von", "der", "den", "la", "le", "bin", "al", "el", "of", "the", "and"])  # fmt: skip
_NUMBERED = re.compile(r"\(?\d{1,3}[.)] ")
_TELEPHONE = re.compile(r"\+?[\d\s()-]{7,}")
_SHARED = re.compile(r"(?<!\s)(?:\s*\[[^\[\]\n]*\])+$")
_BLANK = re.compile(r"\n[ \t]*\n")


class Turn(NamedTuple):
    """The label of a turn: the speaker is ``text[start:end]``, what is said begins at ``said``; "" is no time."""

    speaker: str
    time: str
    start: int
    end: int
    said: int


def find_turn(text: str) -> Turn | None:
    """Return the label that ``text`` begins with; None if it is no turn."""
    match = _TURN.match(text)
    if match is None or not is_speaker(match["speaker"]):
        return None
    return Turn(match["speaker"], match["time"] or "", *match.span("speaker"), match.end())


def is_speaker(label: str) -> bool:
    """Return whether the words before a colon can be a person: one to four capitalised words, a nickname, a number."""
    if _TELEPHONE.fullmatch(label):
        return True
    words = label.split()
    most_words = 4
    if not 0 < len(words) <= most_words or label.lower() in _LABELS or words[0].lower() in _LABELS:
        return False
    if _NUMBERED.match(label) or len(label) < 2 or label[-1] in "?!,;":  # noqa: PLR2004 - one letter is a variable or the A of Q and A
        return False
    return all(_is_name_word(word) for word in words) and any(letter.isalpha() for letter in label)


def _is_name_word(word: str) -> bool:
    first = word.lstrip("(@~\"'“‘")[:1]
    return (
        first.isupper()
        or first.isdigit()
        or word in _SMALL_IN_NAMES
        or (first.isalpha() and not first.islower())
    )


def is_conversation(text: str, *, share: float = 0.6, fewest: int = 3) -> bool:
    """Return whether most paragraphs of ``text`` are turns, and its speakers speak in turns. A list of fields
    (*Name: …*, *Age: …*) never repeats a label. Two turns suffice if both have a time."""
    paragraphs = _parts_of_talk(text)
    turns = [turn for part in paragraphs if (turn := find_turn(part))]
    if len(turns) < share * len(paragraphs):
        return False
    timed = all(turn.time for turn in turns)
    return len(turns) >= fewest - timed and (timed or len({turn.speaker for turn in turns}) < len(turns))


def without_shared(turn: str) -> str:
    """Return a turn without what it shares beside its words, such as a picture, as it is described at its end."""
    return _SHARED.sub("", turn)


def has_times(text: str) -> bool:
    """Return whether most turns of a conversation have a time: there a label without one (*March: …*) begins no turn."""
    turns = [turn for part in _parts_of_talk(text) if (turn := find_turn(part))]
    return 2 * sum(turn.time != "" for turn in turns) > len(turns)


def _parts_of_talk(text: str) -> list[str]:
    return [
        part.lstrip() for part in _BLANK.split(text) if part.strip() and not part.lstrip().startswith("#")
    ]


_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
CLOSING = "\"'”’»)]}*_ 」』"
_FRAGMENT = re.compile(r"\([a-z][^()]*\)\s+(?:and|or|but|with|for|of|to|in|on|by)\b")
"""It goes on from a remark in brackets that a full stop cut off."""
_TABLE = re.compile(r"^\||\|\s*$|\s\|\s.*\s\|\s|^[-=+*#>]{2,}|^!!!|^===")


@lru_cache(maxsize=1 << 12)  # a sentence is asked about for each of its names
def is_statement(text: str) -> bool:
    """Return whether ``text`` is a whole sentence that states something: it ends as one, has a verb and some words, and
    is no question. A turn of a chat needs no full stop."""
    turn = find_turn(text)
    said = text[turn.said :] if turn else text
    bare = said.rstrip(CLOSING)
    if not bare or bare[-1] in "?？:：;," or _TABLE.search(said) or _FRAGMENT.match(said):
        return False
    if has_cjk(said):
        return ends_sentence(said)
    fewest_words = 3
    return (turn is not None or ends_sentence(said)) and word_count(said) >= fewest_words and _has_verb(said)


def _has_verb(text: str) -> bool:
    """Return whether a word can be a verb, or is unknown to the lexicon and may be one of another language."""
    words = [word.lower() for word in _WORD.findall(plain_apostrophes(text))]
    if any(is_contraction(word) or "v" in parts_of_speech(word) for word in words):
        return True
    known = any(parts_of_speech(word) for word in words if word not in STOPWORDS)
    fewest_words = 5  # of a sentence of another language, whose verbs the lexicon does not know
    return len(words) >= fewest_words and not known


_LIST_ITEM = re.compile(
    r"(?:[-*+•‣◦·▪–—]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})[.)]|[①-⑳])[ \t]+(?=\S)|[•‣◦▪]"
)
_STANDS_ALONE = re.compile(r"\||\[\d+\]:?\s|::?[a-z-]+:(?!`)|={3,}|-{3,}")
_NO_WORD_LINE = re.compile(r"[\W_]*")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_UNDERLINE = re.compile(r"[=*~^\"'+#-]{3,}")
_HEADING = re.compile(r"#{1,6}\s+\S|\d{1,2}(?:\.\d{1,2})+\.?\s+\S|第[一二三四五六七八九十百\d]+[章节節回部]")
_SENTENCE_BREAK = re.compile(r"[^\W\d_]{2}[.!?][\"'”’]?\s+[^\W\d_]")
_NEVER_CLOSES = read_words("language", "never_close_headings")
_CODE_SHAPE = re.compile(
    r">>>(?:\s|$)|\.\.\s+(?:\|[^|]+\|\s+)?(?:[\w-]+::|[_a-z])|:[\w-]+:(?:\s+\S+)?$|\.\.\.\s|\$\s|#!|//|/\*|\*/|@\w[\w.]*(?:\(.*\))?$|[{}\])]+[;,]?$"
    r"|(?:async\s+)?(?:def|class|function|fn|func|struct|enum|interface|public|private|static|const|let|var|#include"
    r"|package|namespace|using)\s+\w.*[({:;=,\\]\s*(?:#.*)?$"
    r"|(?:from\s+[\w.]+\s+)?import\s+[\w.*]+(?:\s+as\s+\w+|,\s*\w+)*;?$"
    r"|(?:if|elif|for|while|with|except|match|case|switch|catch)\b.*[:{]$|(?:try|else|finally|do)\s*[:{]$"
    r"|(?:return|yield|raise|del|assert|await|print|pass|break|continue)(?:\s+[\w\"'(\[{.-]+)?(?:[(\[].*)?;?$"
    r"|.*::=|\|\s|\w[\w.]*(?:\[[^\]]*\])?(?:\s*,\s*\*?\w[\w.]*)*\s*(?::\s*[\w\[\], .|]+)?(?:[-+*/%&|^@]|//|\*\*|>>|<<)?=\s*\S"
    r"|\w[\w.]*\(.*\)?[;:,]?$|.*[;{]$|[(\[\"].*[)\]][+*?]?$|</?\w++[^>]*>|.*\s(?:=|==|!=|->|=>|&&|\|\||:=)\s"
)
_PROSE_WORD = read_pattern("phrases", "prose")


_CLOSERS = "\"'”’»)\\]}）」』】》〉］"
_OPENERS = "\"'“‘«([{（「『【《〈［"
_TERMINATOR = re.compile(
    # A French quotation has a space before its closing sign; a German one may open with the same sign, without a space.
    f"(?<![.!?…])[.!?…]++(?:[ \u00a0\u202f]»|[{_CLOSERS}]*)(?=\\s)|[。｡！？؟।॥።]+[{_CLOSERS}]*"
    # In CJK text the next sentence may follow a western full stop without a space.
    f"|[.!?][{_CLOSERS}]*(?=[{HAN}])"
)
_SENTENCE_END = re.compile(r"[.!?…。！？؟।][\"'”’»)\]}*_」』）]*$")
_NEXT_WORD = re.compile(f"\\s*([{_OPENERS}*_`]*)([^\\W_]*)")
_WHITE = re.compile(r"\s*")
_LAST_WORD = re.compile(r"[^\s(\[\"“‘']*$")

_NEVER_LAST = read_words("language", "abbreviations")
_SELDOM_LAST = read_words("language", "abbreviations_before_stop")
_AFTER_ORDINALS = read_words("language", "after_ordinals")
_SENTENCE_STARTERS = read_words("language", "sentence_starters")


class PieceKind(StrEnum):
    PROSE = "prose"
    HEADING = "heading"
    CODE = "code"


class Piece(NamedTuple):
    """A sentence, a heading or a line of code: ``text[start:end]``, without surrounding white space."""

    start: int
    end: int
    kind: PieceKind


class _TextLine:
    """One line of a text: the places of its words, and its kind."""

    __slots__ = ("code", "end", "heading", "indent", "start", "text")

    def __init__(self, start: int, raw: str, *, fenced: bool) -> None:
        self.text = raw.strip()
        self.indent = len(raw) - len(raw.lstrip())
        self.start = start + self.indent
        self.end = self.start + len(self.text)
        self.code = fenced
        self.heading = False


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the sentences of ``text`` as ``(start, end)`` spans without surrounding white space. A blank
    line, a heading, a list item and a line of code end a sentence, a wrapped line does not. Each line of code
    is a span of its own; rules, code fences and other lines without a letter or digit are in no span."""
    body = text.strip()
    if "\n" in body or _TERMINATOR.search(body) or count_fences(body) or _NO_WORD_LINE.fullmatch(body):
        return [(piece.start, piece.end) for piece in pieces(text)]
    return [(start := text.index(body), start + len(body))]


def pieces(text: str, *, fenced: bool | None = None) -> list[Piece]:
    """Return the spans of :func:`sentences`, each with its kind: prose, a heading, or a line of code.
    ``fenced`` tells whether the text begins within fenced code; None if that is unknown."""
    found: list[Piece] = []
    for lines in _blocks(text, fenced=fenced):
        if lines[0].code:
            found += [Piece(line.start, line.end, PieceKind.CODE) for line in lines]
            continue
        for start, end, heading in _paragraphs(lines):
            if heading and not _closes(text, start, end, found[-1] if found else None):
                found.append(Piece(start, end, PieceKind.HEADING))
            else:
                found += [Piece(first, last, PieceKind.PROSE) for first, last in _split(text, start, end)]
    return found


_ENDS_SECTION = re.compile(r"\s*?(?:\n[ \t]*\n[ \t]*[-_=*~]{3,}[ \t]*(?:\n|\Z)|\Z)")


def _closes(text: str, start: int, end: int, before: Piece | None) -> bool:
    """Return whether a line is the last of a text or of what a rule ends, like a signature: it heads nothing. A line that is
    marked as a heading, or that follows another, is one."""
    prose = before is not None and before.kind is PieceKind.PROSE
    return prose and not _HEADING.match(text, start) and _ENDS_SECTION.match(text, end) is not None


def ends_sentence(text: str) -> bool:
    """Return whether ``text`` ends as a sentence does: with a full stop or its like, and maybe closing signs."""
    return _SENTENCE_END.search(text) is not None


def whole_sentences(text: str, limit: int) -> str:
    """Return the longest beginning of ``text`` that ends with a sentence and has at most ``limit`` words. Empty if not even the first
    sentence fits: a sentence is never cut."""
    if word_count(text) <= limit:
        return text
    ends = [0, *(end for _, end in sentences(text))]
    return text[: ends[bisect_right(ends, limit, lo=1, key=lambda end: word_count(text[:end])) - 1]]


def count_fences(text: str) -> int:
    """Return the number of lines that open or close fenced code."""
    if "```" not in text and "~~~" not in text:
        return 0
    return sum(_FENCE.match(raw) is not None for raw in text.split("\n"))


def _blocks(text: str, *, fenced: bool | None) -> Iterator[list[_TextLine]]:
    """Yield runs of neighbouring lines that are all prose or all code; lines without a word are dropped."""
    for paragraph in _lines_between_blanks(text, fenced=fenced):
        _mark_code(paragraph)
        _mark_heading(paragraph)
        for _, run in groupby(paragraph, attrgetter("code")):
            yield list(run)


def _lines_between_blanks(text: str, *, fenced: bool | None) -> Iterator[list[_TextLine]]:
    raws = text.split("\n")
    # A passage may begin or end within a fenced block: without its surroundings an odd number of fences says nothing.
    fences = count_fences(text)
    certain = fenced is not None or fences % 2 == 0
    fenced = bool(fenced)
    lines: list[_TextLine] = []
    position = 0
    for raw in raws:
        line = _TextLine(position, raw, fenced=fenced)
        position += len(raw) + 1
        fence = fences > 0 and _FENCE.match(raw) is not None
        fenced ^= fence and certain
        rule = (
            not fenced and _NO_WORD_LINE.fullmatch(line.text) is not None and line.text[:1] not in {*"{}()[]"}
        )
        if not (fence or rule):
            lines.append(line)
            continue
        if lines:
            lines[-1].heading = _UNDERLINE.fullmatch(line.text) is not None
            yield lines
        lines = []
    if lines:
        yield lines


def _mark_code(lines: list[_TextLine]) -> None:
    """Mark all lines of a paragraph as code if most have the shape of code, else only its prompts."""
    # A row of a table ends with its line, whatever it holds, and says nothing of the lines around.
    for line in lines:
        line.code = line.code or TABLE_LINE.match(line.text) is not None
    others = [line for line in lines if not line.code]
    shaped = [_looks_like_code(line.text) for line in others]
    whole = 2 * sum(shaped) > len(others) - all(line.indent > 1 for line in others)
    for line in others:
        line.code = whole or line.text.startswith(">>>")


def _looks_like_code(line: str) -> bool:
    prose_words = 2  # a line with so many of these words is prose, whatever signs it contains
    return _CODE_SHAPE.match(line) is not None and len(_PROSE_WORD.findall(line)) < prose_words


def _mark_heading(lines: list[_TextLine]) -> None:
    for line in lines:
        if not line.code and _HEADING.match(line.text) and _short_title(line.text):
            line.heading = True
    only = lines[0]
    if len(lines) == 1 and not only.code and not _LIST_ITEM.match(only.text) and _short_title(only.text):
        only.heading = True


def _short_title(line: str) -> bool:
    """Return whether a line on its own is short and unpunctuated like a heading."""
    most_words = 12
    return (
        line[-1] not in '.!?:;,。！？：；，、…"”’)-–—'  # what most lines fail comes first, as it is cheap
        and word_count(line) <= most_words
        and line.rsplit(None, 1)[-1].lower() not in _NEVER_CLOSES
        and not line[0].islower()
        and line[0] not in "[|(<'‘"
        and not _SENTENCE_BREAK.search(line)
        and "``" not in line
        and line.count("(") == line.count(")")
    )


def _paragraphs(lines: list[_TextLine]) -> Iterator[tuple[int, int, bool]]:
    """Yield the spans of continuous text: wrapped lines are joined, deliberate breaks are kept."""
    width = max(len(line.text) for line in lines)
    first = lines[0]
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        if following is None or line.heading or following.heading or _breaks_after(line, following, width):
            yield first.start, line.end, line.heading
            if following is not None:
                first = following


def _breaks_after(line: _TextLine, following: _TextLine, width: int) -> bool:
    if _LIST_ITEM.match(following.text):
        return True
    if _STANDS_ALONE.match(following.text) or _STANDS_ALONE.match(line.text):
        return True
    if following.text[0].islower():
        return False
    if CJK_CHARACTER.match(following.text):
        return line.text[-1] in ":：" or len(line.text) < width - 2
    # Lines of one paragraph differ in length by a quarter if a proportional font was wrapped.
    return len(line.text) + 1 + len(following.text.split(None, 1)[0]) < 0.75 * width


def _split(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the sentences of one paragraph."""
    item = _LIST_ITEM.match(text, start, end)
    scan = item.end() if item else start
    for mark in _TERMINATOR.finditer(text, scan, end):
        if mark.start() >= scan and _is_boundary(text, start, mark, end):
            yield start, mark.end()
            white = _WHITE.match(text, mark.end(), end)
            start = scan = white.end() if white else mark.end()
    if start < end:
        yield start, end


def _is_boundary(text: str, start: int, mark: re.Match[str], end: int) -> bool:
    following = _NEXT_WORD.match(text, mark.end(), end)
    opening, word = (following[1], following[2]) if following else ("", "")
    sign = mark[0]
    if sign[0] in "。｡！？؟।॥።":
        return not (sign[-1] in "」』" and word[:1] in "とって")
    continues = word[:1].islower() and not opening
    if not sign.startswith(".") or sign.startswith(".."):
        return not continues
    # The longest abbreviations have fewer than 16 characters.
    before = _LAST_WORD.search(text[max(start, mark.start() - 16) : mark.start()])
    last = before[0] if before else ""
    if continues:
        return len(last) > 3 and last.isalpha() and last.islower() and last not in _NEVER_LAST  # noqa: PLR2004
    return not _is_abbreviation(last, word)


def _is_abbreviation(last: str, following: str) -> bool:
    """Return whether the full stop after ``last`` belongs to it, given the following word."""
    folded = last.lower()
    if folded in _NEVER_LAST and not (len(last) == 1 and last.isupper()):
        # "no." and "v." are abbreviations before a figure or a name, not before a sentence's first word.
        return (
            folded not in {"no", "p", "art", "tab", "app", "fig", "ed"}
            or following[:1].isdigit()
            or last[:1].isupper()
        )
    if len(last) == 1 == len(following) and last.islower():
        return True  # z. B., d. h.
    if last.isdigit() and len(last) <= len("31") and following.lower() in _AFTER_ORDINALS:
        return True
    initial = len(last) == 1 and last.isupper()
    dotted = "." in last and all(len(part) == 1 for part in last.split("."))
    if initial or dotted or folded in _SELDOM_LAST:
        return following.lower() not in _SENTENCE_STARTERS and following != ""
    return False
