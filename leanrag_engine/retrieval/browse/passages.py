"""Read passages: behind citations and around them, of an entity, of a document or a section of it; and find what their author
refers to: links, wiki links, imports in code, numbered sections and footnotes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from posixpath import join, normpath, splitext
from typing import NamedTuple
from urllib.parse import unquote

from anyio import to_thread

from leanrag_engine.core.errors import Candidate, InvalidInput, LeanRAGError, NotFound
from leanrag_engine.core.model import Chunk, Document, Entity, PassageText, Relation, is_code
from leanrag_engine.core.text.citation import (
    find_ranges,
    format_citation,
    format_document,
    format_range,
    parse_range,
)
from leanrag_engine.retrieval.browse.document_text import read_passages
from leanrag_engine.retrieval.filters import ChunkScope
from leanrag_engine.retrieval.index import IndexSnapshot
from leanrag_engine.retrieval.request import QUERY_LIMITS, clean_text
from leanrag_engine.retrieval.search.hits import search_windows
from leanrag_engine.retrieval.search.seeds import fuse

from .entities import check_page, sample_beneath
from .outline import find_document, find_section, list_sections, view_outline
from .support import SupportedSentence, find_support


class Reference(NamedTuple):
    """What is referred to: a document (``d12``) or a passage of the same one (``d3:c14``), as ``get_sources`` takes it."""

    target: str
    label: str


@dataclass(frozen=True, slots=True)
class SourcePage:
    """One page of chunks, the number of all, and requests that found nothing, each with its reason. ``sentences`` of an
    entity or relation come before the chunks: those on this page; ``stated`` is the number of all. Where chunks follow one
    another in a document, what they share is left out of the later one, and a chunk that reaches beyond a section is cut
    to it: ``text`` is then ``document.text[start:end]`` still. ``references`` holds by chunk what its author refers to."""

    chunks: tuple[Chunk, ...]
    total: int
    problems: tuple[str, ...] = ()
    sentences: tuple[SupportedSentence, ...] = ()
    stated: int = 0
    references: Mapping[str, tuple[Reference, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """The chunks from label ``first`` to label ``last`` of document number ``document``, in reading order."""

    document: int
    first: int
    last: int

    @property
    def citation(self) -> str:
        return format_range(self.document, self.first, self.last)

    def select(self, labels: Sequence[int], neighbours: int) -> Sequence[int]:
        """Return those of a document's ``labels`` that lie in the range, widened by ``neighbours``; none if
        it is not there. Where an end of a range does not exist, the next one that does takes its place."""
        ends = sorted((self.first, self.last))
        within = [label for label in labels if ends[0] <= label <= ends[1]]
        if not within:
            return ()
        places = sorted((labels.index(min(within)), labels.index(max(within))))
        return labels[max(0, places[0] - neighbours) : places[1] + neighbours + 1]


Place = tuple[int, int]
"""The number of a document and the label of a chunk in it."""


async def sources(
    index: IndexSnapshot,
    wanted: Sequence[str],
    offset: int,
    limit: int,
    neighbours: int = 0,
    question: str = "",
) -> SourcePage:
    """Return the chunks behind citations and ranges, in their order, with a ``question`` the best ones first. ``neighbours`` is the
    number of chunks before and after each citation that are added. Bad citations do not spoil the good ones; if all are bad,
    raises ``InvalidInput`` for what is no citation, ``NotFound`` for citations of nothing."""
    check_page(offset, limit)
    named = [(each, find_ranges(clean_text("citation", each, QUERY_LIMITS.name))) for each in wanted]
    problems = [_no_citation(each) for each, found in named if not found]
    ranges = [ChunkRange(*parsed) for _, found in named for each in found if (parsed := parse_range(each))]
    known, missing, short = await _find_places(index, ranges, neighbours)
    if missing:
        problems.append(await _no_passages(index, missing))
    if not known:
        raise problems[-1]
    if question:
        marks = [format_citation(*place) for place in known]
        chunks = await index.documents.chunks_by_citation(index.collection.name, marks)
        page = await _read_ranked(index, [chunk.id for chunk in chunks], question, offset, limit)
    else:
        page = await _read(index, known, offset, limit)
    return replace(page, problems=(*map(str, problems), *short))


async def sources_of_item(
    index: IndexSnapshot, item: Entity | Relation, offset: int, limit: int, question: str = ""
) -> SourcePage:
    """Return the sentences of an entity or relation with what supports them, then ``limit`` chunks: those that mention it, in
    reading order; of a cluster or of a relation of two those that support its sentences, then those of some entities beneath.
    ``offset`` counts both. With a ``question`` there are only chunks, of more entities beneath, and the best come first."""
    check_page(offset, limit)
    if question.strip():
        ids = await _chunks_of_item(index, item, widely=True)
        return await _read_ranked(index, ids, question, offset, limit)
    sentences = await find_support(index, item)
    ids = await _chunks_of_item(index, item)
    if item.layer:
        quoted = (support.chunk.id for each in sentences for support in each.support)
        ids = list(dict.fromkeys([*quoted, *ids]))
    page = await _read_ranked(index, ids, "", max(0, offset - len(sentences)), limit)
    return replace(page, sentences=tuple(sentences[offset:]), stated=len(sentences))


async def sources_of_document(
    index: IndexSnapshot, name: str, offset: int, limit: int, sections: Sequence[str] = (), question: str = ""
) -> SourcePage:
    """Return the chunks of the document of that id, title, number (``d3``) or end of a path, in reading order;
    with ``sections`` those under these headings in turn, with a ``question`` the best ones first. Raises ``NotFound``
    with the nearest documents or headings, ``Ambiguous`` with all that bear the name."""
    check_page(offset, limit)
    if not sections:
        document = find_document(name, await index.documents.find_all(index.collection.name))
        if question:
            ids = await index.documents.chunk_ids(index.collection.name, [document.id])
            return await _read_ranked(index, ids, question, offset, limit)
        labels = (await index.documents.chunk_labels(index.collection.name, [document.number]))[
            document.number
        ]
        return await _read(index, [(document.number, each) for each in labels], offset, limit)
    outline = await view_outline(index, name)
    found = [find_section(outline, each) for each in sections]
    if question:
        ids = await index.documents.chunk_ids(index.collection.name, [outline.document.id])
        within = [id_ for each in found for id_ in ids[each.first - 1 : each.last]]
        return await _read_ranked(index, list(dict.fromkeys(within)), question, offset, limit)
    chunks: list[Chunk] = []
    for each in found:
        places = [(outline.document.number, label) for label in outline.labels_of(each)]
        page = await _read(index, places, 0, len(places))
        chunks += (_cut(chunk, each.start, each.end) for chunk in page.chunks)
    shown = chunks[offset : offset + limit]
    return SourcePage(tuple(shown), len(chunks), references=await find_references(index, shown))


async def _find_places(
    index: IndexSnapshot, ranges: Sequence[ChunkRange], neighbours: int
) -> tuple[list[Place], list[str], list[str]]:
    """Return the places of the chunks in the ranges, widened by ``neighbours``, the citations of what does not exist, and where
    ranges end that are too long."""
    labels = await index.documents.chunk_labels(
        index.collection.name, sorted({each.document for each in ranges})
    )
    places: list[Place] = []
    missing: list[str] = []
    short: list[str] = []
    for each in ranges:
        selected = each.select(labels.get(each.document, ()), neighbours)
        places += [(each.document, label) for label in selected]
        if not selected:
            missing.append(each.citation)
        elif (wanted := max(each.first, each.last)) > (last := max(labels[each.document])):
            asked = format_citation(each.document, wanted)
            short.append(
                f"There is no {asked}: the document ends with {format_citation(each.document, last)}."
            )
        most_chunks = 100_000  # more than any document that a reader wants at once
        if len(places) > most_chunks:
            raise InvalidInput("The ranges hold too many passages.", "Give fewer or shorter ones.")
    return places, list(dict.fromkeys(missing)), list(dict.fromkeys(short))


async def _chunks_of_item(
    index: IndexSnapshot, item: Entity | Relation, *, widely: bool = False
) -> list[str]:
    """Return the chunks of an entity or relation; above layer 0 a few of those beneath, or ``widely`` those of many members."""
    if item.layer == 0:
        return list(item.chunk_ids)
    ends = [item.source_id, item.target_id] if isinstance(item, Relation) else [item.id]
    clusters = await index.generations.entities(index.generation.number, ends)
    width = 50 if widely else 5  # entities beneath each cluster
    members = [each for cluster in clusters for each in await sample_beneath(index, cluster, width)]
    ids = (id_ for member in members for id_ in (member.chunk_ids if widely else member.chunk_ids[:1]))
    return list(dict.fromkeys(ids))


def _no_citation(text: str) -> LeanRAGError:
    return InvalidInput(
        f"{text[:80]!r} is not a citation.",
        "Citations look like d3:c12 (document 3, chunk 12), ranges like d3:c10-c14.",
    )


async def _no_passages(index: IndexSnapshot, missing: Sequence[str]) -> LeanRAGError:
    """Return the error that names the documents of ``missing`` citations, with the citations that they do have."""
    numbers = {citation.partition(":")[0] for citation in missing}
    documents = [
        each
        for each in await index.documents.find_all(index.collection.name)
        if format_document(each.number) in numbers
    ]
    labels = await index.documents.chunk_labels(index.collection.name, [each.number for each in documents])
    candidates = []
    for each in documents:
        own = [format_citation(each.number, label) for label in sorted(labels[each.number])]
        candidates.append(Candidate("", each.title, f"has {own[0]} to {own[-1]}"))
    return NotFound(
        f"There is no passage {', '.join(missing)}.",
        "Citations stand in contexts and sources; a passage that was changed or deleted loses its own.",
        tuple(candidates),
    )


async def _read_ranked(
    index: IndexSnapshot, ids: Sequence[str], question: str, offset: int, limit: int
) -> SourcePage:
    """Return one page of these chunks: by a ``question`` the best first, then those that no search finds; on a page those of one
    document stand together, in reading order."""
    order = list(ids)
    if question.strip():
        best = await rank_chunks(index, question, ChunkScope(frozenset(ids)))
        order = list(dict.fromkeys([*best, *ids]))
    chunks = await index.documents.chunks(index.collection.name, order[offset : offset + limit])
    if question.strip():
        documents = list(dict.fromkeys(each.document_id for each in chunks))
        ordered = sorted(chunks, key=lambda each: (documents.index(each.document_id), each.place))
        chunks = list(_drop_shared(ordered))
    return SourcePage(tuple(chunks), len(order), references=await find_references(index, chunks))


async def rank_chunks(index: IndexSnapshot, question: str, scope: ChunkScope) -> list[str]:
    """Return the chunks in ``scope`` that search by meaning and keyword finds, best first."""
    (found,) = await search_windows(index, scope, [question])
    rankings = (found.dense_chunks, found.keyword_chunks)
    return [hit.id for hit in fuse([[hit.id for hit in each] for each in rankings])]


async def _read(index: IndexSnapshot, wanted: Sequence[Place], offset: int, limit: int) -> SourcePage:
    """Return one page of the chunks at the places ``wanted``, each once, and what neighbours share once too."""
    places = list(dict.fromkeys(wanted))
    # The chunk before the page shares text with the first one on it.
    citations = [format_citation(*place) for place in places[max(0, offset - 1) : offset + limit]]
    chunks = await index.documents.chunks_by_citation(index.collection.name, citations)
    shown = {format_citation(*place) for place in places[offset : offset + limit]}
    page = tuple(each for each in _drop_shared(chunks) if each.citation in shown)
    return SourcePage(page, len(places), references=await find_references(index, page))


def _drop_shared(chunks: Sequence[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks without the text that they share with the chunk before them."""
    before: Chunk | None = None
    for chunk in chunks:
        follows = before and before.document_id == chunk.document_id and before.number + 1 == chunk.number
        yield _cut(chunk, before.end, chunk.end) if before and follows else chunk
        before = chunk


def _cut(chunk: Chunk, start: int, end: int) -> Chunk:
    """Return the chunk with that part of its text that lies in ``[start, end)`` of the document."""
    first, last = max(chunk.start, start), min(chunk.end, end)
    text = chunk.text[first - chunk.start : last - chunk.start]
    body = text.strip()
    if body == chunk.text.strip() or not body:
        return chunk
    # The indent of a first line stays: it may be code.
    lead = len(text) - len(text.lstrip())
    lead = text.rfind("\n", 0, lead) + 1 or (lead if first > chunk.start else 0)
    begin = first - chunk.start + lead
    return chunk.cut(begin, begin + len(text[lead:].rstrip()))


_LINK = re.compile(
    r"""(?m)(?<!!)\[[^\[\]\n]*\]\(<?([^()\s<>]+)|^ {0,3}\[[^\]^\n]+\]:\s*<?([^\s>]+)|\bhref="([^"\s]+)|:doc:`(?:[^`<]*<)?([^`<>]+)"""
)
_ELSEWHERE = re.compile(r"(?i)[a-z][a-z0-9+.-]+:|//|#")
_WIKI = re.compile(r"\[\[([^\[\]|\n]+)(?:\|[^\[\]\n]*)?\]\]")
_PYTHON = re.compile(r"(?m)^[ \t]*(?:from[ \t]+(\.*)([\w.]+)[ \t]+import\b|import[ \t]+([\w.]+))")
_QUOTED = re.compile(r"""\b(?:from|import|require\()\s*['"](\.[^'"\n]+)|#include\s+"([^"\n]+)""")
_SECTION = re.compile(r"(?i)(?:§+\s*|\b(?:section|chapter)\s+)(\d+(?:\.\d+)*)")
_FOOTNOTE = re.compile(r"\[\^([^\]\s]+)\](?!:)")


async def find_references(
    index: IndexSnapshot, chunks: Sequence[Chunk]
) -> Mapping[str, tuple[Reference, ...]]:
    """Return by chunk what its text refers to within the collection, each once."""
    found: dict[str, list[Reference]] = {each.id: [] for each in chunks}
    targets = [(chunk, target) for chunk in chunks for target in _list_targets(chunk)]
    files = _Files(await index.documents.find_all(index.collection.name) if targets else ())
    for chunk, target in targets:
        document = files.find(target, chunk.source)
        if document and document.id != chunk.document_id:
            _, _, part = target.partition("#")
            label = f"{document.title} > {part}" if part else document.title
            found[chunk.id].append(Reference(format_document(document.number), label))
    parts: dict[int, list[PassageText]] = {}
    for chunk in chunks:
        if _SECTION.search(chunk.text) or _FOOTNOTE.search(chunk.text):
            number, own, _ = parse_range(chunk.citation) or (0, 0, 0)
            if number not in parts:
                passages = read_passages(index.documents, index.collection.name, [number])
                parts[number] = [each async for each in passages]
            within = await to_thread.run_sync(_find_within, chunk, parts[number])
            found[chunk.id] += [
                Reference(format_citation(number, at), words) for at, words in within if at != own
            ]
    return {id_: tuple(dict.fromkeys(references)) for id_, references in found.items()}


def _list_targets(chunk: Chunk) -> Iterator[str]:
    """Yield the relative paths that a passage names, without their suffix perhaps. One that begins with ``/`` may start from any
    folder above; ``[[`` is before the name of a note."""
    if is_code(chunk.media_type):
        for dots, module, absolute in _PYTHON.findall(chunk.text):
            path = (module or absolute).replace(".", "/")
            yield "../" * (len(dots) - 1) + path if dots else f"/{path}"
        yield from (first or second for first, second in _QUOTED.findall(chunk.text))
    else:
        yield from (f"[[{name.strip()}" for name in _WIKI.findall(chunk.text))
        links = (unquote("".join(found)) for found in _LINK.findall(chunk.text))
        yield from (link for link in links if not _ELSEWHERE.match(link))


class _Files:
    """The documents by the paths and names that may stand for them: with and without their suffix, a folder for its index."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._found: dict[str, Document] = {}
        for each in documents:
            path = each.source or each.id
            stem = splitext(path)[0]
            folder, _, name = stem.rpartition("/")
            index = folder if name.casefold() in ("index", "readme", "__init__") else path
            for key in (path, stem, index, f"[[{each.title.casefold()}", f"[[{name.casefold()}"):
                self._found.setdefault(key, each)

    def find(self, target: str, source: str) -> Document | None:
        path = target.partition("#")[0]
        if path.startswith("[["):
            return self._found.get(f"[[{path.rpartition('/')[2].removeprefix('[[').casefold()}")
        folder = PurePath(source).parent
        for above in (folder, *folder.parents) if path.startswith("/") else (folder,):
            whole = normpath(join(above.as_posix(), path.lstrip("/")))
            if found := self._found.get(whole) or self._found.get(splitext(whole)[0]):
                return found
        return None


def _find_within(chunk: Chunk, parts: Sequence[PassageText]) -> list[tuple[int, str]]:
    """Return the labels of the chunks where the sections and notes begin that a passage of the same document names."""
    labels = {each.number: each.label for each in parts}
    numbers = set(_SECTION.findall(chunk.text))
    sections = list_sections(parts, chunk.media_type) if numbers else []
    found = [
        (labels[each.first], each.title)
        for each in sections
        if each.title.partition(" ")[0].strip("§.:") in numbers
    ]
    for note in dict.fromkeys(_FOOTNOTE.findall(chunk.text)):
        defined = re.compile(rf"(?m)^\[\^{re.escape(note)}\]:")
        found += [(each.label, f"footnote {note}") for each in parts if defined.search(each.text)][:1]
    return found
