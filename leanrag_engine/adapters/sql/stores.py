"""The stores on one database: thin classes over the functions of the files beside this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as AnyCollection
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from anyio import to_thread
from numpy.typing import NDArray

from leanrag_engine.core.errors import Busy
from leanrag_engine.core.graphs.graph import Hierarchy, PublishedLayers
from leanrag_engine.core.graphs.stored import StoredPlaces, find_places, open_layers
from leanrag_engine.core.history import HistoryEntry, Publication
from leanrag_engine.core.jobs import Job, JobState, JobStatus
from leanrag_engine.core.model import (
    BuildRecord,
    Chunk,
    ChunkHead,
    Collection,
    Correction,
    Document,
    Entity,
    EntityHead,
    Extract,
    ExtractionSchema,
    ExtractState,
    Generation,
    Hit,
    LoadedDocument,
    PassageText,
    RareWord,
    ReadDocument,
    Relation,
    Spent,
)
from leanrag_engine.core.ports import (
    AgentText,
    AgentTextKind,
    ChatRequest,
    ChunkReading,
    ProgressReport,
    Reply,
    SubmittedExtract,
    ignore_progress,
)

from . import collections as collection_rows
from . import corrections, documents, jobs, removal, replies
from .dialect.fulltext_index import RowCounts
from .dialect.opened import OpenedDatabase
from .dialect.sqlite import opening
from .dialect.transactions import Transactions
from .generations import entities, history, relations, unsettled
from .generations import publish as publishing


class SqlDocumentStore:
    """Implements :class:`leanrag_engine.core.ports.DocumentStore`."""

    def __init__(self, transactions: Transactions, row_counts: RowCounts) -> None:
        self._transactions = transactions
        self._row_counts = row_counts
        self._recent_chunks = documents.RecentChunks()
        self._counts: dict[tuple[int, int, int], collection_rows.DocumentCounts] = {}

    async def collections(self) -> list[Collection]:
        return await self._transactions.read(collection_rows.find_all)

    async def collection(self, name: str) -> Collection | None:
        return await self._transactions.read(collection_rows.find, name, self._counts)

    async def create_collection(self, name: str) -> Collection:
        return await self._transactions.write(collection_rows.create, name)

    async def rename_collection(self, name: str, new: str) -> None:
        await self._transactions.write(collection_rows.rename, name, new)

    async def copy_collection(self, name: str, new: str) -> Collection:
        return await self._transactions.write(collection_rows.copy, name, new)

    async def delete_collection(self, name: str, job: str) -> None:
        await self._transactions.write(removal.delete_collection, name, job)
        with suppress(Busy):
            await self._transactions.overwrite_deleted()

    async def schema(self, collection: str) -> ExtractionSchema | None:
        return await self._transactions.read(collection_rows.find_schema, collection)

    async def put_schema(self, collection: str, schema: ExtractionSchema | None) -> None:
        await self._transactions.write(collection_rows.put_schema, collection, schema)

    async def put(
        self,
        collection: str,
        document: LoadedDocument,
        chunks: Sequence[Chunk],
        extracts: Sequence[Extract],
    ) -> Document:
        """Do as the port says. Also raises ``InvalidInput`` for a chunk of another document and an extract without its chunk."""
        (stored,) = await self.put_all(collection, [ReadDocument(document, chunks, extracts)])
        return stored

    async def put_all(self, collection: str, read: Sequence[ReadDocument]) -> list[Document]:
        ids = [each.document.id for each in read]
        held = frozenset(await self._transactions.read(documents.chunk_ids, collection, ids))

        def prepare() -> list[documents.PreparedDocument]:
            return [
                documents.prepare_document(each.document, each.chunks, each.extracts, held) for each in read
            ]

        incoming = await to_thread.run_sync(prepare)
        return await self._transactions.write(documents.put_all, collection, incoming)

    async def put_file_stamps(self, collection: str, stamps: Mapping[str, tuple[str, str]]) -> None:
        if stamps:
            await self._transactions.write(documents.put_file_stamps, collection, stamps)

    async def find(self, collection: str, document_id: str) -> Document | None:
        return await self._transactions.read(documents.find, collection, document_id)

    async def find_all(self, collection: str) -> list[Document]:
        return await self._transactions.read(documents.find_all, collection)

    async def chunks(self, collection: str, ids: Sequence[str]) -> list[Chunk]:
        return await self._transactions.read(documents.chunks_with, collection, ids, self._recent_chunks)

    async def chunks_by_citation(self, collection: str, citations: Sequence[str]) -> list[Chunk]:
        return await self._transactions.read(documents.chunks_cited, collection, citations)

    async def all_chunks(self, collection: str) -> list[Chunk]:
        return await self._transactions.read(documents.all_chunks, collection)

    async def chunk_heads(self, collection: str) -> list[ChunkHead]:
        return await self._transactions.read(documents.chunk_heads, collection)

    def read_chunks(self, collection: str, ids: Sequence[str]) -> list[Chunk]:
        return self._transactions.read_now(documents.chunks_with, collection, ids)

    async def documents_containing(self, collection: str, letters: str) -> list[int]:
        return await self._transactions.read(documents.documents_containing, collection, letters)

    async def passage_texts(
        self, collection: str, numbers: Sequence[int] | None, *, after: tuple[int, int], limit: int
    ) -> list[PassageText]:
        return await self._transactions.read(
            documents.passage_texts, collection, numbers, after=after, limit=limit
        )

    async def chunk_ids(self, collection: str, document_ids: Sequence[str]) -> list[str]:
        return await self._transactions.read(documents.chunk_ids, collection, document_ids)

    async def chunk_labels(self, collection: str, numbers: Sequence[int]) -> dict[int, list[int]]:
        return await self._transactions.read(documents.labels_of, collection, numbers)

    async def pending_chunks(self, collection: str) -> list[Chunk]:
        return await self._transactions.read(documents.pending_chunks, collection)

    async def extracts(self, collection: str) -> list[Extract]:
        return await self._transactions.read(documents.all_extracts, collection)

    async def extract_states(self, collection: str) -> list[ExtractState]:
        return await self._transactions.read(documents.extract_states, collection)

    async def extracts_at(
        self, collection: str, chunks: Sequence[tuple[int, int]]
    ) -> list[tuple[ExtractState, Extract]]:
        return await self._transactions.read(documents.extracts_at, collection, chunks)

    async def count_extracts(self, collection: str) -> dict[str, int]:
        return await self._transactions.read(documents.count_extracts, collection)

    async def count_outdated(self, collection: str) -> dict[str, int]:
        return await self._transactions.read(documents.count_outdated, collection)

    async def heuristic_chunks(self, collection: str, *, due: bool) -> list[Chunk]:
        return await self._transactions.read(documents.heuristic_chunks, collection, due=due)

    async def ask_for(self, collection: str, chunk_ids: Sequence[str]) -> None:
        await self._transactions.write(documents.ask_for, collection, chunk_ids)

    async def accept_heuristic(self, collection: str) -> None:
        await self._transactions.write(documents.accept_heuristic, collection)

    async def count_asked(self, collection: str) -> int:
        return await self._transactions.read(documents.count_asked, collection)

    async def submit_extracts(
        self, collection: str, extracts: Sequence[Extract], *, replace: bool
    ) -> list[SubmittedExtract]:
        return await self._transactions.write(documents.submit_extracts, collection, extracts, replace)

    async def chunk_readings(self, collection: str) -> list[ChunkReading]:
        return await self._transactions.read(documents.chunk_readings, collection)

    async def extracts_near(self, collection: str, chunk_ids: Sequence[str], distance: int) -> list[Extract]:
        return await self._transactions.read(documents.extracts_near, collection, chunk_ids, distance)

    async def put_extracts(self, collection: str, extracts: Sequence[Extract], *, revise: bool) -> list[str]:
        return await self._transactions.write(documents.put_extracts, collection, extracts, revise)

    async def search_windows(self, collection: str, text: str, limit: int) -> list[Hit]:
        return await self._transactions.read(
            documents.search_windows, collection, text, limit, self._row_counts
        )

    async def nearest_words(self, collection: str, word: str, limit: int = 3) -> tuple[str, ...]:
        return await self._transactions.read(documents.nearest_words, collection, word, limit)

    async def find_rare_words(
        self, collection: str, words: Sequence[str], most_documents: int = 3, most_windows: int = 8
    ) -> tuple[RareWord, ...]:
        return await self._transactions.read(
            documents.find_rare_words, collection, words, most_documents, most_windows, self._recent_chunks
        )

    async def delete(
        self,
        collection: str,
        document_ids: Sequence[str],
        hierarchy: Hierarchy | None,
        *,
        embedder: str,
        dimension: int,
        embedder_state: bytes,
        record: BuildRecord,
        publication: Publication,
    ) -> Generation | None:
        """Do as the port says. Also raises ``InvalidInput`` if the hierarchy's layers do not fit together."""
        remaining = None
        if hierarchy is not None:
            ready = partial(
                publishing.prepare_build,
                hierarchy,
                embedder=embedder,
                dimension=dimension,
                embedder_state=embedder_state,
                record=record,
            )
            remaining = await to_thread.run_sync(ready)
        generation = await self._transactions.write(
            removal.delete_documents, collection, document_ids, remaining, publication
        )
        with suppress(Busy):
            await self._transactions.overwrite_deleted()
        return generation


class SqlGenerationStore:
    """Implements :class:`leanrag_engine.core.ports.GenerationStore`."""

    def __init__(self, transactions: Transactions, row_counts: RowCounts) -> None:
        self._transactions = transactions
        self._row_counts = row_counts

    async def publish(
        self,
        collection: str,
        revision: int,
        hierarchy: Hierarchy,
        *,
        embedder: str,
        dimension: int,
        embedder_state: bytes,
        record: BuildRecord,
        publication: Publication,
        previous: PublishedLayers | None = None,
        report: ProgressReport = ignore_progress,
        note_places: Callable[[StoredPlaces], None] = lambda _: None,
    ) -> Generation:
        """Do as the port says. Also raises ``InvalidInput`` if the hierarchy's layers do not fit together, ``StoreUnusable`` if the ``previous``
        ones are no longer the published ones."""
        shared = None
        if previous is not None:
            positions = find_places(previous.hierarchy.layers)
            if positions is None:
                positions = await self._transactions.read(publishing.find_positions, previous.generation)
            shared = publishing.SharedRows(previous, *positions)
        ready = partial(
            publishing.prepare_build,
            hierarchy,
            embedder=embedder,
            dimension=dimension,
            embedder_state=embedder_state,
            record=record,
            shared=shared,
            report=report,
        )
        build = await to_thread.run_sync(ready)
        note_places((build.entities.positions, build.relations.positions))
        return await self._transactions.write(
            publishing.publish, collection, revision, build, publication, report
        )

    async def prune(self, collection: str, kept: int, age: timedelta) -> None:
        await self._transactions.write(publishing.prune, collection, kept, age)

    async def history(self, collection: str) -> list[HistoryEntry]:
        return await self._transactions.read(history.find_all, collection)

    async def embedder_state(self, generation: int) -> bytes:
        """Return the state of the embedder of a generation. Raises ``NotFound`` if the generation was deleted."""
        return await self._transactions.read(collection_rows.embedder_state, generation)

    async def find_all(self, collection: str) -> list[Generation]:
        return await self._transactions.read(collection_rows.find_generations_in, collection)

    async def exists(self, generation: int) -> bool:
        return await self._transactions.read(collection_rows.generation_exists, generation)

    async def layer(self, generation: int, layer: int) -> list[Entity]:
        return await self._transactions.read(entities.in_layer, generation, layer)

    async def open_layers(
        self, generation: Generation, columns: Mapping[str, NDArray[Any]]
    ) -> Hierarchy | None:
        number = generation.number

        def read_entities(places: Sequence[int]) -> list[Entity]:
            return self._transactions.read_now(entities.at_positions, number, places)

        def read_relations(places: Sequence[int]) -> list[Relation]:
            return self._transactions.read_now(relations.at_positions, number, places)

        return open_layers(columns, generation.layers, read_entities, read_relations)

    async def entities(self, generation: int, ids: Sequence[str]) -> list[Entity]:
        return await self._transactions.read(entities.with_ids, generation, ids)

    async def entities_by_name(self, generation: int, names: Sequence[str]) -> list[Entity]:
        return await self._transactions.read(entities.find_by_name, generation, names)

    async def similar_entities(self, generation: int, name: str, limit: int) -> list[Entity]:
        return await self._transactions.read(entities.find_similar, generation, name, limit)

    async def entities_by_prefix(
        self, generation: int, prefix: str, limit: int, *, aggregated: bool
    ) -> list[Entity]:
        return await self._transactions.read(
            entities.find_by_prefix, generation, prefix, limit, aggregated=aggregated
        )

    async def entity_heads(self, generation: int) -> list[EntityHead]:
        return await self._transactions.read(entities.heads, generation)

    async def members(self, generation: int, id: str, offset: int, limit: int) -> list[Entity]:
        return await self._transactions.read(entities.members, generation, id, offset, limit)

    async def search_entities(
        self, generation: int, text: str, limit: int, layer: int | None = None
    ) -> list[Hit]:
        return await self._transactions.read(
            entities.search, generation, text, limit, layer, self._row_counts
        )

    async def search_facts(self, generation: int, text: str, limit: int) -> list[Hit]:
        return await self._transactions.read(
            relations.search_facts, generation, text, limit, self._row_counts
        )

    async def relations(self, generation: int, layer: int) -> list[Relation]:
        return await self._transactions.read(relations.in_layer, generation, layer)

    async def relations_of(self, generation: int, ids: Sequence[str], limit: int) -> list[Relation]:
        return await self._transactions.read(relations.find_touching, generation, ids, limit)

    async def relations_among(self, generation: int, ids: Sequence[str]) -> list[Relation]:
        return await self._transactions.read(relations.find_joining, generation, ids)

    async def relations_page(
        self,
        generation: int,
        *,
        layer: int | None,
        cluster: str | None,
        min_strength: int,
        offset: int,
        limit: int,
    ) -> tuple[list[Relation], int]:
        return await self._transactions.read(
            relations.page,
            generation,
            layer=layer,
            cluster=cluster,
            min_strength=min_strength,
            offset=offset,
            limit=limit,
        )

    async def vector_version(self) -> int:
        return await self._transactions.read(collection_rows.vector_version)

    async def bump_vector_version(self) -> int:
        return await self._transactions.write(collection_rows.bump_vector_version)

    async def note_unsettled(self, space: str, ids: AnyCollection[str]) -> None:
        await self._transactions.write(unsettled.note, space, ids)

    async def find_unsettled(self, space: str) -> set[str]:
        return await self._transactions.read(unsettled.find, space)

    async def settle(self, space: str) -> None:
        await self._transactions.write(unsettled.settle, space)


class SqlReplyStore:
    """Implements :class:`leanrag_engine.core.ports.ReplyStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def find(self, digest: str, job_id: str = "") -> Reply | None:
        return await self._transactions.read(replies.find, digest, job_id)

    async def put(
        self,
        collection: str,
        job_id: str,
        digest: str,
        asked: ChatRequest,
        reply: Reply,
        *,
        model: str,
        counted: int,
    ) -> None:
        record = replies.ReplyRecord(job_id, digest, asked, reply, model, counted)
        await self._transactions.write(replies.put, collection, record)

    async def spending(self, collection: str | None, job_id: str = "", model: str = "") -> list[Spent]:
        return await self._transactions.read(replies.sum_spending, collection, job_id, model)

    async def put_texts(
        self, collection: str, kind: AgentTextKind, texts: Mapping[str, AgentText], *, replace: bool
    ) -> list[str]:
        return await self._transactions.write(replies.put_texts, collection, kind, texts, replace)

    async def texts(self, collection: str, kind: AgentTextKind) -> dict[str, AgentText]:
        return await self._transactions.read(replies.texts, collection, kind)

    async def drop_texts(self, collection: str, kind: AgentTextKind, task_ids: Sequence[str]) -> None:
        await self._transactions.write(replies.drop_texts, collection, kind, task_ids)


class SqlCorrectionStore:
    """Implements :class:`leanrag_engine.core.ports.CorrectionStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def put(self, collection: str, correction: Correction) -> Correction:
        return await self._transactions.write(corrections.put, collection, correction)

    async def find_all(self, collection: str) -> list[Correction]:
        return await self._transactions.read(corrections.find_all, collection)

    async def remove(self, collection: str, number: int) -> None:
        await self._transactions.write(corrections.remove, collection, number)


class SqlJobStore:
    """Implements :class:`leanrag_engine.core.ports.JobStore`."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def put(self, job: Job) -> None:
        await self._transactions.write_row(jobs.put, job)

    async def put_progress(self, job: Job) -> None:
        await self._transactions.write_row(jobs.put_progress, job)

    async def find(self, job_id: str) -> Job | None:
        return await self._transactions.read(jobs.find, job_id)

    async def find_state(self, job_id: str) -> JobState | None:
        return await self._transactions.read(jobs.find_state, job_id)

    async def find_newest(self, collection: str | None = None, limit: int = 20) -> list[Job]:
        return await self._transactions.read(jobs.find_newest, collection, limit)

    async def find_unfinished(self) -> list[Job]:
        return await self._transactions.read(jobs.find_unfinished)

    async def claim(self, job_id: str, seen_owner: str, new_owner: str) -> bool:
        return await self._transactions.write_row(jobs.claim, job_id, seen_owner, new_owner)

    async def request_cancel(self, job_id: str) -> JobStatus | None:
        return await self._transactions.write_row(jobs.request_cancel, job_id)


class SqlDatabase:
    """One database, opened; its stores share their transactions.

    They may be used from several threads and event loops at once, and several processes may have the
    same database open. Every method may raise ``StoreUnusable`` and ``Busy``; those that take a
    collection's name raise ``NotFound`` if it does not exist.
    """

    def __init__(self, database: OpenedDatabase) -> None:
        self._transactions = Transactions(database)
        row_counts = RowCounts()
        self.documents = SqlDocumentStore(self._transactions, row_counts)
        self.generations = SqlGenerationStore(self._transactions, row_counts)
        self.jobs = SqlJobStore(self._transactions)
        self.replies = SqlReplyStore(self._transactions)
        self.corrections = SqlCorrectionStore(self._transactions)

    @classmethod
    async def open(cls, folder: Path, *, read_only: bool) -> SqlDatabase:
        """Open the SQLite database in ``folder``; create it or bring it to this version's schema if that is allowed.

        Raises ``StoreUnusable`` if the folder cannot be written to (it need not, to be read) or the file
        is damaged, not ours or of a newer schema; ``NotReady`` if there is nothing to open read-only.
        """
        database = await to_thread.run_sync(partial(opening.open_file, folder, read_only=read_only))
        return await cls._complete(database, read_only=read_only)

    @classmethod
    async def connect(cls, url: str, *, read_only: bool) -> SqlDatabase:
        """Open the PostgreSQL database at ``url``; create or upgrade its tables if that is allowed.

        Raises ``InvalidInput`` if the address is none or the driver is not installed; ``StoreUnusable`` if the server
        cannot be reached, is too old, or the database is not ours or of a newer schema; ``NotReady`` if there is
        nothing to open read-only.
        """
        from .dialect.postgres.address import parse_address  # noqa: PLC0415 - only those pay who use it

        parse_address(url)  # first, as the driver may not be installed
        from .dialect.postgres import server  # noqa: PLC0415 - as above

        database = await to_thread.run_sync(partial(server.open_server, url, read_only=read_only))
        return await cls._complete(database, read_only=read_only)

    @classmethod
    async def _complete(cls, database: OpenedDatabase, *, read_only: bool) -> SqlDatabase:
        """Return the stores of a database, after making the keyword index that a migration has dropped."""
        opened = cls(database)
        missing = [] if read_only else await opened._transactions.read(documents.find_unindexed)
        if missing:
            await opened._transactions.write(documents.index_windows)
        return opened

    async def identity(self) -> str:
        """Return the name that the database got when it was made."""
        return await self._transactions.read(collection_rows.read_identity)

    async def close(self) -> None:
        await self._transactions.close()
