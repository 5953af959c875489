"""Read passages: those behind citations, those that mention an entity, those of a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leanrag_engine.core.errors import Ambiguous, Candidate, InvalidInput, LeanRAGError, NotFound
from leanrag_engine.core.model import Chunk, Entity
from leanrag_engine.core.text.citation import find_citations, format_citation, format_document, parse_citation
from leanrag_engine.retrieval.filters import find_documents
from leanrag_engine.retrieval.index import IndexSnapshot

from .entities import CANDIDATES, check_page, sample_beneath


@dataclass(frozen=True, slots=True)
class SourcePage:
    """One page of chunks, the number of all, and what was asked for in vain, each with its reason."""

    chunks: tuple[Chunk, ...]
    total: int
    problems: tuple[str, ...] = ()


async def sources(
    index: IndexSnapshot, wanted: Entity | Sequence[str], offset: int, limit: int
) -> SourcePage:
    """Return the chunks behind citations, in their order, or those that mention an entity, in reading order.

    An aggregated entity gives a passage of each of some entities beneath it. Bad citations do not spoil the good
    ones; if all are bad, raises ``InvalidInput`` for what is no citation, ``NotFound`` for citations of nothing.
    """
    check_page(offset, limit)
    if isinstance(wanted, Entity):
        chunks = await _sources_of_entity(index, wanted)
        return SourcePage(tuple(chunks[offset : offset + limit]), len(chunks))
    citations = list(dict.fromkeys(found for each in wanted for found in _citations(each)))
    chunks = await index.documents.chunks_by_citation(index.collection.name, citations)
    problems = [_no_citation(each) for each in wanted if not _citations(each)]
    known = {chunk.citation for chunk in chunks}
    if missing := [citation for citation in citations if citation not in known]:
        problems.append(await _no_passages(index, missing))
    if not chunks:
        raise problems[-1]
    page = tuple(chunks[offset : offset + limit])
    return SourcePage(page, len(chunks), tuple(map(str, problems)))


async def sources_of_document(index: IndexSnapshot, name: str, offset: int, limit: int) -> SourcePage:
    """Return the chunks of the document of that id, title, file name or number (``d3``), in reading order.

    Raises ``NotFound`` with the nearest documents, ``Ambiguous`` with all that bear the name.
    """
    check_page(offset, limit)
    found = find_documents(name, await index.documents.find_all(index.collection.name))
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} documents are called {name!r}.",
            "Give the number of the one that is meant.",
            tuple(
                Candidate(format_document(each.number), each.title, each.id) for each in found[:CANDIDATES]
            ),
        )
    ids = await index.documents.chunk_ids(index.collection.name, [found[0].id])
    chunks = await index.documents.chunks(index.collection.name, ids[offset : offset + limit])
    return SourcePage(tuple(chunks), len(ids))


async def _sources_of_entity(index: IndexSnapshot, entity: Entity) -> list[Chunk]:
    if entity.layer == 0:
        ids = list(entity.chunk_ids[:100])
    else:
        members = await sample_beneath(index, entity, 5)
        ids = list(dict.fromkeys(id_ for member in members for id_ in member.chunk_ids[:1]))
    return await index.documents.chunks(index.collection.name, ids)


def _citations(text: str) -> list[str]:
    return [found for found in find_citations(text) if parse_citation(found)]


def _no_citation(text: str) -> LeanRAGError:
    return InvalidInput(
        f"{text[:80]!r} is not a citation.", "Citations look like d3:c12: document 3, chunk 12."
    )


async def _no_passages(index: IndexSnapshot, missing: Sequence[str]) -> LeanRAGError:
    return NotFound(
        f"There is no passage {', '.join(missing)}.",
        "Citations stand in contexts and sources; a document that was replaced or deleted loses its own.",
        await _documents_of(index, missing),
    )


async def _documents_of(index: IndexSnapshot, citations: Sequence[str]) -> tuple[Candidate, ...]:
    """Return the documents that ``citations`` name, with the citations that they do have."""
    numbers = {citation.partition(":")[0] for citation in citations}
    documents = await index.documents.find_all(index.collection.name)
    return tuple(
        Candidate(
            "",
            each.title,
            f"has {format_citation(each.number, 1)} to {format_citation(each.number, each.chunks)}",
        )
        for each in documents
        if format_document(each.number) in numbers
    )
