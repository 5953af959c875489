"""Find the numbered headings of a plain text: *A.1. Scope*, *Article 12*, *§ 4 Fristen*. A number makes no heading by itself: those of
a document count up, stand at the beginning of a paragraph, and have text below, which items of a list and tables of contents have not."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

_RANKS = (
    "part title teil titre título titolo parte",
    "chapter kapitel chapitre capítulo capitolo capo schedule annex annexe anhang anlage allegato anexo",
    "section abschnitt sección sezione",
    "article art. artikel artículo articolo clause rule §",
)
_RANK = {word: rank for rank, words in enumerate(_RANKS, 1) for word in words.split()}
_LABEL = re.compile(
    rf"^[ \t]{{0,12}}(?:(?P<word>§|(?=[A-ZÀ-Ý])(?i:{'|'.join(map(re.escape, _RANK))})(?=[ \t]))[ \t]{{0,2}})?"
    r"(?P<number>\d{1,3}(?:[a-z]|(?:\.\d{1,3}){1,4})?|[IVXLC]{1,7}|[A-Z](?:\.\d{1,3}){1,4})(?P<stop>[.:)]?)(?=[ \t]|$)"
    r"[ \t]*(?P<title>[^\n]*)$",
    re.MULTILINE,
)
_SMALL = "of|and|the|to|in|for|on|or|an?|by|with|from|as|at|into|under|its?|this|not"
_RUN_IN = re.compile(
    rf"[\"“]?[A-Z][\w'’/-]{{0,30}}(?:[,;]?[ ](?:{_SMALL}|[A-Z][\w'’/-]{{0,30}})){{0,9}}(?<!\b[A-Z])\.(?=[ \t—–-]|$)"
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
    return sorted(
        each for known in chains.values() for held in known if len(held) >= _FEWEST for each in held
    )


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
            len(other.path) <= len(one.path) and _follows(one, other)
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
    if len(other) > len(one):
        return other[: len(one)] == one and max(other[len(one) :]) <= 1
    *above, number = other
    most = 3 if found.rank or above else 1  # A heading between them may not be known as one
    return one[: len(above)] == tuple(above) and 0 < number - one[len(above)] <= most


def _find_end(text: str, label: re.Match[str]) -> int:
    """Return where the heading ends that a line begins with; 0 if it is none."""
    title, worded, start, end = label["title"].rstrip(), bool(label["word"]), label.start(), label.end()
    # A sentence that is broken before "Article 12" or "6.1" goes on there.
    blank = blank_before(text, start)
    if not (blank or text[max(0, start - 200) : start].rstrip()[-1:] in ".;:!?)"):
        return 0
    after = text[end + 1 : end + 100].split("\n", 1)[0].strip()
    run_in = _RUN_IN.match(title) if label["stop"] and (blank or worded) else None
    if run_in and (run_in.end() < len(title) or not after[:1].islower()):
        return label.start("title") + run_in.end()
    deep = worded or title.isupper() or "." in label["number"]
    alone = not after or (deep and end - start <= _LONGEST_ABOVE_TEXT and not after[0].islower())
    plain = title[:1].isupper() and not _NO_TITLE.search(title)
    if alone and label["stop"] != ")" and ((plain and (deep or title[-1] != ".")) or (worded and not title)):
        return end
    return label.end("stop") if worded and label["stop"] else 0


def blank_before(text: str, start: int) -> bool:
    """Return whether the line at ``start`` is the first one or stands below a blank one."""
    return start == 0 or not text[text.rfind("\n", 0, start - 1) + 1 : start].strip()
