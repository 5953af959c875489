"""Cypher statements for Neo4j and its relatives."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from .graph import ExportedGraph

_KEYS = {"Entity": "id", "Passage": "citation", "Document": "id"}
"""The property that identifies a node, by its label."""


def write_cypher(graph: ExportedGraph, path: Path) -> None:
    """Write one statement a line. Each may run twice: nodes and edges are merged by id."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{statement};\n" for statement in _list_statements(graph))


def _list_statements(graph: ExportedGraph) -> Iterator[str]:
    for label, key in _KEYS.items():
        yield f"CREATE INDEX IF NOT EXISTS FOR (n:{label}) ON (n.{key})"
    for document in graph.documents:
        yield _merge_node("Document", document.id, title=document.title, source=document.source)
    for chunk in graph.chunks.values():
        yield _merge_node("Passage", chunk.citation, heading=chunk.heading, text=chunk.text)
        yield _merge_edge("Passage", chunk.citation, "PART_OF", "Document", chunk.document_id)
    for entity in graph.entities():
        yield _merge_node(
            "Entity",
            entity.id,
            name=entity.name,
            type=entity.type,
            layer=entity.layer,
            description=entity.description,
            aliases=list(entity.aliases),
            attributes=[str(each) for each in entity.attributes],
        )
    for entity in graph.entities():
        if entity.parent_id:
            yield _merge_edge("Entity", entity.id, "IN_CLUSTER", "Entity", entity.parent_id)
        for citation in graph.cite(entity.chunk_ids):
            yield _merge_edge("Passage", citation, "MENTIONS", "Entity", entity.id)
    for relation in graph.relations():
        yield _merge_edge(
            "Entity",
            relation.source_id,
            "RELATED",
            "Entity",
            relation.target_id,
            id=relation.id,
            description=relation.description,
            strength=relation.strength,
            weight=relation.weight,
            types=list(relation.types),
            citations=graph.cite(relation.chunk_ids),
        )


def _merge_node(label: str, key: str, **fields: object) -> str:
    return f"MERGE {_node('n', label, key)} SET {_assign('n', fields)}"


def _merge_edge(label: str, key: str, kind: str, other: str, other_key: str, **fields: object) -> str:
    nodes = f"MATCH {_node('a', label, key)}, {_node('b', other, other_key)}"
    if not fields:
        return f"{nodes} MERGE (a)-[:{kind}]->(b)"
    id_ = fields.pop("id")
    return f"{nodes} MERGE (a)-[e:{kind} {{id: {_literal(id_)}}}]->(b) SET {_assign('e', fields)}"


def _node(name: str, label: str, key: str) -> str:
    return f"({name}:{label} {{{_KEYS[label]}: {_literal(key)}}})"


def _assign(name: str, fields: Mapping[str, object]) -> str:
    return ", ".join(f"{name}.{key} = {_literal(value)}" for key, value in fields.items())


def _literal(value: object) -> str:
    # Cypher's literals of strings, numbers and lists are those of JSON in ASCII.
    return json.dumps(value)
