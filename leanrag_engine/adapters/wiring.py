"""The one place where adapters are chosen and put together."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from leanrag_engine.core.config import EMBEDDERS, Settings
from leanrag_engine.core.ports import (
    ArrayStore,
    ChatModel,
    Embedder,
    EmbedderSource,
    Tokenizer,
    Workers,
    WriterLock,
)
from leanrag_engine.core.text.scripts import count_english, is_mostly_latin

if TYPE_CHECKING:
    from .chroma.store import ChromaVectorStore
    from .sql.stores import (
        SqlCorrectionStore,
        SqlDatabase,
        SqlDocumentStore,
        SqlGenerationStore,
        SqlJobStore,
        SqlReplyStore,
    )


ENGLISH = 0.875  # Share of English passages above which a model for English serves


@dataclass(eq=False)
class AutomaticSource:
    """Three sources as one: ``english``, ``multilingual`` (if there is one), and ``other`` for scripts other
    than Latin. ``other`` is called only where it is needed."""

    name = "auto"
    english: EmbedderSource
    multilingual: EmbedderSource
    other: Callable[[], EmbedderSource]
    has_multilingual: bool

    async def fit(self, texts: Sequence[str], before: str = "") -> tuple[Embedder, bytes]:
        """Fit the source that gave ``before``; if none did, the one for the languages of ``texts``."""
        if before and await self.gave(before):
            return await (await self._source_of(before)).fit(texts, before)
        return await (await self._choose(texts)).fit(texts)

    async def gave(self, identity: str) -> bool:
        return await (await self._source_of(identity)).gave(identity)

    async def restore(self, identity: str, state: bytes) -> Embedder:
        return await (await self._source_of(identity)).restore(identity, state)

    async def unknown_words(self, identity: str, state: bytes, texts: Sequence[str]) -> float | None:
        return await (await self._source_of(identity)).unknown_words(identity, state, texts)

    async def restrict(self, identity: str, state: bytes, texts: Sequence[str]) -> tuple[str, bytes]:
        return await (await self._source_of(identity)).restrict(identity, state, texts)

    async def _choose(self, texts: Sequence[str]) -> EmbedderSource:
        if self.has_multilingual:
            english = await anyio.to_thread.run_sync(count_english, texts)
            # Of English folders up to a tenth counts as foreign: code, references.
            return self.english if english > ENGLISH else self.multilingual
        latin = await anyio.to_thread.run_sync(is_mostly_latin, texts)
        return self.english if latin else self.other()

    async def _source_of(self, identity: str) -> EmbedderSource:
        for source in (self.english, self.multilingual):
            if await source.gave(identity):
                return source
        return self.other()


@dataclass(frozen=True, slots=True)
class Adapters:
    """Everything outside the engine, opened."""

    database: SqlDatabase
    documents: SqlDocumentStore
    generations: SqlGenerationStore
    jobs: SqlJobStore
    replies: SqlReplyStore
    corrections: SqlCorrectionStore
    vectors: ChromaVectorStore
    arrays: ArrayStore
    embedders: EmbedderSource
    tokenizer: Tokenizer
    lock: WriterLock


async def compose(settings: Settings) -> Adapters:
    """Open the stores that the settings name; a Chroma server may be down. Raises ``StoreUnusable`` for others."""
    # Here and not at the top: the adapters' libraries take seconds to import, and only work needs them.
    from .files.arrays import ArrayFiles  # noqa: PLC0415
    from .tokenizer import TiktokenTokenizer  # noqa: PLC0415

    database, lock, folder = await _open_database(settings)
    return Adapters(
        database=database,
        documents=database.documents,
        generations=database.generations,
        jobs=database.jobs,
        replies=database.replies,
        corrections=database.corrections,
        vectors=await _open_vectors(settings, database, folder),
        arrays=ArrayFiles(folder / "arrays", read_only=settings.read_only),
        embedders=embedder_source(settings),
        tokenizer=TiktokenTokenizer(),
        lock=lock,
    )


async def _open_database(settings: Settings) -> tuple[SqlDatabase, WriterLock, Path]:
    """Return the database, its writer lock, and the folder for what can be rebuilt from it."""
    from .sql import SqlDatabase  # noqa: PLC0415

    folder = settings.data_dir.expanduser().absolute()
    if not settings.database_url:
        from .files.writer_lock import FileWriterLock  # noqa: PLC0415

        return (await SqlDatabase.open(folder, read_only=settings.read_only), FileWriterLock(folder), folder)
    database = await SqlDatabase.connect(settings.database_url, read_only=settings.read_only)
    from .sql.dialect.postgres.writer_lock import PostgresWriterLock  # noqa: PLC0415 - only those pay who use it

    # Generations are numbered by each database: the vectors of two must not meet in one folder.
    folder /= f"database-{await database.identity()}"
    return database, PostgresWriterLock(settings.database_url), folder


async def _open_vectors(settings: Settings, database: SqlDatabase, folder: Path) -> ChromaVectorStore:
    from .chroma.store import ChromaVectorStore  # noqa: PLC0415

    if not settings.chroma_url:
        return ChromaVectorStore(folder / "vectors")
    from .chroma.server import ChromaServer  # noqa: PLC0415 - only those pay who use it

    # Spaces are named by numbers of the database: those of two must not meet on one server.
    name = f"leanrag-{await database.identity()}"
    token = settings.chroma_token.get_secret_value()
    return ChromaVectorStore(ChromaServer(settings.chroma_url, token, name))


LEAST_BYTES = 1_000_000  # Of documents, for which processes of their own are worth their start


async def choose_workers(settings: Settings, size: int) -> Workers:
    """Return what reads documents of so many bytes together."""
    if settings.dask and size >= LEAST_BYTES:
        from .workers.cluster import DaskCluster  # noqa: PLC0415 - only those pay who use it

        return await DaskCluster.connect(settings.dask)
    from .workers.pool import InProcess, ProcessPool  # noqa: PLC0415

    processes = settings.workers or (os.cpu_count() or 1 if size >= LEAST_BYTES else 1)
    return ProcessPool(processes) if size and processes > 1 else InProcess()


def open_processes(most: int = 1) -> AbstractAsyncContextManager[Workers]:
    """Open up to so many processes of our own; one ends with its work if that is cancelled."""
    from .workers.pool import ProcessPool  # noqa: PLC0415 - only those pay who read documents

    return aclosing(ProcessPool(most))


def embedder_source(settings: Settings) -> EmbedderSource:
    """Return where the embedder of the settings comes from. No model is loaded or looked for yet."""
    # Each way pays for its own libraries.
    name = settings.embedder
    if name == "fitted":
        return make_fitted_source()
    if name in EMBEDDERS:
        from .embedders.e5.embedder import E5_SOURCE, find_weights  # noqa: PLC0415
        from .embedders.minilm.embedder import MINILM_SOURCE  # noqa: PLC0415

        has_e5 = find_weights() is not None
        automatic = AutomaticSource(MINILM_SOURCE, E5_SOURCE, make_fitted_source, has_multilingual=has_e5)
        named: dict[str, EmbedderSource] = {"minilm": MINILM_SOURCE, "e5": E5_SOURCE, "auto": automatic}
        return named[name]
    if name.startswith("litellm/"):
        from .embedders.service import LitellmModel, LitellmSource  # noqa: PLC0415

        model = name.removeprefix("litellm/")
        return LitellmSource(LitellmModel(model, settings.embedder_api_base, settings.embedder_window))
    from .embedders.local import SentenceTransformersSource  # noqa: PLC0415

    return SentenceTransformersSource(name)


def make_fitted_source() -> EmbedderSource:
    """Return the source of the fitted embedder, whose libraries take a second to import."""
    from .embedders.fitted import FittedEmbedderSource  # noqa: PLC0415

    return FittedEmbedderSource()


async def chat_model(settings: Settings, name: str, api_base: str = "", *, calls: bool = True) -> ChatModel:
    """Return the chat model that litellm calls ``name``. Raises ``InvalidInput`` if it cannot be called at all; a model
    that makes no ``calls`` needs no key."""
    from .chat.model import Limits, LiteLLMChatModel  # noqa: PLC0415 - only those pay who use one

    limits = Limits(
        settings.llm_concurrency, settings.llm_requests_per_minute, settings.llm_tokens_per_minute
    )
    seconds = settings.llm_silence_seconds
    return await LiteLLMChatModel.open(name, api_base=api_base, seconds=seconds, limits=limits, calls=calls)


def same_service(settings: Settings, name: str) -> str:
    """Return the address of the chat model's service for a model of the same provider; none for any other's."""
    same = name.partition("/")[0] == settings.llm_model.partition("/")[0]
    return settings.llm_api_base if same else ""
