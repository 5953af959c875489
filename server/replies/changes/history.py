"""The reply that says what changed since a generation or a date, and what the generations of a collection cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from leanrag_engine.core.text.citation import format_document

from ..base import LIMITS, Card, Count, ReplyModel, fit_page, quote_lines, shorten_line

if TYPE_CHECKING:
    from leanrag_engine.core.history import (
        ChangedDocument,
        CollectionChanges,
        EntityChanges,
        HistoryEntry,
        NamedChanges,
    )


LISTED = 50
"""Generations that a reply lists if they fit."""


class GenerationCard(Card):
    generation: int
    published_at: str
    mode: str
    reason: str
    changed: dict[str, int]
    cost: dict[str, float]
    available: bool

    @classmethod
    def from_engine(cls, entry: HistoryEntry) -> GenerationCard:
        documents, changes, spent = entry.documents, entry.changes, entry.spent
        changed = {
            "documents added": documents.added,
            "documents changed": documents.changed,
            "documents removed": documents.removed,
            **{f"entities {kind}": each.total for kind, each in _by_kind(changes.entities)},
            **{f"summaries {kind}": each.total for kind, each in _by_kind(changes.summaries)},
        }
        cost = {
            "model calls": spent.calls,
            "tokens in": spent.prompt_tokens,
            "tokens out": spent.completion_tokens,
            "dollars": round(spent.cost, 4),
            "calls of unknown price": spent.unpriced,
            "seconds": round(entry.seconds, 1),
            "texts embedded": entry.embedded.anew,
            "vectors reused": entry.embedded.reused,
        }
        return cls(
            generation=entry.number,
            published_at=entry.created_at.isoformat(timespec="seconds"),
            mode=entry.build.mode,
            reason=entry.build.reason,
            changed={what: count for what, count in changed.items() if count},
            cost={what: figure for what, figure in cost.items() if figure},
            available=entry.available,
        )

    def to_line(self) -> str:
        changed = ", ".join(f"{count} {what}" for what, count in self.changed.items()) or "nothing changed"
        cost = ", ".join(f"{figure:g} {what}" for what, figure in self.cost.items())
        gone = "" if self.available else "; its data are pruned"
        return (
            f"- generation {self.generation} of {self.published_at} ({self.mode}, as {self.reason}): "
            f"{changed}; {cost or 'no cost'}{gone}"
        )


class ChangedDocumentCard(Card):
    id: str
    number: str
    title: str
    change: str

    @classmethod
    def from_engine(cls, changed: ChangedDocument) -> ChangedDocumentCard:
        document = changed.document
        return cls(
            id=document.id,
            number=format_document(document.number),
            title=shorten_line(document.title, LIMITS.glimpse),
            change=f"{'added' if changed.is_new else 'changed'}{', pending' if changed.pending else ''}",
        )

    def to_line(self) -> str:
        return f"- {self.number} {self.title} (id {self.id}): {self.change}"


class NamesCard(Card):
    total: int
    names: dict[str, str] = Field(description="the foremost, by ref")

    def to_line(self, what: str) -> str:
        names = ", ".join(f"{name} (ref {ref})" for ref, name in self.names.items())
        more = ", …" if 0 < len(self.names) < self.total else ""
        return f"- {self.total} {what}{': ' if names else ''}{names}{more}"


class HistoryReply(ReplyModel):
    since: int = Field(description="generation; 0: before the first")
    until: int
    exact: bool = Field(description="false: totals are at most")
    documents: list[ChangedDocumentCard]
    changed_documents: int
    removed_documents: int
    entities: dict[str, NamesCard]
    summaries: dict[str, NamesCard]
    generations: list[GenerationCard]
    next_step: str

    @classmethod
    def from_engine(
        cls, changes: CollectionChanges, entries: Sequence[HistoryEntry], count: Count
    ) -> HistoryReply:
        """Build the reply with as many documents and ``entries``, newest first, as fit."""
        documents = [ChangedDocumentCard.from_engine(each) for each in changes.documents]
        cards = [GenerationCard.from_engine(each) for each in entries[:LISTED]]
        step = "Call get_sources with a document, or get_cluster with a ref."
        stale = changes.graph.summaries.stale.total
        if any(each.pending for each in changes.documents):
            step = "Call build_hierarchy, so that pending documents are in the hierarchy."
        elif stale:
            step = "Call get_pending_work with kind='summary' to write stale summaries again."
        return cls(
            since=changes.since,
            until=changes.published.number,
            exact=changes.exact,
            documents=fit_page(documents, count, LIMITS.page_tokens // 4),
            changed_documents=len(documents),
            removed_documents=changes.removed,
            entities=_cards(changes.graph.entities),
            summaries=_cards(changes.graph.summaries),
            generations=fit_page(cards, count, LIMITS.page_tokens // 4),
            next_step=step,
        )

    def to_markdown(self) -> str:
        return "\n".join([*self.to_lines(), f"Next: {self.next_step}"])

    def to_lines(self) -> list[str]:
        """Format everything but the next step."""
        since = f"since generation {self.since}" if self.since else "since the beginning"
        lines = [f"Changes {since}, up to generation {self.until}, which is published:"]
        if not self.exact:
            lines.append(
                "The data of that generation are pruned: these are the records of the builds since, added up; "
                "totals are at most."
            )
        quoted = [each.to_line() for each in self.documents]
        if (rest := self.changed_documents - len(self.documents)) > 0:
            quoted.append(f"- and {rest} more documents")
        for what, kinds in (("entities", self.entities), ("summaries", self.summaries)):
            quoted += [card.to_line(f"{what} {kind}") for kind, card in kinds.items()]
        removed = [f"{self.removed_documents} documents were deleted."] if self.removed_documents else []
        lines += [quote_lines(quoted)] if quoted else ["Nothing else." if removed else "Nothing."]
        return [
            *lines,
            *removed,
            "Generations, newest first:",
            *(each.to_line() for each in self.generations),
        ]


def _by_kind(changes: EntityChanges) -> list[tuple[str, NamedChanges]]:
    return [(kind, getattr(changes, kind)) for kind in ("added", "removed", "changed", "stale")]


def _cards(changes: EntityChanges) -> dict[str, NamesCard]:
    return {
        kind: NamesCard(
            total=each.total,
            names={ref: shorten_line(name, LIMITS.glimpse) for ref, name in each.names.items()},
        )
        for kind, each in _by_kind(changes)
        if each.total
    }
