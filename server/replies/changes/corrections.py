"""Replies about corrections of the graph, and the lines that show them."""

from __future__ import annotations

from leanrag_engine.core.model import Correction, CorrectionEffects
from leanrag_engine.core.text.shortening import count_things

from ..base import ReplyModel, quote_lines


class CorrectionsReply(ReplyModel):
    correction: str
    next_step: str

    @classmethod
    def from_engine(cls, correction: Correction, *, undone: bool) -> CorrectionsReply:
        line = format_correction(correction)
        step = "It takes effect at the next build: call build_hierarchy."
        return cls(correction=f"Taken back: {line}" if undone else line, next_step=step)

    def to_markdown(self) -> str:
        return f"{quote_lines([self.correction])}\nNext: {self.next_step}"


def format_correction(correction: Correction, effects: CorrectionEffects | None = None) -> str:
    """Return what a correction says, and with ``effects`` what it did in the published build."""
    if correction.kind == "merge":
        said = f"{correction.ref}: {' = '.join(correction.names)}, called {correction.name}"
    else:
        count = len(correction.chunks)
        passages = [count_things(count, "passage")] if count else []
        places = ", ".join([*correction.documents, *passages])
        said = f"{correction.ref}: {correction.names[0]} is {correction.name} in {places}"
    return f"{said} ({describe_effect(correction, effects)})" if effects else said


def describe_effect(correction: Correction, effects: CorrectionEffects) -> str:
    if correction.ref in effects.applied:
        return "applied"
    if correction.ref in effects.idle:
        return "without effect: no document has its names any more"
    return "from the next build on"
