"""Write an export whole or not at all; GraphML and node-link JSON are written here, by networkx."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import networkx as nx

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.exchange.formats import ExportFormat

from .graph import ExportedGraph
from .tables import write_tables
from .vault import write_vault


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


_WRITERS: Mapping[ExportFormat, Callable[[ExportedGraph, Path], None]] = {
    ExportFormat.GRAPHML: write_graphml,
    ExportFormat.JSON: write_json,
    ExportFormat.VAULT: write_vault,
    ExportFormat.PARQUET: write_tables,
}


def write_graph(graph: ExportedGraph, format_: ExportFormat, path: Path) -> None:
    """Write ``graph`` to ``path``, all or nothing. Raises :class:`InvalidInput` if something is there, or it cannot be written."""
    path = path.expanduser().absolute()
    if path.exists():
        raise InvalidInput(
            f"{path} exists already, and an export replaces nothing.", "Give another path, or remove it."
        )
    try:
        beside = Path(mkdtemp(prefix=".leanrag-export-", dir=path.parent))
    except OSError as problem:
        raise InvalidInput(
            f"{path.parent} cannot be written to ({problem.strerror}).", "Give a path in a folder of yours."
        ) from problem
    try:
        made = beside / path.name
        _WRITERS[format_](graph, made)
        made.rename(path)
    except OSError as problem:
        raise InvalidInput(
            f"{path} cannot be written: {problem.strerror or problem}.", "Make room, or give another path."
        ) from problem
    finally:
        shutil.rmtree(beside, ignore_errors=True)
