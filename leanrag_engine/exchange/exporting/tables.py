"""Parquet tables with the names and columns of Microsoft GraphRAG, where it has them."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from leanrag_engine.core.model import Chunk, Entity, Relation
from leanrag_engine.exchange.parquet import write_parquet_rows

from .graph import ExportedGraph

Record = Mapping[str, object]


def write_tables(graph: ExportedGraph, path: Path) -> None:
    """Write the folder ``path``: documents, text units, G0 as entities and relationships, and the layers above as communities
    with their reports. Columns that GraphRAG does not have come last."""
    path.mkdir()
    tables: Mapping[str, Sequence[Record]] = {
        "documents": [*_list_documents(graph)],
        "text_units": [*_list_text_units(graph)],
        "entities": [*_list_entities(graph)],
        "relationships": [*_list_relations(graph)],
        "communities": [*_list_communities(graph)],
        "community_reports": [*_list_reports(graph)],
    }
    for name, rows in tables.items():
        columns = {column: [row[column] for row in rows] for column in (rows[0] if rows else {})}
        write_parquet_rows(path / f"{name}.parquet", columns)


def _list_documents(graph: ExportedGraph) -> Iterator[Record]:
    for document in graph.documents:
        held = graph.passages[document.id]
        yield {
            "id": document.id,
            "human_readable_id": document.number,
            "title": document.title,
            "text": _join_text(held),
            "text_unit_ids": [each.id for each in held],
            "creation_date": document.date,
            "metadata": json.dumps(dict(document.metadata), ensure_ascii=False),
            "source": document.source,
        }


def _join_text(passages: Iterable[Chunk]) -> str:
    """Return the text of a document with each character at its offset: only white space lies in no passage."""
    text = ""
    for passage in sorted(passages, key=lambda each: each.start):
        text += "\n" * (passage.start - len(text))
        text += passage.text[max(len(text) - passage.start, 0) :]
    return text


def _list_text_units(graph: ExportedGraph) -> Iterator[Record]:
    entities, relations = (_by_chunk(each) for each in (graph.layers[0].entities, graph.layers[0].relations))
    for number, chunk in enumerate(graph.chunks.values()):
        yield {
            "id": chunk.id,
            "human_readable_id": number,
            "text": chunk.text,
            "n_tokens": chunk.tokens,
            "document_id": chunk.document_id,
            "entity_ids": entities[chunk.id],
            "relationship_ids": relations[chunk.id],
            "citation": chunk.citation,
            "heading": chunk.heading,
            "start": chunk.start,
        }


def _by_chunk(items: Iterable[Entity | Relation]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for each in items:
        for chunk_id in each.chunk_ids:
            found[chunk_id].append(each.id)
    return found


def _count_degrees(relations: Iterable[Relation]) -> Counter[str]:
    return Counter(end for each in relations for end in (each.source_id, each.target_id))


def _list_entities(graph: ExportedGraph) -> Iterator[Record]:
    degrees = _count_degrees(graph.layers[0].relations)
    for number, entity in enumerate(graph.layers[0].entities):
        yield {
            "id": entity.id,
            "human_readable_id": number,
            "title": entity.name,
            "type": entity.type,
            "description": entity.description,
            "text_unit_ids": [each for each in entity.chunk_ids if each in graph.chunks],
            "frequency": entity.mentions,
            "degree": degrees[entity.id],
            "aliases": [*entity.aliases],
            "attributes": [str(each) for each in entity.attributes],
            "written_by": str(entity.method),
        }


def _list_relations(graph: ExportedGraph) -> Iterator[Record]:
    degrees = _count_degrees(graph.layers[0].relations)
    for number, relation in enumerate(graph.layers[0].relations):
        yield {
            "id": relation.id,
            "human_readable_id": number,
            "source": graph.names[relation.source_id],
            "target": graph.names[relation.target_id],
            "description": relation.description,
            "weight": float(relation.weight),
            "combined_degree": degrees[relation.source_id] + degrees[relation.target_id],
            "text_unit_ids": [each for each in relation.chunk_ids if each in graph.chunks],
            "types": [*relation.types],
            "written_by": str(relation.method),
        }


def _list_frames(graph: ExportedGraph) -> Iterator[tuple[Entity, Sequence[str], Record]]:
    """Yield each aggregated entity, the root first as GraphRAG numbers them, with the ids of the base entities beneath it and
    the columns that communities and reports share."""
    upper = [entity for layer in reversed(graph.layers[1:]) for entity in layer.entities]
    numbers = {entity.id: number for number, entity in enumerate(upper)}
    children: dict[str, list[int]] = defaultdict(list)
    for number, entity in enumerate(upper):
        children[entity.parent_id or ""].append(number)
    members = _list_members(graph)
    for number, entity in enumerate(upper):
        yield (
            entity,
            members[entity.id],
            {
                "id": entity.id,
                "human_readable_id": number,
                "community": number,
                "level": len(graph.layers) - 1 - entity.layer,
                "parent": numbers.get(entity.parent_id or "", -1),
                "children": children[entity.id],
                "title": entity.name,
                "size": len(members[entity.id]),
            },
        )


def _list_members(graph: ExportedGraph) -> dict[str, list[str]]:
    """Return the base entities beneath each aggregated entity, by id."""
    parents = {each.id: each.parent_id for each in graph.entities()}
    members: dict[str, list[str]] = defaultdict(list)
    for entity in graph.layers[0].entities:
        above = entity.parent_id
        while above:
            members[above].append(entity.id)
            above = parents.get(above)
    return members


def _list_communities(graph: ExportedGraph) -> Iterator[Record]:
    base = graph.layers[0]
    chunks = {each.id: each.chunk_ids for each in base.entities}
    for _, members, frame in _list_frames(graph):
        beneath = set(members)
        inner = [each.id for each in base.relations if {each.source_id, each.target_id} <= beneath]
        units = dict.fromkeys(each for id_ in members for each in chunks[id_])
        yield {
            **frame,
            "entity_ids": members,
            "relationship_ids": inner,
            "text_unit_ids": [each for each in units if each in graph.chunks],
        }


def _list_reports(graph: ExportedGraph) -> Iterator[Record]:
    for entity, _, frame in _list_frames(graph):
        findings = [{"summary": each.summary, "explanation": each.explanation} for each in entity.findings]
        parts = [f"## {each['summary']}\n\n{each['explanation']}".rstrip() for each in findings]
        yield {
            **frame,
            "summary": entity.description,
            "full_content": "\n\n".join([f"# {entity.name}", entity.description, *parts]),
            "findings": findings,
            "written_by": str(entity.method),
        }
