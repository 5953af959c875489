"""Replies about what changes a graph: what changed since a generation or a date and what generations cost, corrections, and
the schema that constrains extraction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from leanrag_engine.core.history import CollectionChanges, GraphChanges, HistoryEntry, NamedChanges
from leanrag_engine.core.model import Correction, CorrectionEffects, ExtractionSchema
from leanrag_engine.core.text.citation import format_document
from leanrag_engine.core.text.shortening import count_things

from .base import LIMITS, Card, Count, ReplyModel, fit_page, format_time, quote_lines, shorten_line

if TYPE_CHECKING:
    from leanrag_engine.core.config import Settings
    from leanrag_engine.pipeline.building.schemas import SchemaView

LISTED = 50  # Generations, and documents of one kind of change, that a reply lists if they fit


class GenerationCard(Card):
    generation: int
    published_at: str
    reason: str = Field(description="the mode, and why")
    changed: dict[str, int]
    cost: dict[str, float]
    available: bool

    @classmethod
    def from_engine(cls, entry: HistoryEntry) -> GenerationCard:
        documents, spent = entry.documents, entry.spent
        changed = {
            "documents added": documents.added,
            "documents changed": documents.changed,
            "documents removed": documents.removed,
            **{what: each.total for what, each in list_changes(entry.changes)},
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
            published_at=format_time(entry.created_at),
            reason=f"{entry.build.mode}, as {entry.build.reason}",
            changed={what: count for what, count in changed.items() if count},
            cost={what: figure for what, figure in cost.items() if figure},
            available=entry.available,
        )

    def to_line(self) -> str:
        changed = ", ".join(f"{what}: {count}" for what, count in self.changed.items()) or "nothing changed"
        cost = ", ".join(f"{figure:g} {what}" for what, figure in self.cost.items())
        gone = "" if self.available else "; its data are pruned"
        return (
            f"- generation {self.generation} of {self.published_at} ({self.reason}): "
            f"{changed}; {cost or 'no cost'}{gone}"
        )


class NamesCard(Card):
    total: int
    names: dict[str, str] = Field(description="the foremost, by ref")

    @classmethod
    def from_names(cls, total: int, names: Mapping[str, str]) -> NamesCard:
        return cls(
            total=total, names={ref: shorten_line(name, LIMITS.glimpse) for ref, name in names.items()}
        )

    def to_line(self, what: str) -> str:
        names = ", ".join(f"{name} (ref {ref})" for ref, name in self.names.items())
        more = ", …" if 0 < len(self.names) < self.total else ""
        return f"- {what}: {self.total}{f' ({names}{more})' if names else more}"


class HistoryReply(ReplyModel):
    since: int = Field(description="generation; 0: before the first")
    exact: bool = Field(description="false: totals are at most")
    changes: dict[str, NamesCard]
    generations: list[GenerationCard]
    next_step: str

    @classmethod
    def from_engine(
        cls, changes: CollectionChanges, entries: Sequence[HistoryEntry], count: Count
    ) -> HistoryReply:
        """Build the reply with as many ``entries``, newest first, as fit."""
        graph = list_changes(changes.graph)
        cards = [GenerationCard.from_engine(each) for each in entries[:LISTED]]
        step = "Call get_sources with a document, or get_cluster with a ref."
        if any(each.pending for each in changes.documents):
            step = "Call build_hierarchy, so that pending documents are in the hierarchy."
        elif changes.graph.summaries.stale.total:
            step = "Call get_pending_work with kind='summary' to write stale summaries again."
        elif changes.graph.sentences.stale.total:
            step = "Call get_pending_work with kind='relation' to write stale sentences again."
        return cls.of(
            changes,
            changes={
                what: card
                for what, card in (
                    *list_document_changes(changes),
                    *((what, NamesCard.from_names(each.total, each.names)) for what, each in graph),
                )
                if card.total
            },
            generations=fit_page(cards, count, LIMITS.page_tokens // 4),
            next_step=step,
        )

    def to_markdown(self) -> str:
        return "\n".join([*self.to_lines(), f"Next: {self.next_step}"])

    def to_lines(self) -> list[str]:
        """Format everything but the next step."""
        since = f"since generation {self.since}" if self.since else "since the beginning"
        lines = [f"Changes {since}:"]
        if not self.exact:
            lines.append(
                "The data of that generation are pruned: these are the records of the builds since, added up; "
                "totals are at most."
            )
        quoted = [card.to_line(what) for what, card in self.changes.items()]
        lines.append(quote_lines(quoted) if quoted else "Nothing changed.")
        return [
            *lines,
            "Generations, the published one first:",
            *(each.to_line() for each in self.generations),
        ]


def list_changes(changes: GraphChanges) -> list[tuple[str, NamedChanges]]:
    """Return the changes of entities, summaries and sentences with what they are called."""
    return [
        (f"{what} {kind}", getattr(of, kind))
        for what, of in (
            ("entities", changes.entities),
            ("summaries", changes.summaries),
            ("relation sentences", changes.sentences),
        )
        for kind in ("added", "removed", "changed", "stale")
    ]


def list_document_changes(changes: CollectionChanges) -> Iterator[tuple[str, NamesCard]]:
    """Yield the changes of documents with what they are called; their refs are their numbers."""
    groups = {
        "documents added": [each.document for each in changes.documents if each.added],
        "documents changed": [each.document for each in changes.documents if each.changed],
        "documents pending": [each.document for each in changes.documents if each.pending],
    }
    for what, found in groups.items():
        names = {format_document(each.number): each.title for each in found[:LISTED]}
        yield what, NamesCard.from_names(len(found), names)
    yield "documents removed", NamesCard(total=changes.removed, names={})


# --- corrections -------------------------------------------------------------------------


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


# --- the schema --------------------------------------------------------------------------


class SchemaReply(ReplyModel):
    name: str
    entities: dict[str, str]
    relations: dict[str, str]
    attributes: dict[str, str]
    adopted: list[str]
    outside: list[str]
    unlisted: int
    notes: list[str]

    @classmethod
    def from_engine(cls, view: SchemaView, settings: Settings) -> SchemaReply:
        from leanrag_engine.pipeline.building.schemas import describe_proposal  # noqa: PLC0415 - only here

        held = view.schema or ExtractionSchema("", {}, {}, {})
        proposals = view.effects.proposals if view.schema and view.effects else ()
        return cls.of(
            held,
            adopted=[*held.adopted],
            outside=[
                f"{each.ref}: {describe_proposal(each)}" for each in proposals if each.ref not in held.adopted
            ],
            unlisted=view.effects.unlisted if view.effects else 0,
            notes=_notes(view, has_model=bool(settings.llm_model)),
        )

    def to_markdown(self) -> str:
        from leanrag_engine.extraction.schemas.reading import write_yaml  # noqa: PLC0415 - only here

        lines = ["No schema: extraction is open."]
        if self.name:
            held = ExtractionSchema(self.name, self.entities, self.relations, self.attributes)
            lines = [f"# {self.name}", write_yaml(held)]
        if self.adopted:
            lines.append(f"Adopted: {', '.join(self.adopted)}")
        if self.outside:
            lines += ["Kept apart:", *(f"- {each}" for each in self.outside)]
            lines += [f"- and {self.unlisted} more"] if self.unlisted else []
        return "\n".join([*lines, *self.notes])


def _notes(view: SchemaView, *, has_model: bool) -> list[str]:
    """Return a line for each thing that the next build does, or cannot do."""
    notes = []
    if view.outdated and has_model:
        notes.append(
            f"The next build has the model read {view.outdated} passages again that it read with another schema or none:"
            " `leanrag build --dry-run` says what that costs."
        )
    elif view.outdated:
        notes.append(
            f"{view.outdated} passages were read by a model with another schema or none, and no model is configured now: "
            "what they have outside the schema is kept apart."
        )
    if view.agent_outdated:
        notes.append(
            f"{view.agent_outdated} passages were read by an agent with another schema or none: they are pending work again."
        )
    if view.schema and view.heuristic:
        notes.append(
            f"{view.heuristic} passages are read by heuristics so far: those map their types to the schema's where they can, "
            "and find no attributes and no types of relations."
        )
    return notes
