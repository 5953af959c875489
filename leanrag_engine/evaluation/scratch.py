"""Build the scratch collection of a question set: each passage is one document with one chunk."""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from leanrag_engine.adapters.wiring import Adapters, compose
from leanrag_engine.core.config import Settings, load_settings
from leanrag_engine.core.errors import InvalidInput, LeanRAGError, never_built
from leanrag_engine.core.jobs import IngestOutcome, Job
from leanrag_engine.core.model import (
    Chunk,
    DocumentSource,
    EmbeddedQueries,
    Extract,
    LoadedDocument,
    Vectors,
    content_id,
)
from leanrag_engine.core.ports import (
    Embedder,
    EmbedderSource,
    EmbedderWrapper,
    Extractor,
    Progress,
    ProgressReport,
)
from leanrag_engine.engine import LeanRAG
from leanrag_engine.extraction.openie import Entry, OpenIE, extracts_from
from leanrag_engine.pipeline.ingest.run import extract_heuristically

from .datasets import QuestionSet

CHUNK_TOKENS = 8192  # The largest chunk that the settings allow


@dataclass(frozen=True, slots=True)
class GivenGraph:
    """A graph from a file as an extractor: ``entries`` by document id. ``unmatched`` passages have none and are read heuristically."""

    graph: OpenIE
    entries: Mapping[str, Entry]
    unmatched: int

    @classmethod
    def of(cls, graph: OpenIE, questions: QuestionSet) -> "GivenGraph":
        entries = graph.match((each.title, each.text) for each in questions.passages)
        found = {document_id(place): entry for place, entry in enumerate(entries) if entry is not None}
        return cls(graph, found, entries.count(None))

    async def __call__(
        self, document: LoadedDocument, chunks: Sequence[Chunk], pulse: Callable[[], None]
    ) -> list[Extract]:
        entry = self.entries.get(document.id)
        if entry is None:
            return await extract_heuristically(document, chunks, pulse)
        pulse()
        return extracts_from(entry, document.title, chunks)


@dataclass(frozen=True, slots=True)
class ScratchCollection:
    """A built collection: ``watch`` times its embedder, ``build_s`` its ingest and build; ``split`` passages
    have several chunks, ``failed`` ones are not in it; ``reused``: it existed before."""

    engine: LeanRAG
    collection: str
    watch: "Stopwatch"
    build_s: float = 0.0
    reused: bool = True
    split: int = 0
    failed: tuple[str, ...] = ()
    layers: tuple[int, ...] = ()


def document_id(place: int) -> str:
    """Return the document id of the passage at ``place``."""
    return f"passage-{place}"


def place_of(document: str) -> int:
    """Return the place of a document's passage: the inverse of :func:`document_id`."""
    return int(document.removeprefix("passage-"))


def scratch_settings(folder: Path, embedder: str | None = None, *, whole_passages: bool = True) -> Settings:
    """Return the settings with another folder, no shared database; ``whole_passages``: a passage is one chunk. Raises ``InvalidInput``."""
    chunks = {"chunk_tokens": CHUNK_TOKENS, "chunk_overlap": 0} if whole_passages else {}
    return load_settings(
        data_dir=folder, database_url="", chroma_url="", embedder=embedder, read_only=False, **chunks
    )


@asynccontextmanager
async def open_scratch(
    settings: Settings, questions: QuestionSet, given: GivenGraph | None, report: ProgressReport
) -> AsyncIterator[ScratchCollection]:
    """Build a collection of the passages in ``settings.data_dir``, or reuse it. Raises ``LeanRAGError`` if it cannot be built."""
    digest = content_id("", repr(given.entries)) if given else ""
    name = f"eval-{content_id('', questions.digest, digest, settings.embedder)}"
    sources = [
        DocumentSource(
            text=each.text if each.text.strip() else each.title, title=each.title, id=document_id(place)
        )
        for place, each in enumerate(questions.passages)
    ]
    adapters, extractor = await compose(settings), given or extract_heuristically
    async with _build_collection(settings, adapters, sources, name, report, extractor) as scratch:
        yield scratch


def open_folder_scratch(
    settings: Settings, adapters: Adapters, folder: Path, report: ProgressReport
) -> AbstractAsyncContextManager[ScratchCollection]:
    """Build a collection of the documents of a folder as :func:`open_scratch` does; one that exists follows the folder."""
    name = f"eval-{content_id('', str(folder), settings.embedder)}"
    source = DocumentSource(path=str(folder))
    return _build_collection(settings, adapters, [source], name, report, is_folder=True)


@asynccontextmanager
async def open_existing(settings: Settings, adapters: Adapters) -> AsyncIterator[ScratchCollection]:
    """Open the collection of the settings as it is. Raises ``NotReady`` if it was never built, ``UnknownCollection``."""
    async with LeanRAG(settings, adapters) as engine:
        name = settings.collection
        if (await engine.status(name, strict=True)).collection.generation is None:
            raise never_built(name, "Ingest documents and build it first.")
        yield ScratchCollection(engine, name, Stopwatch())


@asynccontextmanager
async def _build_collection(
    settings: Settings,
    adapters: Adapters,
    sources: Sequence[DocumentSource],
    name: str,
    report: ProgressReport,
    extractor: Extractor = extract_heuristically,
    *,
    is_folder: bool = False,
) -> AsyncIterator[ScratchCollection]:
    timed = TimedEmbedderSource(adapters.embedders)
    # Measuring retrieval must not cause costs for a graph.
    free = settings.model_copy(update={"llm_model": ""})
    async with LeanRAG(free, replace(adapters, embedders=timed), extractor) as engine:
        started = time.perf_counter()
        allowed = None if is_folder else ()
        job = await engine.submit_ingest(sources, collection=name, allowed=allowed, sync=is_folder)
        job = await _await_job(engine, job, report)
        seconds = time.perf_counter() - started
        outcomes = job.documents
        built = (await engine.status(name)).collection
        if built.generation is None:
            raise InvalidInput(
                f"None of the documents could be read: {'; '.join(_failures(outcomes)) or 'there are none'}.",
                "Give documents that `leanrag ingest` can read.",
            )
        yield ScratchCollection(
            engine=engine,
            collection=name,
            watch=timed.watch,
            build_s=seconds,
            reused=all(each.status == "unchanged" for each in outcomes),
            split=sum(each.chunks > 1 for each in outcomes),
            failed=_failures(outcomes),
            layers=tuple(layer.entities for layer in built.generation.layers),
        )


def _failures(outcomes: Sequence[IngestOutcome]) -> tuple[str, ...]:
    return tuple(f"{each.id}: {each.error}" for each in outcomes if each.status == "failed")


async def _await_job(engine: LeanRAG, job: Job, report: ProgressReport) -> Job:
    """Wait for the end of the job. Raises ``LeanRAGError`` with its message unless it is done."""
    while not (state := await engine.job_state(job.id, wait_seconds=0.2)).status.finished:
        report(Progress(state.stage, state.done, state.total, state.message))
    job = await engine.job(job.id)
    if job.status != "done":
        first = f" First: {job.failures[0].error}" if job.failures else ""
        raise LeanRAGError(f"The scratch collection was not built ({job.status}): {job.message}{first}")
    return job


@dataclass(slots=True)
class Stopwatch:
    """Sums the durations of several pieces of work."""

    seconds: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started

    def take(self) -> float:
        """Return the seconds so far and reset them."""
        taken, self.seconds = self.seconds, 0.0
        return taken


class TimedEmbedder(EmbedderWrapper):
    """An embedder whose time ``watch`` sums, so that a query's latency can exclude its embedding."""

    def __init__(self, inner: Embedder, watch: Stopwatch) -> None:
        super().__init__(inner)
        self.watch = watch

    async def embed(self, texts: Sequence[str], report: ProgressReport | None = None) -> Vectors:
        with self.watch.running():
            return await self.inner.embed(texts, report)

    async def embed_queries(self, texts: Sequence[str]) -> EmbeddedQueries:
        with self.watch.running():
            return await self.inner.embed_queries(texts)


class TimedEmbedderSource:
    """A source whose embedders are all timed by one ``watch``. Implements :class:`leanrag_engine.core.ports.EmbedderSource`."""

    def __init__(self, inner: EmbedderSource) -> None:
        self.watch, self._inner = Stopwatch(), inner
        self.name, self.gave = inner.name, inner.gave
        self.unknown_words, self.restrict = inner.unknown_words, inner.restrict

    async def fit(self, texts: Sequence[str], before: str = "") -> tuple[Embedder, bytes]:
        embedder, state = await self._inner.fit(texts, before)
        return TimedEmbedder(embedder, self.watch), state

    async def restore(self, identity: str, state: bytes) -> Embedder:
        return TimedEmbedder(await self._inner.restore(identity, state), self.watch)
