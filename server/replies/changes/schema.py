"""The reply on the schema that constrains the extraction of a collection."""

from __future__ import annotations

from leanrag_engine.core.config import Settings
from leanrag_engine.core.model import ExtractionSchema
from leanrag_engine.extraction.schemas.reading import write_yaml
from leanrag_engine.pipeline.building.schemas import SchemaView, describe_proposal

from ..base import ReplyModel


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
