"""Find where a passage says what a sentence says."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from leanrag_engine.core.text.scripts import has_cjk

from .sentences import sentences
from .words import content_words, words

Match = Literal["verbatim", "closest", "passage"]
"""How a quotation matches its sentence. ``verbatim``: word for word, white space and a full stop that was added aside;
``closest``: it shares most words with it; ``passage``: no sentence of the passage shares a word, so it is all of it."""


@dataclass(frozen=True, slots=True)
class Quotation:
    """``text[start:end]`` of a passage and how it matches a sentence; ``likeness`` is 1 where it is verbatim."""

    start: int
    end: int
    match: Match
    likeness: float


def find_quotation(sentence: str, text: str) -> Quotation:
    """Return where ``text`` says ``sentence``: word for word, else the one to three sentences with most words in common."""
    # Making a summary adds the full stop to a clause or a line that has none.
    for wanted in dict.fromkeys((sentence, sentence.removesuffix("."))):
        found = _verbatim_pattern(wanted).search(text) if wanted.strip() else None
        if found:
            return Quotation(found.start(), found.end(), "verbatim", 1.0)
    spans = sentences(text)
    likeness, start, end = _find_closest(_content_words(sentence), spans, text)
    if likeness:
        return Quotation(start, end, "closest", likeness)
    return Quotation(0, len(text), "passage", 0.0)


def _verbatim_pattern(wanted: str) -> re.Pattern[str]:
    pattern = r"\s+".join(map(re.escape, wanted.split()))
    if has_cjk(wanted):
        return re.compile(pattern)  # such words have no visible edges
    first, last = wanted.strip()[0], wanted.strip()[-1]
    before, after = (r"(?<!\w)" if first.isalnum() else ""), (r"(?!\w)" if last.isalnum() else "")
    return re.compile(f"{before}{pattern}{after}")


def _find_closest(
    mine: frozenset[str], spans: Sequence[tuple[int, int]], text: str
) -> tuple[float, int, int]:
    """Return the likeness, start and end of the run of sentences that is most like the words ``mine``, the first of several."""
    said = [_content_words(text[start:end]) for start, end in spans]
    best = (0.0, 0, 0)
    for first in range(len(spans)):
        theirs: frozenset[str] = frozenset()
        # One sentence may summarise three sentences of a passage.
        for last in range(first, min(first + 3, len(spans))):
            theirs |= said[last]
            likeness = len(mine & theirs) / sqrt(len(mine) * len(theirs)) if mine and theirs else 0.0
            if likeness > best[0]:
                best = (likeness, spans[first][0], spans[last][1])
    return best


def _content_words(text: str) -> frozenset[str]:
    return content_words(text) or frozenset(words(text))
