"""Find what the author of a passage refers to: links, wiki links, imports in code, numbered sections and footnotes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from posixpath import join, normpath, splitext
from typing import NamedTuple
from urllib.parse import unquote

from anyio import to_thread

from leanrag_engine.core.model import Chunk, Document, PassageText, is_code
from leanrag_engine.core.text.citation import format_citation, format_document, parse_range
from leanrag_engine.retrieval.index import IndexSnapshot

from .document_text import read_passages
from .outline import list_sections

_LINK = re.compile(
    r"""(?m)(?<!!)\[[^\[\]\n]*\]\(<?([^()\s<>]+)|^ {0,3}\[[^\]^\n]+\]:\s*<?([^\s>]+)|\bhref="([^"\s]+)|:doc:`(?:[^`<]*<)?([^`<>]+)"""
)
_ELSEWHERE = re.compile(r"(?i)[a-z][a-z0-9+.-]+:|//|#")
_WIKI = re.compile(r"\[\[([^\[\]|\n]+)(?:\|[^\[\]\n]*)?\]\]")
_PYTHON = re.compile(r"(?m)^[ \t]*(?:from[ \t]+(\.*)([\w.]+)[ \t]+import\b|import[ \t]+([\w.]+))")
_QUOTED = re.compile(r"""\b(?:from|import|require\()\s*['"](\.[^'"\n]+)|#include\s+"([^"\n]+)""")
_SECTION = re.compile(r"(?i)(?:§+\s*|\b(?:section|chapter)\s+)(\d+(?:\.\d+)*)")
_FOOTNOTE = re.compile(r"\[\^([^\]\s]+)\](?!:)")


class Reference(NamedTuple):
    """What is referred to: a document (``d12``) or a passage of the same one (``d3:c14``), as ``get_sources`` takes it."""

    target: str
    label: str


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
