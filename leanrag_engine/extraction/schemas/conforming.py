"""Find the type of a schema that a model, an agent or a heuristic means by a word; without a schema, normalise it.
Apply a schema to extracts before they are merged: what is outside it is kept apart, counted, and adopted
if it has support. The extracts keep everything: no passage need be read again."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from leanrag_engine.core.model import (
    TYPE_KINDS,
    Extract,
    ExtractedEntity,
    ExtractedRelation,
    ExtractionSchema,
    Method,
    SchemaEffects,
    TypeKind,
    TypeProposal,
)
from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.words import word_count
from leanrag_engine.core.text.shortening import cut_end
from leanrag_engine.core.text.word_lists import read_sections

UNKNOWN = "concept"  # Any other type wins against this one when mentions are merged

_FIRST = re.compile(r"[/,;|:(（、，]")
_KNOWN = {
    name_key(form.replace("_", " ")): type_
    for type_, listed in read_sections("types").items()
    for form in (type_, *listed)
}


def type_name(given: str) -> str:
    """Return ``given`` in lower case, singular and with synonyms unified (``Locations`` → ``place``), the
    first of several; a long remark is ``concept``."""
    most_characters, most_words = 40, 3
    text = " ".join(clean(given).replace("_", " ").split())
    if whole := _KNOWN.get(name_key(text)):
        return whole
    first = _FIRST.split(text, maxsplit=1)[0].strip(" \"'`*.<>#-")
    key = name_key(first) if first else ""
    if not key or len(key) > most_characters or word_count(key) > most_words:
        return UNKNOWN
    return _KNOWN.get(key, key)


class TypeMatcher:
    """The types of a schema by the words for them. A kind without any type in the schema is open: every type fits."""

    def __init__(self, schema: ExtractionSchema) -> None:
        self._names = {kind: {name_key(name): name for name in schema.types(kind)} for kind in TYPE_KINDS}
        common = {name: type_name(name) for name in schema.types("entity")}
        count = Counter(common.values())
        # A synonym of two types decides nothing between them.
        self._synonyms = {same: name for name, same in common.items() if same != UNKNOWN and count[same] == 1}

    def find(self, kind: TypeKind, given: str) -> str:
        """Return the name of the type in the schema; "" if it has none for ``given``."""
        names = self._names[kind]
        plain = simplify_type(kind, given)
        if not names:
            return plain
        if found := names.get(name_key(_unify_spaces(given))) or names.get(name_key(plain)):
            return found
        return self._synonyms.get(plain, "") if kind == "entity" else ""

    def read(self, kind: TypeKind, given: str) -> str:
        """Return the name of the type in the schema, else ``given`` in the form in which it is proposed."""
        return self.find(kind, given) or simplify_type(kind, given)


def simplify_type(kind: TypeKind, given: str) -> str:
    """Return one form for equal types: ``Works_for`` and ``works for`` are the same relation."""
    return type_name(given) if kind == "entity" else cut_end(_unify_spaces(given).lower(), 40)


def _unify_spaces(given: str) -> str:
    return " ".join(clean(given).replace("_", " ").split())


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
    filtering = _Filter(TypeMatcher(replace(schema, adopted=adopted)))
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
        ends = {name_key(relation.source), name_key(relation.target)}
        if (relation.type and not type_) or not ends <= names:
            self.apart += 1
            return None
        return replace(relation, type=type_)
