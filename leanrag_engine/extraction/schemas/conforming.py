"""Apply a schema to extracts before they are merged: what is outside it is kept apart, counted, and adopted
if it has support. The extracts keep everything: no passage need be read again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from leanrag_engine.core.model import (
    Extract,
    ExtractedEntity,
    ExtractedRelation,
    ExtractionSchema,
    Method,
    SchemaEffects,
    TypeKind,
    TypeProposal,
)
from leanrag_engine.core.text.language.names import name_key

from .matching import UNKNOWN, TypeMatcher

CONFIDENCE, CHUNKS = 0.9, 3
"""When a type outside the schema is adopted: with at least this confidence (μ of Youtu §1) in at least this many
chunks, which is our reading of its "high-frequency"."""

LISTED = 50  # The most proposals that a build records


def conform(extracts: Sequence[Extract], schema: ExtractionSchema) -> tuple[list[Extract], SchemaEffects]:
    """Return the extracts with only the types of the schema and adopted ones, and what was adopted and kept apart.
    Heuristic extracts keep all entities: their types are mapped to the schema's where they are known, else left as
    they are. A relation goes with its ends; one without a type, from a reading without a schema, stays."""
    proposals = _find_proposals(extracts, replace(schema, adopted=()))
    adopted = tuple(each.ref for each in proposals if each.adopted)
    matcher = TypeMatcher(replace(schema, adopted=adopted))
    filtering = _Filter(matcher)
    found = [filtering.apply(extract) for extract in extracts]
    listed = proposals[: max(LISTED, len(adopted))]
    return found, SchemaEffects(
        schema.name,
        schema.digest,
        tuple(listed),
        len(proposals) - len(listed),
        filtering.apart,
        filtering.untyped,
    )


def _find_proposals(extracts: Sequence[Extract], schema: ExtractionSchema) -> list[TypeProposal]:
    """Return the types outside the schema: adopted ones first, then by the number of their chunks."""
    matcher = TypeMatcher(schema)
    chunks: dict[tuple[TypeKind, str], dict[str, float]] = {}
    for extract in extracts:
        for kind, name, confidence in _types_of(extract):
            if not matcher.find(kind, name):
                held = chunks.setdefault((kind, name), {})
                held[extract.chunk_id] = max(confidence, held.get(extract.chunk_id, 0.0))
    proposals = []
    for (kind, name), found in chunks.items():
        confident = sum(each >= CONFIDENCE for each in found.values())
        # ``concept`` stands for an entity without a given type.
        enough = confident >= CHUNKS and name != UNKNOWN
        adopted = schema.decisions.get(f"{kind}:{name}", enough)
        proposals.append(TypeProposal(kind, name, len(found), confident, adopted))
    return sorted(proposals, key=lambda each: (not each.adopted, -each.chunks, each.ref))


def _types_of(extract: Extract) -> Iterator[tuple[TypeKind, str, float]]:
    """Yield the kind, name and confidence of each type that a model or an agent gave."""
    if extract.method is Method.HEURISTIC:
        return
    for entity in extract.entities:
        yield "entity", entity.type, entity.confidence
        for each in entity.attributes:
            yield "attribute", each.name, each.confidence
    for relation in extract.relations:
        if relation.type:
            yield "relation", relation.type, relation.confidence


@dataclass(slots=True)
class _Filter:
    """Leaves out what does not fit, and counts it."""

    matcher: TypeMatcher
    apart: int = 0
    untyped: int = 0

    def apply(self, extract: Extract) -> Extract:
        if extract.method is Method.HEURISTIC:
            return replace(extract, entities=tuple(map(self._map_type, extract.entities)))
        entities = tuple(each for given in extract.entities if (each := self._entity(given)))
        names = {name_key(each.name) for each in entities}
        relations = tuple(kept for stated in extract.relations if (kept := self._relation(stated, names)))
        return replace(extract, entities=entities, relations=relations)

    def _map_type(self, entity: ExtractedEntity) -> ExtractedEntity:
        if found := self.matcher.find("entity", entity.type):
            return entity if found == entity.type else replace(entity, type=found)
        self.untyped += 1
        return entity

    def _entity(self, entity: ExtractedEntity) -> ExtractedEntity | None:
        type_ = self.matcher.find("entity", entity.type)
        if not type_:
            self.apart += 1
            return None
        attributes = tuple(
            replace(each, name=name)
            for each in entity.attributes
            if (name := self.matcher.find("attribute", each.name))
        )
        self.apart += len(entity.attributes) - len(attributes)
        return replace(entity, type=type_, attributes=attributes)

    def _relation(self, relation: ExtractedRelation, names: set[str]) -> ExtractedRelation | None:
        type_ = self.matcher.find("relation", relation.type) if relation.type else ""
        if relation.type and not type_:
            self.apart += 1
            return None
        if not {name_key(relation.source), name_key(relation.target)} <= names:
            self.apart += 1
            return None
        return replace(relation, type=type_)
