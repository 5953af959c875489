"""GraphML and node-link JSON, written by networkx."""

import json
from pathlib import Path
from typing import Any

import networkx as nx

from .graph import ExportedGraph


def write_graphml(graph: ExportedGraph, path: Path) -> None:
    """Write nodes and edges with their attributes; lists are joined, as GraphML has none."""
    network = _build_network(graph)
    attributes = [
        *(fields for _, fields in network.nodes(data=True)),
        *(fields for *_, fields in network.edges(data=True)),
    ]
    for fields in attributes:
        fields.update({key: "; ".join(value) for key, value in fields.items() if isinstance(value, list)})
    nx.write_graphml(network, path)


def write_json(graph: ExportedGraph, path: Path) -> None:
    """Write networkx's node-link form, with the documents and passages beside nodes and edges."""
    found = nx.node_link_data(_build_network(graph), edges="edges")
    found["documents"] = [
        {"id": each.id, "number": each.number, "title": each.title, "source": each.source, "date": each.date}
        for each in graph.documents
    ]
    found["passages"] = [
        {"citation": each.citation, "document": each.document_id, "heading": each.heading, "text": each.text}
        for each in graph.chunks.values()
    ]
    path.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")


def _build_network(graph: ExportedGraph) -> Any:
    """Return a directed multigraph: entities of all layers, their relations, and an edge from each to its parent."""
    network = nx.MultiDiGraph(name=graph.collection)
    for entity in graph.entities():
        network.add_node(
            entity.id,
            name=entity.name,
            type=entity.type,
            layer=entity.layer,
            description=entity.description,
            written_by=str(entity.method),
            mentions=entity.mentions,
            aliases=list(entity.aliases),
            attributes=[str(each) for each in entity.attributes],
            citations=graph.cite(entity.chunk_ids),
        )
    for entity in graph.entities():
        if entity.parent_id:
            network.add_edge(entity.id, entity.parent_id, key=f"{entity.id} parent", kind="parent")
    for relation in graph.relations():
        network.add_edge(
            relation.source_id,
            relation.target_id,
            key=relation.id,
            kind="relation",
            layer=relation.layer,
            description=relation.description,
            written_by=str(relation.method),
            strength=relation.strength,
            weight=relation.weight,
            support=relation.support,
            types=list(relation.types),
            citations=graph.cite(relation.chunk_ids),
        )
    return network
