"""What the engine knows of written language: scripts, words, sentences, and when two names are one.

Chinese and Japanese text is cut into words here, by the same segmenter before indexing and
before searching: jieba for Chinese, Sudachi where kana stand. Korean has spaces; scripts that have
neither spaces nor a segmenter here (Thai, Khmer, Lao) are kept as they are written.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sudachipy import Dictionary, Morpheme, Tokenizer

__all__ = [
    "STOPWORDS",
    "Piece",
    "PieceKind",
    "clean",
    "has_cjk",
    "has_hangul",
    "has_kana",
    "is_japanese",
    "japanese_morphemes",
    "name_key",
    "pieces",
    "search_terms",
    "search_text",
    "sentences",
    "tagged_chinese",
    "whole_sentences",
    "word_count",
    "words",
]

# --- scripts -------------------------------------------------------------------------------

_HAN = "々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
_KANA = "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_HANGUL = "\uac00-\ud7a3\u1100-\u11ff\u3130-\u318f"

_CJK_RUN = re.compile(f"[{_HAN}{_KANA}]+")
_KANA_CHARACTER = re.compile(f"[{_KANA}]")
_HANGUL_CHARACTER = re.compile(f"[{_HANGUL}]")
_CJK_CHARACTER = re.compile(f"[{_HAN}{_KANA}{_HANGUL}]")

_JAPANESE_SHARE = 0.05
"""From this share of kana among its Han and kana characters on, a text is Japanese."""


def has_cjk(text: str) -> bool:
    """Whether any Chinese, Japanese or Korean character stands in ``text``."""
    return not text.isascii() and _CJK_CHARACTER.search(text) is not None


def has_kana(text: str) -> bool:
    """Whether hiragana or katakana stand in ``text``."""
    return not text.isascii() and _KANA_CHARACTER.search(text) is not None


def has_hangul(text: str) -> bool:
    """Whether Korean letters stand in ``text``."""
    return not text.isascii() and _HANGUL_CHARACTER.search(text) is not None


def is_japanese(text: str) -> bool:
    """Whether the Han and kana characters of ``text`` are Japanese rather than Chinese."""
    if text.isascii():
        return False
    kana = len(_KANA_CHARACTER.findall(text))
    return kana > 0 and kana >= _JAPANESE_SHARE * sum(map(len, _CJK_RUN.findall(text)))


# --- clean text ----------------------------------------------------------------------------

_NEWLINE = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_ODD_SPACE = re.compile("[\xa0\u1680\u2000-\u200a\u202f\u205f]")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f"  # controls, but for newline and tab
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u3164\uffa0"  # soft hyphen, joiners and fillers
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # zero width, direction overrides
    "\ufdd0-\ufdef\ufffe\uffff\ufe00-\ufe0f\U000e0000-\U000e01ef]"  # no characters, selectors, tags
    # A joiner is spelling in Arabic and Indic scripts, and nothing but a hiding place elsewhere.
    "|(?<![\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff])[\u200c\u200d]"
)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """``text`` without what nobody sees: control, zero-width, direction and tag characters.

    Newlines become line feeds, odd spaces plain ones, lone surrogates U+FFFD, and the whole is NFC. Offsets move:
    clean a document once, when it is loaded, before anything refers to places in it.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _NEWLINE.sub("\n", text)
    text = _INVISIBLE.sub("", text)
    if text.isascii():
        return text
    text = _LONE_SURROGATE.sub("\ufffd", _ODD_SPACE.sub(" ", text))
    return unicodedata.normalize("NFC", text)


# --- sentences -----------------------------------------------------------------------------

_LIST_ITEM = re.compile(
    r"(?:[-*+•‣◦·▪–—]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})[.)]|[①-⑳])[ \t]+(?=\S)|[•‣◦▪]"
)
_STANDS_ALONE = re.compile(r"\||\[\d+\]:?\s|::?[a-z-]+:|={3,}|-{3,}")
_NO_WORD_LINE = re.compile(r"[\W_]*")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_UNDERLINE = re.compile(r"[=*~^\"'+#-]{3,}")
_HEADING = re.compile(r"#{1,6}\s+\S|\d{1,2}(?:\.\d{1,2})+\.?\s+\S|第[一二三四五六七八九十百\d]+[章节節回部]")
_HEADING_WORDS = 12
_SENTENCE_BREAK = re.compile(r"[^\W\d_]{2}[.!?][\"'”’]?\s+[^\W\d_]")
_NEVER_CLOSES = frozenset(
    ["to", "of", "the", "a", "an", "and", "or", "is", "are", "was", "were", "by", "with", "for", "that"]
)
_CODE_SHAPE = re.compile(
    r">>>(?:\s|$)|\.\.\.\s|\$\s|#!|//|/\*|\*/|@\w[\w.]*(?:\(.*\))?$|[{}\])]+[;,]?$"
    r"|(?:async\s+)?(?:def|class|function|fn|func|struct|enum|interface|public|private|static|const|let|var|#include"
    r"|package|namespace|using)\s+\w.*[({:;=,\\]\s*(?:#.*)?$"
    r"|(?:from\s+[\w.]+\s+)?import\s+[\w.*]+(?:\s+as\s+\w+|,\s*\w+)*;?$"
    r"|(?:if|elif|for|while|with|except|match|case|switch|catch)\b.*[:{]$|(?:try|else|finally|do)\s*[:{]$"
    r"|(?:return|yield|raise|del|assert|await|print|pass|break|continue)(?:\s+[\w\"'(\[{.-]+)?(?:[(\[].*)?;?$"
    r"|.*::=|\|\s|\w[\w.]*(?:\[[^\]]*\])?(?:\s*,\s*\*?\w[\w.]*)*\s*(?::\s*[\w\[\], .|]+)?(?:[-+*/%&|^@]|//|\*\*|>>|<<)?=\s*\S"
    r"|\w[\w.]*\(.*\)?[;:,]?$|.*[;{]$|[(\[\"].*[)\]][+*?]?$|</?\w+[^>]*>|.*\s(?:=|==|!=|->|=>|&&|\|\||:=)\s"
)
_PROSE_WORD = re.compile(
    r"\b(?:the|an|of|to|that|this|are|be|it|its|by|on|which|was|were|has|have|may|can|will)\b",
    re.IGNORECASE,
)
_PROSE_LINE = 2
"""A line with as many of the words above as this is prose, whatever signs stand in it."""

_RAGGED = 0.75
"""Lines of one paragraph differ in length by a quarter where a proportional font was wrapped."""

_CLOSERS = "\"'”’»)\\]}）」』】》〉］"
_OPENERS = "\"'“‘«([{（「『【《〈［"
_TERMINATOR = re.compile(
    f"[.!?…]+[{_CLOSERS}]*(?=\\s)|[。｡！？؟।॥።]+[{_CLOSERS}]*"
    # The next sentence may follow a CJK full stop's western cousin without a space.
    f"|[.!?][{_CLOSERS}]*(?=[{_HAN}])"
)
_NEXT_WORD = re.compile(f"\\s*([{_OPENERS}*_`]*)([^\\W_]*)")
_WHITE = re.compile(r"\s*")
_LONGEST_ABBREVIATION = 16
_LAST_WORD = re.compile(r"[^\s(\[\"“‘']*$")


def _vocabulary(spaced: str) -> frozenset[str]:
    return frozenset(spaced.split())


_NEVER_LAST = _vocabulary(
    "mr mrs ms mx dr prof st mt ft gen col capt cpt lt sgt maj cmdr adm rev fr hon gov sen rep pres messrs mme mlle sr. "
    "e.g eg i.e ie cf vs v viz resp approx ca fig figs eq eqs sec secs ch chap vol vols no nos pp p ed eds al. op "
    "art par para ref refs tab app approx est dept univ incl excl"
)
_SELDOM_LAST = _vocabulary(
    "inc ltd corp co llc jr sr bros et al u.s u.k u.n e.u d.c a.d b.c b.c.e c.e u.s.a ph.d m.d b.a m.a n.y l.a "
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun esq ave blvd rd"
)
_SENTENCE_STARTERS = _vocabulary(
    "the this these those that a an it its he she they we you i his her their our my in on at by for from with as "
    "if when while where after before although though however but and or so since because there here what who why "
    "how then thus also another each some many most all both one no not to during under over until once"
)


class PieceKind(StrEnum):
    PROSE = "prose"
    HEADING = "heading"
    CODE = "code"


class Piece(NamedTuple):
    """A sentence, a heading or a line of code: ``text[start:end]``, without surrounding white space."""

    start: int
    end: int
    kind: PieceKind


class _Line:
    """One line of a text: where its words start and end, and what kind of line it is."""

    __slots__ = ("code", "end", "heading", "indent", "start", "text")

    def __init__(self, start: int, raw: str, *, fenced: bool) -> None:
        self.text = raw.strip()
        self.indent = len(raw) - len(raw.lstrip())
        self.start = start + self.indent
        self.end = self.start + len(self.text)
        self.code = fenced
        self.heading = False


def sentences(text: str) -> list[tuple[int, int]]:
    """The sentences of ``text`` as ``(start, end)`` spans without surrounding white space.

    A blank line, a heading, a list item and a line of code end a sentence, a wrapped line does not.
    Each line of code is a span of its own; rules, code fences and other lines without a letter or digit belong to none.
    """
    return [(piece.start, piece.end) for piece in pieces(text)]


def pieces(text: str) -> list[Piece]:
    """The spans of :func:`sentences`, each with what it is: prose, a heading, or a line of code."""
    found: list[Piece] = []
    for lines in _blocks(text):
        if lines[0].code:
            found += [Piece(line.start, line.end, PieceKind.CODE) for line in lines]
            continue
        for start, end, heading in _paragraphs(lines):
            if heading:
                found.append(Piece(start, end, PieceKind.HEADING))
            else:
                found += [Piece(first, last, PieceKind.PROSE) for first, last in _split(text, start, end)]
    return found


def whole_sentences(text: str, limit: int, count: Callable[[str], int] | None = None) -> str:
    """The longest beginning of ``text`` that ends with a sentence and counts at most ``limit``.

    ``count`` measures a text (default :func:`word_count`) and never shrinks as the text grows.
    Empty if not even the first sentence fits: a sentence is never cut.
    """
    measure = count or word_count
    if measure(text) <= limit:
        return text
    ends = [end for _, end in sentences(text)]
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        if measure(text[: ends[middle - 1]]) <= limit:
            low = middle
        else:
            high = middle - 1
    return text[: ends[low - 1]] if low else ""


def _blocks(text: str) -> Iterator[list[_Line]]:
    """Runs of neighbouring lines that are all prose or all code; lines without a word are dropped."""
    for paragraph in _lines_between_blanks(text):
        _mark_code(paragraph)
        _mark_heading(paragraph)
        run: list[_Line] = []
        for line in paragraph:
            if run and run[-1].code != line.code:
                yield run
                run = []
            run.append(line)
        yield run


def _lines_between_blanks(text: str) -> Iterator[list[_Line]]:
    raws = text.split("\n")
    # A passage may begin or end within a fenced block: an odd fence tells nothing.
    fences = sum(_FENCE.match(raw) is not None for raw in raws) if "```" in text or "~~~" in text else 0
    fenced = False
    lines: list[_Line] = []
    position = 0
    for raw in raws:
        line = _Line(position, raw, fenced=fenced)
        position += len(raw) + 1
        fence = fences > 0 and _FENCE.match(raw) is not None
        fenced ^= fence and fences % 2 == 0
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


def _mark_code(lines: list[_Line]) -> None:
    """A paragraph is code where most of its lines have the shape of code; else only its prompts are."""
    shaped = [line.code or _looks_like_code(line.text) for line in lines]
    indented = all(line.indent > 1 for line in lines)
    whole = 2 * sum(shaped) > len(lines) - indented
    for line in lines:
        line.code = whole or line.code or line.text.startswith(">>>")


def _looks_like_code(line: str) -> bool:
    return _CODE_SHAPE.match(line) is not None and len(_PROSE_WORD.findall(line)) < _PROSE_LINE


def _mark_heading(lines: list[_Line]) -> None:
    for line in lines:
        if not line.code and _HEADING.match(line.text) and _short_title(line.text):
            line.heading = True
    only = lines[0]
    if len(lines) == 1 and not only.code and not _LIST_ITEM.match(only.text) and _short_title(only.text):
        only.heading = True


def _short_title(line: str) -> bool:
    """Whether a line that stands alone is short enough and unpunctuated as a heading is."""
    return (
        word_count(line) <= _HEADING_WORDS
        and line[-1] not in '.!?:;,。！？：；，、…"”’)'
        and line.rsplit(None, 1)[-1].lower() not in _NEVER_CLOSES
        and not line[0].islower()
        and line[0] not in "[|(<'‘"
        and not _SENTENCE_BREAK.search(line)
        and "``" not in line
        and line.count("(") == line.count(")")
    )


def _paragraphs(lines: list[_Line]) -> Iterator[tuple[int, int, bool]]:
    """Spans of the lines that read on: wrapped lines are joined, deliberate breaks are kept."""
    width = max(len(line.text) for line in lines)
    first = lines[0]
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        if following is None or line.heading or following.heading or _breaks_after(line, following, width):
            yield first.start, line.end, line.heading
            if following is not None:
                first = following


def _breaks_after(line: _Line, following: _Line, width: int) -> bool:
    if _LIST_ITEM.match(following.text):
        return True
    if _STANDS_ALONE.match(following.text) or _STANDS_ALONE.match(line.text):
        return True
    if following.text[0].islower():
        return False
    if _CJK_CHARACTER.match(following.text):
        return line.text[-1] in ":：" or len(line.text) < width - 2
    return len(line.text) + 1 + len(following.text.split(None, 1)[0]) < _RAGGED * width


def _split(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The sentences of one paragraph."""
    item = _LIST_ITEM.match(text, start, end)
    scan = item.end() if item else start
    for mark in _TERMINATOR.finditer(text, scan, end):
        if mark.start() >= scan and _ends_sentence(text, start, mark, end):
            yield start, mark.end()
            white = _WHITE.match(text, mark.end(), end)
            start = scan = white.end() if white else mark.end()
    if start < end:
        yield start, end


def _ends_sentence(text: str, start: int, mark: re.Match[str], end: int) -> bool:
    following = _NEXT_WORD.match(text, mark.end(), end)
    opening, word = (following[1], following[2]) if following else ("", "")
    sign = mark[0]
    if sign[0] in "。｡！？؟।॥።":
        return not (sign[-1] in "」』" and word[:1] in "とって")
    continues = word[:1].islower() and not opening
    if not sign.startswith(".") or sign.startswith(".."):
        return not continues
    before = _LAST_WORD.search(text[max(start, mark.start() - _LONGEST_ABBREVIATION) : mark.start()])
    last = before[0] if before else ""
    if continues:
        return len(last) > 3 and last.isalpha() and last.islower() and last not in _NEVER_LAST  # noqa: PLR2004
    return not _is_abbreviation(last, word)


def _is_abbreviation(last: str, following: str) -> bool:
    """Whether the full stop after ``last`` belongs to it, given the word after."""
    folded = last.lower()
    if folded in _NEVER_LAST and not (len(last) == 1 and last.isupper()):
        # "no." and "v." are abbreviations before a figure or a name, not before a sentence's first word.
        return (
            folded not in {"no", "p", "art", "tab", "app", "fig", "ed"}
            or following[:1].isdigit()
            or last[:1].isupper()
        )
    initial = len(last) == 1 and last.isupper()
    dotted = "." in last and all(len(part) == 1 for part in last.split("."))
    if initial or dotted or folded in _SELDOM_LAST:
        return following.lower() not in _SENTENCE_STARTERS and following != ""
    return False


# --- words ---------------------------------------------------------------------------------

STOPWORDS = _vocabulary(
    # English
    "a about above across after afterwards again against ago all almost along already also although always am among an and "
    "another any anybody anyone anything are aren't around as at away back be became because become becomes been before "
    "behind being below beneath beside besides between beyond both but by can can't cannot could couldn't did didn't do does "
    "doesn't doing don't done down during each either else enough etc even ever every everybody everyone everything except "
    "few for from further had hadn't has hasn't have haven't having he he'd he'll he's hence her here here's hers herself him "
    "himself his how how's however i i'd i'll i'm i've if in indeed instead into is isn't it it's its itself just least less "
    "let let's like likely many may maybe me might mine more moreover most much must mustn't my myself neither never "
    "nevertheless no nobody none nor not nothing now nowhere of off often oh on once one one's only onto or other others "
    "otherwise ought our ours ourselves out over own per perhaps quite rather really same shall shan't she she'd she'll she's "
    "should shouldn't since so some somebody somehow someone something sometimes somewhere soon still such than that that's "
    "the their theirs them themselves then there there's therefore thereby these they they'd they'll they're they've this "
    "those though through throughout thus to together too toward towards under unless until unto up upon us very via was "
    "wasn't we we'd we'll we're we've were weren't what what's whatever when when's whenever where where's whereas wherever "
    "whether which whichever while who who's whoever whom whose why why's will with within without won't would wouldn't yes "
    "yet you you'd you'll you're you've your yours yourself yourselves "
    # Chinese
    "的 了 和 与 及 以及 或 或者 是 在 有 这 那 这个 那个 这些 那些 其 之 也 都 就 而 而且 并 并且 但 但是 然而 不 没有 "
    "为 为了 对 对于 从 到 由 以 于 被 把 将 让 使 使得 等 等等 上 下 中 里 内 外 个 我 我们 你 你们 他 她 它 他们 它们 自己 "
    "因为 所以 因此 如果 虽然 可以 能 能够 会 要 可能 通过 根据 关于 什么 怎么 如何 哪些 哪个 为什么 一个 一种 一些 "
    "還 這 個 與 從 對 為 們 "
    # Japanese
    "の に は を た が で て と し れ さ ある いる も する から な こと として い や れる など なっ ない この ため その あっ よう "
    "また もの という あり まで られ なる へ か だ これ によって により おり より による ず なり られる において ば なかっ なく "
    "しかし について せ だっ その後 できる それ う ので なお のみ でき き つ における および いう さらに でも ら たり その他 に関する "
    "です ます 為る 居る 有る 成る 此れ 其れ 事 物 何 どの どう なぜ どれ"
)
"""Words that say nothing on their own: English, Chinese and Japanese, lower case."""

_WORD = re.compile(
    f"[{_HAN}{_KANA}]+"
    r"|[^\W\d_]+[+#]{1,2}(?![\w+#])"  # C++, C#
    r"|_*[^\W_]+(?:[_'’][^\W_]+|__[^\W_]+|(?<=\d)[.,](?=\d)[^\W_]+)*_*"
)
_POSSESSIVE = re.compile(r"['’]s?$")
_CAMEL_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_CAMEL = re.compile(r"\b(?=\w*[a-z][A-Z]|\w*[A-Z]{2}[a-z]{2})[A-Za-z][A-Za-z\d]+\b")
_HUMP = re.compile("[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
_SIGN = re.compile(r"#|\+\+|\.[nN][eE][tT]")
_SIGNED = re.compile(r"(?<!\w)(?:[A-Za-z]\w{0,9}?(?:\+\+|#)(?![\w+#])|\.[nN][eE][tT]\b)")
_KOREAN_PARTICLE = re.compile(
    "(?<=[가-힣]{2})(?:은|는|이|가|을|를|의|에|에서|에게|으로|로|와|과|도|만|까지|부터|처럼|보다|이다|입니다|한다|하는)$"
)


def words(text: str) -> list[str]:
    """The words of ``text``, lower-cased and in order; Chinese and Japanese is cut into words.

    An identifier is followed by its parts (``read_file`` → ``read_file read file``); possessive
    endings are dropped; C++ and C# keep their signs.
    """
    japanese = is_japanese(text)
    found: list[str] = []
    for match in _WORD.finditer(text):
        token = match[0]
        if token.isascii():
            found += _latin_words(token)
        elif _CJK_RUN.match(token):
            found += _segment(token, japanese=japanese or has_kana(token), search=False)
        else:
            found.append(_POSSESSIVE.sub("", token.replace("’", "'")).lower())
    return found


def word_count(text: str) -> int:
    """About how many words ``text`` has, without cutting it: two CJK characters count as one word."""
    if text.isascii():
        return len(text.split())
    cjk = sum(map(len, _CJK_RUN.findall(text)))
    return len(_CJK_RUN.sub(" ", text).split()) + (cjk + 1) // 2


def search_text(text: str) -> str:
    """What goes into a full-text index for ``text``: a tokenizer that splits at punctuation does the rest.

    CJK is segmented, camel-case names are followed by their parts, C++ and its like become words
    that survive such a tokenizer. Plain text comes back as it is.
    """
    if not text.isascii():
        text = _segmented(text)
    # Looking for these names costs ten times as much as seeing that a text can hold none.
    camels = _CAMEL.findall(text) if _HUMP.search(text) else []
    signs = _SIGNED.findall(text) if _SIGN.search(text) else []
    extra = [part for name in camels for part in _CAMEL_PART.findall(name)]
    extra += [_spelled(sign) for sign in signs]
    return f"{text}\n{' '.join(extra)}" if extra else text


def search_terms(text: str, limit: int = 32) -> list[str]:
    """The distinct terms of a query in order, at most ``limit``, to be matched against :func:`search_text`.

    Stopwords are dropped unless nothing else remains. A term never holds a quote sign or white space.
    """
    found = dict.fromkeys(_query_words(text))
    content = [term for term in found if term not in STOPWORDS]
    return (content or list(found))[:limit]


def _query_words(text: str) -> Iterator[str]:
    japanese = is_japanese(text)
    for match in _WORD.finditer(text):
        token = match[0]
        if _CJK_RUN.match(token):
            yield from _cjk_query_words(token, japanese=japanese or has_kana(token))
        elif _SIGNED.fullmatch(token):
            yield _spelled(token)
        elif has_hangul(token):
            yield from _korean(token)
        else:
            yield from _latin_words(token)


def _cjk_query_words(run: str, *, japanese: bool) -> Iterator[str]:
    """The words of a query's run. Without kana it may be Chinese or Japanese: words of three characters and more are
    asked for by their pairs, which the index holds however its text was cut."""
    if japanese:
        yield from _segment(run, japanese=True, search=True)
        return
    for word in _segment(run, japanese=False, search=False):
        yield from [word] if len(word) <= 2 or word in STOPWORDS else _han_pairs(word)  # noqa: PLR2004


def _latin_words(token: str) -> list[str]:
    word = _POSSESSIVE.sub("", token.replace("’", "'"))
    if "_" in word:
        parts = [part for part in word.lower().split("_") if part]
        return [word.lower(), *parts] if parts != [word.lower()] else parts
    if not (word.islower() or word.isupper() or word[1:].islower()) and _CAMEL.fullmatch(word):
        return [word.lower(), *(part.lower() for part in _CAMEL_PART.findall(word))]
    return [word.lower()]


def _spelled(name: str) -> str:
    return name.lower().replace("++", "plusplus").replace("#", "sharp").replace(".net", "dotnet")


def _segmented(text: str) -> str:
    japanese = is_japanese(text)

    def cut(run: re.Match[str]) -> str:
        in_japanese = japanese or has_kana(run[0])
        found = _segment(run[0], japanese=in_japanese, search=True)
        return f" {' '.join([*found, *_missed_pairs(run[0], found)])} "

    text = _CJK_RUN.sub(cut, text)
    if has_hangul(text):
        return re.sub(f"[{_HANGUL}]+", lambda word: " ".join(_korean(word[0])), text)
    return text


def _missed_pairs(run: str, found: list[str]) -> list[str]:
    """Neighbouring Han characters that are no word of the cut: the same word may be cut otherwise in a query."""
    words_ = set(found)
    return [pair for pair in dict.fromkeys(_han_pairs(run)) if pair not in words_]


def _han_pairs(run: str) -> list[str]:
    return [
        one + other
        for one, other in pairwise(run)
        if not _KANA_CHARACTER.match(one) and not _KANA_CHARACTER.match(other)
    ]


def _korean(word: str) -> list[str]:
    """The word, and the word without its particle."""
    stem = _KOREAN_PARTICLE.sub("", word)
    return [word] if stem == word else [word, stem]


# --- segmenters ----------------------------------------------------------------------------

_SUDACHI_BYTES = 48_000
"""Sudachi refuses more than 49,149 bytes in one call; a call this long is cut at a character."""

_per_thread = threading.local()
"""Lazy cache: each thread's own Sudachi tokenizer, for one must not be shared while it works."""

_dictionary_lock = threading.Lock()


def _segment(run: str, *, japanese: bool, search: bool) -> list[str]:
    """A run of Han and kana as words; ``search`` adds the words within long Chinese words."""
    if japanese:
        if search:
            return [morpheme.normalized_form() for morpheme in japanese_morphemes(run)]
        return [morpheme.dictionary_form() for morpheme in japanese_morphemes(run)]
    import rjieba  # noqa: PLC0415 - only Chinese pays for it

    pieces: list[str] = rjieba.cut_for_search(run, True) if search else rjieba.cut(run, True)
    return pieces


def tagged_chinese(text: str) -> list[tuple[str, str]]:
    """Chinese ``text`` as (word, part of speech) pairs, with jieba's tags (``n``, ``nr``, ``v``, …)."""
    import rjieba  # noqa: PLC0415 - only Chinese pays for it

    pairs: list[tuple[str, str]] = rjieba.tag(text, True)
    return pairs


def japanese_morphemes(text: str) -> Iterator[Morpheme]:
    """Sudachi's morphemes of Japanese ``text`` in order, in its shortest units, whatever the length."""
    tokenizer = _tokenizer()
    for piece in _portions(text, _SUDACHI_BYTES):
        yield from tokenizer.tokenize(piece)


def _portions(text: str, limit: int) -> Iterator[str]:
    size = limit // 4  # no character takes more than four bytes
    if len(text) <= size:
        yield text
        return
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _tokenizer() -> Tokenizer:
    tokenizer: Tokenizer | None = getattr(_per_thread, "sudachi", None)
    if tokenizer is None:
        with _dictionary_lock:
            tokenizer = _per_thread.sudachi = _new_tokenizer()
    return tokenizer


def _new_tokenizer() -> Tokenizer:
    from sudachipy import SplitMode  # noqa: PLC0415 - only Japanese pays for it

    return _dictionary().tokenizer(mode=SplitMode.A)


@cache
def _dictionary() -> Dictionary:
    from sudachipy import Dictionary  # noqa: PLC0415 - only Japanese pays for it

    return Dictionary(dict="small")


# --- names ---------------------------------------------------------------------------------

_QUOTES = "\"'`“”‘’«» "
_CALL = re.compile(r"(?<=[\w\]])\([^()]*\)$")
"""Call brackets stand right behind a name; a remark in brackets stands after a space."""
_NAME_TOKEN = re.compile(
    r"(?:(?<![\w.])\.(?=[^\W\d_]))?[^\W_](?:[^\W_]|(?<=\d)\.(?=\d)|&(?=[^\W_]))*"  # words, figures, .NET, R&B
    r"(?:\+\+|#|\+(?!\w)|(?<=\b\w)\*(?!\w))?"  # C++, C#, Disney+, A*
)
_CODE_NAME = re.compile(r"(?:[$@]|--?)?(?:[^\W\d]\w*)(?:(?:\.|::|->)\w+)*")
_STRICT_CODE = re.compile(r"^(?:\$|--)|(?:^|[.:>])_|_(?:$|\.)|\w(?:::|->)\w|[a-z_]\w\.[a-z_]\w")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_INITIALS = re.compile(
    r"(?<![^\W_])(?:[^\W\d_]\.){2,}(?![^\W_]{2})|(?<![^\W_])(?:[^\W\d_]\.)+[^\W\d_](?![\w.])"
)
_ARTICLE = re.compile(r"^(?:(?:the|an?)\s+)+(?=\S)")
_TRADE_MARK = re.compile("(?<=\\S)[™®©℠]")
_LATIN_ACCENT = re.compile("(?<=[a-z])[\u0300-\u036f]+")
_OWNER = re.compile("['’`´]s(?![^\\W_])|(?<=s)['’](?=\\s|$)")
_APOSTROPHE = re.compile("(?<=\\w)['’`´](?=\\w)")

_KEEPS_ITS_S = _vocabulary(
    "series species news means lens windows https pandas always perhaps aws ios "
    # surnames that are also a first name and an s: two people, not one in the plural
    "abrahams adams andrews daniels davids edwards evans harris henrys hughes jacobs james johns jones josephs lewis "
    "matthews michaels owens peters phillips richards roberts robins rogers samuels simons stephens stevens thomas "
    "walters williams wills"
)
_IRREGULAR = {
    "analyses": "analysis", "aunties": "auntie", "axes": "axis", "bonuses": "bonus", "brownies": "brownie",
    "buses": "bus", "caches": "cache", "calories": "calorie", "campuses": "campus", "canoes": "canoe",
    "children": "child", "circuses": "circus", "cookies": "cookie", "crises": "crisis", "criteria": "criterion",
    "feet": "foot", "foes": "foe", "gases": "gas", "geese": "goose", "geniuses": "genius", "halves": "half",
    "headaches": "headache", "hypotheses": "hypothesis", "indices": "index", "knives": "knife", "leaves": "leaf",
    "lies": "lie", "lives": "life", "loaves": "loaf", "matrices": "matrix", "men": "man", "mice": "mouse",
    "movies": "movie", "niches": "niche", "parentheses": "parenthesis", "phenomena": "phenomenon", "pies": "pie",
    "potatoes": "potato", "rookies": "rookie", "shelves": "shelf", "shoes": "shoe", "statuses": "status",
    "syntheses": "synthesis", "teeth": "tooth", "theses": "thesis", "thieves": "thief", "ties": "tie", "toes": "toe",
    "vertices": "vertex", "viruses": "virus", "wives": "wife", "wolves": "wolf", "women": "woman", "zombies": "zombie",
}  # fmt: skip
_SINGULAR_ENDINGS = (
    ("sses", "ss"),
    ("shes", "sh"),
    ("ches", "ch"),
    ("xes", "x"),
    ("zzes", "zz"),
    ("oes", "o"),
)
_SHORTEST_PLURAL = 4
_ACRONYM_PLURAL = re.compile("[b-df-hj-np-tv-xz]{2}s")
"""TVs, CDs, KGs; harmless for GPS, which nothing singular stands beside."""


@lru_cache(maxsize=1 << 16)
def name_key(name: str) -> str:
    """What makes two names one: they are the same iff their keys are equal.

    Case, accents on Latin letters, punctuation, leading articles, possessive endings, call brackets and a simple English
    plural of the last word do not count. Signs that carry meaning do: ``__init__``, ``os.path``, ``C++``, ``C#``,
    ``.NET``, ``+=``. A key is for comparing, not for reading. It is empty only if the name is blank.
    """
    folded = _folded(name)
    bare = _CALL.sub("", folded.strip(_QUOTES)).strip(_QUOTES) or folded
    if _CODE_NAME.fullmatch(bare) and _STRICT_CODE.search(bare):
        return bare
    bare = _INITIALS.sub(lambda initials: initials[0].replace(".", "") + " ", _ARTICLE.sub("", bare, count=1))
    tokens = _NAME_TOKEN.findall(
        _APOSTROPHE.sub("", _OWNER.sub("", _THOUSANDS.sub("", bare.replace(" & ", " and "))))
    )
    if not tokens:
        return folded
    return " ".join(_joined_initials([*tokens[:-1], _singular(tokens[-1])]))


def _folded(name: str) -> str:
    """Case-folded NFKC in single spaces, Latin letters without accents, no trade mark behind a name. A NUL is a
    space: no database compares it."""
    if "\x00" in name:
        name = name.replace("\x00", " ")
    if name.isascii():
        return " ".join(name.lower().split())
    bare = _TRADE_MARK.sub("", name) or name
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", bare).casefold())
    return " ".join(unicodedata.normalize("NFC", _LATIN_ACCENT.sub("", decomposed)).split())


def _joined_initials(tokens: list[str]) -> list[str]:
    """``j k rowling`` → ``jk rowling``: initials are one word however they are set."""
    joined: list[str] = []
    initials = False
    for token in tokens:
        letter = len(token) == 1 and "a" <= token <= "z"
        if letter and initials:
            joined[-1] += token
        else:
            joined.append(token)
        initials = letter
    return joined


def _singular(word: str) -> str:
    if _ACRONYM_PLURAL.fullmatch(word):
        return word[:-1]
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) < _SHORTEST_PLURAL or not word.isascii() or word in _KEEPS_ITS_S:
        return word
    if not word.endswith("s") or word.endswith(("ss", "us", "is")) or not word[-2].isalpha():
        return word
    if word.endswith("ies") and len(word) > _SHORTEST_PLURAL:
        return word[:-3] + "y"
    single = next(
        (word[: -len(plural)] + single for plural, single in _SINGULAR_ENDINGS if word.endswith(plural)), ""
    )
    return single or word[:-1]
