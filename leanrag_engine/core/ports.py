"""The boundaries of the engine: one small Protocol for each thing that lives outside it. Adapters implement these;
:mod:`leanrag_engine.adapters.wiring` chooses them. All methods that wait are asynchronous: the adapter of a blocking library
uses threads. An adapter converts the exceptions of its library to :mod:`leanrag_engine.core.errors`, and lets none escape."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as AnyCollection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from numpy.typing import NDArray

from .graphs.graph import GenerationContent, Hierarchy, PublishedLayers
from .graphs.stored import StoredPlaces
from .history import HistoryEntry, Publication
from .jobs import IngestRequest, Job, JobState, JobStatus
from .model import (
    CheckedObject,
    Chunk,
    ChunkHead,
    Collection,
    Correction,
    Document,
    EmbeddedQueries,
    Entity,
    EntityHead,
    Extract,
    ExtractionSchema,
    ExtractState,
    Generation,
    Hit,
    JsonSchema,
    LoadedDocument,
    PackedTokens,
    PassageText,
    RareWord,
    ReadDocument,
    Relation,
    Spent,
    Vectors,
)

T = TypeVar("T")
R = TypeVar("R")

Say = Callable[[str], None]
"""Takes a message on how far work is, from any thread. Raises ``Cancelled`` when it should stop."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of long work: ``done`` of ``total`` units of ``stage`` (0: not known yet)."""

    stage: str
    done: int = 0
    total: int = 0
    message: str = ""


ProgressReport = Callable[[Progress], None]
"""Called from any thread, cheaply and often. Raises ``Cancelled`` when the work should stop."""


def ignore_progress(progress: Progress) -> None:
    """Discard the report: for work that is neither watched nor stopped."""
    del progress


class Extractor(Protocol):
    """Extracts entities and relations from the chunks of one document; every extract names its method."""

    async def __call__(
        self, document: LoadedDocument, chunks: Sequence[Chunk], pulse: Callable[[], None]
    ) -> list[Extract]:
        """Return one extract for each chunk, in their order. ``pulse`` is called now and then, from any
        thread; an exception from it ends the work."""


class Tokenizer(Protocol):
    """Counts tokens the same way everywhere: chunks, budgets, replies."""

    def count(self, text: str) -> int: ...

    def count_many(self, texts: Sequence[str]) -> list[int]: ...


class Embedder(Protocol):
    """Turns texts into vectors. ``identity``, short and perhaps part of a space's name: equal identities, equal vectors. Rows are
    L2-normalised float32, zero for texts without a known word. ``report`` is called with the stage ``embed`` between batches,
    from any thread, and may raise. Raises ``InvalidInput`` for a bad row, ``ModelUnavailable`` if a service does not answer."""

    @property
    def identity(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def unrelated(self) -> float | None:
        """Return the cosine similarity below which the best passage hardly ever answers a question; None if it was not measured."""

    @property
    def related(self) -> float | None:
        """Return the cosine similarity that the best passage of half the answered questions reaches, and that of hardly any
        question on another corpus; None if it was not measured."""

    @property
    def english(self) -> bool:
        """Whether it reads English alone."""

    async def embed(self, texts: Sequence[str], report: ProgressReport | None = None) -> Vectors:
        """Return one row for each text, ``(len(texts), dimension)``. A text longer than the embedder's window
        gets the mean of all its windows."""

    async def embed_queries(self, texts: Sequence[str]) -> EmbeddedQueries:
        """Embed queries; some models put another prompt before these. Otherwise as ``embed``."""


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """An embedder that also gives the vectors of single tokens, for late interaction (ColBERT, arXiv:2004.12832)."""

    async def embed_with_tokens(
        self, texts: Sequence[str], report: ProgressReport | None = None
    ) -> tuple[Vectors, list[PackedTokens]]:
        """Return the rows of ``embed``, and the packed tokens of each text."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return how many packed tokens each text has, without the first, which stands for all of it."""


class EmbedderWrapper:
    """What an embedder that works through another one, ``inner``, has of it."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner
        self.identity, self.dimension = inner.identity, inner.dimension
        self.unrelated, self.related, self.english = inner.unrelated, inner.related, inner.english

    async def embed_queries(self, texts: Sequence[str]) -> EmbeddedQueries:
        return await self.inner.embed_queries(texts)


def find_token_embedder(embedder: Embedder | None) -> TokenEmbedder | None:
    """Return what gives the vectors of tokens: the embedder, or the one that it works through; None if neither does."""
    inner = embedder.inner if isinstance(embedder, EmbedderWrapper) else embedder
    return inner if isinstance(inner, TokenEmbedder) else None


class EmbedderSource(Protocol):
    """Provides embedders: a pretrained one as it is, the fitted one made for a corpus. ``name`` is the setting's value. Every method
    raises ``InvalidInput`` if there is no such model or what it needs is not installed, ``ModelUnavailable`` if it cannot be reached."""

    @property
    def name(self) -> str: ...

    async def fit(self, texts: Sequence[str], before: str = "") -> tuple[Embedder, bytes]:
        """Return an embedder for a build over ``texts``, and the state that ``restore`` needs (may be empty).
        ``before`` is the identity of the collection's last embedder: a source that chooses between several keeps it."""

    async def gave(self, identity: str) -> bool:
        """Return whether the identity is one of this source's, as far as known without loading or fetching
        anything. ``restore`` may still return an embedder of another identity."""

    async def restore(self, identity: str, state: bytes) -> Embedder:
        """Return the embedder whose ``fit`` returned ``state``. Raises ``StoreUnusable`` if the state is damaged."""

    async def unknown_words(self, identity: str, state: bytes, texts: Sequence[str]) -> float | None:
        """Return the share of the words of ``texts`` that that embedder does not know; None for a pretrained one, which
        no collection's texts made."""

    async def restrict(self, identity: str, state: bytes, texts: Sequence[str]) -> tuple[str, bytes]:
        """Return identity and state of that embedder without what none of ``texts`` contributed to it. The
        vectors of ``texts`` do not change. Raises as ``restore``."""


class VectorStore(Protocol):
    """Nearest-neighbour search in named spaces. Everything in it can be rebuilt from the database."""

    async def upsert(self, space: str, ids: Sequence[str], vectors: Vectors) -> None: ...

    async def search(self, space: str, vector: Vectors, limit: int) -> list[Hit]:
        """Return the ``limit`` nearest ids to one ``(d,)`` vector, by cosine similarity; [] if there is no such space."""

    async def fetch(self, space: str, ids: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors of those of ``ids`` that the space holds."""

    async def delete(self, space: str, ids: Sequence[str]) -> None:
        """Remove the vectors of those of ``ids`` that the space holds."""

    async def count(self, space: str) -> int: ...

    async def ids(self, space: str) -> list[str]:
        """Return the ids of all vectors in the space; [] if there is no such space."""

    async def spaces(self) -> list[str]: ...

    async def drop(self, space: str) -> None: ...

    async def start_over(self) -> None:
        """Put aside a store that cannot even drop its spaces, and start with an empty one."""

    async def refresh(self) -> None:
        """Discard everything cached, since another process has written."""

    async def close(self) -> None: ...


class Workers(Protocol):
    """Where functions of values run: in this process, in others, on other machines. The results are the same."""

    @property
    def width(self) -> int:
        """How many calls are worth making beside each other."""

    async def run(self, work: Callable[[T, Say], R], value: T, say: Say) -> R:
        """Return ``work(value, say)``, a function of a module, or raise what it raises, or ``WorkerLost`` if
        its process ended. A cancelled call ends the work or waits for its end."""

    async def close(self) -> None: ...


class ArrayStore(Protocol):
    """A cache of arrays that are mapped into memory. Losing it only costs time."""

    async def load(self, key: str) -> dict[str, NDArray[Any]] | None:
        """Return the arrays by name; None if any is missing."""

    async def save(self, key: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Store the arrays, all or none. If nothing can be written, nothing is stored, without an error."""

    async def examine(self, prefix: str) -> dict[str, bool]:
        """Return all keys that begin with ``prefix``, and whether the arrays of each are what was stored."""

    async def drop_all_but(self, prefix: str, keys: AnyCollection[str]) -> None:
        """Delete all keys that begin with ``prefix``, except ``keys``."""


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The process that holds the writer lock: its machine, its purpose, and since when."""

    pid: int
    host: str
    purpose: str
    since: datetime

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} ({self.purpose}, since {self.since.astimezone():%Y-%m-%d %H:%M:%S})"


def report_holder(report: ProgressReport, holder: LockHolder | None) -> None:
    """Report that the work waits for the holder of the writer lock."""
    report(Progress("waiting", message=f"Waiting for {holder or 'the writer lock'}."))


class WriterLock(Protocol):
    """At most one writer on a data folder, whatever the number of processes."""

    def hold(
        self, purpose: str, *, waiting: Callable[[LockHolder | None], None]
    ) -> AbstractAsyncContextManager[None]:
        """Wait for the lock, then hold it. ``waiting`` is called with the holder about every half second, and
        may raise ``Cancelled`` to give up. A lock that is held over a connection may be lost: the block is
        then cancelled, writes to the database within it are refused, and ``LockLost`` is raised."""

    async def holder(self) -> LockHolder | None:
        """Return the present holder of the lock, ``None`` if it is free."""


# --- the database --------------------------------------------------------------------------
#
# Five Protocols over one database. Each method is one transaction, also where it spans several of them
# (`GenerationStore.publish`, `DocumentStore.delete`). Ids that do not exist are left out of a reply, never
# an error, unless a method says so. ``collection`` is the name of an existing collection, ``generation``
# the number of a generation.


class Database(Protocol):
    """What these stores are views of; closing it closes them."""

    async def check(self) -> None:
        """Read the whole database, where that is ours to do. Raises ``StoreUnusable`` if it is damaged."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ChunkReading:
    """A chunk without its text; ``written``: a model or an agent has read it."""

    id: str
    tokens: int
    written: bool


@dataclass(frozen=True, slots=True)
class SubmittedExtract:
    """What became of an agent's extract; ``earlier`` is what an agent or a model had written, if it differs."""

    chunk_id: str
    stored: bool
    earlier: Extract | None = None


class DocumentStore(Protocol):
    """Collections, their documents, chunks and extracts, and keyword search over the chunks. A collection is
    a corpus of documents, and its revision counts their changes: so collections are found here."""

    async def collections(self) -> list[Collection]: ...

    async def collection(self, name: str) -> Collection | None: ...

    async def create_collection(self, name: str) -> Collection:
        """Return the collection of that name, created if it does not exist."""

    async def rename_collection(self, name: str, new: str) -> None:
        """Rename the collection and its jobs. Raises ``NotFound``, and ``InvalidInput`` if ``new`` is taken."""

    async def copy_collection(self, name: str, new: str) -> Collection:
        """Copy all but generations, with citations and revision, into a new collection. Raises as ``rename_collection``."""

    async def delete_collection(self, name: str, job: str) -> None:
        """Delete the collection with all that depends on it, and its jobs but ``job``. Raises ``NotFound``."""

    async def put_all(self, collection: str, read: Sequence[ReadDocument]) -> list[Document]:
        """Add documents of different ids, all or none, or replace those of the same ids with their chunks and
        extracts. A document that is replaced keeps its number, and every chunk that it still has (by id) keeps its
        citation and what a model or an agent extracted from it. A new chunk gets a citation that no other one has
        had: an old citation never shows another text. The collection's revision grows by one for each."""

    async def delete(
        self,
        collection: str,
        document_ids: Sequence[str],
        remaining: GenerationContent | None,
        publication: Publication,
        left: Mapping[str, IngestRequest] | None = None,
    ) -> Generation | None:
        """Delete the documents with all that depends on them, in one transaction. ``left`` are the requests of unfinished jobs
        without them.

        Publishes what is ``remaining`` of the published generation in its place and deletes every older one
        of the collection; with ``None``, no entity is left and no generation either. Removes the documents from
        the records of jobs, the names that no remaining entity has from the history, and every cached reply and text of an agent that rests on anything but present chunks
        and aggregated entities whose own text the deletion left as it was. The collection's revision grows by one, the vector version too.
        """

    async def put_notes(self, collection: str, notes: Mapping[str, str]) -> None:
        """Replace the notes on folders of a collection, see :class:`Collection`."""

    async def put_file_stamps(self, collection: str, stamps: Mapping[str, tuple[str, str]]) -> None:
        """Record stamp and digest of files whose documents are unchanged, by the ids of the documents."""

    async def find(self, collection: str, ids: Sequence[str]) -> dict[str, Document]:
        """Return the documents with these ids by id; unknown ids are left out."""

    async def find_all(self, collection: str) -> list[Document]:
        """Return all documents by number."""

    async def chunks(self, collection: str, ids: Sequence[str]) -> list[Chunk]:
        """Return chunks in the order of ``ids``."""

    async def chunks_by_citation(self, collection: str, citations: Sequence[str]) -> list[Chunk]:
        """Return chunks in the order of ``citations`` (``d3:c12``)."""

    async def all_chunks(self, collection: str) -> list[Chunk]:
        """Return all chunks in reading order: by document number, then place in the document."""

    async def chunk_heads(self, collection: str) -> list[ChunkHead]:
        """Return all chunks without their texts, in reading order."""

    def read_chunks(self, collection: str, ids: Sequence[str]) -> list[Chunk]:
        """Do as ``chunks`` on this thread, which waits."""

    async def documents_containing(self, collection: str, letters: str) -> list[int]:
        """Return the numbers of the documents with a chunk that contains ``letters``, in either case if ASCII."""

    async def passage_texts(
        self, collection: str, numbers: Sequence[int] | None, *, after: tuple[int, int], limit: int
    ) -> list[PassageText]:
        """Return ``limit`` texts in reading order, of the documents ``numbers`` (``None``: all), ``after`` a document and place."""

    async def chunk_labels(self, collection: str, numbers: Sequence[int]) -> dict[int, list[int]]:
        """Return the numbers that citations of these documents name, in reading order, by the document's number."""

    async def chunk_ids(self, collection: str, document_ids: Sequence[str]) -> list[str]:
        """Return the ids of all chunks of these documents, in reading order: what a filter by document allows."""

    async def find_dated(self, collection: str, day: str, most: int) -> list[str]:
        """Return the ids of all chunks of the documents whose own date begins with ``day`` (``2024-11``), or is of that month of
        any year (``-11``); none if these are more than ``most``."""

    async def count_tokens(self, collection: str) -> dict[int, int]:
        """Return the tokens of each document's chunks, by its number."""

    async def pending_chunks(self, collection: str) -> list[Chunk]:
        """Return the chunks that came in, or whose document got another title, after the published generation."""

    async def schema(self, collection: str) -> ExtractionSchema | None:
        """Return the schema that constrains the collection's extraction; None if it has none, or does not exist."""

    async def put_schema(self, collection: str, schema: ExtractionSchema | None) -> None:
        """Give the collection this schema in place of the one it has, or none. The published generation becomes stale."""

    async def count_outdated(self, collection: str) -> dict[str, int]:
        """Return how many chunks were read by a model or an agent with another schema than there is now, by method."""

    async def heuristic_chunks(self, collection: str, *, due: bool) -> list[Chunk]:
        """Return the chunks that no model or agent has read yet, and those that a model read with another
        schema than the collection has now, in reading order. ``due`` limits them to those that the next build
        should have a model read: what it has not seen yet, and what a model failed to read."""

    async def ask_for(self, collection: str, chunk_ids: Sequence[str]) -> None:
        """Record that a model is asked to read these chunks: they are due until ``put_extracts`` has their extracts."""

    async def accept_heuristic(self, collection: str) -> None:
        """Record that a build without a model has had all chunks: only an upgrade has a model read them."""

    async def count_asked(self, collection: str) -> int:
        """Return the number of chunks that a model was asked to read and has not."""

    async def extracts(self, collection: str) -> list[Extract]:
        """Return all extracts in the reading order of their chunks."""

    async def extract_states(self, collection: str) -> list[ExtractState]:
        """Return which extracts there are, in the reading order of their chunks."""

    async def extracts_at(
        self, collection: str, chunks: Sequence[tuple[int, int]]
    ) -> list[tuple[ExtractState, Extract]]:
        """Return the extracts of the chunks with these numbers of document and chunk, as in citations, in reading order."""

    async def count_extracts(self, collection: str) -> dict[str, int]:
        """Return how many extracts were made by each method."""

    async def submit_extracts(
        self, collection: str, extracts: Sequence[Extract], *, replace: bool
    ) -> list[SubmittedExtract]:
        """Store an agent's extracts, each of another chunk, in place of what those chunks had. Returns the chunks
        that still exist. What an agent or a model wrote of a chunk with the same schema, if it says something else,
        is replaced only if ``replace`` is set. The collection's revision grows by one if anything is stored."""

    async def chunk_readings(self, collection: str) -> list[ChunkReading]:
        """Return all chunks in reading order, without their texts, and whether a model or an agent has read them with the
        schema that the collection has now."""

    async def extracts_near(self, collection: str, chunk_ids: Sequence[str], distance: int) -> list[Extract]:
        """Return what models and agents wrote of the chunks at most ``distance`` before or after these in their
        documents, in reading order."""

    async def put_extracts(self, collection: str, extracts: Sequence[Extract]) -> list[str]:
        """Replace all extracts of these chunks, return the existing chunks' ids. The revision grows by one if there are any."""

    async def put_token_vectors(
        self, collection: str, embedder: str, tokens: Mapping[str, Sequence[PackedTokens]]
    ) -> None:
        """Keep the tokens of each window of chunks, by chunk id, in place of earlier ones. Chunks that are gone are passed over."""

    async def token_vectors(
        self, collection: str, embedder: str, chunk_ids: Sequence[str]
    ) -> dict[str, list[PackedTokens]]:
        """Return what is kept of this embedder for those of the chunks that have it."""

    async def chunks_without_tokens(self, collection: str, embedder: str) -> list[str]:
        """Return the ids of the chunks for which nothing of this embedder is kept."""

    async def search_windows(self, collection: str, text: str, limit: int) -> list[Hit]:
        """Return ids of windows by keyword relevance (BM25). ``text`` is any user text and never syntax."""

    async def windows_with(self, collection: str, words: Sequence[str]) -> list[str]:
        """Return the ids of all windows that hold any of the words or phrases, in any grammatical form, in reading order."""

    async def nearest_words(self, collection: str, word: str, limit: int = 3) -> tuple[str, ...]:
        """Return words of the documents that differ from ``word`` by one letter, as they are written there,
        likely ones first. None for a word of less than five letters."""

    async def find_absent(self, collection: str, words: Sequence[str]) -> list[str]:
        """Return those of ``words`` that no document holds in any form, built or not."""

    async def find_rare_words(
        self, collection: str, words: Sequence[str], most_documents: int = 3, most_windows: int = 8
    ) -> tuple[RareWord, ...]:
        """Return for each word or phrase how many documents hold it, built or not: at most one more than
        ``most_documents``. Up to ``most_documents``, at most ``most_windows`` of the windows that hold it are named."""


class GenerationStore(Protocol):
    """Published builds: their entities and relations, keyword search over both, and the vector version. The
    vector version counts writes to the vector store, which holds what generations refer to; readers compare
    it before they trust a vector store that they have open."""

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
        ``note_places`` is called with where the rows are, which :meth:`open_layers` may be given."""

    async def prune(self, collection: str, kept: int, age: timedelta) -> None:
        """Delete the data of the generations but the ``kept`` newest, and of those that were replaced longer ago than
        ``age``. The published one always stays, and the one before it for queries under way."""

    async def history(self, collection: str) -> list[HistoryEntry]:
        """Return an entry for each generation that the collection has had, newest first."""

    async def find_all(self, collection: str) -> list[Generation]:
        """Return the generations of the collection that still exist, newest first."""

    async def exists(self, generation: int) -> bool:
        """Return whether the generation of that number still exists: a deletion of documents removes it."""

    async def embedder_state(self, generation: int) -> bytes: ...

    async def layer(self, generation: int, layer: int) -> list[Entity]:
        """Return all entities of one layer, in the order in which they were built."""

    async def open_layers(
        self, generation: Generation, columns: Mapping[str, NDArray[Any]]
    ) -> Hierarchy | None:
        """Return all layers with these columns, which :func:`leanrag_engine.core.graphs.stored.pack_layers` gave; None if they are
        of another version, or none of this generation. Rows are read when they are asked for, and the thread that asks waits."""

    async def entities(self, generation: int, ids: Sequence[str]) -> list[Entity]:
        """Return entities in the order of ``ids``."""

    async def entities_by_name(self, generation: int, names: Sequence[str]) -> list[Entity]:
        """Return all entities of any layer whose name or alias is one of ``names`` after normalisation
        (:func:`leanrag_engine.core.text.language.names.name_key`)."""

    async def similar_entities(self, generation: int, name: str, limit: int) -> list[Entity]:
        """Return the entities whose names are spelled most like ``name``, best first."""

    async def entities_by_prefix(
        self, generation: int, prefix: str, limit: int, *, aggregated: bool
    ) -> list[Entity]:
        """Return entities of layer 0, or of the layers above it, whose normalised name or alias begins with
        ``prefix``, in alphabetical order."""

    async def entity_heads(self, generation: int) -> list[EntityHead]:
        """Return all entities without their texts: the root first, each layer as ``members`` orders it."""

    async def members(self, generation: int, id: str, offset: int, limit: int) -> list[Entity]:
        """Return the children of an aggregated entity, those with most mentions first."""

    async def search_entities(
        self, generation: int, text: str, limit: int, layer: int | None = None
    ) -> list[Hit]:
        """Return entity ids by keyword relevance over name, aliases and description."""

    async def relations(self, generation: int, layer: int) -> list[Relation]:
        """Return all relations of one layer, in the order in which they were built."""

    async def relations_of(self, generation: int, ids: Sequence[str], limit: int) -> list[Relation]:
        """Return relations with at least one end in ``ids``, strongest first."""

    async def relations_among(self, generation: int, ids: Sequence[str]) -> list[Relation]:
        """Return relations with both ends in ``ids``, strongest first."""

    async def relations_by_id(self, generation: int, ids: Sequence[str]) -> list[Relation]:
        """Return those of these relations that exist, in no order."""

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
        """Return one page of inter-cluster relations (``layer`` None: all above 0), strongest first, and the total."""

    async def vector_version(self) -> int: ...

    async def bump_vector_version(self) -> int: ...

    async def note_unsettled(self, space: str, ids: AnyCollection[str]) -> None:
        """Note vectors of a space that are about to change, before the first of them is written."""

    async def find_unsettled(self, space: str) -> set[str]:
        """Return the ids noted since the space was settled: their vectors may be of any text, or missing."""

    async def settle(self, space: str) -> None:
        """Forget what was noted: the space holds the vectors of the published generation, or is gone."""


AgentTextKind = Literal["summary", "relation", "description"]
"""What an agent writes in place of a heuristic text: of a cluster, between two clusters, of an entity of layer 0."""


@dataclass(frozen=True, slots=True)
class AgentText:
    """What an agent wrote for one task, as JSON values, and all chunks that it rests on; none if they are unknown."""

    text: CheckedObject
    chunk_ids: tuple[str, ...] = ()


class ReplyStore(Protocol):
    """The replies of chat models, which are a cache and a record of expenses, and the texts of agents."""

    async def find(self, digest: str, job_id: str = "") -> "Reply | None":
        """Return the cached reply to the request of that digest, with ``kept`` set; given a job, only its own."""

    async def put(self, collection: str, record: "ReplyRecord") -> None:
        """Cache a reply and record what it used, in place of an earlier one's text."""

    async def spending(self, collection: str | None, job_id: str = "", model: str = "") -> list[Spent]:
        """Return what the replies of one or all collections used, by step; of one job or one model alone."""

    async def put_texts(
        self, collection: str, kind: AgentTextKind, texts: Mapping[str, AgentText], *, replace: bool
    ) -> list[str]:
        """Store an agent's texts by the ids of their tasks; return those that held another text, which stays unless ``replace``."""

    async def texts(self, collection: str, kind: AgentTextKind) -> dict[str, AgentText]:
        """Return the texts of agents by the ids of their tasks."""


class CorrectionStore(Protocol):
    """The corrections of graphs: facts of their own, which every build applies."""

    async def put(self, collection: str, correction: Correction) -> Correction:
        """Store a correction, unless an equal one is stored, and return it with its number; the build becomes stale."""

    async def find_all(self, collection: str) -> list[Correction]:
        """Return the corrections in the order in which they were made."""

    async def remove(self, collection: str, number: int) -> None:
        """Delete a correction, if it exists. The published generation becomes stale then."""


class JobStore(Protocol):
    """Jobs, which any process may see and cancel and one process at a time runs."""

    async def put(self, job: Job) -> None:
        """Insert the job, or overwrite all of it but ``cancel_requested``."""

    async def put_progress(self, job: Job) -> None:
        """Overwrite status, progress and message of a job, without what grows with its documents."""

    async def find(self, job_id: str) -> Job | None: ...

    async def find_state(self, job_id: str) -> JobState | None:
        """Return the state of a job, which costs the same however large the job is."""

    async def find_newest(self, collection: str | None = None, limit: int = 20) -> list[Job]:
        """Return jobs, newest first."""

    async def find_unfinished(self) -> list[Job]: ...

    async def claim(self, job_id: str, seen_owner: str, new_owner: str) -> bool:
        """Take over an unfinished job and queue it, if its owner still is ``seen_owner``; False otherwise."""

    async def request_cancel(self, job_id: str) -> JobStatus | None:
        """Set ``cancel_requested``; return the job's status, ``None`` if the job does not exist."""


# --- language models -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request to a chat model. Equal requests to one model share a cached reply.

    ``schema`` is a JSON schema with a ``title``, enforced if the model supports that; the messages must demand it too,
    for other models. ``seed`` is passed on to models that accept one. The remaining fields are not sent: ``step`` names
    the step of the build; ``chunk_ids`` are all chunks that the request comes from, empty if unknown; ``anew``: a
    cached reply is of no use.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    schema: JsonSchema | None = None
    temperature: float = 0.0
    seed: int | None = None
    step: str = field(default="", compare=False)
    chunk_ids: tuple[str, ...] = field(default=(), compare=False)
    anew: bool = field(default=False, compare=False)


class FinishReason(StrEnum):
    """Why a reply ended. Only ``stop`` means a complete reply."""

    STOP = "stop"
    LENGTH = "length"  # Cut off at `max_tokens`
    REFUSAL = "refusal"  # Refused by the model or filtered by its service; `text` holds the words, if any
    EMPTY = "empty"  # The reply has no text


@dataclass(frozen=True, slots=True)
class Reply:
    """A chat model's reply and what it used. ``cost`` is in US dollars, ``None`` if unknown; ``kept``: it is
    cached and cost nothing now."""

    text: str
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    cost: float | None = None
    kept: bool = False


@dataclass(frozen=True, slots=True)
class ReplyRecord:
    """A reply as it is kept: with its job, the digest of its request, the request, and its model; ``counted``: see ``Spent``."""

    job: str
    digest: str
    request: ChatRequest
    reply: Reply
    model: str
    counted: int


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model, in US dollars per token."""

    prompt: float
    completion: float


class ChatModel(Protocol):
    """A language model behind a chat. Calls may run concurrently: the adapter enforces the limit."""

    @property
    def name(self) -> str: ...

    @property
    def concurrency(self) -> int:
        """The maximum number of concurrent calls."""

    @property
    def price(self) -> Price | None:
        """The price per token; ``None`` if unknown."""

    async def complete(self, request: ChatRequest) -> Reply:
        """Return one reply, complete or not (see ``finish_reason``), after as many attempts as the adapter makes.
        Raises ``InvalidInput`` if every request would fail (key, model name, address), ``ModelUnavailable`` if the
        service does not answer, ``ReplyUnusable`` if the service rejects this request."""

    async def close(self) -> None: ...
