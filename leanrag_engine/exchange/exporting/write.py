"""Write an export whole or not at all: GraphML and node-link JSON, by networkx, a vault of Markdown notes, and Parquet tables
with the names and columns of Microsoft GraphRAG, where it has them."""

import json
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import networkx as nx

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Entity, Relation, join_passages
from leanrag_engine.exchange.exporting.graph import ExportedGraph
from leanrag_engine.exchange.formats import ExportFormat
from leanrag_engine.exchange.parquet import write_parquet_rows

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
            "text": join_passages(held, 0),
            "text_unit_ids": [each.id for each in held],
            "creation_date": document.date,
            "metadata": json.dumps(dict(document.metadata), ensure_ascii=False),
            "source": document.source,
        }


def _list_text_units(graph: ExportedGraph) -> Iterator[Record]:
    entities, relations = (
        group((chunk_id, each.id) for each in items for chunk_id in each.chunk_ids)
        for items in (graph.layers[0].entities, graph.layers[0].relations)
    )
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
    children = group((entity.parent_id, number) for number, entity in enumerate(upper))
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


_FORBIDDEN = re.compile(r'[\\/:*?"<>|#^\[\]\x00-\x1f]+')
"""Signs that a file name of some system, or a link of Obsidian, cannot hold."""


def write_vault(graph: ExportedGraph, path: Path) -> None:
    """Write the notes into the folder ``path``: entities, clusters and documents in folders of their own."""
    entities = _name_notes((each.id, each.name) for each in graph.entities())
    documents = _name_notes((each.id, each.title) for each in graph.documents)
    places = {each.citation: f"Documents/{documents[each.document_id]}" for each in graph.chunks.values()}
    around = group((end, each) for each in graph.relations() for end in (each.source_id, each.target_id))
    members = group((each.parent_id, each) for each in graph.entities())
    links = {
        each.id: f"[[{_folder(each)}/{entities[each.id]}|{entities[each.id]}]]" for each in graph.entities()
    }
    for folder in ("Entities", "Clusters", "Documents"):
        (path / folder).mkdir(parents=True)
    for entity in graph.entities():
        cited = [f"[[{places[each]}#^{_block(each)}|{each}]]" for each in graph.cite(entity.chunk_ids)]
        note = "\n".join(_entity_note(entity, links, members[entity.id], around[entity.id], cited))
        (path / _folder(entity) / f"{entities[entity.id]}.md").write_text(note, encoding="utf-8")
    for document in graph.documents:
        lines = [*_front_matter(title=document.title, source=document.source, date=document.date)]
        for chunk in graph.passages[document.id]:
            # An identifier on a line of its own names the block before it.
            lines += (chunk.text, "", f"^{_block(chunk.citation)}", "")
        (path / "Documents" / f"{documents[document.id]}.md").write_text("\n".join(lines), encoding="utf-8")


def _entity_note(
    entity: Entity,
    links: Mapping[str, str],
    members: Iterable[Entity],
    relations: Iterable[Relation],
    cited: Iterable[str],
) -> Iterator[str]:
    yield from _front_matter(
        name=entity.name, aliases=list(entity.aliases), type=entity.type, layer=entity.layer
    )
    if entity.description:
        yield from (entity.description, "")
    if said := [f"- {each}" for each in entity.attributes]:
        yield from (*said, "")
    if entity.parent_id:
        yield from (f"Part of {links[entity.parent_id]}", "")
    if held := [f"- {links[each.id]}" for each in members]:
        yield from ("## Members", "", *held, "")
    if related := [_relation_line(entity, each, links) for each in relations]:
        yield from ("## Relations", "", *related, "")
    if sources := list(cited):
        yield from ("## Passages", "", ", ".join(sources), "")


def _relation_line(entity: Entity, relation: Relation, links: Mapping[str, str]) -> str:
    other = relation.target_id if relation.source_id == entity.id else relation.source_id
    types = f"({', '.join(relation.types)})" if relation.types else ""
    said = " ".join([types, *relation.description.split()]).strip()
    return f"- {links[other]}: {said}" if said else f"- {links[other]}"


def _front_matter(**fields: object) -> Iterator[str]:
    # JSON is YAML.
    filled = {key: value for key, value in fields.items() if value not in ("", [])}
    yield "---"
    yield from (f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in filled.items())
    yield from ("---", "")


def _name_notes(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a file name for each id: different ones also where upper and lower case are the same."""
    names: dict[str, str] = {}
    used: set[str] = set()
    for id_, name in named:
        # File systems take 255 bytes, here with a number and the suffix.
        short = _FORBIDDEN.sub(" ", name).strip(" .")[:120].encode()[:240].decode(errors="ignore")
        plain = short.strip(" .") or "Untitled"
        chosen, number = plain, 1
        while chosen.casefold() in used:
            number += 1
            chosen = f"{plain} ({number})"
        used.add(chosen.casefold())
        names[id_] = chosen
    return names


def _folder(entity: Entity) -> str:
    return "Clusters" if entity.layer else "Entities"


def _block(citation: str) -> str:
    return citation.replace(":", "-")


def write_graphml(graph: ExportedGraph, path: Path) -> None:
    """Write nodes and edges with their attributes; lists are joined, as GraphML has none."""
    network = _build_network(graph)
    for *_, fields in (*network.nodes(data=True), *network.edges(data=True)):
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
