"""Account for the tokens of a context, by line and by kind of evidence, and say in words why each line is there."""

from dataclasses import dataclass

from leanrag_engine.core.model import EXCERPT, SCORE_PARTS, Context, ContextLine
from leanrag_engine.core.text.shortening import one_line
from leanrag_engine.retrieval.context.explanation import format_parts

from ..base import LIMITS, Count, shorten_line

FRAME = "labels and headings"  # What of a context is no evidence: citations, titles, notes, fences


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


def explain_lines(context: Context, count: Count) -> list[str]:
    """Return what each line of a context is worth and why, the best first, and the tokens by part."""
    account = count_parts(context, count)
    lines = ["Why each line is there (parts of its value, explained below; parts of 0 are left out):"]
    for line, tokens in zip(context.lines, account.lines, strict=True):
        cited = " ".join(f"[{each}]" for each in line.citations)
        text = line.text if line.kind == EXCERPT else f"{line.subject}: {line.text}"
        lines.append(f"{cited} {line.kind}, {tokens:,} tokens, {explain_value(line)}")
        lines.append(f"    {shorten_line(one_line(text), LIMITS.heading)}")
    legend = [f"  {name:10}{meaning}" for name, meaning in explain_parts(context).items()]
    return [*lines, f"{account.total:,} tokens: {account.list_kinds()}.", "The parts of a value:", *legend]


def explain_value(line: ContextLine) -> str:
    """Return the parts of a line's value, and whether it is there whatever that is."""
    return format_parts(line.parts) + ("; kept whatever its value" if line.kept else "")


def explain_parts(context: Context) -> dict[str, str]:
    """Return what each part means that a value in this context has, by its name."""
    occurring = {name for line in context.lines for name, _ in line.parts.items()}
    return {name: meaning for name, meaning in SCORE_PARTS.items() if name in occurring}
