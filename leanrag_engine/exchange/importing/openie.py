"""Take over HippoRAG's OpenIE files: each passage is a document, with the entities and triples that a model found in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from leanrag_engine.core.jobs import ImportCounts
from leanrag_engine.core.model import LoadedDocument, ReadDocument, content_id
from leanrag_engine.core.ports import Tokenizer
from leanrag_engine.core.text.cleaning import clean, clean_line
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.extraction.openie import extracts_from, read_openie

from .assembling import Assembled, import_digest
from .graph import Remarks

__all__ = ["assemble_openie"]

ORIGIN = "openie"


def assemble_openie(path: Path, tokenizer: Tokenizer, max_tokens: int, remarks: Remarks) -> Assembled:
    """Return a document for each passage. The first line of a passage is its title if there are more."""
    found = read_openie(path)
    for kind, count in found.malformed.items():
        examples = [
            each for each in found.problems if f"{kind.removesuffix('s')} of " in each or kind == "documents"
        ]
        remarks.add_many(f"malformed {kind}", count, examples)
    read: dict[str, ReadDocument] = {}
    names: set[str] = set()
    relations: set[tuple[str, str]] = set()
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
        for extract in extracts:
            names.update(name_key(each.name) for each in extract.entities)
            ends = (sorted((name_key(each.source), name_key(each.target))) for each in extract.relations)
            relations.update((one, other) for one, other in ends if one != other)
        digest = import_digest(document, extracts)
        read[document.id] = ReadDocument(replace(document, file_digest=digest), chunks, extracts)
    return Assembled(
        tuple(read.values()),
        ImportCounts(
            len(found.entries),
            len(found.entries),
            sum(len(each.entities) for each in found.entries),
            found.triples,
        ),
        ImportCounts(len(read), sum(len(each.chunks) for each in read.values()), len(names), len(relations)),
    )
