"""Account for the tokens of a context: those of each line, and by kind of evidence."""

from __future__ import annotations

from dataclasses import dataclass

from leanrag_engine.core.model import Context

from ..base import Count

FRAME = "labels and headings"
"""What of a context is no evidence: citations, titles, notes, fences."""


@dataclass(frozen=True, slots=True)
class TokenAccount:
    """``lines`` are the tokens of each line's text, ``kinds`` of all lines of a kind; the rest of the context is ``FRAME``."""

    lines: tuple[int, ...]
    kinds: tuple[tuple[str, int], ...]
    total: int

    def list_kinds(self) -> str:
        """Return the kinds with their tokens on one line."""
        return ", ".join(f"{kind} {tokens:,}" for kind, tokens in self.kinds)


def count_parts(context: Context, count: Count) -> TokenAccount:
    """Return the tokens of a context by part; the parts add up to the whole."""
    lines = count([each.text for each in context.lines])
    kinds: dict[str, int] = {}
    for line, tokens in zip(context.lines, lines, strict=True):
        kinds[line.kind] = kinds.get(line.kind, 0) + tokens
    kinds[FRAME] = context.tokens - sum(lines)
    return TokenAccount(tuple(lines), tuple(kinds.items()), context.tokens)
