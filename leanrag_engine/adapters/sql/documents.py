"""Write and read documents, their chunks and their extracts. What :class:`leanrag_engine.core.ports.DocumentStore` says of
a method holds for the function that does its work; it has the methods by which queries read."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from itertools import chain, count
from pathlib import PurePath
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Row,
    RowMapping,
    bindparam,
    delete,
    func,
    insert,
    select,
    true,
    tuple_,
    update,
)

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import (
    FILE_TIME,
    METHODS,
    Chunk,
    ChunkHead,
    Document,
    Extract,
    ExtractedAttribute,
    ExtractedEntity,
    ExtractedRelation,
    ExtractState,
    Hit,
    Method,
    Page,
    PassageText,
    RareWord,
    ReadDocument,
    Window,
    window_id,
)
from leanrag_engine.core.ports import ChunkReading, SubmittedExtract
from leanrag_engine.core.text.citation import format_citation, parse_citation
from leanrag_engine.core.text.language.words import (
    find_spellings,
    match_whole_word,
    plain_letters,
    search_terms,
    spell_as_one,
    whole_forms,
)
from leanrag_engine.core.text.nearest import misspell
from leanrag_engine.core.text.scripts import has_cjk

from . import collections as collection_rows
from . import replies
from .dialect import fulltext
from .dialect.fulltext import IndexedWindow, WindowPlace
from .dialect.fulltext_index import RowCounts, SearchedRows
from .dialect.statements import among, among_pairs, contains_letters, fetch, list_value
from .schema.tables import chunks, collections, documents, extracts, is_of_chunk, parse_rows, select_unparsed

_COLLECTION: BindParameter[int] = bindparam("collection")
_IN_DOCUMENT = (documents.c.collection == chunks.c.collection) & (documents.c.number == chunks.c.document)
_OF_CHUNK = is_of_chunk(extracts)
_READING = (chunks.c.document, chunks.c.number)
_CITED = (chunks.c.document, chunks.c.label)
_CHUNK_COLUMNS = (
    chunks.c.id,
    documents.c.id.label("document_id"),
    *chunks.c["number", "text", "start", "end", "tokens", "pages", "heading", "document", "label"],
    *documents.c["title", "source"],
    *chunks.c["windows", "line"],
    *documents.c["media_type", "date", "date_origin"],
)
"""In the order of the fields of a chunk; its citation is made of ``document`` and ``label``."""
_CHUNKS = (
    select_unparsed(*_CHUNK_COLUMNS).join(documents, _IN_DOCUMENT).where(chunks.c.collection == _COLLECTION)
)
_STATES = (
    select(
        *extracts.c["document", "chunk", "position"],
        documents.c.revision,
        chunks.c.id,
        documents.c.id.label("document_id"),
    )
    .join(chunks, _OF_CHUNK)
    .join(
        documents,
        (documents.c.collection == extracts.c.collection) & (documents.c.number == extracts.c.document),
    )
    .where(extracts.c.collection == _COLLECTION)
    .order_by(*_READING, extracts.c.position)
)
_EXTRACT_COLUMNS = (chunks.c.id, *extracts.c["method", "entities", "relations", "schema"])
_WITH_IDS = _CHUNKS.where(among(chunks.c.id, bindparam("ids")))
_AT_PLACES = (chunks.c.collection == _COLLECTION) & among_pairs(_CITED, bindparam("places"))
_TEXTS = (
    select(*_CITED, documents.c.title, chunks.c.heading, chunks.c.text)
    .join(documents, _IN_DOCUMENT)
    .where(_AT_PLACES)
)
_IDS = select(*_CITED, chunks.c.id).where(_AT_PLACES)

# --- write ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document prepared for writing: its texts are segmented into words before the write lock is taken, because that is slow."""

    read: ReadDocument
    words: Mapping[str, Sequence[IndexedWindow]]
    """Full-text rows by the ids of their chunks, of the chunks that were new when this was made."""


def prepare_document(read: ReadDocument, held: Collection[str]) -> PreparedDocument:
    """Check that the parts belong together and segment the texts into words, except those of the chunks
    ``held``. Raises ``InvalidInput`` for a chunk of another document and for an extract without its chunk."""
    document = read.document
    known = {part.id for part in read.chunks}
    for part in read.chunks:
        if part.document_id != document.id:
            raise InvalidInput(
                f"Chunk {part.id!r} belongs to document {part.document_id!r}, not to {document.id!r}.",
                "Give only chunks of this document.",
            )
    for extract in read.extracts:
        if extract.chunk_id not in known:
            raise InvalidInput(
                f"An extract names chunk {extract.chunk_id!r}, which document {document.id!r} does not have.",
                "Give only extracts of the chunks given with them.",
            )
    new = (part for part in read.chunks if part.id not in held)
    return PreparedDocument(
        read, {each.id: fulltext.make_indexed_windows(each, document.title) for each in new}
    )


@dataclass(frozen=True, slots=True)
class _PlacedDocument:
    """A document as it will be stored: the numbers in its citations of its chunks by id, and which of these it had before."""

    document: Document
    new: PreparedDocument
    labels: Mapping[str, int]
    kept: Collection[str]
    added: Sequence[Chunk]
    last_chunk: int
    is_new: bool
    is_retitled: bool


def put_all(connection: Connection, collection: int, new: Sequence[PreparedDocument]) -> list[Document]:
    """Write documents of different ids together; one that replaces another keeps its number and all chunks that it has too (by id).
    Kept chunks keep their citation and the extracts that a model or an agent wrote. A new chunk gets a citation that no other one
    has had: an old citation never shows another text. The collection's revision grows by one for each document."""
    known = select(*documents.c["id", "number", "title", "last_chunk", "added"]).where(
        documents.c.collection == collection, among(documents.c.id, [each.read.document.id for each in new])
    )
    held = {row.id: row for row in connection.execute(known)}
    gone = {*chunk_ids(connection, collection, [*held])}
    gone -= {part.id for each in new for part in each.read.chunks}
    replies.cut_descriptions(connection, collection, gone)
    more = sum(each.read.document.id not in held for each in new)
    grown = connection.execute(
        update(collections)
        .where(collections.c.number == collection)
        .values(revision=collections.c.revision + len(new), last_document=collections.c.last_document + more)
        .returning(collections.c.revision, collections.c.last_document)
    ).one()
    numbers = count(grown.last_document - more + 1)
    placed = []
    for revision, each in enumerate(new, grown.revision - len(new) + 1):
        before = held.get(each.read.document.id)
        number, added = (before.number, before.added) if before else (next(numbers), revision)
        stored = _document(each.read, number, added, revision)
        placed.append(_place(connection, collection, each, stored, before))
    _write_documents(connection, collection, placed)
    _update_chunks(connection, collection, placed)
    _insert_chunks(connection, collection, placed)
    _index_words(connection, collection, placed)
    _replace_heuristic_extracts(connection, collection, placed)
    return [each.document for each in placed]


def _place(
    connection: Connection, collection: int, new: PreparedDocument, stored: Document, before: Row[Any] | None
) -> _PlacedDocument:
    """Delete the chunks that ``new`` does not have, and label those that the document had not."""
    kept = _remove_missing_chunks(connection, collection, stored.number, new.read) if before else {}
    added = [part for part in new.read.chunks if part.id not in kept]
    last = before.last_chunk if before else 0
    labels = kept | {part.id: label for label, part in enumerate(added, last + 1)}
    retitled = before is not None and before.title != stored.title
    return _PlacedDocument(stored, new, labels, kept, added, last + len(added), before is None, retitled)


def _index_words(connection: Connection, collection: int, placed: Sequence[_PlacedDocument]) -> None:
    words = []
    for each in placed:
        number, title = each.document.number, each.document.title
        if each.is_retitled:
            fulltext.remove_windows(connection, collection, number, [each.labels[id_] for id_ in each.kept])
        words += [
            ((number, each.labels[part.id]), row)
            for part in (each.new.read.chunks if each.is_retitled else each.added)
            for row in each.new.words.get(part.id) or fulltext.make_indexed_windows(part, title)
        ]
    fulltext.add_windows(connection, collection, words)


def _remove_missing_chunks(
    connection: Connection, collection: int, document: int, new: ReadDocument
) -> dict[str, int]:
    """Delete the chunks of a document that ``new`` does not have; return the labels of the others by id."""
    here = (chunks.c.collection == collection) & (chunks.c.document == document)
    held = {row.id: row.label for row in connection.execute(select(chunks.c.id, chunks.c.label).where(here))}
    wanted = {part.id for part in new.chunks}
    gone = [label for id_, label in held.items() if id_ not in wanted]
    fulltext.remove_windows(connection, collection, document, gone)
    connection.execute(delete(chunks).where(here, among(chunks.c.label, gone)))
    return {id_: label for id_, label in held.items() if id_ in wanted}


def remove(connection: Connection, collection: int, id_: str) -> None:
    """Delete the document ``id_``, its chunks and extracts; do nothing if it does not exist."""
    this = (documents.c.collection == collection) & (documents.c.id == id_)
    number = connection.execute(select(documents.c.number).where(this)).scalar()
    if number is not None:
        first, after = WindowPlace(number, 0, 0), WindowPlace(number + 1, 0, 0)
        fulltext.open_windows(connection, collection).remove(range(first.to_row(), after.to_row()))
        connection.execute(delete(documents).where(this))


def _document(new: ReadDocument, number: int, added: int, revision: int) -> Document:
    loaded = new.document
    same = ("id", "title", "source", "media_type", "digest", "date", "date_origin")
    return Document(
        **{name: getattr(loaded, name) for name in (*same, "file_stamp", "file_digest", "metadata")},
        number=number,
        characters=len(loaded.text),
        chunks=len(new.chunks),
        added=added,
        revision=revision,
        ingested_at=datetime.now(UTC),
    )


def _write_documents(connection: Connection, collection: int, placed: Sequence[_PlacedDocument]) -> None:
    new: list[dict[str, object]] = []
    for each in placed:
        values = {name: getattr(each.document, name) for name in Document.__dataclass_fields__}
        values |= {"collection": collection, "last_chunk": each.last_chunk}
        if each.is_new:
            new.append(values)
            continue
        this = (documents.c.collection == collection) & (documents.c.number == each.document.number)
        connection.execute(update(documents).where(this).values(values))
    if new:
        connection.execute(insert(documents), new)


def put_file_stamps(connection: Connection, collection: int, stamps: Mapping[str, tuple[str, str]]) -> None:
    """Record stamp and digest of files whose documents are unchanged, by the ids of the documents."""
    this = (documents.c.collection == collection) & (documents.c.id == bindparam("this"))
    changed = update(documents).where(this)
    changed = changed.values(file_stamp=bindparam("new_stamp"), file_digest=bindparam("new_digest"))
    rows = [
        {"this": id_, "new_stamp": stamp, "new_digest": digest} for id_, (stamp, digest) in stamps.items()
    ]
    connection.execute(changed, rows)


def put_extracts(connection: Connection, collection: int, new: Sequence[Extract]) -> list[str]:
    """Replace all extracts of these chunks, return the existing chunks' ids. The revision grows by one if there are any."""
    statement = (
        select(chunks.c.id, chunks.c.document, chunks.c.label)
        .where(chunks.c.collection == collection, among(chunks.c.id, {each.chunk_id for each in new}))
        .order_by(*_READING)
    )
    places = {row.id: (row.document, row.label) for row in connection.execute(statement)}
    if not places:
        return []
    for document, label in places.values():
        here = (extracts.c.document == document) & (extracts.c.chunk == label)
        connection.execute(delete(extracts).where(extracts.c.collection == collection, here))
    placed = [(*places[each.chunk_id], each) for each in new if each.chunk_id in places]
    connection.execute(insert(extracts), _extract_rows(collection, placed))
    _set_reading(connection, collection, list(places), ReadingState.DONE)
    collection_rows.raise_revision(connection, collection)
    return list(places)


class ReadingState(StrEnum):
    """Whether a model should read a chunk."""

    NEW = "new"  # No build has had it yet
    ASKED = "asked"  # A model was asked to, and no answer that can be used has come
    DONE = ""  # It was read, or a build without a model has had it


def ask_for(connection: Connection, collection: int, ids: Sequence[str]) -> None:
    """Record that a model is asked to read these chunks: they are due until ``put_extracts`` has their extracts."""
    _set_reading(connection, collection, ids, ReadingState.ASKED)


def accept_heuristic(connection: Connection, collection: int) -> None:
    """Record that a build without a model has had all chunks: only an upgrade has a model read them."""
    here = (chunks.c.collection == collection) & (chunks.c.reading == ReadingState.NEW.value)
    connection.execute(update(chunks).where(here).values(reading=ReadingState.DONE.value))


def count_asked(connection: Connection, collection: int) -> int:
    """Return the number of chunks that a model was asked to read and has not."""
    here = chunks.c.collection == collection
    wanted = select(func.count()).where(here, chunks.c.reading == ReadingState.ASKED.value)
    return int(connection.execute(wanted).scalar_one())


def _set_reading(connection: Connection, collection: int, ids: Sequence[str], reading: ReadingState) -> None:
    here = (chunks.c.collection == collection) & among(chunks.c.id, ids) & (chunks.c.reading != reading.value)
    connection.execute(update(chunks).where(here).values(reading=reading.value))


def _insert_chunks(connection: Connection, collection: int, placed: Sequence[_PlacedDocument]) -> None:
    rows = [
        {
            "collection": collection,
            "document": each.document.number,
            "label": each.labels[part.id],
            "revision": each.document.revision,
            "reading": ReadingState.NEW.value,
            "id": part.id,
            "tokens": part.tokens,
            "heading": part.heading,
            "text": part.text,
            **_place_values(part),
        }
        for each in placed
        for part in each.added
    ]
    if rows:
        connection.execute(insert(chunks), rows)


def _update_chunks(connection: Connection, collection: int, placed: Sequence[_PlacedDocument]) -> None:
    """Write the places of chunks that stay in a changed document. Those of a retitled one are embedded
    with another title, so they count as brought by this revision."""
    for each in placed:
        revision = {"revision": each.document.revision} if each.is_retitled else {}
        rows = [
            {"the_label": each.labels[part.id], **_place_values(part), **revision}
            for part in each.new.read.chunks
            if part.id in each.kept
        ]
        if rows:
            here = (chunks.c.collection == collection) & (chunks.c.document == each.document.number)
            statement = update(chunks).where(here, chunks.c.label == bindparam("the_label"))
            connection.execute(
                statement.values({name: bindparam(name) for name in rows[0] if name != "the_label"}), rows
            )


def _place_values(part: Chunk) -> dict[str, object]:
    """Return the columns of a chunk that depend on its place in the document."""
    return {
        "number": part.number,
        "start": part.start,
        "end": part.end,
        "pages": [[each.number, each.start] for each in part.pages],
        "line": part.line,
        "windows": [[each.start, each.end, each.heading] for each in part.windows],
    }


def _replace_heuristic_extracts(
    connection: Connection, collection: int, placed: Sequence[_PlacedDocument]
) -> None:
    """Write the extracts of documents; a heuristic one does not replace what a model or an agent wrote.
    Heuristic extracts depend on the whole document, so those of kept chunks are replaced too."""
    rows: list[dict[str, object]] = []
    read: list[str] = []
    for each in placed:
        number, new = each.document.number, each.new.read.extracts
        written = {extract.chunk_id for extract in new if extract.method is not Method.HEURISTIC}
        read += written
        kept: set[int] = set()
        if not each.is_new:
            here = (extracts.c.collection == collection) & (extracts.c.document == number)
            replaced = among(extracts.c.chunk, [each.labels[id_] for id_ in written])
            heuristic = extracts.c.method == Method.HEURISTIC.value
            connection.execute(delete(extracts).where(here, heuristic | replaced))
            kept = set(connection.execute(select(extracts.c.chunk).where(here)).scalars())
        labelled = [(number, each.labels[extract.chunk_id], extract) for extract in new]
        rows += _extract_rows(collection, [given for given in labelled if given[1] not in kept])
    if rows:
        connection.execute(insert(extracts), rows)
    if read:
        _set_reading(connection, collection, read, ReadingState.DONE)


def _extract_rows(collection: int, placed: Sequence[tuple[int, int, Extract]]) -> list[dict[str, object]]:
    """Return the rows of extracts, each given with the numbers of its document and its chunk."""
    return [
        {
            "collection": collection,
            "document": document,
            "chunk": chunk,
            "position": position,
            "method": extract.method.value,
            "entities": [_entity_values(each) for each in extract.entities],
            "relations": [_relation_values(each) for each in extract.relations],
            "schema": extract.schema,
        }
        for position, (document, chunk, extract) in enumerate(placed)
    ]


def _entity_values(entity: ExtractedEntity) -> list[object]:
    """Return the fields of an entity; without a schema, four."""
    values: list[object] = [entity.name, entity.type, entity.description, list(entity.aliases)]
    if entity.attributes or entity.confidence:
        values += [
            [[each.name, each.value, each.confidence] for each in entity.attributes],
            entity.confidence,
        ]
    return values


def _relation_values(relation: ExtractedRelation) -> list[object]:
    """Return the fields of a relation; without a schema, three or four."""
    values: list[object] = [relation.source, relation.target, relation.description]
    if relation.type or relation.confidence:
        return [*values, relation.importance, relation.type, relation.confidence]
    return [*values, relation.importance] if relation.importance else values


# --- read documents ------------------------------------------------------------------------


def find(connection: Connection, collection: int, ids: Sequence[str]) -> dict[str, Document]:
    """Return the documents with these ids by id; unknown ids are left out."""
    wanted = select(documents).where(documents.c.collection == collection, among(documents.c.id, ids))
    return {row["id"]: _document_of(row) for row in connection.execute(wanted).mappings()}


def find_all(connection: Connection, collection: int) -> list[Document]:
    held = select(documents).where(documents.c.collection == collection).order_by(documents.c.number)
    return [_document_of(row) for row in connection.execute(held).mappings()]


def _document_of(row: RowMapping) -> Document:
    return Document(**{name: row[name] for name in Document.__dataclass_fields__})


# --- read chunks ---------------------------------------------------------------------------


class RecentChunks:
    """The chunks that were read last from one collection in one state, at most ``most``: some megabytes. The questions of
    a session meet the same passages: 88 % of them over the 40 questions on uv's documents. A chunk that changed or went
    is not found here, as every change of documents raises the collection's revision. Safe to share between threads."""

    def __init__(self, most: int = 2_000) -> None:
        self._most = most
        # Replaced, never changed: other threads read it.
        self._held: tuple[tuple[int, int], Mapping[str, Chunk]] = ((0, 0), {})

    def of(self, collection: int, revision: int) -> Mapping[str, Chunk]:
        """Return what is held of this state; what is held of another one is dropped."""
        if self._held[0] != (collection, revision):
            self._held = ((collection, revision), {})
        state, held = self._held
        return held if state == (collection, revision) else {}

    def keep(self, collection: int, revision: int, read: Mapping[str, Chunk]) -> None:
        """Keep chunks, without the older ones if they become too many."""
        held = self.of(collection, revision)
        if len(read) <= self._most:
            kept = {**held, **read} if len(held) + len(read) <= self._most else read
            self._held = ((collection, revision), kept)


def chunks_with(
    connection: Connection, name: str, ids: Sequence[str], recent: RecentChunks | None = None
) -> list[Chunk]:
    """Return the chunks with these ids in the order of ``ids``; unknown ids are left out. ``recent`` keeps
    chunks between the reads of one database. It must not be given within a write, which may be undone."""
    collection, revision = collection_rows.state_of(connection, name)
    recent = recent or RecentChunks()
    held = recent.of(collection, revision)
    found = {id_: held[id_] for id_ in ids if id_ in held}
    if missing := [id_ for id_ in ids if id_ not in found]:
        rows = fetch(connection, _WITH_IDS, collection=collection, ids=list_value(missing))
        read = {chunk.id: chunk for chunk in _chunks_of(rows)}
        recent.keep(collection, revision, read)
        found |= read
    return [found[id_] for id_ in ids if id_ in found]


def chunks_cited(connection: Connection, collection: int, citations: Sequence[str]) -> list[Chunk]:
    places = [place for each in citations if (place := parse_citation(each))]
    found = read_chunks(connection, collection, among_pairs(_CITED, places))
    cited = {chunk.citation: chunk for chunk in found}
    return [cited[citation] for place in places if (citation := format_citation(*place)) in cited]


def chunk_heads(connection: Connection, collection: int) -> list[ChunkHead]:
    """Return all chunks without their texts, in reading order."""
    titles = select(documents.c.number, documents.c.id, documents.c.title)
    held = {
        number: (id_, title)
        for number, id_, title in connection.execute(titles.where(documents.c.collection == collection))
    }
    mine = select(chunks.c.id, chunks.c.document, chunks.c.number).where(chunks.c.collection == collection)
    rows = connection.execute(mine.order_by(*_READING)).all()
    return [ChunkHead(id_, held[document][0], number, held[document][1]) for id_, document, number in rows]


def chunk_ids(connection: Connection, collection: int, document_ids: Sequence[str]) -> list[str]:
    # A join would go through all chunks of the collection, for they are wanted in their order.
    given = select(documents.c.number).where(
        documents.c.collection == collection, among(documents.c.id, document_ids)
    )
    mine = chunks.c.collection == collection, chunks.c.document.in_(given)
    return list(connection.execute(select(chunks.c.id).where(*mine).order_by(*_READING)).scalars())


def find_dated(connection: Connection, collection: int, day: str, most: int) -> list[str]:
    begins = "____" * day.startswith("-") + day
    mine = documents.c.collection == collection, documents.c.date_origin != FILE_TIME
    found = select(documents.c.id).where(*mine, documents.c.date.like(f"{begins}%")).limit(most + 1)
    ids = connection.execute(found).scalars().all()
    return chunk_ids(connection, collection, ids) if len(ids) <= most else []


def find_newest(connection: Connection, collection: int, words: Sequence[str]) -> str:
    name = documents.c.title + " " + documents.c.source
    held = select(documents.c.date, name).where(
        documents.c.collection == collection,
        documents.c.date_origin != FILE_TIME,
        *(contains_letters(name, word) for word in words),
    )
    begin = [re.compile(rf"(?<![^\W_]){re.escape(word)}", re.IGNORECASE) for word in words]
    dates = [
        day for day, called in connection.execute(held) if day and all(each.search(called) for each in begin)
    ]
    return max(dates) if len(dates) > 2 else ""  # noqa: PLR2004 - a series


_NUMBER = re.compile(r"(?<=[a-z]{3})(?:y|ies|s)$")  # *policy* names the folder *policies*


def find_called(connection: Connection, collection: int, word: str) -> list[str]:
    called, stem = word.casefold(), _NUMBER.sub("", word.casefold())
    held = select(documents.c.number, documents.c.source).where(
        documents.c.collection == collection, contains_letters(documents.c.source, stem)
    )
    numbers = []
    for number, source in connection.execute(held):
        path = PurePath(source.casefold())
        parts = re.split(r"[\W_]+", f"{path.parent.name} {path.stem}")
        if called == path.name or stem in {_NUMBER.sub("", each) for each in parts}:
            numbers.append(number)
    found = select(chunks.c.id).where(chunks.c.collection == collection, among(chunks.c.document, numbers))
    return list(connection.execute(found.order_by(chunks.c.number, chunks.c.document)).scalars())


def count_tokens(connection: Connection, collection: int) -> dict[int, int]:
    sums = select(chunks.c.document, func.sum(chunks.c.tokens)).where(chunks.c.collection == collection)
    rows = connection.execute(sums.group_by(chunks.c.document))
    return {document: int(tokens) for document, tokens in rows}


def documents_containing(connection: Connection, collection: int, letters: str) -> list[int]:
    holds = select(chunks.c.number).where(_IN_DOCUMENT, contains_letters(chunks.c.text, letters)).exists()
    found = select(documents.c.number).where(documents.c.collection == collection, holds)
    return list(connection.execute(found).scalars())


def passage_texts(
    connection: Connection,
    collection: int,
    numbers: Sequence[int] | None,
    *,
    after: tuple[int, int],
    limit: int,
) -> list[PassageText]:
    statement = select(*chunks.c["document", "number", "label", "start", "tokens", "text"]).where(
        chunks.c.collection == collection, tuple_(*_READING) > after
    )
    if numbers is not None:
        statement = statement.where(among(chunks.c.document, numbers))
    return [PassageText(*row) for row in connection.execute(statement.order_by(*_READING).limit(limit))]


def labels_of(connection: Connection, collection: int, numbers: Sequence[int]) -> dict[int, list[int]]:
    """Return the labels of the chunks of documents, by the document's number, in reading order."""
    mine = chunks.c.collection == collection
    statement = select(chunks.c.document, chunks.c.label).where(mine, among(chunks.c.document, numbers))
    return group((document, label) for document, label in connection.execute(statement.order_by(*_READING)))


def pending_chunks(connection: Connection, collection: int) -> list[Chunk]:
    """Return the chunks that came in, or whose document got another title, after the published generation; all without one."""
    published = collection_rows.find_generations(connection, collection, limit=1)
    pending = chunks.c.revision > published[0].revision if published else true()
    return read_chunks(connection, collection, pending)


def heuristic_chunks(connection: Connection, collection: int, *, due: bool) -> list[Chunk]:
    """Return the chunks that no model or agent has read yet, and those that a model read with another
    schema than the collection has now, in reading order. ``due`` limits them to those that the next build
    should have a model read: what it has not seen yet, and what a model failed to read."""
    unread = ~_is_written(collection)
    if due:
        unread &= chunks.c.reading != ReadingState.DONE.value
    outdated = _is_outdated(connection, collection, extracts.c.method == Method.MODEL.value)
    return read_chunks(connection, collection, unread | outdated)


def count_outdated(connection: Connection, collection: int) -> dict[str, int]:
    """Return how many chunks were read by a model or an agent with another schema than there is now, by method."""
    is_outdated = extracts.c.schema != collection_rows.schema_digest(connection, collection)
    return count_extracts(connection, collection, extracts.c.method.in_(_WRITTEN), is_outdated)


_WRITTEN = (Method.MODEL.value, Method.AGENT.value)
_BY_MODEL_OR_AGENT = extracts.c.method != Method.HEURISTIC.value


def _is_outdated(
    connection: Connection, collection: int, condition: ColumnElement[bool]
) -> ColumnElement[bool]:
    """Return the condition that a chunk has an extract of ``condition`` made with another schema than there is now."""
    # A list that is made once: what no model has read costs nothing.
    statement = select(extracts.c.document, extracts.c.chunk).where(
        extracts.c.collection == collection,
        condition,
        extracts.c.schema != collection_rows.schema_digest(connection, collection),
    )
    return tuple_(*_CITED).in_(statement)


def _is_written(collection: int) -> ColumnElement[bool]:
    """Return the condition that a model or an agent has read a chunk."""
    here = (extracts.c.document == chunks.c.document) & (extracts.c.chunk == chunks.c.label)
    return (
        select(extracts.c.chunk).where(extracts.c.collection == collection, here, _BY_MODEL_OR_AGENT).exists()
    )


def search_windows(connection: Connection, name: str, text: str, limit: int, counts: RowCounts) -> list[Hit]:
    """Search windows by keyword, best first; ``counts`` are kept between the searches of one database."""
    collection, revision = collection_rows.state_of(connection, name)
    index = fulltext.open_windows(connection, collection)
    hits = fulltext.search(index, text, limit, SearchedRows(counts, revision))
    ids = _name_windows(connection, collection, [WindowPlace.from_row(row) for row, _ in hits])
    return [Hit(id_, score) for id_, (_, score) in zip(ids, hits, strict=True)]


_HUMPED = re.compile("[a-z][A-Z]")
_SHORTEST_NAME, _LONGEST_NAME = 5, 40
_READ, _FOUND, _EVERY = 64, 2_000, 1_000_000
"""Texts that are read at once, the most windows of a word that are looked at, and all of them: the index knows words without their
endings, so that only the texts say whether a word stands there as it is written."""


def windows_with(connection: Connection, collection: int, words: Sequence[str]) -> list[str]:
    forms = [form for word in words for form in whole_forms(word)]
    return _name_windows(connection, collection, fulltext.find_windows(connection, collection, forms, _EVERY))


def _name_windows(connection: Connection, collection: int, places: Sequence[WindowPlace]) -> list[str]:
    ids = _find_chunk_ids(connection, collection, places)
    return [window_id(ids[place.chunk], place.window) for place in places]


def _find_chunk_ids(
    connection: Connection, collection: int, places: Iterable[WindowPlace]
) -> dict[tuple[int, int], str]:
    """Return the ids of the chunks of some windows, by their places."""
    wanted = list_value({place.chunk for place in places})
    rows = fetch(connection, _IDS, collection=collection, places=wanted)
    return {(document, label): id_ for document, label, id_ in rows}


def find_absent(connection: Connection, collection: int, words: Sequence[str]) -> list[str]:
    return [word for word in words if not fulltext.find_windows(connection, collection, whole_forms(word), 1)]


def find_rare_words(
    connection: Connection,
    name: str,
    words: Sequence[str],
    most_documents: int,
    most_windows: int,
    recent: RecentChunks | None = None,
) -> tuple[RareWord, ...]:
    collection = collection_rows.number_of(connection, name)
    places = {word: fulltext.find_windows(connection, collection, whole_forms(word), _READ) for word in words}
    few = {word: found for word, found in places.items() if len(found) < _READ}
    together = {place: None for found in few.values() for place in found}
    texts = {
        chunk: plain_letters(text)
        for some in _read_texts(connection, collection, list(together))
        for chunk, text in some.items()
    }
    held = {
        word: _keep_exact(
            word, found, [chunk for chunk in {each.chunk for each in found} if holds(texts[chunk])]
        )
        for word, found in few.items()
        for holds in (match_whole_word(word),)
    }
    held |= {
        word: _find_exact(connection, collection, word, most_documents) for word in places if word not in few
    }
    counts = {word: len({place.document for place in found}) for word, found in held.items()}
    rare = {word: held[word][:_READ] for word in words if counts[word] <= most_documents}
    windows = _sort_windows(connection, name, rare, recent)
    return tuple(
        RareWord(word, min(counts[word], most_documents + 1), tuple(windows.get(word, ())[:most_windows]))
        for word in words
    )


def _keep_exact(
    word: str, places: Sequence[WindowPlace], exact: Collection[tuple[int, int]]
) -> Sequence[WindowPlace]:
    """Return the windows of chunks that hold a word as it is written, or all, with other forms of it, if none does; capitals have
    no other form: *NATS* is not *NAT*."""
    kept = [place for place in places if place.chunk in exact]
    return kept if word.isupper() else kept or places


def _find_exact(
    connection: Connection, collection: int, word: str, most_documents: int
) -> Sequence[WindowPlace]:
    """Return the windows with a word that many have in some form; at least those of one more than ``most_documents``
    documents if there are so many."""
    holds, exact = match_whole_word(word), set[tuple[int, int]]()
    for bound in (4 * _READ, _FOUND):  # of a common word the first windows are enough
        places = fulltext.find_windows(connection, collection, whole_forms(word), bound)
        for texts in _read_texts(connection, collection, places):
            exact.update(place for place, text in texts.items() if holds(plain_letters(text)))
            if len({document for document, _ in exact}) > most_documents:
                return _keep_exact(word, places, exact)
    return _keep_exact(word, places, exact)


def _read_texts(
    connection: Connection, collection: int, places: Sequence[WindowPlace]
) -> Iterator[dict[tuple[int, int], str]]:
    """Yield titles, headings and texts of the chunks of windows, some at once: first one of each document, then the second."""
    turns = Counter[int]()
    order = dict[tuple[int, int], int]()
    for document, label in dict.fromkeys(place.chunk for place in places):
        order[document, label] = turns[document]
        turns[document] += 1
    chosen = sorted(order, key=order.__getitem__)
    for first in range(0, len(chosen), _READ):
        some = list_value(chosen[first : first + _READ])
        rows = fetch(connection, _TEXTS, collection=collection, places=some)
        yield {(document, label): "\n".join(texts) for document, label, *texts in rows}


def _sort_windows(
    connection: Connection,
    name: str,
    places: Mapping[str, Sequence[WindowPlace]],
    recent: RecentChunks | None,
) -> dict[str, list[str]]:
    """Return the ids of each word's windows, those whose text holds it first, then those with it in their heading or title."""
    collection = collection_rows.number_of(connection, name)
    ids = _find_chunk_ids(connection, collection, chain.from_iterable(places.values()))
    read = {chunk.id: chunk for chunk in chunks_with(connection, name, list(ids.values()), recent)}

    def rank(place: WindowPlace, holds: Callable[[str], bool]) -> int:
        chunk = read[ids[place.chunk]]
        window = chunk.windows[place.window]
        if holds(plain_letters(chunk.quote(window))):
            return 0
        return 1 if holds(plain_letters(f"{window.heading}\n{chunk.title}")) else 2

    return {
        word: [
            window_id(ids[place.chunk], place.window)
            for place in sorted(found, key=partial(rank, holds=match_whole_word(word)))
        ]
        for word, found in places.items()
    }


def nearest_words(connection: Connection, collection: int, word: str, limit: int = 3) -> tuple[str, ...]:
    asked = spell_as_one(word)
    if not _SHORTEST_NAME <= len(asked) <= _LONGEST_NAME or has_cjk(asked):
        return ()
    spelled = dict[str, Counter[str]]()
    for variant in fulltext.find_known(connection, collection, sorted(misspell(asked))):
        places = fulltext.find_windows(connection, collection, [[variant]], _FOUND)
        for texts in _read_texts(connection, collection, places):
            if found := Counter(each for text in texts.values() for each in find_spellings(variant, text)):
                spelled[variant] = found
                break
    likely = sorted(spelled, key=lambda each: (each[0] != asked[0], -spelled[each].total(), each))
    parts = search_terms(word)[1:]
    for some in (parts, parts[:-1]):  # the last part may be the beginning of one
        places = fulltext.find_windows(connection, collection, [some], _FOUND)
        if longer := _begin_with(connection, collection, asked, places):
            break
    near = (*longer, *(spelled[variant].most_common(1)[0][0] for variant in likely))
    if word.islower() or word.istitle():  # a plain word is no misspelt identifier
        near = tuple(each for each in near if not _HUMPED.search(each))
    if not near:
        places = fulltext.find_begun(connection, collection, asked, _FOUND)
        near = tuple(_begin_with(connection, collection, asked, places))
    return near[:limit]


def _begin_with(
    connection: Connection, collection: int, asked: str, places: Sequence[WindowPlace]
) -> list[str]:
    """Return the words in windows that begin with ``asked``, the most frequent first."""
    found = Counter[str]()
    for texts in _read_texts(connection, collection, places):
        found.update(name for text in texts.values() for name in re.findall(r"[\w-]+", text))
    return [name for name, _ in found.most_common() if spell_as_one(name).startswith(asked)]


def read_chunks(connection: Connection, collection: int, *conditions: ColumnElement[bool]) -> list[Chunk]:
    """Return the chunks of a collection that meet the conditions, in reading order."""
    statement = _CHUNKS.where(*conditions).order_by(*_READING)
    return _chunks_of(connection.execute(statement, {"collection": collection}).all())


def _chunks_of(rows: Sequence[Sequence[Any]]) -> list[Chunk]:
    found = []
    for row in parse_rows(rows, *_CHUNK_COLUMNS):  # by name it takes twice as long
        pages, heading, document, label, title, source, windows = row[7:14]
        values = [tuple([Page(*each) for each in pages]), heading, format_citation(document, label)]
        values += [title, source, tuple([Window(*each) for each in windows])]
        found.append(Chunk(*row[:7], *values, *row[14:]))
    return found


# --- read extracts -------------------------------------------------------------------------


def extract_states(connection: Connection, collection: int) -> list[ExtractState]:
    """Return which extracts there are, in the reading order of their chunks."""
    # Named one by one: for an inequality no index serves.
    methods = [method.value for method in Method if method is not Method.HEURISTIC]
    written = _STATES.add_columns(*_CONTENT).where(extracts.c.method.in_(methods))
    stamps = {row[:3]: _stamp(row) for row in connection.execute(written, {"collection": collection})}
    return [
        ExtractState(
            document, chunk, position, stamps.get((document, chunk, position), revision), id_, document_id
        )
        for document, chunk, position, revision, id_, document_id in fetch(
            connection, _STATES, collection=collection
        )
    ]


def extracts_at(
    connection: Connection, collection: int, places: Sequence[tuple[int, int]]
) -> list[tuple[ExtractState, Extract]]:
    """Return the extracts of the chunks with these numbers of document and chunk, as in citations, in reading order."""
    here = among_pairs((extracts.c.document, extracts.c.chunk), places)
    rows = connection.execute(_STATES.add_columns(*_CONTENT).where(here), {"collection": collection}).all()
    states = [
        ExtractState(row[0], row[1], row[2], row[3] if row[6] == _HEURISTIC else _stamp(row), row[4], row[5])
        for row in rows
    ]
    return list(zip(states, _extracts_of([(row[4], *row[6:]) for row in rows]), strict=True))


_HEURISTIC = Method.HEURISTIC.value
_CONTENT = tuple(select_unparsed(*_EXTRACT_COLUMNS[1:]).selected_columns)


def _stamp(row: Sequence[Any]) -> int:
    """Return a negative number that changes with the content of an extract. Heuristic ones change with their documents."""
    content = "\0".join(map(str, row[6:])).encode("utf-8", "surrogatepass")
    return -(int.from_bytes(hashlib.blake2b(content, digest_size=8).digest()) >> 2) - 1


def extracts_near(
    connection: Connection, collection: int, chunk_ids: Sequence[str], distance: int
) -> list[Extract]:
    """Return what models and agents wrote of the chunks at most ``distance`` from these in their documents, in reading order."""
    centre = chunks.alias()
    near = (
        select(centre.c.id)
        .where(
            centre.c.collection == chunks.c.collection,
            centre.c.document == chunks.c.document,
            centre.c.number.between(chunks.c.number - distance, chunks.c.number + distance),
            among(centre.c.id, chunk_ids),
        )
        .exists()
    )
    return read_extracts(connection, collection, _BY_MODEL_OR_AGENT, near)


def submit_extracts(
    connection: Connection, collection: int, new: Sequence[Extract], replace: bool
) -> list[SubmittedExtract]:
    """Store an agent's extracts, each of another chunk, in place of what those chunks had. Returns the chunks
    that still exist. What an agent or a model wrote of a chunk with the same schema, if it says something else,
    is replaced only if ``replace`` is set. The collection's revision grows by one if anything is stored."""
    those = among(chunks.c.id, [each.chunk_id for each in new])
    written = read_extracts(connection, collection, _BY_MODEL_OR_AGENT, those)
    held = {each.chunk_id: each for each in written}
    due = [
        each
        for each in new
        if (earlier := held.get(each.chunk_id)) is None
        # What was read with another schema is to be read again.
        or ((replace or earlier.schema != each.schema) and earlier != each)
    ]
    stored = set(put_extracts(connection, collection, due)) if due else set()
    found = []
    for each in new:
        earlier = held.get(each.chunk_id)
        if earlier == each:
            found.append(SubmittedExtract(each.chunk_id, stored=True))
        elif earlier is not None or each.chunk_id in stored:
            found.append(SubmittedExtract(each.chunk_id, each.chunk_id in stored, earlier))
    return found


def chunk_readings(connection: Connection, collection: int) -> list[ChunkReading]:
    """Return all chunks in reading order, without texts, and whether a model or an agent read them with the collection's present schema."""
    columns = (chunks.c.id, chunks.c.tokens)
    outdated = _is_outdated(connection, collection, extracts.c.method.in_(_WRITTEN))
    written = (_is_written(collection) & ~outdated).label("written")
    statement = select(*columns, written).where(chunks.c.collection == collection).order_by(*_READING)
    return [ChunkReading(row.id, row.tokens, row.written) for row in connection.execute(statement)]


def read_extracts(connection: Connection, collection: int, *conditions: ColumnElement[bool]) -> list[Extract]:
    """Return the extracts of a collection that meet the conditions, in the reading order of their chunks."""
    statement = (
        select_unparsed(*_EXTRACT_COLUMNS)
        .join(chunks, _OF_CHUNK)
        .where(extracts.c.collection == collection, *conditions)
        .order_by(*_READING, extracts.c.position)
    )
    return _extracts_of(connection.execute(statement).all())


def _extracts_of(rows: Sequence[Sequence[Any]]) -> list[Extract]:
    return [
        Extract(
            id_,
            METHODS[method],
            tuple(
                [
                    ExtractedEntity(name, type_, description, tuple(aliases), *_read_schema_values(*more))
                    for name, type_, description, aliases, *more in named
                ]
            ),
            tuple([ExtractedRelation(*each) for each in stated]),
            schema,
        )
        for id_, method, named, stated, schema in parse_rows(rows, *_EXTRACT_COLUMNS)
    ]


def _read_schema_values(
    attributes: Sequence[Sequence[Any]] = (), confidence: float = 0.0
) -> tuple[tuple[ExtractedAttribute, ...], float]:
    return tuple([ExtractedAttribute(*each) for each in attributes]), confidence


def count_extracts(
    connection: Connection, collection: int, *conditions: ColumnElement[bool]
) -> dict[str, int]:
    """Return the number of a collection's extracts that meet the ``conditions``, by their method."""
    statement = (
        select(extracts.c.method, func.count().label("extracts"))
        .where(extracts.c.collection == collection, *conditions)
        .group_by(extracts.c.method)
        .order_by(extracts.c.method)
    )
    return {row.method: row.extracts for row in connection.execute(statement)}
