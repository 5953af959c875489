"""Find what the author of a passage refers to: links, wiki links, imports in code, numbered sections and footnotes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from posixpath import basename, dirname, join, normpath, splitext
from typing import NamedTuple
from urllib.parse import unquote

from anyio import to_thread

from leanrag_engine.core.model import Chunk, Document, PassageText, is_code
from leanrag_engine.core.text.citation import format_citation, format_document, parse_range
from leanrag_engine.retrieval.index import IndexSnapshot

from .document_text import read_passages
from .outline import list_sections

_LINK = re.compile(
    r"""(?<!!)\[[^\[\]\n]*\]\(<?([^()\s<>]+)|^ {0,3}\[[^\]^\n]+\]:\s*<?([^\s>]+)|\bhref="([^"\s]+)""",
    re.MULTILINE,
)
_WIKI = re.compile(r"\[\[([^\[\]|\n]+)(?:\|[^\[\]\n]*)?\]\]")
_PYTHON = re.compile(r"^[ \t]*(?:from[ \t]+(\.*)([\w.]+)[ \t]+import\b|import[ \t]+()([\w.]+))", re.MULTILINE)
_QUOTED = re.compile(r"""\b(?:from|import|require\()\s*['"](\.[^'"\n]+)|#include\s+"([^"\n]+)""")
_SECTION = re.compile(r"(?:§+\s*|\b(?:section|chapter)\s+)(\d+(?:\.\d+)*)", re.IGNORECASE)
_FOOTNOTE = re.compile(r"\[\^([^\]\s]+)\](?!:)")


class Reference(NamedTuple):
    """What is referred to: a document (``d12``) or a passage of the same one (``d3:c14``), as ``get_sources`` takes it."""

    target: str
    label: str


async def find_references(
    index: IndexSnapshot, chunks: Sequence[Chunk]
) -> Mapping[str, tuple[Reference, ...]]:
    """Return by chunk what its text refers to within the collection, in the order of the text; nothing for a chunk that refers
    to nothing else."""
    found: dict[str, dict[Reference, None]] = {each.id: {} for each in chunks}
    targets = {chunk.id: list(_list_targets(chunk)) for chunk in chunks}
    if any(targets.values()):
        files = _Files(await index.documents.find_all(index.collection.name))
        for chunk in chunks:
            for target in targets[chunk.id]:
                document = files.find(target, chunk.source)
                if document and document.id != chunk.document_id:
                    _, _, part = target.partition("#")
                    words = f"{document.title} > {part}" if part else document.title
                    found[chunk.id][Reference(format_document(document.number), words)] = None
    within = [each for each in chunks if _SECTION.search(each.text) or _FOOTNOTE.search(each.text)]
    parts: dict[int, list[PassageText]] = {}
    for chunk in within:
        number, label, _ = parse_range(chunk.citation) or (0, 0, 0)
        if number not in parts:
            parts[number] = [
                each async for each in read_passages(index.documents, index.collection.name, [number])
            ]
        for place, words in await to_thread.run_sync(_find_within, chunk, parts[number]):
            if place != label:
                found[chunk.id][Reference(format_citation(number, place), words)] = None
    return {id_: tuple(references) for id_, references in found.items() if references}


def _list_targets(chunk: Chunk) -> Iterator[str]:
    """Yield the relative paths that a passage names; ``//`` before one that may be of any folder above, as of a module, and
    ``[[`` before the name of a note."""
    if is_code(chunk.media_type):
        for match in _PYTHON.finditer(chunk.text):
            dots, module = match[1] or "", (match[2] or match[4]).replace(".", "/")
            yield "../" * (len(dots) - 1) + module if dots else f"//{module}"
        yield from (match[1] or match[2] for match in _QUOTED.finditer(chunk.text))
    else:
        yield from (f"[[{match[1].strip()}" for match in _WIKI.finditer(chunk.text))
        for match in _LINK.finditer(chunk.text):
            target = unquote(match[1] or match[2] or match[3])
            if not target.startswith("#") and not re.match(r"[a-z][a-z0-9+.-]+:|//", target, re.IGNORECASE):
                yield f"/{target}" if target.startswith("/") else target


class _Files:
    """The documents by the paths and names that may stand for them: with and without their suffix, a folder for its index."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._paths: dict[str, Document] = {}
        self._names: dict[str, Document] = {}
        for each in documents:
            path = _to_posix(each.source or each.id)
            stem = splitext(path)[0]
            name = basename(stem)
            index = dirname(path) if name.casefold() in ("index", "readme", "__init__") else path
            for key in (path, stem, index):
                self._paths.setdefault(key, each)
            for key in (each.title, name):
                self._names.setdefault(key.casefold(), each)

    def find(self, target: str, source: str) -> Document | None:
        path = target.partition("#")[0]
        if path.startswith("[["):
            return self._names.get(path[2:].rpartition("/")[2].casefold())
        folders = [dirname(_to_posix(source))]
        while path.startswith("//") and folders[-1] != dirname(folders[-1]):
            folders.append(dirname(folders[-1]))
        for folder in folders:
            whole = normpath(join(folder, path.lstrip("/")))
            if found := self._paths.get(whole) or self._paths.get(splitext(whole)[0]):
                return found
        return None


def _to_posix(path: str) -> str:
    return PurePath(path).as_posix()


def _find_within(chunk: Chunk, parts: Sequence[PassageText]) -> list[tuple[int, str]]:
    """Return the labels of the chunks where the sections and notes begin that a passage of the same document names."""
    labels = {each.number: each.label for each in parts}
    found = []
    if numbers := dict.fromkeys(_SECTION.findall(chunk.text)):
        for section in list_sections(parts, chunk.media_type):
            first = section.title.split(None, 1)[0].strip("§.:")
            if first in numbers:
                found.append((labels[section.first], section.title))
    for note in dict.fromkeys(_FOOTNOTE.findall(chunk.text)):
        defined = re.compile(rf"^\[\^{re.escape(note)}\]:", re.MULTILINE)
        found += [(each.label, f"footnote {note}") for each in parts if defined.search(each.text)][:1]
    return found
