"""Find the signatures that a line of source code lies within: the lines of its ``class``, its ``def``, as they are
written. Strings and comments are blanked first. Where braces hold blocks they tell what lies within what, elsewhere
the indent does: one rule for all languages, which also reads files that no compiler accepts."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from leanrag_engine.core.text.word_lists import read_words

_INDENTED = read_words("files", "indented_languages")
"""Languages whose blocks are found by their indent."""
_QUOTED = read_words("files", "quoting_languages") | _INDENTED
"""Languages in which single quotation marks enclose texts, not one character."""
_SHARP = read_words("files", "sharp_languages")
"""Languages with comments from a ``#`` to the end of the line."""

_TEXT = r'"(?:[^"\\\n]|\\.)*+"' + r"|\\[\\\"'`]"  # An escaped mark begins none
_QUOTES = r"|'(?:[^'\\\n]|\\.)*+'|`(?:[^`\\]|\\.)*+`"
_CHARACTER = r"|'(?:[^'\\\n]|\\[^\n]{1,8}?)'|`[^`]*+`"
# Groups with alternatives find too little as possessive ones before Python 3.11.5.
_LONG_TEXTS = r'"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*"""|' + r"'''[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*'''|"
_SLASHES = r"|//[^\n]*+|/\*(?:.*?\*/|.*+)"
_DASHES = r"|--[^\n]*+"
_NO_LINE_END = re.compile(r"[^\n]")

_KEYWORD = (
    r"(?:def|class|func|fn|fun|function|sub|struct|union|enum|interface|trait|impl|module|mod|namespace|record|protocol|extension"
    r"|object|actor)"
)
_INDENTED_START = re.compile(
    rf"^(?P<indent>[ \t]*)(?:(?:async|local|export|private|public)[ \t]+)*(?:{_KEYWORD}[ \t]+[\w.:]+|\w+[ \t]*\([ \t]*\)[ \t]*\{{"
    r"|(?i:create)[ \t]+(?:(?i:or[ \t]+replace)[ \t]+)?(?i:table|view|function|procedure|trigger)\b"
    r"|[\w.]+[ \t]*(?:<-|=)[ \t]*function\b)",
    re.MULTILINE,
)
_LINE = re.compile(r"^(?P<indent>[ \t]*)(?P<first>[^\s])", re.MULTILINE)
_CLOSERS = frozenset(")]}")
_HEADER_MARK = re.compile(r"[()\[\]\n]")
_MARK = re.compile(r"[(){}\[\];]")
_PAIRS = {")": "(", "]": "[", "}": "{"}
_NAMED = re.compile(rf"(?<![\w.]){_KEYWORD}\b(?=[ \t\n]*(?:[\w(<*&\[\0]|$))")
_NO_DEFINITION = re.compile(
    r"(?:\w+:[ \t]*)?(?:if|else|for|foreach|while|switch|match|when|catch|try|do|return|with|using|synchronized|lock|new|guard|go"
    r"|defer|select|case|default:|loop|finally|unless|until|elseif|elif|throw|await|\.)\b"
)
_BRACKETED = re.compile(r"\([^()]*\)")
_CALLABLE = re.compile(r"[^=]*[\w>\]~]\s*\0[^=;()]*")
_ARROW = re.compile(r"(?:[=:]|export default)\s*(?:async\s*)?(?:\0|\w+)(?:\s*:[^=]*)?\s*=>$")
_GOES_ON = re.compile(
    r"\s*(?:$|[:,)}\]&|.?]|->|where\b|throws\b|extends\b|implements\b|noexcept\b|override\b)"
)
_TYPE_ALONE = re.compile(r"[ \t]*[@\w][\w \t*&<>,:\[\]@.]*[\w*&>\]]")
"""A line with the type of a function, or an annotation, above its name."""
_NAME = re.compile(
    r"(?<![@\w$])(?P<name>[~\w$]+(?:(?:::|\.)~?[\w$]+)*)\s*(?:<[^()]*>\s*)?(?:\(|(?P<given>[=:]\s*(?:async\s*)?(?:function\b|\(|[\w$]+\s*=>)))"
)
_NO_NAME = re.compile(r"[A-Z\d_]{3,}|[gs]et")  # A macro, or what gives or sets a property
_TYPE_OF_C = re.compile(r"\b(?:struct|union|enum)(?=\s+\w+[\s*&]+\w+\s*\()")
_PREPROCESSOR = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _SignedBlock:
    """Lines ``text[start:header]`` say what ``text[header:end]`` is."""

    start: int
    header: int
    end: int


def find_signatures(text: str, media_type: str, *, most: int = 4) -> Callable[[int], str]:
    """Return a function that gives the signatures around an offset of ``text``, outermost first, a line feed between
    two. At most the ``most`` innermost ones. What begins at the offset itself is not around it. Linear in the text."""
    blanked = blank_texts(text, media_type)
    found = (
        _find_by_indent(blanked, flat=media_type == "text/x-sql")
        if media_type in _INDENTED
        else _find_by_braces(blanked, media_type)
    )
    ordered = sorted(found, key=lambda each: (each.start, -each.end))
    starts = [each.start for each in ordered]
    parents: list[int] = []
    open_: list[int] = []
    for place, each in enumerate(ordered):
        while open_ and ordered[open_[-1]].end <= each.start:
            open_.pop()
        parents.append(open_[-1] if open_ else -1)
        open_.append(place)

    def signatures_at(offset: int) -> str:
        place = bisect_right(starts, offset - 1) - 1
        around: list[str] = []
        while place >= 0 and len(around) < most:
            if offset < ordered[place].end:
                header = text[ordered[place].start : min(ordered[place].header, offset)].rstrip("\n")
                around.append(_shorten(header))
            place = parents[place]
        return "\n".join(reversed(around))

    return signatures_at


def find_functions(blanked: str, media_type: str) -> Iterator[tuple[int, int, str]]:
    """Yield where the lines of a function begin, where its name ends, and the name, for those that a brace opens and no keyword
    names, in order; ``blanked`` has no texts and comments."""
    if media_type in _INDENTED or media_type == "text/x-css":
        return
    for block in sorted(_find_by_braces(blanked, media_type), key=lambda each: each.start):
        header = _TYPE_OF_C.sub(lambda each: " " * len(each[0]), blanked[block.start : block.header])
        found = _NAME.search(header)
        if not found or _NO_NAME.fullmatch(found["name"]):
            continue
        if found["given"] or not _NAMED.search(_flatten(header)):
            yield block.start, block.start + found.end("name"), found["name"]


def _shorten(signature: str, longest: int = 400) -> str:
    """Return a signature as it is written; of a very long one the first lines, or the beginning of the first, and an ellipsis."""
    if len(signature) <= longest:
        return signature
    return f"{signature[: max(signature.rfind(chr(10), 0, longest), 0) or longest]} …"


def blank_texts(text: str, media_type: str) -> str:
    """Return the text with spaces in place of what strings and comments hold; offsets and lines stay."""
    pattern = (_LONG_TEXTS if media_type == "text/x-python" else "") + _TEXT
    pattern += _QUOTES if media_type in _QUOTED else _CHARACTER
    pattern += r"|#[^\n]*+" if media_type in _SHARP else ""
    pattern += _DASHES if media_type in {"text/x-sql", "text/x-lua"} else ""
    pattern += "" if media_type in _INDENTED else _SLASHES
    return re.sub(pattern, lambda found: _NO_LINE_END.sub(" ", found[0]), text, flags=re.DOTALL)


def _find_by_indent(text: str, *, flat: bool) -> Iterator[_SignedBlock]:
    """Yield definitions, whose signature is one line if ``flat``; each ends where a line stands as far to the left, other than one that only closes brackets."""
    open_: list[tuple[int, int, int]] = []  # indent, start, header
    found = {each.start(): each for each in _INDENTED_START.finditer(text)}
    reached = 0
    for line in _LINE.finditer(text):
        if line.start() < reached:  # in the brackets of a signature
            continue
        indent = len(line["indent"].expandtabs())
        while open_ and open_[-1][0] >= indent and line["first"] not in _CLOSERS:
            yield _SignedBlock(*open_.pop()[1:], line.start())
        if start_ := found.get(line.start()):
            header, reached = _end_of_header(text, start_.end())
            if flat:
                header = reached = max(text.find("\n", start_.end()), start_.end())
            open_.append((indent, line.start(), header))
    yield from (_SignedBlock(start, header, len(text)) for _, start, header in open_)


def _end_of_header(text: str, position: int, longest: int = 1_000) -> tuple[int, int]:
    """Return the end of the line on which the brackets of a signature are closed, and where the search for it ended."""
    depth = 0
    last = min(len(text), position + longest)
    for mark in _HEADER_MARK.finditer(text, text.rfind("\n", 0, position) + 1, last):
        if mark[0] == "\n":
            if depth <= 0:
                return mark.start(), mark.start()
        else:
            depth += 1 if mark[0] in "([" else -1
    line_end = text.find("\n", position, last)
    return (last if line_end < 0 else line_end), last


def _find_by_braces(text: str, media_type: str) -> Iterator[_SignedBlock]:
    """Yield definitions: what stands before a brace, from the last brace or semicolon on, tells whether it opens one."""
    if media_type in {"text/x-c", "text/x-c++"}:
        text = _PREPROCESSOR.sub(lambda found: " " * len(found[0]), text)
    # The bracket; of a definition its start and the end of its header, else -1.
    open_: list[tuple[str, int, int]] = []
    begin = 0  # of what is not finished yet
    for mark in _MARK.finditer(text):
        sign, at = mark[0], mark.start()
        if sign in "([":
            open_.append((sign, -1, -1))
        elif sign == "{":
            inside = bool(open_) and open_[-1][0] != "{"
            start = -1 if inside else _start_of(text, begin, at)
            open_.append((sign, start, at + 1))
            begin = begin if inside else at + 1
        elif sign == ";":
            begin = begin if open_ and open_[-1][0] != "{" else at + 1
        else:
            while open_ and open_[-1][0] != _PAIRS[sign] and open_[-1][0] != "{":
                open_.pop()
            if not open_ or open_[-1][0] != _PAIRS[sign]:
                continue
            _, start, header = open_.pop()
            if start >= 0:
                yield _SignedBlock(start, header, at + 1)
            if sign == "}" and not (open_ and open_[-1][0] != "{"):
                begin = at + 1
    yield from (_SignedBlock(start, header, len(text)) for _, start, header in open_ if start >= 0)


def _flatten(header: str) -> str:
    """Return a signature with a sign in place of each pair of round brackets and what is in it."""
    flat, before = header, ""
    while flat != before:
        flat, before = _BRACKETED.sub("\0", flat), flat
    return flat


def _start_of(text: str, begin: int, brace: int, longest: int = 2_000) -> int:
    """Return where the lines of a definition begin whose block the ``brace`` opens, −1 if it opens something else.
    Going up line by line: where no semicolon ends a statement, only its own lines tell where a definition begins."""
    lowest = max(begin, brace - longest)
    start = brace + 1
    while start > lowest:
        start = max(lowest, text.rfind("\n", 0, start - 1) + 1)
        header = text[start:brace]
        listed = text[max(lowest, start - 2) : start].rstrip().endswith(",")
        if listed or _GOES_ON.match(header) or header.count("(") < header.count(")"):
            continue
        stripped = header.strip()
        if _NO_DEFINITION.match(stripped):
            return -1
        flat = _flatten(stripped)
        if not (_NAMED.search(flat) or _CALLABLE.fullmatch(flat) or _ARROW.search(flat)):
            return -1
        above = text.rfind("\n", 0, start - 1) + 1
        if lowest <= above < start and _TYPE_ALONE.fullmatch(text[above : start - 1]):
            start = above
        return start + len(text[start:brace]) - len(text[start:brace].lstrip("\n"))
    return -1
