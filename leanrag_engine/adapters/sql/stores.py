"""The stores on one database: thin classes over the functions of the files beside this one. What those that only read
call of them, :mod:`leanrag_engine.core.ports` describes, and what holds for the ids, ``collection`` and ``generation`` of all methods;
the rest stands at the functions. Each method is one transaction, also where it spans several stores."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from anyio import to_thread
from numpy.typing import NDArray
from sqlalchemy import Connection

from leanrag_engine.adapters.sql.dialect.transactions import OpenedDatabase
from leanrag_engine.core.errors import Busy
from leanrag_engine.core.graphs.graph import GenerationContent, Hierarchy, PublishedLayers
from leanrag_engine.core.graphs.stored import StoredPlaces, find_places, open_layers
from leanrag_engine.core.history import Publication
from leanrag_engine.core.jobs import IngestRequest
from leanrag_engine.core.model import Chunk, Collection, Document, Generation, Hit, RareWord, ReadDocument
from leanrag_engine.core.ports import ProgressReport, ignore_progress

from . import collections as collection_rows
from . import corrections, documents, jobs, removal, replies
from . import token_vectors as token_rows
from .collections import by_name
from .dialect.fulltext_index import RowCounts
from .dialect.sqlite import opening
from .dialect.transactions import Transactions
from .generations import entities as entity_rows
from .generations import history
from .generations import publish as publishing

P = ParamSpec("P")
T = TypeVar("T")


class _Store:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def _share_rows(self, previous: PublishedLayers | None) -> publishing.SharedRows | None:
        """Return the published layers with the positions of their rows."""
        if previous is None:
            return None
        places = find_places(previous.hierarchy.layers)
        if places is None:
            places = await self._transactions.read(publishing.find_positions, previous.generation)
        return publishing.SharedRows(previous, *places)


Method = Callable[Concatenate[_Store, P], Coroutine[Any, Any, T]]


class _ToMethod(Protocol):
    def __call__(self, work: Callable[Concatenate[Connection, P], T]) -> Method[P, T]: ...


def _within(way: str) -> _ToMethod:
    """Return what makes a method of a store from work that it does ``way``, a method of :class:`Transactions`."""

    def to_method(work: Callable[Concatenate[Connection, P], T]) -> Method[P, T]:
        async def call(self: _Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
            done: T = await getattr(self._transactions, way)(work, *args, **kwargs)
            return done

        return call

    return to_method


_reading, _writing, _writing_row = map(_within, ("read", "write", "write_row"))


class SqlDocumentStore(_Store):
    """Collections, their documents, chunks and extracts, and keyword search over the chunks. A collection is
    a corpus of documents, and its revision counts their changes: so collections are found here. Implements
    :class:`leanrag_engine.core.ports.DocumentStore`."""

    def __init__(self, transactions: Transactions, row_counts: RowCounts) -> None:
        self._transactions = transactions
        self._row_counts = row_counts
        self._recent_chunks = documents.RecentChunks()
        self._counts: dict[tuple[int, int, int], collection_rows.DocumentCounts] = {}

    collections = _reading(collection_rows.find_all)

    async def collection(self, name: str) -> Collection | None:
        return await self._transactions.read(collection_rows.find, name, self._counts)

    create_collection = _writing(collection_rows.create)
    put_notes = _writing(collection_rows.put_notes)
    rename_collection = _writing(collection_rows.rename)
    copy_collection = _writing(collection_rows.copy)

    async def drop_unused(self, name: str) -> None:
        """Delete a collection that never held anything, not even a schema; its jobs stay."""
        if (held := await self.collection(name)) and not held.revision:
            await self._transactions.write(removal.drop_unused, name)

    async def delete_collection(self, name: str, job: str) -> None:
        await self._transactions.write(removal.delete_collection, name, job)
        with suppress(Busy):
            await self._transactions.overwrite_deleted()

    schema = _reading(collection_rows.find_schema)
    put_schema = _writing(by_name(collection_rows.put_schema))

    async def put_all(self, collection: str, read: Sequence[ReadDocument]) -> list[Document]:
        """Add documents of different ids, all or none, or replace those of the same ids with their chunks and extracts (see
        :func:`documents.put_all`). Raises ``InvalidInput`` for a chunk of another document and an extract without its chunk."""
        held = frozenset(await self.chunk_ids(collection, [each.document.id for each in read]))

        def prepare() -> list[documents.PreparedDocument]:
            return [documents.prepare_document(each, held) for each in read]

        incoming = await to_thread.run_sync(prepare)
        return await self._transactions.write(by_name(documents.put_all), collection, incoming)

    async def put_file_stamps(self, collection: str, stamps: Mapping[str, tuple[str, str]]) -> None:
        if stamps:
            await self._transactions.write(by_name(documents.put_file_stamps), collection, stamps)

    find = _reading(by_name(documents.find))
    find_all = _reading(by_name(documents.find_all))

    async def chunks(self, collection: str, ids: Sequence[str]) -> list[Chunk]:
        return await self._transactions.read(documents.chunks_with, collection, ids, self._recent_chunks)

    chunks_by_citation = _reading(by_name(documents.chunks_cited))
    all_chunks = _reading(by_name(documents.read_chunks))
    chunk_heads = _reading(by_name(documents.chunk_heads))

    def read_chunks(self, collection: str, ids: Sequence[str]) -> list[Chunk]:
        """Do as ``chunks`` on this thread, which waits."""
        return self._transactions.read_now(documents.chunks_with, collection, ids)

    documents_containing = _reading(by_name(documents.documents_containing))
    passage_texts = _reading(by_name(documents.passage_texts))
    chunk_ids = _reading(by_name(documents.chunk_ids))
    find_dated = _reading(by_name(documents.find_dated))
    find_newest = _reading(by_name(documents.find_newest))
    find_called = _reading(by_name(documents.find_called))
    count_tokens = _reading(by_name(documents.count_tokens))
    chunk_labels = _reading(by_name(documents.labels_of))
    pending_chunks = _reading(by_name(documents.pending_chunks))
    extracts = _reading(by_name(documents.read_extracts))
    extract_states = _reading(by_name(documents.extract_states))
    extracts_at = _reading(by_name(documents.extracts_at))
    count_extracts = _reading(by_name(documents.count_extracts))
    count_outdated = _reading(by_name(documents.count_outdated))
    heuristic_chunks = _reading(by_name(documents.heuristic_chunks))
    ask_for = _writing(by_name(documents.ask_for))
    accept_heuristic = _writing(by_name(documents.accept_heuristic))
    count_asked = _reading(by_name(documents.count_asked))
    submit_extracts = _writing(by_name(documents.submit_extracts))
    chunk_readings = _reading(by_name(documents.chunk_readings))
    extracts_near = _reading(by_name(documents.extracts_near))
    put_extracts = _writing(by_name(documents.put_extracts))

    put_token_vectors = _writing(by_name(token_rows.put))
    token_vectors = _reading(by_name(token_rows.find))
    chunks_without_tokens = _reading(by_name(token_rows.find_lacking))

    async def search_windows(self, collection: str, text: str, limit: int) -> list[Hit]:
        return await self._transactions.read(
            documents.search_windows, collection, text, limit, self._row_counts
        )

    windows_with = _reading(by_name(documents.windows_with))
    find_absent = _reading(by_name(documents.find_absent))
    nearest_words = _reading(by_name(documents.nearest_words))

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
        remaining: GenerationContent | None,
        publication: Publication,
        left: Mapping[str, IngestRequest] | None = None,
        previous: PublishedLayers | None = None,
    ) -> Generation | None:
        """Delete documents in one transaction (see :func:`removal.delete_documents`). With the ``previous`` layers, the published
        ones, only what differs from them is written. Raises ``InvalidInput`` if the layers of what is ``remaining`` do not fit
        together."""
        shared = await self._share_rows(previous)
        build = await to_thread.run_sync(publishing.prepare_build, remaining, shared) if remaining else None
        generation = await self._transactions.write(
            removal.delete_documents, collection, document_ids, build, publication, left or {}
        )
        with suppress(Busy):
            await self._transactions.overwrite_deleted()
        return generation


class SqlGenerationStore(_Store):
    """Published builds: their entities and relations, keyword search over both, and the vector version. The
    vector version counts writes to the vector store, which holds what generations refer to; readers compare
    it before they trust a vector store that they have open. Implements :class:`leanrag_engine.core.ports.GenerationStore`."""

    def __init__(self, transactions: Transactions, row_counts: RowCounts) -> None:
        self._transactions = transactions
        self._row_counts = row_counts

    async def publish(
        self,
        collection: str,
        revision: int,
        content: GenerationContent,
        publication: Publication,
        *,
        previous: PublishedLayers | None = None,
        report: ProgressReport = ignore_progress,
        note_places: Callable[[StoredPlaces], None] = lambda _: None,
    ) -> Generation:
        """Write a new generation, with its entry in the history, and switch the collection to it, in one transaction.
        With the ``previous`` layers, those of the generation that is published now, only what differs from them is
        written. ``report`` gets the stage ``publish``; an exception from it ends the work, and nothing is published.
        ``note_places`` is called with where the rows are, which :meth:`open_layers` may be given. Raises ``InvalidInput`` if
        the hierarchy's layers do not fit together, ``StoreUnusable`` if the ``previous`` ones are no longer the published ones."""
        shared = await self._share_rows(previous)
        build = await to_thread.run_sync(publishing.prepare_build, content, shared, report)
        note_places((build.entities.positions, build.relations.positions))
        return await self._transactions.write(
            by_name(publishing.publish), collection, revision, build, publication, report
        )

    prune = _writing(by_name(publishing.prune))
    """Delete the data of the generations but the ``kept`` newest, and of those that were replaced longer ago than
    ``age``. The published one always stays, and the one before it for queries under way."""

    history = _reading(by_name(history.find_all))
    """Return an entry for each generation that the collection has had, newest first."""

    embedder_state = _reading(collection_rows.embedder_state)
    find_all = _reading(by_name(collection_rows.find_generations))
    exists = _reading(collection_rows.generation_exists)
    layer = _reading(entity_rows.in_layer)

    async def open_layers(
        self, generation: Generation, columns: Mapping[str, NDArray[Any]]
    ) -> Hierarchy | None:
        """Return all layers with these columns, which :func:`leanrag_engine.core.graphs.stored.pack_layers` gave; None if they are
        of another version, or none of this generation. Rows are read when they are asked for, and the thread that asks waits."""
        read, number = self._transactions.read_now, generation.number
        return open_layers(
            columns,
            generation.layers,
            lambda places: read(entity_rows.at_positions, number, places),
            lambda places: read(entity_rows.relations_at, number, places),
        )

    entities = _reading(entity_rows.with_ids)

    entities_by_name = _reading(entity_rows.find_by_name)
    similar_entities = _reading(entity_rows.find_similar)
    entities_by_prefix = _reading(entity_rows.find_by_prefix)
    entity_heads = _reading(entity_rows.heads)
    members = _reading(entity_rows.members)

    async def search_entities(
        self, generation: int, text: str, limit: int, layer: int | None = None
    ) -> list[Hit]:
        return await self._transactions.read(
            entity_rows.search, generation, text, limit, layer, self._row_counts
        )

    relations = _reading(entity_rows.relations_in_layer)
    relations_of = _reading(entity_rows.relations_touching)
    relations_among = _reading(entity_rows.relations_joining)
    relations_by_id = _reading(entity_rows.relations_with_ids)
    relations_page = _reading(entity_rows.page_relations)
    vector_version = _reading(collection_rows.vector_version)
    bump_vector_version = _writing(collection_rows.bump_vector_version)
    note_unsettled = _writing(collection_rows.note_unsettled)
    """Note vectors of a space that are about to change, before the first of them is written."""

    find_unsettled = _reading(collection_rows.find_unsettled)
    """Return the ids noted since the space was settled: their vectors may be of any text, or missing."""

    settle = _writing(collection_rows.settle)
    """Forget what was noted: the space holds the vectors of the published generation, or is gone."""


class SqlReplyStore(_Store):
    """The replies of chat models and the texts of agents. Implements :class:`leanrag_engine.core.ports.ReplyStore`."""

    find = _reading(replies.find)
    put = _writing(by_name(replies.put))
    spending = _reading(replies.sum_spending)
    put_texts = _writing(by_name(replies.put_texts))
    texts = _reading(by_name(replies.texts))


class SqlCorrectionStore(_Store):
    """The corrections of graphs: facts of their own, which every build applies."""

    put = _writing(by_name(corrections.put))
    find_all = _reading(by_name(corrections.find_all))
    remove = _writing(by_name(corrections.remove))


class SqlJobStore(_Store):
    """Jobs, which any process may see and cancel and one process at a time runs."""

    put = _writing_row(jobs.put)
    put_progress = _writing_row(jobs.put_progress)
    find = _reading(jobs.find)
    find_state = _reading(jobs.find_state)
    find_newest = _reading(jobs.find_newest)
    find_unfinished = _reading(jobs.find_unfinished)
    claim = _writing_row(jobs.claim)
    request_cancel = _writing_row(jobs.request_cancel)


class SqlDatabase(_Store):
    """One database, opened; its stores share their transactions. Several threads, event loops and processes may use it
    at once. Every method may raise ``StoreUnusable`` and ``Busy``; those that take a collection's name ``NotFound``."""

    def __init__(self, database: OpenedDatabase) -> None:
        super().__init__(Transactions(database))
        row_counts = RowCounts()
        self.documents = SqlDocumentStore(self._transactions, row_counts)
        self.generations = SqlGenerationStore(self._transactions, row_counts)
        self.jobs = SqlJobStore(self._transactions)
        self.replies = SqlReplyStore(self._transactions)
        self.corrections = SqlCorrectionStore(self._transactions)

    @classmethod
    async def open(cls, folder: Path, *, read_only: bool) -> "SqlDatabase":
        """Open the SQLite database in ``folder``; create it or bring it to this version's schema if that is
        allowed. Raises ``StoreUnusable`` if the folder cannot be written to (it need not, to be read) or the
        file is damaged, not ours or of a newer schema; ``NotReady`` if there is nothing to open read-only."""
        return cls(await to_thread.run_sync(partial(opening.open_file, folder, read_only=read_only)))

    @classmethod
    async def connect(cls, url: str, *, read_only: bool) -> "SqlDatabase":
        """Open, create or upgrade the PostgreSQL database at ``url``. Raises ``InvalidInput`` for a bad
        address or a missing driver, ``StoreUnusable`` and ``NotReady`` as :meth:`open`."""
        from .dialect.postgres.address import parse_address  # noqa: PLC0415 - only those pay who use it

        parse_address(url)  # first, as the driver may not be installed
        from .dialect.postgres import server  # noqa: PLC0415 - as above

        return cls(await to_thread.run_sync(partial(server.open_server, url, read_only=read_only)))

    identity = _reading(collection_rows.read_identity)
    renew_identity = _writing(collection_rows.renew_identity)

    async def check(self) -> None:
        """Read the whole database, where that is ours to do. Raises ``StoreUnusable`` if it is damaged."""
        await self._transactions.check()

    async def close(self) -> None:
        await self._transactions.close()
