"""Show the folders of a corpus and the sections of a document, and find one by its heading."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anyio import to_thread

from leanrag_engine.core.errors import Ambiguous, Candidate, InvalidInput, NotFound
from leanrag_engine.core.model import Document, PassageText, join_passages
from leanrag_engine.core.text.citation import format_document, format_range
from leanrag_engine.core.text.cleaning import clean_line
from leanrag_engine.core.text.language.names import fold_case
from leanrag_engine.core.text.nearest import similarity, sort_by_similarity
from leanrag_engine.core.text.paths import find_folder
from leanrag_engine.core.text.shortening import count_things
from leanrag_engine.documents.headings import Heading, headings
from leanrag_engine.retrieval.filters import find_documents
from leanrag_engine.retrieval.index import IndexSnapshot
from leanrag_engine.retrieval.request import QUERY_LIMITS, clean_text

from .document_text import find_chunks, read_passages

CANDIDATES = 10  # Sections or documents that an error lists

STEP = " > "  # Between the headings of a path

_QUOTES = dict.fromkeys(map(ord, "`'\"‘’“”"))
"""Replies show code in headings between other marks than a document does."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section with all below it: from its heading to the next one of its level or above. ``path`` are the headings down to its own,
    ``first`` and ``last`` the places of its chunks in the document, ``tokens`` an estimate. It is ``text[start:end]`` of its document."""

    level: int
    path: tuple[str, ...]
    start: int
    end: int
    first: int
    last: int
    tokens: int

    @property
    def title(self) -> str:
        return self.path[-1]


@dataclass(frozen=True, slots=True)
class Outline:
    """A document and its sections in reading order; ``tokens`` are those of the whole document. ``labels`` are the
    numbers in the citations of all its chunks, in reading order."""

    document: Document
    tokens: int
    sections: tuple[Section, ...]
    labels: tuple[int, ...]

    @property
    def citation(self) -> str:
        """Return the citation of the whole document: a range of chunks."""
        return format_range(self.document.number, self.labels[0], self.labels[-1])

    def cite(self, section: Section) -> str:
        """Return the citation of a section: a range of chunks."""
        labels = self.labels_of(section)
        return format_range(self.document.number, labels[0], labels[-1])

    def labels_of(self, section: Section) -> tuple[int, ...]:
        """Return the labels of a section's chunks."""
        return self.labels[section.first - 1 : section.last]


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder within another: all documents at any depth in it, their tokens, and their first and last date."""

    name: str
    documents: int
    tokens: int
    dates: tuple[str, ...]
    note: str = ""

    def to_text(self) -> str:
        """Return its name, the number of its documents and their dates."""
        dates = f", {' to '.join(dict.fromkeys((self.dates[0], self.dates[-1])))}" if self.dates else ""
        return f"{self.name} ({count_things(self.documents, 'document')}{dates}){f': {self.note}' if self.note else ''}"


@dataclass(frozen=True, slots=True)
class FolderView:
    """What lies directly in a folder, with the tokens of each document, and the tokens of all beneath; ``name`` is "" for the
    folder of all documents. If there is a note on the folder itself, that is the first of ``folders``."""

    name: str
    tokens: int
    folders: tuple[Folder, ...]
    documents: tuple[tuple[Document, int], ...]


async def view_folder(index: IndexSnapshot, name: str = "") -> FolderView:
    """Return the folders and documents in the folder ``name``, a path beneath that of all documents; "" for this
    itself. Documents come by their dates, those without first. Raises ``NotFound`` with the nearest folders."""
    known = await index.documents.find_all(index.collection.name)
    root = find_folder(each.source for each in known)
    paths = {each.number: each.source.removeprefix(root).replace(os.sep, "/") for each in known}
    stem = name.removeprefix(root).strip("/")
    path = f"{stem}/" if stem else ""
    within = [each for each in known if paths[each.number].startswith(path)]
    if not within:
        folders = sorted({f"{each.rpartition('/')[0]}/" for each in paths.values()} - {"/"})
        near = sort_by_similarity(name, folders, lambda each: (each,), CANDIDATES)
        raise NotFound(
            f"There is no folder {name!r}.",
            "Give one that get_outline lists without `document`.",
            tuple(Candidate("", each) for each in near),
        )
    tokens = await index.documents.count_tokens(index.collection.name)
    notes = index.collection.notes
    direct: list[tuple[Document, int]] = []
    beneath: dict[str, list[Document]] = {}
    for each in sorted(within, key=lambda each: (each.own_date, each.number)):
        first, slash, _ = paths[each.number].removeprefix(path).partition("/")
        if slash:
            beneath.setdefault(f"{path}{first}/", []).append(each)
        else:
            direct.append((each, tokens.get(each.number, 0)))
    folders_ = tuple(
        Folder(
            folder,
            len(documents),
            sum(tokens.get(each.number, 0) for each in documents),
            tuple(each.own_date for each in documents if each.own_date),
            notes.get(f"{root}{folder}", ""),
        )
        for folder, documents in sorted(beneath.items())
    )
    size = sum(each.tokens for each in folders_) + sum(size for _, size in direct)
    if note := notes.get(f"{root}{path}"):
        folders_ = (Folder("This folder", len(within), size, (), note), *folders_)
    return FolderView(path, size, folders_, tuple(direct))


def find_document(name: str, documents: Sequence[Document]) -> Document:
    """Return the document of that id, title, number (``d3``) or end of a path. Raises ``NotFound`` with the nearest
    documents, ``Ambiguous`` with all that bear the name."""
    found = find_documents(name, documents)
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} documents are called {name!r}.",
            "Give the number of the one that is meant.",
            tuple(
                Candidate(format_document(each.number), each.title, each.id) for each in found[:CANDIDATES]
            ),
        )
    return found[0]


async def view_outline(index: IndexSnapshot, document: str, section: str = "") -> Outline:
    """Return the outline of a document, or of what is below the heading ``section`` in it. Raises as the two finders."""
    found = find_document(document, await index.documents.find_all(index.collection.name))
    parts = [
        passage async for passage in read_passages(index.documents, index.collection.name, [found.number])
    ]
    sections = await to_thread.run_sync(list_sections, parts, found.media_type)
    labels = tuple(part.label for part in parts)
    outline = Outline(found, sum(part.tokens for part in parts), tuple(sections), labels)
    if not section:
        return outline
    top = find_section(outline, section)
    below = [each for each in sections if top.start < each.start < top.end]
    return Outline(found, top.tokens, tuple(below or [top]), labels)


def list_sections(parts: Sequence[PassageText], media_type: str) -> list[Section]:
    """Return the sections of a document, given as all its chunks."""
    if not parts:
        return []
    text, base = join_passages(parts), parts[0].start
    density = sum(part.tokens for part in parts) / max(1, sum(len(part.text) for part in parts))
    found = list(headings(text, media_type))
    sections = []
    above: list[Heading] = []
    for heading, end in _with_ends(found, len(text)):
        above = [*(each for each in above if each.level < heading.level), heading]
        body = len(text[heading.start : end].rstrip())
        start = base + heading.start
        first, last = find_chunks(parts, start, start + body)
        sections.append(
            Section(
                heading.level,
                tuple(each.title for each in above),
                start,
                base + end,
                first.number,
                last.number,
                max(1, round(body * density)),
            )
        )
    return sections


def _with_ends(found: Sequence[Heading], length: int) -> Iterator[tuple[Heading, int]]:
    """Yield each heading with the end of its section."""
    ends = [length] * len(found)
    open_: list[int] = []
    for at, heading in enumerate(found):
        while open_ and found[open_[-1]].level >= heading.level:
            ends[open_.pop()] = heading.start
        open_.append(at)
    yield from (
        (each, each.breaks[-1] if each.breaks else end) for each, end in zip(found, ends, strict=True)
    )


def find_section(outline: Outline, name: str) -> Section:
    """Return the section with this heading, or the only one that contains it; a path (``A > B``) tells equal ones
    apart. Raises ``NotFound`` with the nearest headings, ``Ambiguous`` with all that match."""
    wanted = [_key(each) for each in clean_text("section", name, QUERY_LIMITS.name).split(STEP.strip())]
    if not any(wanted):
        raise InvalidInput("The section is empty.", "Give a heading of the document.")
    exact = [each for each in outline.sections if _matches(each, wanted, exact=True)]
    found = exact or [each for each in outline.sections if _matches(each, wanted, exact=False)]
    title = outline.document.title
    if not found:
        near = sorted(outline.sections, key=lambda each: -similarity(wanted[-1][:100], _key(each.title)))
        raise NotFound(
            f"{title!r} has no section {name!r}.",
            "Give one of these headings:" if near else "It has no headings: read it without `section`.",
            _section_candidates(outline, near),
        )
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} sections of {title!r} are called {name!r}.",
            "Give the path of the one that is meant, or read its citations.",
            _section_candidates(outline, found),
        )
    return found[0]


def _matches(section: Section, wanted: Sequence[str], *, exact: bool) -> bool:
    path = [_key(each) for each in section.path]
    last = wanted[-1] == path[-1] if exact else wanted[-1] in path[-1]
    return last and all(any(above in each for each in path[:-1]) for above in wanted[:-1])


def _key(heading: str) -> str:
    return fold_case(clean_line(heading).translate(_QUOTES)).strip(" .:#*_")


def _section_candidates(outline: Outline, sections: Sequence[Section]) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(outline.cite(each), STEP.join(each.path), f"about {each.tokens} tokens")
        for each in sections[:CANDIDATES]
    )
