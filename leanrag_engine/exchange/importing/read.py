"""Read a graph in any of the formats; HippoRAG's OpenIE is read here."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.jobs import ImportCounts, LeftOut
from leanrag_engine.core.model import LoadedDocument, ReadDocument, content_id
from leanrag_engine.core.ports import Tokenizer
from leanrag_engine.core.text.cleaning import clean, clean_line
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.exchange.formats import ImportFormat
from leanrag_engine.exchange.importing.assembling import Assembled, assemble, join_document
from leanrag_engine.exchange.importing.graph import ForeignCluster, ForeignGraph, Remarks
from leanrag_engine.exchange.importing.readers.graphrag import read_graphrag
from leanrag_engine.exchange.importing.readers.tables import (
    read_csv,
    read_graphml,
    read_jsonl,
    read_leanrag,
    read_lightrag,
)
from leanrag_engine.exchange.importing.readers.vault import assemble_vault
from leanrag_engine.extraction.openie import Entry, extracts_from, read_openie

ORIGIN = "openie"


def assemble_openie(path: Path, tokenizer: Tokenizer, max_tokens: int, remarks: Remarks) -> Assembled:
    """Return a document for each passage. The first line of a passage is its title if there are more."""
    found = read_openie(path)
    for kind, count in found.malformed.items():
        examples = [each for each in found.problems if each.startswith(kind[:5])]
        remarks.add_many(f"malformed {kind}", count, examples)
    read: dict[str, ReadDocument] = {}
    taken: set[str] = set()
    triples = 0
    for place, entry in enumerate(found.entries, 1):
        first, _, rest = clean(entry.text).strip().partition("\n")
        title, text = (clean_line(first), rest.strip()) if rest.strip() else ("", first)
        if not text:
            remarks.add("passages without text", f"passage {place}")
            continue
        document = LoadedDocument(
            f"{ORIGIN}:{content_id('', title, text)}",
            title or f"Passage {place} of {path.name}",
            text,
            "text/plain",
            metadata={"imported_from": ORIGIN},
        )
        if document.id in read:
            remarks.add("passages that are there twice, taken once", document.title)
            continue
        chunks = chunk(document, tokenizer=tokenizer, max_tokens=max_tokens, overlap=0)
        extracts = extracts_from(entry, title, chunks)
        taken |= _name_keys(entry)
        triples += len(entry.triples)
        for triple in entry.triples:
            if name_key(triple.subject) == name_key(triple.object):
                remarks.add("triples of an entity with itself", triple.statement)
                triples -= 1
        if name_key(title):
            remarks.add("titles of passages, taken as entities that relate to those of the passage", title)
        read[document.id] = join_document(document, chunks, extracts)
    every = set().union(*map(_name_keys, found.entries))
    passages = len(found.entries)
    return Assembled(
        tuple(read.values()),
        ImportCounts(passages, passages, len(every), found.triples),
        ImportCounts(len(read), sum(len(each.chunks) for each in read.values()), len(taken), triples),
    )


def _name_keys(entry: Entry) -> set[str]:
    """Return the keys of the names in a passage: its entities and the ends of its triples."""
    ends = (end for triple in entry.triples for end in (triple.subject, triple.object))
    return {key for name in (*entry.entities, *ends) if (key := name_key(name))}


_READERS: Mapping[ImportFormat, Callable[[Path], ForeignGraph]] = {
    ImportFormat.LIGHTRAG: read_lightrag,
    ImportFormat.LEANRAG: read_leanrag,
    ImportFormat.GRAPHML: read_graphml,
    ImportFormat.CSV: read_csv,
    ImportFormat.JSONL: read_jsonl,
}

_ASSEMBLERS: Mapping[ImportFormat, Callable[[Path, Tokenizer, int, Remarks], Assembled]] = {
    ImportFormat.OPENIE: assemble_openie,
    ImportFormat.VAULT: assemble_vault,
}
"""Formats with whole texts, which are cut into passages as other documents are."""


def read_foreign(
    format_: ImportFormat, path: Path, tokenizer: Tokenizer, max_tokens: int, *, communities: bool
) -> tuple[Assembled, tuple[ForeignCluster, ...], tuple[LeftOut, ...]]:
    """Read the files at ``path``, GraphRAG's ``communities`` only on request; return what is to be stored, the clusters
    that lie over it, if any, and what was left out or changed. Raises ``InvalidInput`` if the files are damaged, of another
    format, or hold nothing."""
    if not (path.is_file() or path.is_dir()):
        raise InvalidInput(f"There is no file or folder {path}.", "Check the path's spelling.")
    if format_ in _ASSEMBLERS:
        remarks = Remarks()
        clusters: tuple[ForeignCluster, ...] = ()
        found = _ASSEMBLERS[format_](path, tokenizer, max_tokens, remarks)
    else:
        read_graph = _READERS.get(format_) or partial(read_graphrag, communities=communities)
        graph = read_graph(path)
        remarks, clusters = graph.remarks, tuple(graph.clusters)
        found = assemble(graph, str(format_), tokenizer, max_tokens)
    if not found.taken.entities:
        reasons = "; ".join(f"{each.count} {each.reason}" for each in remarks.list_all())
        raise InvalidInput(
            f"{path} holds no entity that can be taken{f' ({reasons})' if reasons else ''}.",
            "Check that the format is right and that the program that made it has finished.",
        )
    return found, clusters, remarks.list_all()
