"""What the explorer's page is given, as values for JSON. The page shows every text as text, never as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from leanrag_engine.core.model import Chunk, Document, Entity, EntityHead, Json, JsonObject, Relation
from leanrag_engine.core.text.citation import format_document
from leanrag_engine.retrieval.browse.support import SupportedSentence, match_support

from ..replies.base import LIMITS, Count, shorten_line
from ..replies.graph import describe_relation

if TYPE_CHECKING:
    from leanrag_engine.core.history import HistoryEntry
    from leanrag_engine.engine import LeanRAG
    from leanrag_engine.exchange.exporting.graph import ExportedGraph
    from leanrag_engine.retrieval.query import QueryResult

RELATED = 30  # Relations and passages that an entity's details list
MOST_WITHIN, MOST_ACROSS = 150, 2000
"""Relations that are drawn of one cluster, and of one layer: as many as the page asks the server for."""


def describe_tree(collection: str, heads: Sequence[Entity | EntityHead]) -> JsonObject:
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


def describe_links(relations: Iterable[Relation]) -> list[list[Json]]:
    """Return the ends and λ of relations, which is what a map draws."""
    return [[each.source_id, each.target_id, each.strength] for each in relations]


def describe_entity(
    entity: Entity,
    sentences: Sequence[SupportedSentence],
    relations: Sequence[Relation],
    citations: Sequence[str],
) -> JsonObject:
    """Return an entity's details: its sentences with the places that support them (its description, if nothing does),
    and its strongest relations."""
    return {
        "ref": entity.id,
        "method": str(entity.method),
        "aliases": list(entity.aliases),
        "attributes": [str(each) for each in entity.attributes],
        "description": "" if sentences else entity.description,
        "stale": entity.stale is not None,
        "sentences": [_describe_sentence(each) for each in sentences],
        "relations": [_describe_relation(each, entity.id) for each in relations],
        "passages": list(citations),
    }


def _describe_sentence(sentence: SupportedSentence) -> JsonObject:
    return {
        "text": sentence.text,
        "finding": sentence.finding,
        "places": [
            {"citation": each.chunk.citation, "start": each.start, "end": each.end, "match": str(each.match)}
            for each in sentence.support
        ],
    }


def _describe_relation(relation: Relation, entity: str) -> JsonObject:
    return {
        "ref": relation.target_id if relation.source_id == entity else relation.source_id,
        "strength": relation.strength,
        "description": shorten_line(describe_relation(relation), LIMITS.brief),
    }


async def load_entity(engine: LeanRAG, ref: str, collection: str) -> JsonObject:
    """Return the details of the entity of any layer with this name or ref."""
    (entity,) = (await engine.ancestors(ref, collection=collection))[:1]
    relations = await engine.relations_of(entity.id, limit=RELATED, collection=collection)
    found = await engine.sources(entity=entity.id, limit=RELATED, collection=collection)
    citations = [each.citation for each in found.chunks]
    return describe_entity(entity, found.sentences, relations.relations, citations)


def describe_passage(chunk: Chunk) -> JsonObject:
    """Return a passage with its place: ``text`` is that of the document from ``start`` on."""
    return {
        "citation": chunk.citation,
        "title": chunk.title,
        "heading": chunk.heading,
        "path": chunk.source,
        "page": chunk.page_at(chunk.start),
        "line": chunk.line,
        "start": chunk.start,
        "text": chunk.text,
    }


def describe_document(document: Document) -> JsonObject:
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


def describe_history(entry: HistoryEntry) -> JsonObject:
    """Return what the history shows of one published generation."""
    from ..replies.changes import GenerationCard  # noqa: PLC0415 - heavy

    card = GenerationCard.from_engine(entry).model_dump(mode="json")
    return {**card, "layers": [each.entities for each in entry.layers]}


def describe_answer(result: QueryResult, count: Count) -> JsonObject:
    """Return a question's seeds, LCA paths and context: each line with its tokens and why it is there, and a picture."""
    from ..replies.drawing.accounting import count_parts, explain_parts  # noqa: PLC0415 - only with a question
    from ..replies.drawing.page import list_evidence, list_warnings  # noqa: PLC0415 - only with a question
    from ..replies.drawing.svg import draw_answer  # noqa: PLC0415 - only with a question

    graph, account = result.subgraph, count_parts(result.context, count)
    return {
        "tokens": account.total,
        "parts": account.kinds,
        "truncated": result.context.truncated,
        "warnings": list_warnings(result),
        "seeds": [{"ref": each.entity.id, "score": round(each.score, 2)} for each in graph.seeds],
        "lca": graph.lca.id if graph.lca else "",
        "groups": [
            {"lca": group.lca.id, "seeds": [seed.name for seed in group.seeds]} for group in graph.groups
        ],
        "path": [node.id for node in graph.path],
        "lines": [
            {**line, "tokens": tokens}
            for line, tokens in zip(list_evidence(result), account.lines, strict=True)
        ],
        "meanings": explain_parts(result.context),
        "picture": draw_answer(result, count, narrow=True, evidence=False),
    }


def describe_graph(graph: ExportedGraph) -> JsonObject:
    """Return all that the page asks the server for, except search by meaning, questions and the history."""
    entities = sorted(graph.entities(), key=lambda each: (-each.layer, -each.mentions))
    parents = {each.id: each.parent_id for each in entities}
    within: dict[str, list[Relation]] = {}
    touching: dict[str, list[Relation]] = {}
    across: list[list[Relation]] = []
    for layer in graph.layers:
        strongest = sorted(layer.relations, key=lambda each: (-each.strength, -each.weight, each.id))
        across.append(strongest[:MOST_ACROSS] if layer.relations and layer.relations[0].layer else [])
        for each in strongest:
            if (parent := parents[each.source_id]) == parents[each.target_id] and parent is not None:
                within.setdefault(parent, []).append(each)
            for end in {each.source_id, each.target_id}:
                touching.setdefault(end, []).append(each)
    return {
        "tree": describe_tree(graph.collection, entities),
        "within": {parent: describe_links(found[:MOST_WITHIN]) for parent, found in within.items()},
        "across": [describe_links(found) for found in across],
        "entities": {
            each.id: _describe_exported(each, graph, touching.get(each.id, [])[:RELATED]) for each in entities
        },
        "documents": [describe_document(each) for each in graph.documents],
        "passages": {
            format_document(each.number): [*map(describe_passage, graph.passages[each.id])]
            for each in graph.documents
        },
    }


def _describe_exported(entity: Entity, graph: ExportedGraph, relations: Sequence[Relation]) -> JsonObject:
    sentences = match_support(entity, graph.chunks)
    quoted = (place.chunk.citation for each in sentences for place in each.support)
    citations = graph.cite(entity.chunk_ids) if entity.layer == 0 else list(dict.fromkeys(quoted))
    return describe_entity(entity, sentences, relations, citations[:RELATED])
