"""What all replies share: base classes, limits of length, pages and quoting."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json import dumps
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.text.citation import unbracket_citations
from leanrag_engine.core.text.shortening import one_line, shorten, take_fitting

from .errors import plain, plain_line

if TYPE_CHECKING:
    from datetime import datetime

    from mcp_types import CallToolResult

    from leanrag_engine.core.model import Entity

JobStatusName = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]

Count = Callable[[Sequence[str]], list[int]]
"""Returns the tokens of each text."""


@dataclass(frozen=True, slots=True)
class ReplyLimits:
    """Lengths of what replies repeat, in characters unless named otherwise. All are set by reading replies over a
    corpus of 5,000 entities; tests/server/replies/test_sizes.py holds the totals."""

    glimpse: int = 80  # Of what a concise reply repeats from its context: enough to recognise it
    brief: int = 240  # Of a description or title in a list
    heading: int = 120  # Of a heading in an outline
    repeats: int = 10  # Other places where the text of a match stands, in citations
    summary: int = 1200  # Of a summary in a chain of ancestors
    concise_relations: int = 3
    detailed_relations: int = 15
    reply_tokens: int = 7200  # Tokens of a whole answer as JSON, for the context's default budget
    page_tokens: int = 5500  # Of the items of a reply as JSON; clients warn from 10,000 on
    documents: int = 100  # Documents that one reply of a job lists
    documents_length: int = 9_000  # Of all documents in one reply of a job
    failures: int = 30  # Failures that one reply of a job lists
    error: int = 300  # Of one document's error
    corrections: int = 30  # Corrections that one reply lists
    suggestions: int = 10  # Unknown ids of one call for which the nearest are suggested


LIMITS = ReplyLimits()


# Published models have no docstrings: pydantic would add them to every output schema.


class Card(BaseModel):
    """Base of everything in a reply: frozen, no undeclared keys, no invisible characters. Only the fields in
    ``MULTILINE`` keep their line breaks: a break in a name would make the rest look like the server's own line.
    Those in ``DISARMED``, which stand beside citations and fences, neither forge the one nor open the other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    MULTILINE: ClassVar[frozenset[str]] = frozenset({"context", "text", "answer", "instructions"})

    DISARMED: ClassVar[frozenset[str]] = frozenset(
        {"document", "title", "heading", "name", "description", "summary", "explanation"}
    )

    @classmethod
    def of(cls, source: object, /, **others: object) -> Self:
        """Build a card of ``others`` and, for all other fields, what ``source`` has under their names."""
        shared = {name: getattr(source, name) for name in cls.model_fields if name not in others}
        return cls.model_validate(shared | others)

    @field_validator("*", mode="after")
    @classmethod
    def _clean(cls, value: object, about: ValidationInfo) -> object:
        cleaned = clean_value(value, multiline=about.field_name in cls.MULTILINE)
        return disarm(cleaned) if about.field_name in cls.DISARMED and isinstance(cleaned, str) else cleaned


class ReplyModel(Card):
    """Base of whole replies. Their keys are stable, more may be added. An entity appears by its name and its
    ``ref``, a short stable handle that every tool accepts in place of the name."""

    @abstractmethod
    def to_markdown(self) -> str:
        """Return the text side: the same content as the model, in fewer tokens."""

    @property
    def is_failure(self) -> bool:
        return False

    def to_result(self) -> CallToolResult:
        """Return the reply as a tool's result, as text and as structured content."""
        from mcp_types import CallToolResult, TextContent  # noqa: PLC0415 - 0.2 s; the command line sends no result

        return CallToolResult(
            content=[TextContent(type="text", text=self.to_markdown())],
            structured_content=self.model_dump(mode="json"),
            is_error=self.is_failure,
        )


class NamedRef(Card):
    ref: str
    name: str

    @classmethod
    def to(cls, entity: Entity, /, **others: object) -> Self:
        """Build a card of an entity as :meth:`of` does."""
        return cls.of(entity, ref=entity.id, **others)


def clean_value(value: object, *, multiline: bool) -> object:
    """Return ``value`` with every text in it, at any depth, made plain."""
    if isinstance(value, str):
        return plain(value) if multiline else plain_line(value)
    if isinstance(value, (list, tuple)):
        return type(value)(clean_value(each, multiline=multiline) for each in value)
    if isinstance(value, dict):
        return {plain_line(str(key)): clean_value(each, multiline=multiline) for key, each in value.items()}
    return value


def disarm(text: str) -> str:
    """Return a title, heading, name or path that neither reads as a citation nor opens a fence."""
    return unbracket_citations(text).replace("```", "'''")


def quote_lines(lines: Sequence[str]) -> str:
    """Join lines with content from documents between fences that nothing in them can close."""
    # The context's own fences; imported here because start-up must not load them.
    from leanrag_engine.core.text.cleaning import fence  # noqa: PLC0415

    return fence("\n".join(lines))


PageItem = TypeVar("PageItem", bound=Card | tuple[object, ...])


def parse_cursor(cursor: str) -> int:
    """Return the number of rows before a page, which is what its cursor says. Raises ``InvalidInput`` otherwise."""
    if not cursor:
        return 0
    # SQLite's integers end: ten digits are more than any page of ours has.
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):  # noqa: PLR2004
        raise InvalidInput(
            f"The cursor {cursor[: LIMITS.glimpse]!r} does not come from this server.",
            "Give next_cursor of the page before, or leave it out for the first page.",
        )
    return int(cursor)


def cursor_after(offset: int, listed: int, total: int) -> str:
    """Return the cursor of the next page; empty after the last."""
    return str(offset + listed) if listed and offset + listed < total else ""


def cursor_lines(cursor: str) -> list[str]:
    return [f"More: call again with cursor={cursor!r}."] if cursor else []


def warning_lines(warnings: Sequence[str]) -> list[str]:
    return [f"Warning: {warning}" for warning in warnings]


def fit_page(cards: Sequence[PageItem], count: Count, tokens: int = LIMITS.page_tokens) -> list[PageItem]:
    """Return the first of ``cards`` that take at most ``tokens`` together, and at least one."""
    texts = [
        card.model_dump_json() if isinstance(card, Card) else dumps(card, ensure_ascii=False)
        for card in cards
    ]
    return take_fitting(cards, count(texts), tokens)


def shorten_line(text: str, limit: int) -> str:
    """Return ``text`` on one line, cut at a word to about ``limit`` characters, with an ellipsis for what is missing."""
    mark = " …"
    return shorten(one_line(text), limit + len(mark), mark)


def format_time(at: datetime) -> str:
    """Return a time to the second, in the zone of this machine."""
    return at.astimezone().isoformat(timespec="seconds")


def show_time(formatted: str) -> str:
    """Return a time of :func:`format_time` as people read it, to the minute."""
    return formatted[:16].replace("T", " ")
