"""LeanRAG: the few verbs. Each finds its collection, hands the work to the stage that does it, and
keeps the process rules: writing happens in jobs, reading sees what other processes wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .building import build_generation
from .composition import Adapters, compose
from .config import COLLECTION_NAME, Settings
from .errors import (
    Cancelled,
    Candidate,
    InvalidInput,
    LeanRAGError,
    ModelUnavailable,
    NotFound,
    NotReady,
    StoreUnusable,
)
from .indexing import Spaces, Workshop, embedder_trouble, rebuild_vectors, restored
from .ingesting import Outcome, extract_heuristically, index_pending, ingest_one, spread_folders
from .jobs import Jobs, Journal
from .model import Chunk, Collection, DocumentSource, Entity, Generation, Job, Relation, Seed
from .ports import Embedder, Extractor, LockHolder, Progress
from .retrieval import browsing, querying
from .retrieval.browsing import ClusterView
from .retrieval.kept_adjacency import Adjacencies
from .retrieval.querying import Index, Query, QueryResult


@dataclass(frozen=True, slots=True)
class Status:
    """How a collection stands, and what goes on in its data folder."""

    collection: Collection
    collections: tuple[str, ...]
    extracts: Mapping[str, int]
    vectors: Mapping[str, int]
    jobs: tuple[Job, ...]
    writer: LockHolder | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntityPage:
    """One page of found entities, the number of all, and what was degraded."""

    found: tuple[Seed, ...]
    total: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RelationPage:
    """One page of relations, the number of all, and the names of their ends by id."""

    relations: tuple[Relation, ...]
    total: int
    names: Mapping[str, str]


class LeanRAG:
    """One data folder, opened. Use it as an asynchronous context manager, or call ``close``."""

    def __init__(
        self, settings: Settings, adapters: Adapters, extractor: Extractor = extract_heuristically
    ) -> None:
        self.settings = settings
        self._graph = adapters.graph
        self._vectors = adapters.vectors
        self._tokenizer = adapters.tokenizer
        self._lock = adapters.lock
        self._adjacencies = Adjacencies(adapters.graph, adapters.arrays)
        self._workshop = Workshop(
            settings,
            adapters.graph,
            adapters.vectors,
            adapters.embedders,
            adapters.tokenizer,
            self._adjacencies,
            extractor,
        )
        self._jobs = Jobs(adapters.graph, adapters.lock, self._work)
        self._embedders: dict[int, Embedder] = {}
        self._vector_version = -1

    @classmethod
    async def open(cls, settings: Settings, *, extractor: Extractor = extract_heuristically) -> Self:
        """Documents that come in are read by ``extractor``.

        Raises ``StoreUnusable`` if the data folder cannot be used as it is.
        """
        return cls(settings, await compose(settings), extractor)

    async def close(self) -> None:
        """Stop this process's jobs (they can be resumed) and close the stores."""
        await self._jobs.close()
        await self._vectors.close()
        await self._graph.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- writing: every verb gives a job that is safe on disk -----------------------------

    async def submit_ingest(
        self,
        sources: Sequence[DocumentSource],
        *,
        collection: str = "default",
        build: bool = True,
        allowed: Sequence[Path] | None = (),
    ) -> Job:
        """Ingest documents, then build unless told otherwise. ``allowed`` are the folders beneath
        which paths may lie; ``None`` allows any path, for a caller who is the user in person."""
        self._writable()
        if not sources:
            raise InvalidInput("There is no document to ingest.", "Give at least one path or text.")
        await self._graph.create_collection(checked_name(collection))
        request = {
            "documents": [requested(source, anywhere=allowed is None) for source in sources],
            "build": build,
            "allowed": None if allowed is None else [str(folder) for folder in allowed],
        }
        return await self._jobs.submit("ingest", collection, request)

    async def submit_build(self, *, collection: str = "default") -> Job:
        """Build and publish a new generation. Raises ``NotReady`` if there is no document."""
        self._writable()
        held = await self._collection(collection)
        if not held.documents:
            raise no_documents(collection)
        return await self._jobs.submit("build", collection, {})

    async def forecast(self, *, collection: str = "default") -> dict[str, int]:
        """What a build would take: how much it reads, and the model calls it makes (none without a model)."""
        held = await self._collection(collection)
        if not held.documents:
            raise no_documents(collection)
        return {"documents": held.documents, "chunks": held.chunks, "model_calls": 0, "input_tokens": 0}

    async def submit_reindex(self, *, collection: str = "default") -> Job:
        """Write the vector store anew from the graph store."""
        self._writable()
        await self._collection(collection)
        return await self._jobs.submit("reindex", collection, {})

    async def job(self, job_id: str, wait_seconds: float = 0) -> Job:
        """A job as it stands, after waiting for its end at most so long."""
        return await self._jobs.job(job_id, wait_seconds)

    async def cancel_job(self, job_id: str) -> Job:
        """Ask a job to stop, in whichever process it runs."""
        self._writable()
        return await self._jobs.cancel(job_id)

    async def resume_jobs(self) -> list[Job]:
        """Take up the jobs whose process is gone."""
        return await self._jobs.resume()

    # --- reading --------------------------------------------------------------------------

    async def query(self, query: Query, *, collection: str = "default") -> QueryResult:
        """The retrieved subgraph and its context (paper eq. 6–10). Before any build, keywords alone answer."""
        query = query.check()
        index = await self._index(collection)
        if index.collection.generation:
            adjacency = await self._adjacencies.of(index.collection.generation)
            index = replace(index, adjacency=adjacency)
        try:
            return await querying.answer(await self._with_embedder(index), query)
        except (StoreUnusable, ModelUnavailable) as problem:
            # If it is the graph store that fails, it fails again, and its error is the answer.
            result = await querying.answer(index, query)
            return replace(result, warnings=(*result.warnings, f"Search by meaning failed: {problem}"))

    async def search_entities(
        self,
        text: str,
        *,
        layer: int | None = None,
        offset: int = 0,
        limit: int = 10,
        collection: str = "default",
    ) -> EntityPage:
        """Entities of one or all layers by meaning and keyword, best first."""
        index = await self._built_index(collection)
        try:
            sighted = await self._with_embedder(index)
            seeds, total = await browsing.search_entities(sighted, text, layer, offset, limit)
        except (StoreUnusable, ModelUnavailable) as problem:
            seeds, total = await browsing.search_entities(index, text, layer, offset, limit)
            return EntityPage(tuple(seeds), total, (f"Search by meaning failed: {problem}",))
        return EntityPage(tuple(seeds), total)

    async def ancestors(
        self, entity: str, *, max_layers: int = 0, collection: str = "default"
    ) -> list[Entity]:
        """The chain from the named entity (name or ref) up to the root, or ``max_layers`` steps of it."""
        index = await self._built_index(collection)
        chain = await browsing.ancestors(index, await browsing.resolve(index, entity))
        return chain[: max_layers + 1] if max_layers else chain

    async def cluster(
        self, cluster: str, *, offset: int = 0, limit: int = 20, collection: str = "default"
    ) -> ClusterView:
        """An aggregated entity (name or ref), one page of its members, its parent and strongest relations."""
        index = await self._built_index(collection)
        return await browsing.cluster(index, await browsing.resolve(index, cluster), offset, limit)

    async def inter_cluster_relations(
        self,
        *,
        cluster: str | None = None,
        layer: int | None = None,
        min_strength: int = 0,
        offset: int = 0,
        limit: int = 20,
        collection: str = "default",
    ) -> RelationPage:
        """Relations between aggregated entities, strongest first."""
        index = await self._built_index(collection)
        named = await browsing.resolve(index, cluster) if cluster else None
        relations, total = await browsing.inter_cluster_relations(
            index, named, layer, min_strength, offset, limit
        )
        ends = sorted({end for relation in relations for end in (relation.source_id, relation.target_id)})
        nodes = await self._graph.entities(index.generation.number, ends)
        return RelationPage(tuple(relations), total, {node.id: node.name for node in nodes})

    async def sources(
        self, citations: Sequence[str] = (), entity: str = "", *, collection: str = "default"
    ) -> list[Chunk]:
        """The chunks behind citations, or those that mention an entity."""
        if bool(citations) == bool(entity):
            raise InvalidInput(
                f"Sources need either citations or an entity, not {'both' if entity else 'neither'}.",
                "Give citations such as d3:c12, or the name of an entity.",
            )
        index = await (self._built_index(collection) if entity else self._index(collection))
        wanted = await browsing.resolve(index, entity) if entity else citations
        return await browsing.sources(index, wanted)

    async def status(self, collection: str = "default") -> Status:
        """Counts, layers, jobs, the writer, and what is degraded. The default collection need not exist yet."""
        collections = await self._graph.collections()
        names = tuple(each.name for each in collections)
        unborn = collection == self.settings.collection and collection not in names
        held = Collection.empty(collection) if unborn else await self._collection(collection)
        await self._see_other_writers()
        vectors, broken = await self._vector_counts(held.generation)
        return Status(
            collection=held,
            collections=names,
            extracts={} if unborn else await self._graph.extract_methods(collection),
            vectors=vectors,
            jobs=tuple(await self._jobs.recent(collection)),
            writer=await self._lock.holder(),
            warnings=(
                *health_warnings(held, vectors),
                *broken,
                *await embedder_trouble(self._workshop, held.generation),
            ),
        )

    # --- inside ---------------------------------------------------------------------------

    async def _work(self, job: Job, journal: Journal) -> Mapping[str, Any]:
        """What a job does, by its kind."""
        # Whoever wrote last may have been killed before it could say so: nothing that is open is trusted.
        await self._vectors.refresh()
        if job.kind == "reindex":
            return await rebuild_vectors(self._workshop, job.collection, journal.report)
        if job.kind == "ingest":
            changed = await self._ingest(job, journal)
            if not (job.request["build"] and (changed or await self._is_stale(job.collection))):
                return {"built": not await self._is_stale(job.collection)}
        generation = await build_generation(self._workshop, job.collection, journal.report)
        return {
            "built": True,
            "generation": generation.number,
            "layers": [asdict(each) for each in generation.layers],
        }

    async def _ingest(self, job: Job, journal: Journal) -> bool:
        """Whether any document was added or replaced. Raises ``LeanRAGError`` if every document failed."""
        allowed = job.request["allowed"]
        folders = None if allowed is None else [Path(folder) for folder in allowed]
        sources, outcomes = spread_folders(
            [DocumentSource(**document) for document in job.request["documents"]], folders
        )
        statuses = [noted(outcome, journal) for outcome in outcomes]
        for done, source in enumerate(sources):
            journal.report(Progress("ingest", done, len(sources), source.title or Path(source.path).name))
            outcome = await self._ingest_or_fail(job.collection, source, folders, journal)
            statuses.append(noted(outcome, journal))
        journal.report(Progress("ingest", len(sources), len(sources)))
        if "failed" in statuses and not {"added", "replaced", "unchanged"} & set(statuses):
            raise LeanRAGError("No document could be ingested.", "Each one's error says why.")
        changed = bool({"added", "replaced"} & set(statuses))
        if changed and not job.request["build"]:
            try:
                await index_pending(self._workshop, job.collection, journal.report)
            except (StoreUnusable, ModelUnavailable, InvalidInput) as problem:
                journal.fail("vector index", str(problem))
        return changed

    async def _ingest_or_fail(
        self, collection: str, source: DocumentSource, allowed: Sequence[Path] | None, journal: Journal
    ) -> Outcome:
        """Ingest one document; a bad one fails alone. A store that cannot be used ends the job."""
        try:
            return await ingest_one(self._workshop, collection, source, allowed, journal.say)
        except (StoreUnusable, Cancelled):
            raise
        except LeanRAGError as problem:
            name = source.id or source.path or source.title
            return Outcome(name, source.title, "failed", error=str(problem))

    async def _is_stale(self, collection: str) -> bool:
        return (await self._collection(collection)).stale

    async def _collection(self, name: str) -> Collection:
        held = await self._graph.collection(name)
        if held is not None:
            return held
        known = [each.name for each in await self._graph.collections()]
        if name == self.settings.collection and not known:
            raise no_documents(name)
        near = get_close_matches(name, known, n=5, cutoff=0.3) or known[:5]
        raise NotFound(
            f"There is no collection {name!r}.",
            "Choose one of these." if known else "Ingest documents into it first.",
            tuple(Candidate("", each) for each in near),
        )

    async def _index(self, collection: str) -> Index:
        """What is read: the published generation, checked against other processes' writes. Browsing needs
        no embedder; ``_with_embedder`` adds it to what searches by meaning."""
        held = await self._collection(collection)
        if not held.documents:
            raise no_documents(collection)
        await self._see_other_writers()
        generation = held.generation
        spaces = Spaces.recorded(generation) if generation else None
        return Index(
            graph=self._graph,
            vectors=self._vectors,
            embedder=None,
            tokenizer=self._tokenizer,
            collection=held,
            spaces=spaces,
        )

    async def _with_embedder(self, index: Index) -> Index:
        """Raises what ``restored`` does: another embedder than the collection's answers no query, as the same
        question would find less and nobody would know."""
        generation = index.collection.generation
        return replace(index, embedder=await self._embedder(generation)) if generation else index

    async def _built_index(self, collection: str) -> Index:
        index = await self._index(collection)
        if index.collection.generation is None:
            raise NotReady(f"Collection {collection!r} was never built.", "Build it first.", "build")
        return index

    async def _embedder(self, generation: Generation) -> Embedder:
        if generation.number not in self._embedders:
            # One at a time: an embedder of a generation that is gone is never needed again.
            self._embedders = {generation.number: await restored(self._workshop, generation)}
        return self._embedders[generation.number]

    async def _see_other_writers(self) -> None:
        """Reopen the vector store if anybody wrote to it since it was last looked at."""
        version = await self._graph.vector_version()
        if version != self._vector_version:
            await self._vectors.refresh()
            self._vector_version = version

    async def _vector_counts(self, generation: Generation | None) -> tuple[dict[str, int], list[str]]:
        """Rows in the vector store by kind, and what is wrong with those that cannot be read."""
        counts: dict[str, int] = {}
        problems: list[str] = []
        spaces = Spaces.recorded(generation).as_settings() if generation else {}
        for kind, space in spaces.items():
            try:
                counts[kind] = await self._vectors.count(space)
            except StoreUnusable as problem:
                problems.append(str(problem))
        return counts, list(dict.fromkeys(problems))

    def _writable(self) -> None:
        if self.settings.read_only:
            raise InvalidInput(
                "This data folder was opened read-only.", "Open it without the setting read_only."
            )


def noted(outcome: Outcome, journal: Journal) -> str:
    """Write down what became of a document; gives its status."""
    journal.record(asdict(outcome))
    if outcome.status == "failed":
        journal.fail(outcome.id, outcome.error)
    return outcome.status


def requested(source: DocumentSource, *, anywhere: bool) -> dict[str, Any]:
    """A source as a job keeps it. A path that may lie anywhere is made absolute, as the job may be
    resumed from another working directory; others may be relative to an allowed folder."""
    path = str(Path(source.path).expanduser().absolute()) if anywhere and source.path else source.path
    return {
        # A name that is no Unicode cannot be kept; written out, it fails alone, as a file that is not there.
        "path": path.encode("utf-8", "backslashreplace").decode(),
        "text": source.text,
        "title": source.title,
        "id": source.id,
        "metadata": dict(source.metadata),
    }


def checked_name(collection: str) -> str:
    """The name if a collection may bear it, else ``InvalidInput``."""
    if re.fullmatch(COLLECTION_NAME, collection):
        return collection
    raise InvalidInput(
        f"A collection cannot be called {collection!r}.",
        "Use 1 to 63 letters, digits, dots, hyphens and underscores, beginning with a letter or digit.",
    )


def no_documents(collection: str) -> NotReady:
    return NotReady(
        f"Collection {collection!r} holds no document yet.", "Ingest documents first.", "documents"
    )


def written_vectors(held: Collection) -> Mapping[str, int]:
    """How many rows of each kind the published build wrote: a long passage has several."""
    generation = held.generation
    if generation is None:
        return {}
    base, *above = [each.entities for each in generation.layers]
    plain = {"chunks": held.chunks, "entities": base, "aggregates": sum(above)}
    return plain | dict(generation.settings.get("vectors", {}))


def health_warnings(held: Collection, vectors: Mapping[str, int]) -> list[str]:
    """What makes answers worse than they could be."""
    warnings = []
    generation = held.generation
    if generation is None:
        if held.documents:
            warnings.append("No build yet: only keyword search over passages answers.")
        return warnings
    if held.stale:
        warnings.append("Documents changed since the last build: the hierarchy does not show it yet.")
    # What came and went since the build may have changed the number of its passages, and of no other rows.
    written = {
        kind: rows for kind, rows in written_vectors(held).items() if kind != "chunks" or not held.stale
    }
    if any(vectors.get(kind, 0) < rows for kind, rows in written.items()):
        warnings.append(
            "The vector index is incomplete: search by meaning misses some. Reindex the collection."
        )
    if generation.settings.get("summaries", "heuristic") == "heuristic":
        warnings.append("Summaries and relations are heuristic: made without a language model.")
    return warnings
