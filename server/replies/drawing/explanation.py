"""Say in words why each line of a context is there."""

from __future__ import annotations

from leanrag_engine.core.model import EXCERPT, Context
from leanrag_engine.core.text.shortening import one_line
from leanrag_engine.retrieval.context.explanation import format_parts

from ..base import LIMITS, Count, shorten_line
from .accounting import count_parts


def explain_lines(context: Context, count: Count) -> list[str]:
    """Return what each line of a context is worth and why, the best first, and the tokens by part."""
    account = count_parts(context, count)
    lines = ["Why each line is there (parts of its value; parts of 0 are left out):"]
    for line, tokens in zip(context.lines, account.lines, strict=True):
        cited = " ".join(f"[{each}]" for each in line.citations)
        kept = "; kept whatever its value" if line.kept else ""
        text = line.text if line.kind == EXCERPT else f"{line.subject}: {line.text}"
        lines.append(f"{cited} {line.kind}, {tokens:,} tokens, {format_parts(line.parts)}{kept}")
        lines.append(f"    {shorten_line(one_line(text), LIMITS.heading)}")
    return [*lines, f"{account.total:,} tokens: {account.list_kinds()}."]
