"""N-Triples: entities as SKOS concepts, relations as statements with their strength and sources."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from urllib.parse import quote

from .graph import ExportedGraph

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_SKOS = "http://www.w3.org/2004/02/skos/core#"
_TERMS = "http://purl.org/dc/terms/"
_OWN = "urn:leanrag:terms:"
_ESCAPED = re.compile(r'["\\\n\r\t]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def write_triples(graph: ExportedGraph, path: Path) -> None:
    """Write one triple a line, in UTF-8."""
    triples = chain(_describe_texts(graph), _describe_entities(graph), _describe_relations(graph))
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{' '.join(triple)} .\n" for triple in triples)


def _describe_texts(graph: ExportedGraph) -> Iterator[tuple[str, str, str]]:
    for document in graph.documents:
        node = _name(graph, "document", document.id)
        yield node, f"<{_TERMS}title>", _literal(document.title)
        if document.source:
            yield node, f"<{_TERMS}identifier>", _literal(document.source)
    for chunk in graph.chunks.values():
        node = _name(graph, "passage", chunk.citation)
        yield node, f"<{_TERMS}isPartOf>", _name(graph, "document", chunk.document_id)
        yield node, f"<{_RDF}value>", _literal(chunk.text)


def _describe_entities(graph: ExportedGraph) -> Iterator[tuple[str, str, str]]:
    for entity in graph.entities():
        node = _name(graph, "entity", entity.id)
        yield node, f"<{_RDF}type>", f"<{_SKOS}Concept>"
        yield node, f"<{_SKOS}prefLabel>", _literal(entity.name)
        yield from ((node, f"<{_SKOS}altLabel>", _literal(alias)) for alias in entity.aliases)
        yield node, f"<{_TERMS}type>", _literal(entity.type)
        yield node, f"<{_OWN}layer>", _number(entity.layer)
        yield from ((node, f"<{_SKOS}note>", _literal(str(each))) for each in entity.attributes)
        if entity.description:
            yield node, f"<{_SKOS}definition>", _literal(entity.description)
        if entity.parent_id:
            yield node, f"<{_SKOS}broader>", _name(graph, "entity", entity.parent_id)
        for citation in graph.cite(entity.chunk_ids):
            yield node, f"<{_TERMS}source>", _name(graph, "passage", citation)


def _describe_relations(graph: ExportedGraph) -> Iterator[tuple[str, str, str]]:
    for relation in graph.relations():
        node = _name(graph, "relation", relation.id)
        source, target = (_name(graph, "entity", end) for end in (relation.source_id, relation.target_id))
        yield source, f"<{_SKOS}related>", target
        yield node, f"<{_RDF}type>", f"<{_RDF}Statement>"
        yield node, f"<{_RDF}subject>", source
        yield node, f"<{_RDF}predicate>", f"<{_SKOS}related>"
        yield node, f"<{_RDF}object>", target
        yield node, f"<{_OWN}strength>", _number(relation.strength)
        yield from ((node, f"<{_TERMS}type>", _literal(each)) for each in relation.types)
        if relation.description:
            yield node, f"<{_TERMS}description>", _literal(relation.description)
        for citation in graph.cite(relation.chunk_ids):
            yield node, f"<{_TERMS}source>", _name(graph, "passage", citation)


def _name(graph: ExportedGraph, kind: str, id_: str) -> str:
    return f"<urn:leanrag:{quote(graph.collection, safe='')}:{kind}:{quote(id_, safe='')}>"


def _literal(text: str) -> str:
    return f'"{_ESCAPED.sub(lambda found: _ESCAPES[found[0]], text)}"'


def _number(value: int) -> str:
    return f'"{value}"^^<http://www.w3.org/2001/XMLSchema#integer>'
