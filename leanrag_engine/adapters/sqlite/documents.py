"""Write and read documents, their chunks and their extracts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Result,
    RowMapping,
    Select,
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
from leanrag_engine.core.model import (
    Chunk,
    Document,
    Extract,
    ExtractedEntity,
    ExtractedRelation,
    Hit,
    LoadedDocument,
    Method,
    PassageText,
    Window,
    window_id,
)
from leanrag_engine.core.text.citation import format_citation, parse_citation

from . import collections as collection_rows
from .dialect import fulltext
from .dialect.fulltext import IndexedWindow, RowCounts
from .dialect.statements import among, among_pairs, in_order, list_value
from .schema.tables import chunks, collections, documents, extracts

_READING = (chunks.c.document, chunks.c.number)
_CHUNKS = (
    select(chunks, documents.c.id.label("document_id"), documents.c.title, documents.c.source)
    .join(
        documents,
        (documents.c.collection == chunks.c.collection) & (documents.c.number == chunks.c.document),
    )
    .where(chunks.c.collection == bindparam("collection"))
)
_WITH_IDS = _CHUNKS.where(among(chunks.c.id, bindparam("ids")))
_IDS = select(chunks.c.document, chunks.c.number, chunks.c.id).where(
    chunks.c.collection == bindparam("collection"), among_pairs(_READING, bindparam("places"))
)

# --- write ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document prepared for writing: its texts are segmented into words before the write lock is taken,
    because that is slow."""

    document: LoadedDocument
    chunks: tuple[Chunk, ...]
    extracts: tuple[tuple[int, Extract], ...]
    """Each extract with the number of its chunk."""
    words: tuple[IndexedWindow, ...]


def prepare_document(
    document: LoadedDocument, parts: Sequence[Chunk], extracts: Sequence[Extract]
) -> PreparedDocument:
    """Check that the parts belong together and segment the texts into words.

    Raises ``InvalidInput`` for a chunk of another document and for an extract without its chunk.
    """
    numbers = {part.id: part.number for part in parts}
    for part in parts:
        if part.document_id != document.id:
            raise InvalidInput(
                f"Chunk {part.id!r} belongs to document {part.document_id!r}, not to {document.id!r}.",
                "Give only chunks of this document.",
            )
    for extract in extracts:
        if extract.chunk_id not in numbers:
            raise InvalidInput(
                f"An extract names chunk {extract.chunk_id!r}, which document {document.id!r} does not have.",
                "Give only extracts of the chunks given with them.",
            )
    return PreparedDocument(
        document,
        tuple(parts),
        tuple((numbers[extract.chunk_id], extract) for extract in extracts),
        tuple(row for part in parts for row in fulltext.make_indexed_windows(part, document.title)),
    )


def put(connection: Connection, name: str, new: PreparedDocument) -> Document:
    """Write ``new``, replacing a document of the same id; the collection's revision grows by one."""
    collection = collection_rows.number_of(connection, name)
    remove(connection, collection, new.document.id)
    raised = (
        update(collections)
        .where(collections.c.number == collection)
        .values(revision=collections.c.revision + 1, last_document=collections.c.last_document + 1)
        .returning(collections.c.revision, collections.c.last_document)
    )
    row = connection.execute(raised).one()
    stored = _document(new, row.last_document, row.revision)
    _insert_document(connection, collection, stored)
    _insert_chunks(connection, collection, stored.number, new)
    fulltext.add_windows(connection, collection, stored.number, new.words)
    return stored


def remove(connection: Connection, collection: int, id_: str) -> None:
    """Delete the document ``id_``, its chunks and extracts; do nothing if it does not exist."""
    this = (documents.c.collection == collection) & (documents.c.id == id_)
    number = connection.execute(select(documents.c.number).where(this)).scalar()
    if number is not None:
        fulltext.remove_windows(connection, collection, number)
        connection.execute(delete(documents).where(this))


def _document(new: PreparedDocument, number: int, revision: int) -> Document:
    document = new.document
    return Document(
        id=document.id,
        number=number,
        title=document.title,
        source=document.source,
        media_type=document.media_type,
        digest=document.digest,
        characters=len(document.text),
        chunks=len(new.chunks),
        revision=revision,
        ingested_at=datetime.now(UTC),
        metadata=dict(document.metadata),
        date=document.date,
        date_origin=document.date_origin,
    )


def _insert_document(connection: Connection, collection: int, document: Document) -> None:
    values = {name: getattr(document, name) for name in Document.__dataclass_fields__}
    connection.execute(insert(documents).values(collection=collection, **values))


def put_extracts(connection: Connection, name: str, new: Sequence[Extract], revise: bool) -> list[str]:
    """Replace all extracts of the chunks of ``new``.

    Returns the ids of those chunks that exist, in reading order. ``revise`` raises the collection's revision.
    """
    collection = collection_rows.number_of(connection, name)
    statement = (
        select(chunks.c.id, chunks.c.document, chunks.c.number)
        .where(chunks.c.collection == collection, among(chunks.c.id, {each.chunk_id for each in new}))
        .order_by(*_READING)
    )
    places = {row.id: (row.document, row.number) for row in connection.execute(statement)}
    if not places:
        return []
    for document, number in places.values():
        here = (extracts.c.document == document) & (extracts.c.chunk == number)
        connection.execute(delete(extracts).where(extracts.c.collection == collection, here))
    _insert_extracts(
        connection,
        collection,
        [(*places[each.chunk_id], each) for each in new if each.chunk_id in places],
    )
    if revise:
        collection_rows.raise_revision(connection, name)
    return list(places)


def _insert_chunks(connection: Connection, collection: int, document: int, new: PreparedDocument) -> None:
    rows = [
        {
            "collection": collection,
            "document": document,
            "number": part.number,
            "id": part.id,
            "start": part.start,
            "end": part.end,
            "tokens": part.tokens,
            "page": part.page,
            "heading": part.heading,
            "text": part.text,
            "windows": [[each.start, each.end, each.heading] for each in part.windows],
        }
        for part in new.chunks
    ]
    if rows:
        connection.execute(insert(chunks), rows)
    _insert_extracts(connection, collection, [(document, chunk, extract) for chunk, extract in new.extracts])


def _insert_extracts(
    connection: Connection, collection: int, placed: Sequence[tuple[int, int, Extract]]
) -> None:
    """Insert extracts, each given with the numbers of its document and its chunk."""
    rows = [
        {
            "collection": collection,
            "document": document,
            "chunk": chunk,
            "position": position,
            "method": extract.method.value,
            "entities": [
                [each.name, each.type, each.description, list(each.aliases)] for each in extract.entities
            ],
            "relations": [
                [each.source, each.target, each.description, *([each.importance] if each.importance else [])]
                for each in extract.relations
            ],
        }
        for position, (document, chunk, extract) in enumerate(placed)
    ]
    if rows:
        connection.execute(insert(extracts), rows)


# --- read documents ------------------------------------------------------------------------


def find(connection: Connection, name: str, id_: str) -> Document | None:
    """Return the document ``id_``, ``None`` if it does not exist."""
    row = connection.execute(_documents(connection, name).where(documents.c.id == id_)).mappings().first()
    return _document_of(row) if row else None


def find_all(connection: Connection, name: str) -> list[Document]:
    """Return all documents by number."""
    rows = connection.execute(_documents(connection, name).order_by(documents.c.number)).mappings()
    return [_document_of(row) for row in rows]


def _documents(connection: Connection, name: str) -> Select[Any]:
    return select(documents).where(documents.c.collection == collection_rows.number_of(connection, name))


def _document_of(row: RowMapping) -> Document:
    values: dict[str, Any] = {**row}
    del values["collection"]
    return Document(**values)


# --- read chunks ---------------------------------------------------------------------------


def chunks_with(connection: Connection, name: str, ids: Sequence[str]) -> list[Chunk]:
    """Return the chunks with these ids in the order of ``ids``; unknown ids are left out."""
    collection = collection_rows.number_of(connection, name)
    rows = connection.execute(_WITH_IDS, {"collection": collection, "ids": list_value(ids)})
    return in_order(ids, _chunks_of(rows), lambda chunk: chunk.id)


def chunks_cited(connection: Connection, name: str, citations: Sequence[str]) -> list[Chunk]:
    """Return the cited chunks in the order of ``citations`` (``d3:c12``); invalid and unknown ones are left out."""
    places = [place for each in citations if (place := parse_citation(each))]
    statement = _chunks(connection, name).where(among_pairs((chunks.c.document, chunks.c.number), places))
    cited = {chunk.citation: chunk for chunk in _chunks_of(connection.execute(statement))}
    return [cited[citation] for place in places if (citation := format_citation(*place)) in cited]


def all_chunks(connection: Connection, name: str) -> list[Chunk]:
    """Return all chunks in reading order."""
    return _chunks_of(connection.execute(_chunks(connection, name).order_by(*_READING)))


def chunk_ids(connection: Connection, name: str, document_ids: Sequence[str]) -> list[str]:
    """Return the ids of the chunks of these documents in reading order."""
    statement = _chunks(connection, name).where(among(documents.c.id, document_ids)).order_by(*_READING)
    return list(connection.execute(statement.with_only_columns(chunks.c.id)).scalars())


def documents_containing(connection: Connection, name: str, letters: str) -> list[int]:
    """Return the numbers of the documents with a chunk that contains ``letters``; SQL ignores the case of ASCII only."""
    holds = (
        select(chunks.c.number)
        .where(
            chunks.c.collection == documents.c.collection,
            chunks.c.document == documents.c.number,
            chunks.c.text.contains(letters, autoescape=True),
        )
        .exists()
    )
    mine = documents.c.collection == collection_rows.number_of(connection, name)
    return list(connection.execute(select(documents.c.number).where(mine, holds)).scalars())


def passage_texts(
    connection: Connection, name: str, numbers: Sequence[int] | None, *, after: tuple[int, int], limit: int
) -> list[PassageText]:
    """Return the texts of ``limit`` chunks after this document number and chunk number, in reading order."""
    columns = (chunks.c.document, chunks.c.number, chunks.c.start, chunks.c.tokens, chunks.c.text)
    statement = select(*columns).where(
        chunks.c.collection == collection_rows.number_of(connection, name), tuple_(*_READING) > after
    )
    if numbers is not None:
        statement = statement.where(among(chunks.c.document, numbers))
    return [PassageText(*row) for row in connection.execute(statement.order_by(*_READING).limit(limit))]


def pending_chunks(connection: Connection, name: str) -> list[Chunk]:
    """Return the chunks of documents added since the published generation; all chunks if there is no generation."""
    pending = _since_published(connection, collection_rows.number_of(connection, name))
    return _chunks_of(connection.execute(_chunks(connection, name).where(pending).order_by(*_READING)))


def heuristic_chunks(
    connection: Connection, name: str, *, pending: bool, after: tuple[int, int], limit: int | None
) -> list[Chunk]:
    """Return chunks without an extract by a model or an agent, in reading order.

    ``pending``: only of documents added since the published generation. ``after``: only chunks after this document
    number and chunk number.
    """
    collection = collection_rows.number_of(connection, name)
    read = (
        select(extracts.c.chunk)
        .where(
            extracts.c.collection == collection,
            extracts.c.document == chunks.c.document,
            extracts.c.chunk == chunks.c.number,
            extracts.c.method != Method.HEURISTIC.value,
        )
        .exists()
    )
    statement = _chunks(connection, name).where(~read, tuple_(*_READING) > after)
    if pending:
        statement = statement.where(_since_published(connection, collection))
    return _chunks_of(connection.execute(statement.order_by(*_READING).limit(limit)))


def _since_published(connection: Connection, collection: int) -> ColumnElement[bool]:
    """Return the condition that a document was added since the published generation."""
    published = collection_rows.find_generations(connection, collection, limit=1)
    return documents.c.revision > published[0].revision if published else true()


def search_windows(
    connection: Connection, name: str, text: str, limit: int, counts: RowCounts | None = None
) -> list[Hit]:
    """Search windows by keyword, best first; ``counts`` are kept between the searches of one database."""
    collection = collection_rows.number_of(connection, name)
    revision = collection_rows.revision_of(connection, collection)
    hits = fulltext.search_windows(connection, collection, text, limit, counts=counts, revision=revision)
    places = list_value({place.chunk for place, _ in hits})
    rows = connection.execute(_IDS, {"collection": collection, "places": places})
    ids = {(document, number): id_ for document, number, id_ in rows.all()}
    return [Hit(window_id(ids[place.chunk], place.window), score) for place, score in hits]


def _chunks(connection: Connection, name: str) -> Select[Any]:
    return _CHUNKS.params(collection=collection_rows.number_of(connection, name))


def _chunks_of(rows: Result[Any]) -> list[Chunk]:
    return [
        Chunk(
            id=row.id,
            document_id=row.document_id,
            number=row.number,
            text=row.text,
            start=row.start,
            end=row.end,
            tokens=row.tokens,
            page=row.page,
            heading=row.heading,
            citation=format_citation(row.document, row.number),
            title=row.title,
            source=row.source,
            windows=tuple(Window(*each) for each in row.windows),
        )
        for row in rows.all()  # row by row takes twice as long
    ]


# --- read extracts -------------------------------------------------------------------------


def all_extracts(connection: Connection, name: str) -> list[Extract]:
    """Return all extracts in the reading order of their chunks."""
    here = (
        (chunks.c.collection == extracts.c.collection)
        & (chunks.c.document == extracts.c.document)
        & (chunks.c.number == extracts.c.chunk)
    )
    statement = (
        select(chunks.c.id, extracts.c.method, extracts.c.entities, extracts.c.relations)
        .join(chunks, here)
        .where(extracts.c.collection == collection_rows.number_of(connection, name))
        .order_by(extracts.c.document, extracts.c.chunk, extracts.c.position)
    )
    return [
        Extract(
            chunk_id=row.id,
            method=Method(row.method),
            entities=tuple(
                ExtractedEntity(name, type_, description, tuple(aliases))
                for name, type_, description, aliases in row.entities
            ),
            relations=tuple(ExtractedRelation(*each) for each in row.relations),
        )
        for row in connection.execute(statement)
    ]


def count_extracts(connection: Connection, name: str) -> dict[str, int]:
    """Return the number of extracts of each method, by its name."""
    statement = (
        select(extracts.c.method, func.count().label("extracts"))
        .where(extracts.c.collection == collection_rows.number_of(connection, name))
        .group_by(extracts.c.method)
        .order_by(extracts.c.method)
    )
    return {row.method: row.extracts for row in connection.execute(statement)}
