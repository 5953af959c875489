"""Find the headings of a text: Markdown, reStructuredText, chapters of plain text, code, LaTeX, INI. They
give documents their titles (loading) and chunks their borders and paths (chunking)."""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import merge
from itertools import pairwise, takewhile, zip_longest
from typing import NamedTuple

from leanrag_engine.core.model import is_code
from leanrag_engine.core.text.records import TABLE_NAME, TABLE_ROW
from leanrag_engine.core.text.shortening import shorten
from leanrag_engine.core.text.word_lists import read_pattern, read_words
from leanrag_engine.documents.dates import MONTH, find_date
from leanrag_engine.documents.signatures import blank_texts, find_functions

_RANKS = (
    "part title teil titre título titolo parte",
    "chapter kapitel chapitre capítulo capitolo capo schedule annex annexe anhang anlage allegato anexo",
    "section abschnitt sección sezione",
    "article art. artikel artículo articolo clause rule §",
    "item top",
)
_RANK = {word: rank for rank, words in enumerate(_RANKS, 1) for word in words.split()}
_RANK["agenda item"] = _RANK["item"]
_LABEL = re.compile(
    rf"^[ \t]{{0,12}}(?:(?P<word>§|(?=[A-ZÀ-Ý])(?i:{'|'.join(map(re.escape, _RANK))})(?=[ \t]))[ \t]{{0,2}})?"
    r"(?P<number>\d{1,3}(?:[a-z]|(?:\.\d{1,3}){1,4})?|[IVXLC]{1,7}|[A-Z](?:\.\d{1,3}){1,4})(?P<stop>[.:)]|[ \t](?=[ \t])|)(?=[ \t]|$)"
    r"[ \t]*(?P<title>[^\n]*)$",
    re.MULTILINE,
)
_SMALL = "of|and|the|to|in|for|on|or|an?|by|with|from|as|at|into|under|its?|this|not"
_LARGE = r"(?:[A-Z]\.){2,4}|[A-Z][\w'’/-]{0,30}"
_RUN_IN = re.compile(
    rf"[\"“]?(?:{_LARGE})(?:[,;]?[ ](?:{_SMALL}|{_LARGE})){{0,9}}(?<!\b[A-Z])\.(?=[ \t—–-]|$)"
)
_NO_TITLE = re.compile(r"^.{101}|[,;:]$|\.{3}|(?:\. ){3}|[ \t]{2,}\d+$|\t|[.!] |(?: \S+){12}")
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_LONGEST_ABOVE_TEXT, _FEWEST, _CHAINS = 60, 3, 8


class NumberedHeading(NamedTuple):
    """A heading ``text[start:end]``; ``rank`` of its word, 0 without one, the numbers of its levels, and whether it may be one."""

    start: int
    end: int
    rank: int
    path: tuple[float, ...]
    likely: bool = True


def find_numbered(text: str) -> list[NumberedHeading]:
    """Return the headings of a text whose numbers count up, in linear time."""
    chains: defaultdict[int, list[list[NumberedHeading]]] = defaultdict(list)
    for each in drop_lists(text, list(_read_labels(text))):
        known = chains[each.rank]
        chain = next((held for held in known[: -_CHAINS - 1 : -1] if _follows(held[-1], each)), [])
        if not chain and (each.rank or each.path[-1] <= 1):
            known.append(chain)
        chain.append(each)
    long = (held for known in chains.values() for held in known if len(held) >= _FEWEST)
    return sorted(each for held in long for each in held)


def _read_labels(text: str) -> Iterator[NumberedHeading]:
    """Yield each line that begins with a number, as if it were a heading."""
    for found in _LABEL.finditer(text):
        if found["word"] or found["stop"] or "." in found["number"]:
            end, rank = _find_end(text, found), _RANK.get((found["word"] or "").lower(), 0)
            path = read_number(found["number"])
            yield NumberedHeading(found.start(), end or found.end(), rank, path, bool(end))


def drop_lists(text: str, found: Sequence[NumberedHeading]) -> Iterator[NumberedHeading]:
    """Yield the likely headings without those that have no text below: items of lists and of tables of contents."""
    joined = [
        not text[one.end : other.start].strip()
        and (
            len(other.path) <= len(one.path)
            and (one.likely or len(other.path) == len(one.path))  # else a paragraph of the section before
            and _follows(one, other)
            if one.rank == other.rank
            else one.rank > other.rank > 0
        )
        for one, other in pairwise(found)
    ]
    for each, above, below in zip(found, [False, *joined], [*joined, False], strict=False):
        if each.likely and not above and not below:
            yield each


def read_number(number: str) -> tuple[float, ...]:
    """Return the numbers of *3.2*, *IV* or *4a*, which comes after 4 and before 5; the letter of *A.1* is below zero."""
    if _ROMAN.keys() >= set(number):
        values = [_ROMAN[each] for each in number]
        return (sum(-one if one < other else one for one, other in pairwise([*values, 0])),)
    if number[-1].islower():
        return (int(number[:-1]) + ord(number[-1]) / 1000,)
    return tuple(ord(each) - 128 if each.isalpha() else int(each) for each in number.split("."))


def _follows(last: NumberedHeading, found: NumberedHeading) -> bool:
    one, other = last.path, found.path
    at = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    if at == len(other) or max(other[min(at + 1, len(one)) :], default=0) > 1:
        return False
    return at == len(one) or 0 < other[at] - one[at] <= 3  # noqa: PLR2004 - two between may not be known as headings


def _find_end(text: str, label: re.Match[str]) -> int:
    """Return where the heading ends that a line begins with; 0 if it is none."""
    title, worded, start, end = label["title"].rstrip(), bool(label["word"]), label.start(), label.end()
    # A sentence that is broken before "Article 12" or "6.1" goes on there.
    blank = blank_before(text, start)
    if not (blank or text[max(0, start - 200) : start].rstrip()[-1:] in ".;:!?)"):
        return 0
    after = text[end + 1 : end + 100].split("\n", 1)[0].strip()
    deep = worded or title.isupper() or "." in label["number"] or label["stop"].isspace()
    run_in = _RUN_IN.match(title) if deep or label["stop"] else None
    whole = run_in and run_in.end() == len(title)
    if run_in and (not after[:1].islower() if whole else blank or deep):
        return label.start("title") + run_in.end()
    alone = after[:1] in ("", "(") or (deep and end - start <= _LONGEST_ABOVE_TEXT and not after[0].islower())
    plain = title[:1].isupper() and not _NO_TITLE.search(title)
    if alone and label["stop"] != ")" and ((plain and (deep or title[-1] != ".")) or (worded and not title)):
        return end
    return label.end("stop") if worded and label["stop"] else 0


def blank_before(text: str, start: int) -> bool:
    """Return whether the line at ``start`` is the first one or stands below a blank one."""
    return start == 0 or not text[text.rfind("\n", 0, start - 1) + 1 : start].strip()


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading whose lines are ``text[start:end]``; level 1 is the highest. ``breaks``, of a table alone:
    where its rows begin, and where they end and with them what it heads."""

    start: int
    end: int
    level: int
    title: str
    breaks: tuple[int, ...] = ()


_LONGEST = 200  # Longest line in characters that may be a heading

_FENCE = r" {0,3}(?P<fence>```+|~~~+)[^\n]*"
_SHARPS = rf"(?P<sharps>\#{{1,6}})[ \t]+(?P<sharp_title>[^\s][^\n]{{0,{_LONGEST}}})"
_LINED = rf"(?P<lined_title>[^\s][^\n]{{0,{_LONGEST}}})\n(?P<under>(?P<sign>[SIGNS])(?P=sign)+)[ \t]*"
_OVERLINE = r"(?:(?P<over>(?P<over_sign>[^\w\s`])(?P=over_sign){2,})[ \t]*\n[ \t]*)?"
_CHAPTER = (
    r"(?P<chapter>(?i:(?P<rank>part|book|act|volume|chapter|stave|canto|letter|scene|section|appendix)\b)[^\n]{0,80}"
    r"|第[^\n]{1,8}[章節节回部編篇卷][^\n]{0,60})"
)
_TAGGED = (
    r"[ \t]*(?:<(?:font|center|div|span|b)\b[^<>\n]{0,100}>[ \t]{0,9}){0,3}"
    r"<h(?P<tag>[1-6])\b[^<>\n]{0,100}>(?P<tagged>(?:(?!</?h[1-6])[\s\S]){1,600}?)</h(?P=tag)>(?:[ \t]{0,9}</\w{1,9}>){0,3}[ \t]*"
)
_MARKDOWN = re.compile(rf"^(?:{_FENCE}|{_SHARPS}|{_TAGGED}|{_LINED.replace('SIGNS', '=-')})$", re.MULTILINE)
_SUBSTITUTED = re.compile(r"\|\w[\w-]*\|")  # *Scrapy |version| documentation*
_TAG = re.compile(r"<[^<>]{0,400}>")
_MARKED = re.compile(
    rf"^(?:{_FENCE}|{_SHARPS}|{_OVERLINE}{_LINED.replace('SIGNS', '=~^*+#:._-')}|{_CHAPTER})$", re.MULTILINE
)
_INLINE = re.compile(r"(?::[\w:+-]{1,40}:`|``)(?P<text>[^`]+)``?")
_TRAILING_SHARPS = re.compile(r"[ \t]+#+[ \t]*$")
_CHAPTER_NUMBER = read_pattern("phrases", "chapter_number")
_LEVELS = {"part": 1, "book": 1, "act": 1, "volume": 1, "section": 3}

_COMMENT = r"[ \t]*(?:@\w|\#(?!!)|//|/\*|\*|--)[^\n]*\n"  # A line of a comment or a decorator
# Comments and decorators right above a definition belong to it; at most 20 lines, so that the search stays linear.
_DEFINITION = re.compile(
    rf"^(?:{_COMMENT}){{0,20}}"
    r"(?P<indent>[ \t]*)(?P<title>(?:(?:export|default|public|private|protected|internal|static|async|abstract|final"
    r"|sealed|partial|pub(?:\([a-z]+\))?|unsafe|extern|const|inline|override|data)[ \t]+)*"
    r"(?:(?:def|class|func|fn|function|struct|enum|interface|trait|impl|module|namespace|record|protocol|object)\b"
    r"(?:<[^>\n]{0,80}>)?|(?i:create)[ \t]+(?i:or[ \t]+replace[ \t]+)?(?i:table|view|function|procedure|trigger|index)\b)"
    r"[ \t]+(?:\([^)\n]{0,80}\)[ \t]*)?[\w$.]+(?:::\w+)*(?:[ \t]+for[ \t]+\w+)?)"
    # The next sign distinguishes a definition from prose such as "class of objects", "function to call".
    r"(?=[ \t]*(?:[({:<=;\[]|$|(?:extends|implements|where|on|as)\b))",
    re.MULTILINE,
)
_COMMENT_LINE = re.compile(_COMMENT)
_NUMBERED = re.compile(
    r"^(?P<number>\d{1,2}(?:\.\d{1,2}){0,3})\.?[ \t]+(?P<title>[^\W\d_a-z][^\n]{0,100})$", re.MULTILINE
)
_NO_NUMBERED_TITLE = re.compile(
    r"[.,;:!?。，；：！？][\"'”’)]?$|\.{4}|(?:\. ){4}|[ \t]{2,}\d+$|^.{0,20}[。！？]"
)
_NO_SECTION = re.compile(r"[;{}=<>|*]|\d[ \t]*\n|\n[ \t]*[a-z]")  # Code, an entry with its page, a sentence
_DAY = rf"(?:\d{{4}}[-/.]\d\d?[-/.]\d\d?|\d\d? (?:{MONTH}) \d{{4}}|(?:{MONTH}) \d\d?,? \d{{4}})"
_VERSION = r"\d{1,3}+(?:\.\d{1,8}+){1,4}+[\w~+-]{0,20}+"
_SAID_OF_RELEASE = "versions?|release(?:s|d)?|changes|what['’]s new|new in|news"
_BESIDE_RELEASE = "noteworthy|major|minor|user|visible|overview|notes|new|changed|of|in|for|from|since|between|and|to|the|on|stable|alpha|beta|devel|trial"
_RELEASE = re.compile(
    rf"^(?P<title>(?:version[ \t]|release[ \t]|v){_VERSION}[ \t]{{0,4}}[:,(–—-]?[ \t]{{0,4}}(?:released (?:on )?)?{_DAY}\)?"
    rf"|(?:[a-z][\w+-]{{1,30}}+[ ])?{_VERSION}(?:[ \t]?:[ \t]{{0,4}}{_DAY}|[ \t]\({_DAY}\))"
    rf"|{_DAY}:?[ \t](?:\({_VERSION}\)|v{_VERSION})|\d{{1,3}}(?:\.\d{{1,3}}){{2}}[ \t]+{_DAY}"
    r"|[a-z\d][a-z\d+.-]{1,60}+ \([^()\s]{1,40}+\)[^\n;]{1,60}; urgency=\w{1,20}"
    rf"|(?:(?<=\n\n)|(?<![\s\S]))(?=[^\s-][^\n]{{2,100}}$)(?=[^\n]*?\b(?:(?:{_SAID_OF_RELEASE})\b|v\d+\.\d))(?=[^\n]*?(?<![\w./:])v?\d{{1,3}}\.\d)"
    rf"(?-i:(?i:{_SAID_OF_RELEASE}|{_BESIDE_RELEASE})\b|[a-z][\w+-]*+(?=[ ]v?\d)|[A-Z][\w.+&'’-]*|[vV]?\d[\w.+~:/-]*"
    r"|[ \t*=#:,()\[\]<>@/–—-])++(?<![.,])):?[ \t]{0,8}$",
    re.MULTILINE | re.IGNORECASE,
)
"""A release in a list of changes: *4.8.1: 2018-03-09*, *v1.2 (3 May 2019)*, *pkg (1.2-3) unstable; urgency=low*, *Changes in 3.6*."""
_USES_SHARPS = re.compile(
    r"(?:(?<=\n\n)|(?<![\s\S]))(?:#{1,6}[ \t]+\S[^\n]*(?:\n\n|\n*\Z)|(?P<sharps>#{2,6})[ \t]+\S[^\n]*\n(?!(?P=sharps)[ \t]))"
    r"|\A\s*#[ \t]+\S[^\n]*\n(?!#[ \t])"
)
"""A line that is surely a heading. Else *# Set the limit*, *# apt install lamp* are comments and commands that a text quotes."""
_MANUAL = re.compile(r"(?m)\A[\s\S]{0,2000}?^NAME\n+ +\S[\s\S]{0,4000}?^(?:SYNOPSIS|DESCRIPTION)\n+ +\S")
_MANUAL_SECTION = re.compile(r"(?m)^(?P<below> {3})?(?P<title>(?(below)\S.{0,60}(?=\n {5,}\S)|[A-Z][^a-z\n]{1,60}(?=\n+ {3,}\S)))$")  # fmt: skip
_LATEX = re.compile(
    r"^[ \t]*\\(?:begin\{abstract\}|(?P<rank>part|chapter|section|subsection|subsubsection|paragraph)\*?(?:\[[^\]\n]*\])?"
    r"\{(?P<title>[^\n]{1,200}?)\}[^\n]*$)",
    re.MULTILINE,
)
_LATEX_LEVELS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph")
_TABLE = re.compile(
    rf"^(?P<title>{TABLE_NAME}(?:: (?:(?!\. Columns: )[^\n])*)?)(?:\. (?P<columns>Columns: [^\n]*))?\n+",
    re.MULTILINE,
)
_TABLE_ROWS = re.compile(rf"(?:{TABLE_ROW}[^\n]*+\n*+)++")
_TABLE_LEVEL = 7  # Below all others: a table has no sections
_SECTION = re.compile(r"^\[{1,2}(?P<title>[^\[\]\n]{1,200})\]{1,2}[ \t]*$", re.MULTILINE)
_NAMED_BLOCK = re.compile(
    r'^(?P<title>[a-z]\w{0,40}(?:[ \t]+(?:"[^"\n]{1,100}"|[\w.]{1,100})){0,3}) ?\{[ \t]*$', re.MULTILINE
)
"""A block of Terraform, or a message of Protocol Buffers."""


def headings(text: str, media_type: str) -> Iterator[Heading]:
    """Yield the headings of ``text`` in order, by the conventions of its media type, in linear time."""
    if is_code(media_type):
        return _definitions(text, media_type)
    found = iter(()) if media_type in _BARE else _CONVENTIONS.get(media_type, _markup_headings)(text)
    return merge(found, _tables(text), key=lambda heading: heading.start) if "\nRow " in text else found


def _markdown(text: str) -> Iterator[Heading]:
    for found in _outside_fences(_MARKDOWN.finditer(text)):
        if found["sharps"]:
            yield _sharp_heading(found)
        elif found["tag"]:
            if title := " ".join(_TAG.sub(" ", found["tagged"]).split()):
                yield Heading(*found.span(), int(found["tag"]), title)
        elif _underlines(text, found):
            yield _heading(found, 1 if found["sign"] == "=" else 2, found["lined_title"])


def _markup_headings(text: str) -> Iterator[Heading]:
    """Find Markdown's ``#``, lines over and under titles (styles rank by first appearance), and chapters."""
    styles: dict[str, int] = {}
    for found in _outside_fences(_MARKED.finditer(text)):
        if found["sharps"]:
            yield _sharp_heading(found)
        elif found["under"] and _underlines(text, found):
            level = styles.setdefault((found["over_sign"] or "") + found["sign"], len(styles) + 1)
            yield _heading(found, min(level, _TABLE_LEVEL - 1), found["lined_title"])
        elif found["chapter"] and _stands_alone(text, found) and _CHAPTER_NUMBER.match(found["chapter"]):
            yield _heading(found, _LEVELS.get((found["rank"] or "").lower(), 2), found["chapter"])


def _outside_fences(marks: Iterator[re.Match[str]]) -> Iterator[re.Match[str]]:
    """Yield the marks outside fenced code; a fence is closed by one of the same sign, at least as long."""
    fence = ""
    for found in marks:
        if not found["fence"]:
            if not fence:
                yield found
        elif not fence:
            fence = found["fence"]
        elif found["fence"].startswith(fence):
            fence = ""


def _sharp_heading(found: re.Match[str]) -> Heading:
    return _heading(found, len(found["sharps"]), _TRAILING_SHARPS.sub("", found["sharp_title"]))


def _heading(found: re.Match[str], level: int, title: str) -> Heading:
    """Return a heading whose title is without reStructuredText's inline markup."""
    return Heading(found.start(), found.end(), level, " ".join(_INLINE.sub(r"\g<text>", title).split()))


def _underlines(text: str, found: re.Match[str]) -> bool:
    """Return whether the signs underline a title rather than head a table or end a paragraph."""
    title = found["lined_title"].rstrip()
    return (
        blank_before(text, found.start())
        and bool(found["under"][2:] or len(title) <= len(found["under"]))
        and (found["sign"] == "=" or 5 * len(found["under"]) >= 4 * len(title))
        and "  " not in title
        and "|" not in _SUBSTITUTED.sub("", title)
        and title[-1] not in ",;{"
        and any(character.isalnum() for character in title)
    )


def _stands_alone(text: str, found: re.Match[str]) -> bool:
    line_after = text[found.end() + 1 : found.end() + _LONGEST].split("\n", 1)[0]
    return blank_before(text, found.start()) and not line_after.strip()


def _definitions(text: str, media_type: str) -> Iterator[Heading]:
    blanked = blank_texts(text, media_type)
    found = [
        (each.start(), each.end(), " ".join(each["title"].split()), bool(each["indent"]))
        for each in _DEFINITION.finditer(text)
        if blanked.startswith(each["title"], each.start("title"))  # else it is an example in a comment
    ]
    for start, end, name in find_functions(blanked, media_type):
        first, lowest = start, max(0, start - 2_000)  # Comments right above belong to it
        while first > lowest <= (above := text.rfind("\n", lowest, first - 1) + 1) and _COMMENT_LINE.match(text, above, first):  # fmt: skip
            first = above
        found.append((first, end, name, text[start].isspace()))
    for start, end, title, inner in sorted(found):
        line_end = text.find("\n", end)
        yield Heading(start, line_end if line_end >= 0 else len(text), 2 if inner else 1, title)


def _section_numbers(text: str) -> Iterator[NumberedHeading]:
    """Find lines like ``2.3 Retrieval`` if the document has a ``2.1``, and the ``2 Method`` above them."""
    found = [
        match for match in _NUMBERED.finditer(text) if not _NO_NUMBERED_TITLE.search(match["title"].rstrip())
    ]
    labels = [NumberedHeading(each.start(), each.end(), 0, read_number(each["number"])) for each in found]
    counts = Counter(each.path for each in labels)
    sections = {path[0] for path in counts if path[1:] == (1,)}
    alone = set(drop_lists(text, labels))
    top = listed = 0.0
    for each, after in zip_longest(labels, labels[1:], fillvalue=NumberedHeading(0, 0, 0, ())):
        title, (first, *below) = " ".join(text[each.start : each.end].split()), each.path
        # What stands again elsewhere is that of a table of contents, where lines follow each other or end with a page.
        is_entry = counts[each.path] > 1 and (each not in alone or title[-1].isdigit())
        is_item = not below and first <= top and after.path != (first, 1)
        # One without others below it counts on from the last one, and from no item of a list.
        counts_on = not below and 0 < top == first - 1 != listed
        heads = first in sections or (counts_on and not _NO_SECTION.search(text, each.start, each.end + 2))
        listed = first if not below and (not heads or is_entry or is_item) else 0.0
        if heads and not is_entry and not is_item:
            top = first
            yield each


def _tables(text: str) -> Iterator[Heading]:
    """Find the line above the rows of each table; what it says of the columns is text."""
    for found in _TABLE.finditer(text):
        rows = _TABLE_ROWS.match(text, found.end())
        if rows:
            title = shorten(found["title"], _LONGEST)
            end = found.start("columns") if found["columns"] else found.end("title")
            yield Heading(found.start(), end, _TABLE_LEVEL, title, (rows.start(), rows.end()))


def _latex(text: str) -> Iterator[Heading]:
    for found in _LATEX.finditer(text):
        level = _LATEX_LEVELS.index(found["rank"] or "section") + 1
        yield Heading(found.start(), found.end(), level, found["title"] or "Abstract")


def _sections(text: str, mark: re.Pattern[str] = _SECTION) -> Iterator[Heading]:
    return (Heading(found.start(), found.end(), 1, found["title"]) for found in mark.finditer(text))


def _plain(text: str) -> Iterator[Heading]:
    """Merge marked and numbered headings and, of several releases, their lines; a line that is two of these counts once."""
    releases = [Heading(*it.span("title"), 2, it["title"].strip("*=#:\t ")) for it in _RELEASE.finditer(text)]
    counted = find_numbered(text)
    below = 4 * any(each.rank for each in counted)  # Of a law, paragraphs are numbered below articles
    both = [*merge(counted, _section_numbers(text), key=lambda each: each.start)]
    tops = {each.path for each in both}
    numbered = [  # Without a 3 or an A, 3.1 or A.1 is no part of the section before it
        Heading(at, end, rank or below + len(path) - (path[:1] not in tops), " ".join(text[at:end].split()))
        for at, end, rank, path, _ in both
    ]
    quoted = "" if _USES_SHARPS.search(text) else "#"
    marked = [each for each in _markup_headings(text) if text[each.start] != quoted]
    manual = _MANUAL_SECTION.finditer(text) if _MANUAL.search(text) else ()
    parts = [Heading(*each.span(), 1 + bool(each["below"]), each["title"]) for each in manual]
    items = {each.start: each.path for each in both if each.rank in {0, _RANK["item"]}}
    firsts = [start for start, path in items.items() if path == (1,)]
    meetings = [*_meetings(text, firsts, numbered, marked)] if firsts[1:] else []
    above = {each.start: each.level for each in (*marked, *meetings)}
    end, level = -1, 0
    found = (marked, parts, meetings, numbered, releases if releases[1:] else ())
    for heading in merge(*found, key=lambda heading: heading.start):
        if heading.start >= end:
            end = heading.end
            level = above.get(heading.start, level)
            is_item = firsts[1:] and heading.start in items and heading.start not in above
            yield replace(heading, level=min(_TABLE_LEVEL - 1, heading.level + level)) if is_item else heading


_ABOVE_ITEMS = re.compile(r"(?:(?<=\n\n)|\A)(?![-*•\s])(?![^\n]*\b(?i:next|nächste\w*|prochaine|próxima|prossima)\b)(?:[^\n]{1,80}(?<![.,;])\n){1,3}(?=\n|\Z)")  # fmt: skip


def _meetings(text: str, firsts: list[int], items: list[Heading], marked: list[Heading]) -> Iterator[Heading]:
    """Find what heads each numbering that begins anew without a mark: the last lines before it with a date, else in capitals."""
    known = sorted([*((each.end, False) for each in items), *((each.end, True) for each in marked)])
    level = 1 + any(each.end < firsts[0] for each in marked[:1])
    for first in firsts:
        at = bisect_left(known, (first,))
        above, is_marked = known[at - 1] if at else (0, False)
        if is_marked and first > firsts[0]:  # The first may stand below the title of them all
            continue
        found = sorted(
            (bool(find_date(each[0])), *each.span())
            for each in _ABOVE_ITEMS.finditer(text, max(above, first - 3_000), first)
            if each[0].isupper() or find_date(each[0])
        )
        for _, start, end in found[-1:]:
            yield Heading(start, end - 1, level, " ".join(text[start:end].split()))


_BARE = read_words("files", "bare_data")
_CONVENTIONS: dict[str, Callable[[str], Iterator[Heading]]] = {
    "application/pdf": _plain,
    "application/toml": _sections,
    "application/x-ipynb+json": _markdown,
    "application/x-gedcom": partial(_sections, mark=re.compile(r"(?m)^0 (?P<title>[^\n]{1,200})$")),
    "text/markdown": _markdown,
    "text/plain": _plain,
    "text/x-chat": _markdown,
    "text/x-hcl": partial(_sections, mark=_NAMED_BLOCK),
    "text/x-ini": _sections,
    "text/x-rst": _markup_headings,
    "text/x-tex": _latex,
}
"""Source code (all other ``text/x-``) has definitions; every other media type has markup."""
