"""Outline the documents, for a question about all of them where nobody wrote a summary: folders, topics, and first sentences."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import PurePath
from typing import TYPE_CHECKING

from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Chunk, Document, ScoreParts, is_code
from leanrag_engine.core.text.citation import format_citation
from leanrag_engine.core.text.language.sentences import is_statement, sentences
from leanrag_engine.core.text.language.words import content_words, word_count
from leanrag_engine.core.text.paths import find_folder
from leanrag_engine.core.text.shortening import one_line, shorten
from leanrag_engine.core.text.word_lists import read_pattern
from leanrag_engine.documents.notices import without_notices
from leanrag_engine.retrieval.context.rendering import OUTLINE_LINE, Statement
from leanrag_engine.retrieval.filters import select_documents
from leanrag_engine.retrieval.index import BuildState
from leanrag_engine.retrieval.intent import EVERYTHING, OVERVIEW, asks_for_overview
from leanrag_engine.retrieval.search.relevance import RankedWindow

if TYPE_CHECKING:
    from .run import QueryRun

LINE_TOKENS = 40  # Tokens of a line of an outline, roughly
LONGEST, FEWEST_WORDS = 200, 8  # Characters of a first sentence at most, and its words at least
_COMMENT = re.compile(r"^(?:[/*#;%!-]+\s+)+|(?<= )/{2,3} (?=\w)")
_CODE = re.compile(r"[{};]\s|[{}=;]$|\w\(\)|<\w")
_FOUND, _READ = (
    20,
    60,
)  # First windows, of which one may be of a named document, and chunks of it that are read
_SECTIONS = 3  # The fewest for an outline of a document
_BACK_MATTER = read_pattern("phrases", "back_matter")
NAMED = 12  # Folders and topics that the first lines name


async def outline_documents(run: QueryRun) -> list[Statement]:
    """Return a line for each document that fits, of each folder what tells of it and the largest, in order of date and path; several for
    each, spread over it, where they are few. The first lines name folders and topics."""
    store, collection = run.index.documents, run.index.collection.name
    documents = select_documents(await store.find_all(collection), run.query.filters)
    root = find_folder(each.source for each in documents)
    documents.sort(key=lambda each: (not _is_guide(each), is_code(each.media_type), -each.chunks))
    # Not as a Path, which would be one of this machine.
    folders = group((os.path.dirname(each.source.removeprefix(root)), each) for each in documents)  # noqa: PTH120
    most = run.query.token_budget // LINE_TOKENS
    chosen = [each for row in zip_longest(*folders.values()) for each in row if each][:most]
    chosen.sort(key=lambda each: (not _is_guide(each), each.own_date, each.source, each.number))
    labels = await store.chunk_labels(collection, [each.number for each in chosen])
    lines = most // max(len(chosen), 1)
    cited = [
        format_citation(each.number, label)
        for each in chosen
        for label in labels[each.number][:: -(-len(labels[each.number]) // lines)]
    ]
    counts = sorted(folders.items(), key=lambda each: -len(each[1]))
    held = ", ".join(f"{folder or 'the folder itself'} ({len(within)})" for folder, within in counts[:NAMED])
    within = f" in {len(folders)} folders: {held}" if len(folders) > 1 else ""
    said: list[tuple[str, str, tuple[str, ...]]] = [("Documents", f"{len(documents)}{within}.", ())]
    if topics := await _name_topics(run):
        said.append(("Topics", f"{', '.join(topics)}.", ()))
    for chunk in await store.chunks_by_citation(collection, cited):
        heading = (chunk.number > 1 and chunk.windows[0].heading) or chunk.title
        dated = f" ({chunk.own_date})" if chunk.own_date and chunk.own_date not in heading else ""
        said.append((f"{heading}{dated}", _first_sentence(chunk), (chunk.citation,)))
    return _write_lines(said)


def find_named_document(text: str, windows: Sequence[RankedWindow]) -> str:
    """Return the id of the one document that a text names of which it wants an overview; "" if it does not want one, or names none of those
    found."""
    if not asks_for_overview(text):
        return ""
    asked = content_words(OVERVIEW.sub(r" \g<subject>", text)) - EVERYTHING
    named = set[str]()
    for chunk in {each.chunk.document_id: each.chunk for each in windows[:_FOUND]}.values():
        title, name = (
            content_words(each.replace("_", " ")) for each in (chunk.title, PurePath(chunk.source).stem)
        )
        if asked and (asked <= title | name or set() < title <= asked):
            named.add(chunk.document_id)
    return named.pop() if len(named) == 1 else ""


def keep_to_document(windows: Sequence[RankedWindow], id_: str) -> list[RankedWindow]:
    """Return the windows; those of other documents than the one of which an overview is wanted, and its references, are less near."""
    return [
        each
        if each.chunk.document_id == id_ and not _BACK_MATTER.search(each.heading)
        else replace(each.add("unfound", -each.value / 2), near=each.near / 4, kept=False, exact=False)
        for each in windows
    ]


async def outline_document(run: QueryRun, id_: str) -> list[Statement]:
    """Return a line for each section of a document, its beginning first; none if it has few sections."""
    ids = await run.index.documents.chunk_ids(run.index.collection.name, [id_])
    spread = ids[:: -(-len(ids) // _READ) or 1]
    await run.load(spread)
    chunks = [run.chunks[each] for each in spread if each in run.chunks]
    parts = [
        (chunk, window)
        for chunk in chunks
        for window in chunk.windows
        if not _BACK_MATTER.search(window.heading)
    ]
    headings = [window.heading.split(" > ") for _, window in parts]
    depth = next(
        (deep for deep in (1, 2, 3) if len({tuple(each[:deep]) for each in headings}) > _SECTIONS), 3
    )
    sections: dict[str, tuple[Chunk, str]] = {}
    for (chunk, window), heading in zip(parts, headings, strict=True):
        said = next(_find_statements(chunk.quote(window)), "")
        if said:
            sections.setdefault(heading[:depth][-1] or chunk.title, (chunk, said))
    step = -(-len(sections) // max(run.query.token_budget // (2 * LINE_TOKENS), 1))
    lines = [*sections.items()][::step] if len(sections) >= _SECTIONS else []
    return _write_lines((name, shorten(said, LONGEST), (chunk.citation,)) for name, (chunk, said) in lines)


def _write_lines(said: Iterable[tuple[str, str, tuple[str, ...]]]) -> list[Statement]:
    """Return a line of an outline for each name, what is said of it, and its citations."""
    fixed = ScoreParts(fixed=1.0)
    return [Statement(*each, 1.0, OUTLINE_LINE, kept=True, parts=fixed) for each in said]


async def _name_topics(run: QueryRun) -> list[str]:
    """Return the names of the largest clusters of the lowest layer."""
    if run.index.state is BuildState.MISSING or not run.scope.everything:
        return []
    clusters = await run.index.generations.layer(run.index.generation.number, 1)
    return [each.name for each in sorted(clusters, key=lambda each: -each.mentions)[:NAMED]]


def _is_guide(document: Document) -> bool:
    """Return whether a file is what its folder says of itself."""
    return PurePath(document.source).stem.lower() in ("readme", "index", "about", "overview")


def _first_sentence(chunk: Chunk) -> str:
    """Return the first statement that is more than a greeting or a licence, else what code defines, or the beginning."""
    text, code = without_notices(chunk).text, is_code(chunk.media_type)
    said = (each for each in _find_statements(text) if not (code and _CODE.search(each)))
    signatures = [re.findall(r".*\w.*", each.heading)[-1:] for each in chunk.windows] if code else ()
    names = dict.fromkeys(line.strip(" {:") for line in chain.from_iterable(signatures))
    return shorten(next(said, "; ".join(names) or _COMMENT.sub("", one_line(text).strip())), LONGEST)


def _find_statements(text: str) -> Iterator[str]:
    told = (_COMMENT.sub("", one_line(text[start:end])) for start, end in sentences(text))
    return (each for each in told if word_count(each) >= FEWEST_WORDS and is_statement(each))
