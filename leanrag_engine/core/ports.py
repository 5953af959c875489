"""The boundaries of the engine: one small Protocol for each thing that lives outside it. Adapters implement these;
:mod:`leanrag_engine.adapters.wiring` chooses them. All methods that wait are asynchronous: the adapter of a blocking library
uses threads. An adapter converts the exceptions of its library to :mod:`leanrag_engine.core.errors`, and lets none escape."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Collection as AnyCollection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from numpy.typing import NDArray

from .model import (
    CheckedObject,
    Chunk,
    Document,
    EmbeddedQueries,
    Entity,
    EntityHead,
    Extract,
    Hit,
    JsonSchema,
    LoadedDocument,
    PackedTokens,
    PassageText,
    RareWord,
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


def ignore_progress(_: Progress) -> None:
    """Discard the report: for work that is neither watched nor stopped."""


Extractor = Callable[[LoadedDocument, Sequence[Chunk], Callable[[], None]], Awaitable[list[Extract]]]
"""Extracts entities and relations from the chunks of one document: returns one extract for each chunk, in their order, which
names its method. What it is given last it calls now and then, from any thread; an exception from that ends the work."""


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


class UnmeasuredEmbedder:
    """What an :class:`Embedder` says of itself whose similarities were not measured, and that reads more than English."""

    unrelated: float | None = None
    related: float | None = None
    english = False


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
        """Return identity and state of that embedder without what none of ``texts`` added to it; their vectors stay. Raises as ``restore``."""


class VectorStore(Protocol):
    """Nearest-neighbour search in named spaces: what queries need of the store of vectors."""

    async def search(self, space: str, vector: Vectors, limit: int) -> list[Hit]:
        """Return the ``limit`` nearest ids to one ``(d,)`` vector, by cosine similarity; [] if there is no such space."""

    async def fetch(self, space: str, ids: Sequence[str]) -> dict[str, Vectors]:
        """Return the vectors of those of ``ids`` that the space holds."""


class Workers(Protocol):
    """Where functions of values run: in this process, in others, on other machines. The results are the same."""

    @property
    def width(self) -> int:
        """How many calls are worth making beside each other."""

    async def run(self, work: Callable[[T, Say], R], value: T, say: Say) -> R:
        """Return ``work(value, say)``, a function of a module, or raise what it raises, or ``WorkerLost`` if
        its process ended. A cancelled call ends the work or waits for its end."""

    async def aclose(self) -> None: ...


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
# What the packages below `pipeline` need of the one database: queries and exports read, models cache their replies.
# `pipeline` uses the stores themselves (`adapters.sql.stores`). Ids that do not exist are left out of a reply, never
# an error, unless a method says so. ``collection`` is the name of an existing collection, ``generation``
# the number of a generation.


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
    """Reads collections, their documents, chunks and extracts, with keyword search over the chunks."""

    async def find_all(self, collection: str) -> list[Document]:
        """Return all documents by number."""

    async def chunks(self, collection: str, ids: Sequence[str]) -> list[Chunk]:
        """Return chunks in the order of ``ids``."""

    async def chunks_by_citation(self, collection: str, citations: Sequence[str]) -> list[Chunk]:
        """Return chunks in the order of ``citations`` (``d3:c12``)."""

    async def all_chunks(self, collection: str) -> list[Chunk]:
        """Return all chunks in reading order: by document number, then place in the document."""

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

    async def find_newest(self, collection: str, words: Sequence[str]) -> str:
        """Return the last own date of at least three documents in whose title or path each of these begins a word; "" without them."""

    async def find_called(self, collection: str, word: str) -> list[str]:
        """Return the ids of the chunks of the documents whose file has this name, or this word in its name or that of its folder, in
        either case: those with which they begin first, then in reading order."""

    async def count_tokens(self, collection: str) -> dict[int, int]:
        """Return the tokens of each document's chunks, by its number."""

    async def token_vectors(
        self, collection: str, embedder: str, chunk_ids: Sequence[str]
    ) -> dict[str, list[PackedTokens]]:
        """Return what is kept of this embedder for those of the chunks that have it."""

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
    """Reads published builds: their entities and relations, with keyword search over both."""

    async def layer(self, generation: int, layer: int) -> list[Entity]:
        """Return all entities of one layer, in the order in which they were built."""

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
        cluster: str | None = None,
        min_strength: int,
        offset: int = 0,
        limit: int,
    ) -> tuple[list[Relation], int]:
        """Return one page of inter-cluster relations (``layer`` None: all above 0), strongest first, and the total."""


AgentTextKind = Literal["summary", "relation", "description"]
"""What an agent writes in place of a heuristic text: of a cluster, between two clusters, of an entity of layer 0."""


@dataclass(frozen=True, slots=True)
class AgentText:
    """What an agent wrote for one task, as JSON values, and all chunks that it rests on; none if they are unknown."""

    text: CheckedObject
    chunk_ids: tuple[str, ...] = ()


class ReplyStore(Protocol):
    """The replies of chat models, which are a cache and a record of expenses."""

    async def find(self, digest: str, job_id: str = "") -> "Reply | None":
        """Return the cached reply to the request of that digest, with ``kept`` set; given a job, only its own."""

    async def put(self, collection: str, record: "ReplyRecord") -> None:
        """Cache a reply and record what it used, in place of an earlier one's text."""

    async def spending(self, collection: str | None, job_id: str = "", model: str = "") -> list[Spent]:
        """Return what the replies of one or all collections used, by step; of one job or one model alone."""


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
    """A chat model's reply and what it used. ``cost``: in US dollars, ``None`` if unknown; ``kept``: it is cached and cost nothing now."""

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
