"""Decide whether a context holds a passage: its full text or, if it is trimmed, the sentence with the answer.
White space is ignored, and what rendering removes for safety. If no sentence of the passage holds the answer,
only the full text counts, whose sentences may be apart from each other."""

import re
from collections.abc import Iterable, Sequence

from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.retrieval.context.rendering import sanitise

_WORDLESS = re.compile(r"[^\w]+")
_VERDICTS = frozenset(["yes", "no"])
"""Answers that are not quotations from a passage."""


def holds_passage(context: str, text: str, answers: Iterable[str]) -> bool:
    """Return whether ``context`` holds the passage ``text`` as evidence for a question with these ``answers``."""
    shown = plain(context)
    if plain(text) in shown:
        return True
    spoken = plain_sentences(text)
    telling = [sentence for sentence in spoken if holds_answer(sentence, answers)]
    if any(sentence in shown for sentence in telling):
        return True
    return bool(spoken) and all(sentence in shown for sentence in spoken)


def plain(text: str) -> str:
    """Return ``text`` as a context quotes it, with single spaces."""
    return " ".join(sanitise(text).split())


def plain_sentences(text: str) -> list[str]:
    safe = sanitise(text)
    return [" ".join(safe[start:end].split()) for start, end in sentences(safe)]


def holds_answer(sentence: str, answers: Iterable[str]) -> bool:
    """Return whether the sentence has one of the answers as whole words, regardless of case and punctuation."""
    words = _bare(sentence)
    return any(
        f" {wanted} " in f" {words} " or (has_cjk(wanted) and wanted in words)
        for wanted in map(_bare, answers)
        if wanted and wanted not in _VERDICTS
    )


def _bare(text: str) -> str:
    return _WORDLESS.sub(" ", clean(text).casefold()).strip()


def share_covered(context: str, texts: Sequence[str], answers: Iterable[str]) -> float:
    """Return the share of the gold ``texts`` that ``context`` holds."""
    known = tuple(answers)
    return sum(holds_passage(context, text, known) for text in texts) / len(texts)
