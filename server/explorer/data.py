"""What the explorer's page is given, as values for JSON. The page shows every text as text, never as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leanrag_engine.core.model import Chunk, Document, Entity, EntityHead, Relation
from leanrag_engine.core.text.citation import format_document

if TYPE_CHECKING:
    from leanrag_engine.core.history import HistoryEntry
    from leanrag_engine.engine import LeanRAG
    from leanrag_engine.retrieval.browse.support import SupportedSentence

RELATED = 30
"""Relations that an entity's details list."""


def describe_tree(collection: str, heads: Sequence[EntityHead]) -> dict[str, Any]:
    """Return all entities by column, which is half the size of one object each. ``parents`` are places in the columns;
    a parent precedes its members, and the root has -1."""
    places = {head.id: place for place, head in enumerate(heads)}
    types = list(dict.fromkeys(head.type for head in heads))
    numbers = {type_: number for number, type_ in enumerate(types)}
    return {
        "collection": collection,
        "types": types,
        "refs": [head.id for head in heads],
        "names": [head.name for head in heads],
        "kinds": [numbers[head.type] for head in heads],
        "layers": [head.layer for head in heads],
        "mentions": [head.mentions for head in heads],
        "parents": [-1 if head.parent_id is None else places[head.parent_id] for head in heads],
    }


def describe_links(relations: Iterable[Relation]) -> list[list[Any]]:
    """Return the ends and λ of relations, which is what a map draws."""
    return [[each.source_id, each.target_id, each.strength] for each in relations]


def describe_entity(
    entity: Entity,
    sentences: Sequence[SupportedSentence],
    relations: Sequence[Relation],
    names: Mapping[str, str],
    citations: Sequence[str],
) -> dict[str, Any]:
    """Return an entity's details: its sentences with the places that support them, and its strongest relations."""
    return {
        "ref": entity.id,
        "method": str(entity.method),
        "aliases": list(entity.aliases),
        "attributes": [str(each) for each in entity.attributes],
        "description": entity.description,
        "findings": [each.summary for each in entity.findings if entity.method.written],
        "stale": entity.stale is not None,
        "sentences": [_describe_sentence(each) for each in sentences],
        "relations": [_describe_relation(each, entity.id, names) for each in relations],
        "passages": list(citations),
    }


def _describe_sentence(sentence: SupportedSentence) -> dict[str, Any]:
    return {
        "text": sentence.text,
        "finding": sentence.finding,
        "places": [
            {"citation": each.chunk.citation, "start": each.start, "end": each.end, "match": str(each.match)}
            for each in sentence.support
        ],
    }


def _describe_relation(relation: Relation, entity: str, names: Mapping[str, str]) -> dict[str, Any]:
    other = relation.target_id if relation.source_id == entity else relation.source_id
    return {
        "ref": other,
        "name": names.get(other, other),
        "strength": relation.strength,
        "description": relation.description,
        "method": str(relation.method),
    }


async def load_entity(engine: LeanRAG, ref: str, collection: str) -> dict[str, Any]:
    """Return the details of the entity of any layer with this name or ref."""
    (entity,) = (await engine.ancestors(ref, collection=collection))[:1]
    relations = await engine.relations_of(entity.id, limit=RELATED, collection=collection)
    found = await engine.sources(entity=entity.id, limit=RELATED, collection=collection)
    citations = [each.citation for each in found.chunks]
    return describe_entity(entity, found.sentences, relations.relations, relations.names, citations)


def describe_passage(chunk: Chunk) -> dict[str, Any]:
    """Return a passage with its place: ``text`` is that of the document from ``start`` on."""
    return {
        "citation": chunk.citation,
        "title": chunk.title,
        "heading": chunk.heading,
        "path": chunk.source,
        "page": chunk.page,
        "line": chunk.line,
        "start": chunk.start,
        "text": chunk.text,
    }


def describe_document(document: Document) -> dict[str, Any]:
    """Return what a list of documents shows of one."""
    return {
        "number": format_document(document.number),
        "title": document.title,
        "path": document.source,
        "format": document.media_type,
        "date": document.date,
        "characters": document.characters,
        "passages": document.chunks,
    }


def describe_history(entry: HistoryEntry) -> dict[str, Any]:
    """Return what the history shows of one published generation."""
    from ..replies.changes.history import GenerationCard  # noqa: PLC0415 - heavy

    card = GenerationCard.from_engine(entry).model_dump(mode="json")
    return {**card, "layers": [each.entities for each in entry.layers]}
