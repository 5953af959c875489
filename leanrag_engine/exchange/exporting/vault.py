"""An Obsidian vault: a note for each entity, cluster and document, joined by links."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from leanrag_engine.core.model import Chunk, Document, Entity, Relation

from .graph import ExportedGraph

_FORBIDDEN = re.compile(r'[\\/:*?"<>|#^\[\]\x00-\x1f]+')
"""Signs that a file name of some system, or a link of Obsidian, cannot hold."""


def write_vault(graph: ExportedGraph, path: Path) -> None:
    """Write the notes into the folder ``path``: entities, clusters and documents in folders of their own."""
    entities = _name_notes((each.id, each.name) for each in graph.entities())
    documents = _name_notes((each.id, each.title) for each in graph.documents)
    places = {each.citation: f"Documents/{documents[each.document_id]}" for each in graph.chunks.values()}
    around: dict[str, list[Relation]] = defaultdict(list)
    for relation in graph.relations():
        around[relation.source_id].append(relation)
        around[relation.target_id].append(relation)
    members: dict[str, list[Entity]] = defaultdict(list)
    for entity in graph.entities():
        if entity.parent_id:
            members[entity.parent_id].append(entity)
    links = {
        each.id: f"[[{_folder(each)}/{entities[each.id]}|{entities[each.id]}]]" for each in graph.entities()
    }
    for folder in ("Entities", "Clusters", "Documents"):
        (path / folder).mkdir(parents=True)
    for entity in graph.entities():
        cited = [f"[[{places[each]}#^{_block(each)}|{each}]]" for each in graph.cite(entity.chunk_ids)]
        lines = _entity_note(entity, links, members[entity.id], around[entity.id], cited)
        _write(path / _folder(entity) / f"{entities[entity.id]}.md", lines)
    for document in graph.documents:
        lines = _document_note(document, graph.passages[document.id])
        _write(path / "Documents" / f"{documents[document.id]}.md", lines)


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


def _document_note(document: Document, chunks: Iterable[Chunk]) -> Iterator[str]:
    yield from _front_matter(title=document.title, source=document.source, date=document.date)
    for chunk in chunks:
        # An identifier on a line of its own names the block before it.
        yield from (chunk.text, "", f"^{_block(chunk.citation)}", "")


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


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("\n".join(lines), encoding="utf-8")
