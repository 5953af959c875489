"""Quote the sentences, turns and lines of a text that hold given places."""

import re
from collections.abc import Sequence
from functools import lru_cache

from leanrag_engine.core.text.language.sentences import find_turn
from leanrag_engine.core.text.records import TABLE_LINE
from leanrag_engine.core.text.shortening import cut_middle, one_line, shorten
from leanrag_engine.core.text.word_lists import read_pattern

from .sentences import sentences

_GAP = " … "
_LONGEST_TERM = 80
_EXPLAINED = re.compile(r"[ \t]*\n(?:[ \t]*\n)?([ \t]+)\S[^\n]*")
_POST_HEAD = read_pattern("phrases", "post_head")
"""Two lines of the head of a mail or post."""
_SIGNATURE = re.compile(r"(?:--|—)[ \t]*[^\s-]+(?:[ \t][A-Z]\S*)?\s*(?:\n[ \t]*\n|\Z)")
_ASKS = re.compile(r"[?？]\W*(\[[^]]*\]\W*)?$")
"""The end of a question, after which what is shown may be described."""


def quote_around(text: str, places: Sequence[tuple[int, int]], limit: int) -> str:
    """Return on one line the statements of ``text`` that hold ``places``, given in order, with ellipses for what is left out.
    A statement of more than ``limit`` characters is cut at words around the place; a turn of a chat keeps its speaker."""
    quoted, reached = "", 0
    for start, end in places:
        if quoted and start < reached:
            continue
        first, last, speaker = find_statement(text, start, end, limit)
        gap = "" if not quoted else _GAP if text[reached:first].strip() else " "
        quoted += gap + speaker + _cut_around(text, first, last, start, end, limit)
        reached = max(last, end)
    return one_line(quoted)


def quote_exchange(text: str, place: tuple[int, int], limit: int, *, short: int = 6) -> str:
    """Return the statement around ``place``; in a conversation with the turn after it if it asks, and with the one before
    it if it has at most ``short`` words, as what these mean depends on that."""
    quoted = quote_around(text, [place], limit)
    turn = find_turn(quoted)
    first, last, speaker = find_statement(text, *place, limit)
    before, after = text[:first].rstrip().rpartition("\n\n")[2], text[last:].lstrip().partition("\n\n")[0]
    said = [quoted]
    if turn and _ASKS.search(quoted) and find_turn(after):
        said = [quoted, after]
    elif turn and not speaker and len(quoted[turn.said :].split()) <= short and find_turn(before):
        said = [before, quoted]
    return " ".join(shorten(one_line(each), limit, " …") for each in said)


def find_statement(text: str, start: int, end: int, limit: int) -> tuple[int, int, str]:
    """Return the bounds of the statement around ``text[start:end]``, and the speaker, or the term that it explains, where they leave
    that out. It is a turn of a chat of at most ``limit`` characters, else the sentences, else the lines."""
    first = text.rfind("\n\n", 0, start) + 2 if "\n\n" in text[:start] else 0
    last = text.find("\n\n", end)
    paragraph = text[first : last if last >= 0 else len(text)]
    first += len(paragraph) - len(paragraph.lstrip())
    paragraph = paragraph.strip()
    turn = None if TABLE_LINE.match(paragraph) else find_turn(paragraph)
    if turn and len(paragraph) <= limit:
        return first, first + len(paragraph), ""
    held = [span for span in _cut_paragraph(paragraph) if first + span[0] < end and start < first + span[1]]
    if not held:
        after = text.find("\n", end)
        return text.rfind("\n", 0, start) + 1, after if after >= 0 else len(text), ""
    begin, finish = first + held[0][0], first + held[-1][1]
    if turn:
        left_out = held[0][0] > 0 or held[-1][1] > limit
        return begin, finish, paragraph[: turn.said] + _GAP[1:] if left_out else ""
    return _complete(text, begin, finish, first + len(paragraph), limit)


@lru_cache(maxsize=16)  # one place after the other is looked at in a paragraph
def _cut_paragraph(paragraph: str) -> tuple[tuple[int, int], ...]:
    return tuple(sentences(paragraph))


def _complete(text: str, begin: int, finish: int, last: int, limit: int) -> tuple[int, int, str]:
    """Return the bounds of a statement in a paragraph that ends at ``last``, with what it says nothing without, or the term before it."""
    # A line that is itself a term says nothing without the line beneath it.
    explained = _EXPLAINED.match(text, finish) if finish - begin <= _LONGEST_TERM else None
    if explained and len(explained[1]) > begin - text.rfind("\n", 0, begin) - 1:
        return begin, explained.end(), ""
    if term := _find_term(text, begin):
        return begin, finish, term + _GAP
    if _POST_HEAD.match(text, begin):  # what was written follows
        start = last + len(text[last:]) - len(text[last:].lstrip())
        said = sentences(text[start : start + 4 * limit])
        return begin, start + said[0][1] if said else finish, ""
    if _SIGNATURE.match(text, begin):  # what was written stands before it
        start = max(0, begin - 4 * limit)
        said = sentences(text[start:begin])
        return start + said[-1][0] if said else begin, finish, ""
    return begin, finish, ""


def _find_term(text: str, start: int) -> str:
    """Return the line that what stands at ``start`` is indented beneath, as in a list of options; "" if it is long, a sentence or code."""
    lines = text[: start + 1].split("\n")[-12:]
    indent = len(lines[-1]) - len(lines[-1].lstrip())
    above = (
        each for each in reversed(lines[:-1]) if each.strip() and len(each) - len(each.lstrip()) < indent
    )
    term = next(above, "").strip() if indent else ""
    return term if len(term) <= _LONGEST_TERM and not term.endswith((".", ":", "{", "(", ";", ",")) else ""


def _cut_around(text: str, first: int, last: int, start: int, end: int, limit: int) -> str:
    """Return ``text[first:last]``, if it is too long only the words around ``text[start:end]``."""
    if last - first <= limit:
        return text[first:last]
    side = max(0, limit - (end - start)) // 2
    left, right = text[max(first, start - side) : start], text[end : min(last, end + side)]
    if start - side > first:
        left = _GAP[1:] + (left.split(None, 1)[1] if len(left.split(None, 1)) > 1 else left)
    if end + side < last:
        right = (right.rsplit(None, 1)[0] if len(right.rsplit(None, 1)) > 1 else right) + _GAP[:-1]
    return left + cut_middle(text[start:end], limit) + right
