"""The facade of the engine: one method per operation, which finds its collection and calls the module that does the work."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import anyio
from anyio import to_thread

from .adapters.wiring import Adapters, compose, open_processes
from .core import jobs
from .core.config import COLLECTION_NAME, Settings
from .core.errors import Busy, Candidate, InvalidInput, NotFound, StoreUnreachable, WorkerLost, no_documents
from .core.history import CollectionChanges, HistoryEntry
from .core.model import (
    NO_CORRECTIONS,
    Chunk,
    Collection,
    Context,
    Correction,
    CorrectionEffects,
    Document,
    DocumentSource,
    Entity,
    EntityHead,
    JsonObject,
    Relation,
    Seed,
    TypeProposal,
)
from .core.ports import ChatModel, Extractor
from .core.runtime.telemetry import watch
from .llm.prompts import Prompts
from .pipeline.dispatch import Dispatcher
from .pipeline.index import Stores, embedder_trouble
from .pipeline.job_runner import JobRunner, find_running
from .pipeline.repair import BackgroundRepair, Damage, find_damage, find_foreign_spaces
from .pipeline.snapshots import Snapshots
from .pipeline.status import (
    Status,
    health_warnings,
    note_embedder,
    reading_warnings,
    schema_warnings,
    staleness_warnings,
    vector_counts,
)
from .retrieval.graph.adjacency_cache import AdjacencyCache, read_layers
from .retrieval.index import IndexSnapshot

if TYPE_CHECKING:
    from .exchange.exporting.graph import ExportedGraph
    from .llm.answering import Answer, AnswerRound
    from .llm.batching import Meter
    from .pipeline.agent.items import PendingWork, Submission, WorkKind
    from .pipeline.agent.work import AgentWork
    from .pipeline.building.schemas import SchemaView
    from .pipeline.delete import DocumentLookup
    from .retrieval.browse.entities import ClusterView
    from .retrieval.browse.neighbourhood import Neighbour
    from .retrieval.browse.outline import FolderView, Outline
    from .retrieval.browse.passages import SourcePage
    from .retrieval.browse.text_search import TextMatches
    from .retrieval.query import QueryResult
    from .retrieval.request import Filters, Query
    from .retrieval.search.crediting import FoundPassages

# What only some operations need is imported where it is used: all of it takes 0.3 s, and a command should answer at once.

MOST_CANCELS = 30
"""How often a job is asked to stop before its collection is deleted, each time for two seconds."""


@dataclass(frozen=True, slots=True)
class EntityPage:
    """One page of found entities, the number of all, and what was degraded."""

    found: tuple[Seed, ...]
    total: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What ``model`` answered, what it answered from, and the chunks that it cites."""

    answer: Answer
    result: QueryResult
    sources: tuple[Chunk, ...]
    model: str
    usage: Meter
    rounds: tuple[AnswerRound, ...] = ()  # What was looked for and found, if the answer was made in rounds
    ending: str = ""  # Why there was no further round


@dataclass(frozen=True, slots=True)
class RelationPage:
    """One page of relations, the number of all, and the names of their ends by id."""

    relations: tuple[Relation, ...]
    total: int
    names: Mapping[str, str]


class LeanRAG:
    """The engine on one data folder. Use it as an asynchronous context manager, or call ``close``."""

    def __init__(self, settings: Settings, adapters: Adapters, extractor: Extractor | None = None) -> None:
        self.settings = settings
        self.prompts = Prompts(settings.prompts_dir)
        self._stores = Stores(
            **{each.name: getattr(adapters, each.name) for each in fields(adapters)},
            settings=settings,
            adjacencies=AdjacencyCache(adapters.documents, adapters.generations, adapters.arrays),
            extractor=extractor,
        )
        self._repair = BackgroundRepair(self._stores)
        self._snapshots = Snapshots(self._stores, self._repair.explain_and_repair)
        self._jobs = JobRunner(adapters.jobs, adapters.lock, Dispatcher(self._stores, self._snapshots).run)
        self._chat: ChatModel | None = None

    @classmethod
    async def open(cls, settings: Settings, *, extractor: Extractor | None = None) -> Self:
        """Open the data folder of the settings; ``extractor`` reads documents, heuristics if None. Raises ``StoreUnusable``."""
        Prompts.open(settings.prompts_dir)
        return cls(settings, await compose(settings), extractor)

    async def close(self) -> None:
        """Stop this process's jobs (they can be resumed) and close the stores."""
        await self._jobs.close()
        if self._chat is not None:
            await self._chat.close()
        await self._stores.vectors.close()
        await self._stores.database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- writing: each method returns a job that is already stored ------------------------

    async def submit_ingest(
        self,
        sources: Sequence[DocumentSource],
        *,
        collection: str = "default",
        build: bool = True,
        allowed: Sequence[Path] | None = (),
        sync: bool = False,
        allow_empty: bool = False,
        dry_run: bool = False,
        replaces: bool = True,
    ) -> jobs.Job:
        """Ingest documents, then build if ``build`` is set. ``allowed`` are the folders beneath which paths may lie;
        ``None`` allows any path, for a caller who is the user in person. ``sync``, ``allow_empty``, ``dry_run`` and
        ``replaces`` as in :class:`leanrag_engine.core.jobs.IngestRequest`."""
        from .pipeline.ingest.run import absolute_source, measure_due

        self._writable()
        if not sources:
            raise InvalidInput("There is no document to ingest.", "Give at least one path or text.")
        request = jobs.IngestRequest(
            documents=tuple(absolute_source(source, anywhere=allowed is None) for source in sources),
            build=build,
            allowed=None if allowed is None else tuple(str(folder) for folder in allowed),
            sync=sync,
            allow_empty=allow_empty,
            dry_run=dry_run,
            replaces=replaces,
        )
        if sync and await self._stores.documents.collection(check_name(collection)) is None:
            await to_thread.run_sync(measure_due, request, (), self.settings.data_dir)
        await self._stores.documents.create_collection(check_name(collection))
        return await self._jobs.submit("ingest", collection, request)

    async def measure_ingest(
        self, sources: Sequence[DocumentSource], *, collection: str, sync: bool
    ) -> tuple[int, int]:
        """Return how many documents an ingest of any paths would read, and about how many bytes of text. Raises as the ingest."""
        from .pipeline.ingest.run import measure_due

        is_there = await self._stores.documents.collection(check_name(collection)) is not None
        held = await self._stores.documents.find_all(collection) if is_there else []
        request = jobs.IngestRequest(tuple(sources), allowed=None, sync=sync)
        return await to_thread.run_sync(measure_due, request, held, self.settings.data_dir)

    async def submit_import(
        self,
        format_: str,
        path: str,
        *,
        collection: str = "default",
        build: bool,
        hierarchy: bool = False,
        allowed: Sequence[Path] | None,
    ) -> jobs.Job:
        """Take over the graph in the files of another program, then build if ``build`` is set. ``allowed`` as for an ingest.
        ``hierarchy``: the build, which has to be the collection's first, keeps the clusters that the files hold. Either all
        is stored or nothing. Raises ``InvalidInput`` for an unknown format, and for a hierarchy without a build."""
        from .exchange.formats import ImportFormat
        from .pipeline.ingest.run import absolute_source

        self._writable()
        if format_ not in {*ImportFormat}:
            raise InvalidInput(
                f"{format_!r} is no format of an import.", f"Choose one of {', '.join(ImportFormat)}."
            )
        if hierarchy and not build:
            raise InvalidInput(
                "Communities are kept by the build, which was not asked for.", "Import with the build."
            )
        await self._stores.documents.create_collection(check_name(collection))
        source = absolute_source(DocumentSource(path=path), anywhere=allowed is None)
        folders = None if allowed is None else tuple(str(folder) for folder in allowed)
        request = jobs.ImportRequest(format_, source.path, build, hierarchy, folders)
        return await self._jobs.submit("import", collection, request)

    async def submit_build(
        self, *, collection: str = "default", order: jobs.BuildRequest | None = None, dry_run: bool = False
    ) -> jobs.Job:
        """Build and publish a new generation; ``dry_run``: only forecast its model calls. Raises ``NotReady``, ``InvalidInput``."""
        from .pipeline.building.models import check_order

        self._writable()
        held = await self._snapshots.collection(collection)
        if not held.documents:
            raise no_documents(collection)
        order = order or jobs.BuildRequest()
        check_order(order, self.settings)
        return await self._jobs.submit("forecast" if dry_run else "build", collection, order)

    async def submit_reindex(self, *, collection: str = "default") -> jobs.Job:
        """Rewrite the vectors of a collection from the database."""
        self._writable()
        await self._snapshots.collection(collection)
        return await self._jobs.submit("reindex", collection, jobs.ReindexRequest())

    async def submit_rollback(self, generation: int, *, collection: str = "default") -> jobs.Job:
        """Publish an earlier generation again. Raises ``NotFound`` without its data, ``InvalidInput`` for the published one."""
        from .pipeline.history import find_restorable

        self._writable()
        await find_restorable(self._stores, await self._snapshots.collection(collection), generation)
        return await self._jobs.submit("rollback", collection, jobs.RollbackRequest(generation))

    async def submit_delete(
        self, ids: Sequence[str], *, collection: str = "default"
    ) -> tuple[jobs.Job | None, DocumentLookup]:
        """Delete the documents with these ids or numbers (``d3``) and what only they supported. Unknown ids
        come back with the nearest documents; without any known one there is no job."""
        from .pipeline.delete import look_up_documents

        self._writable()
        await self._snapshots.collection(collection)
        found = look_up_documents(await self._stores.documents.find_all(collection), ids)
        if not found.documents:
            return None, found
        request = jobs.DeleteRequest(tuple(sorted({document.id for _, document in found.documents})))
        return await self._jobs.submit("delete", collection, request), found

    async def rename_collection(self, name: str, new: str) -> None:
        """Give a collection another name. Raises ``NotFound``, ``InvalidInput`` if ``new`` is no name or
        taken, ``Busy`` during its jobs."""
        self._writable()
        await self._check_idle(name)
        await self._stores.documents.rename_collection(name, check_name(new))
        # They are found by the name; the next query makes them again.
        await self._stores.adjacencies.sweep(name, ())

    async def submit_copy(self, target: str, *, collection: str = "default") -> jobs.Job:
        """Copy a collection with its published build into a new one. Raises as ``rename_collection``, except ``Busy``."""
        self._writable()
        await self._snapshots.collection(collection)
        if await self._stores.documents.collection(check_name(target)) is not None:
            raise InvalidInput(
                f"There is a collection {target!r} already.", "Choose another name, or delete that one first."
            )
        return await self._jobs.submit("copy", collection, jobs.CopyRequest(target))

    async def submit_delete_collection(self, collection: str, *, cancel: bool = False) -> jobs.Job:
        """Delete a collection with everything in it, and ``cancel`` its jobs first. Raises ``NotFound``, and ``Busy`` as
        ``rename_collection``."""
        self._writable()
        await self._snapshots.collection(collection)
        for _ in range(MOST_CANCELS if cancel else 0):
            if not (running := await find_running(self._stores.jobs, collection)):
                break
            await self._jobs.cancel(running.id)
        if await self._stores.documents.collection(collection):  # a job that stored nothing leaves none
            await self._check_idle(collection)
        return await self._jobs.submit("delete_collection", collection, jobs.DeleteCollectionRequest())

    async def pending_work(
        self,
        kind: WorkKind,
        limit: int = 5,
        cursor: str = "",
        *,
        instructions: bool = False,
        collection: str = "default",
    ) -> PendingWork:
        """Return work for an agent: chunks to extract from, texts to write. ``instructions``: also after the first page."""
        work = await self._agent_work(collection)
        return await work.pending(kind, limit, cursor, instructions=instructions)

    async def submit_extractions(
        self, items: Sequence[JsonObject], *, replace: bool = False, collection: str = "default"
    ) -> Submission:
        """Store an agent's extractions for the next build; ``replace``: also in place of an agent's or a model's."""
        return await (await self._agent_work(collection)).submit_extractions(items, replace=replace)

    async def submit_summaries(
        self, items: Sequence[JsonObject], *, replace: bool = False, collection: str = "default"
    ) -> Submission:
        """Store an agent's texts on clusters, relations and entities, item by item, as ``submit_extractions`` does."""
        return await (await self._agent_work(collection)).submit_texts(items, replace=replace)

    async def merge_entities(
        self, entities: Sequence[str], name: str = "", *, undo: bool = False, collection: str = "default"
    ) -> Correction:
        """Make entities (names or refs) one, called ``name`` or as the first of them, from the next build on. ``undo``: take
        back the last merge of entities of these names; raises ``NotFound`` if there is none."""
        from .pipeline.agent.corrections import find_merge, plan_merge

        if undo:
            return await self._undo(collection, lambda held: find_merge(held, entities))
        return await self._correct(collection, lambda index: plan_merge(index, entities, name))

    async def split_entity(
        self,
        entity: str,
        name: str,
        places: Sequence[str] = (),
        *,
        undo: bool = False,
        collection: str = "default",
    ) -> Correction:
        """Make what ``entity`` means in these documents and passages another entity, called ``name``, from the next build
        on. ``undo``: take back the last such split; raises ``NotFound`` if there is none."""
        from .pipeline.agent.corrections import find_split, plan_split

        if undo:
            return await self._undo(collection, lambda held: find_split(held, entity, name))
        return await self._correct(collection, lambda index: plan_split(index, entity, name, places))

    async def corrections(self, *, collection: str = "default") -> list[Correction]:
        """Return the corrections of the graph in the order in which they were made."""
        await self._snapshots.collection(collection)
        return await self._stores.corrections.find_all(collection)

    async def correction_effects(self, *, collection: str) -> CorrectionEffects:
        """Return which corrections had an effect in the published build."""
        generation = (await self._snapshots.collection(collection)).generation
        return generation.record.corrections if generation else NO_CORRECTIONS

    async def undo_correction(self, ref: str, *, collection: str = "default") -> Correction:
        """Take a correction back, from the next build on. Raises ``NotFound`` if there is none of that ref."""
        from .pipeline.agent.corrections import find_correction

        return await self._undo(collection, lambda held: find_correction(held, ref))

    async def schema(self, *, collection: str = "default") -> SchemaView:
        """Return the schema that constrains the collection's extraction, what it did, and what it makes due."""
        from .pipeline.building.schemas import view_schema

        return await view_schema(self._stores, collection)

    async def list_schema_types(self, *, collection: str) -> str:
        """Return the names of the types of the collection's schema, a sentence for each kind; "" if it has none."""
        known = await self._stores.documents.collection(collection)
        if known is None or await self._stores.documents.schema(collection) is None:
            return ""
        from .pipeline.building.schemas import list_held_types

        return await list_held_types(self._stores, known)

    async def set_schema(self, source: str, *, collection: str = "default") -> SchemaView:
        """Constrain extraction by a schema: a YAML file or the name of one of ours. The next build has the model read
        again what it read with another schema. Raises ``InvalidInput``."""
        from .pipeline.building.schemas import set_schema

        self._writable()
        return await set_schema(self._stores, check_name(collection), source)

    async def remove_schema(self, *, collection: str = "default") -> SchemaView:
        """Leave extraction open again, from the next build on. Raises ``NotFound`` if there is no schema."""
        from .pipeline.building.schemas import remove_schema

        self._writable()
        return await remove_schema(self._stores, collection)

    async def decide_type(self, type_: str, *, adopt: bool, collection: str = "default") -> TypeProposal:
        """Adopt or refuse a type outside the schema, from the next build on. Raises ``NotFound`` with the nearest ones."""
        from .pipeline.building.schemas import decide_type

        self._writable()
        return await decide_type(self._stores, collection, type_, adopt=adopt)

    async def job(self, job_id: str, wait_seconds: float = 0, *, collection: str | None = None) -> jobs.Job:
        """Return a job, after waiting up to ``wait_seconds`` for its end. Raises ``NotFound``, also if it is not in ``collection``."""
        return await self._jobs.job(job_id, wait_seconds, collection)

    async def job_state(self, job_id: str, wait_seconds: float = 0) -> jobs.JobState:
        """Return how far a job is, without what it was given and what it gave; otherwise as :meth:`job`."""
        return await self._jobs.state(job_id, wait_seconds)

    async def cancel_job(self, job_id: str, *, collection: str | None = None) -> jobs.Job:
        """Request a job to stop, in whichever process it runs."""
        self._writable()
        return await self._jobs.cancel(job_id, collection)

    async def resume_jobs(self, *, serves: bool = False) -> list[jobs.Job]:
        """Resume the jobs whose process is gone, and return them; ``serves``: those that a server takes over."""
        return await self._jobs.resume(serves=serves)

    async def recent_jobs(self) -> list[jobs.Job]:
        """Return the newest jobs of all collections with their present status, newest first."""
        return await self._jobs.recent(limit=20)

    # --- reading --------------------------------------------------------------------------

    async def query(
        self, query: Query, *, collection: str = "default", notes: Sequence[str] = ()
    ) -> QueryResult:
        """Return the retrieved subgraph and its context (paper eq. 6–10), after ``notes``; before any build, by keywords alone."""
        from .retrieval.query import answer_query

        query = query.check()

        async def read(index: IndexSnapshot) -> QueryResult:
            return await self._snapshots.find_by_meaning(find, await self._snapshots.add_adjacency(index))

        async def find(index: IndexSnapshot, *problems: str) -> QueryResult:
            return await answer_query(index, query, (*notes, *problems))

        with watch("search", str(query.mode)) as search:
            result = await self._snapshots.read(collection, read)
            search.note(
                ranking=str(query.ranking), tokens=result.context.tokens, seeds=len(result.subgraph.seeds)
            )
        return result

    async def suggest_questions(self, limit: int = 3, *, collection: str = "default") -> list[str]:
        """Return up to ``limit`` questions that the collection can answer, each tried by a query."""
        from .retrieval.suggestions import suggest_questions

        async def read(index: IndexSnapshot) -> list[str]:
            index = await self._snapshots.add_adjacency(index)
            return await suggest_questions(await self._snapshots.add_embedder(index), limit)

        return await self._snapshots.read(collection, read, built=True)

    async def answer(
        self,
        question: str,
        *,
        token_budget: int = 4000,
        rounds: int = 1,
        mode: str = "lca",
        open_mode: bool = False,
        collection: str = "default",
    ) -> ModelAnswer:
        """Answer a question by the configured model from its context, with checked citations. In several ``rounds``
        the model says what is missing, until the evidence suffices or ``token_budget`` is spent. In mode ``global`` it reads
        the summaries page by page. In ``open_mode`` it may add what it knows. Raises ``InvalidInput`` without a model, and its errors."""
        from .llm.answering import (
            LEAST_PAGE,
            PAGE_TOKENS,
            Answerer,
            AnswerLimits,
            answer_from_pages,
            answer_iteratively,
            unite_contexts,
        )
        from .pipeline.building.models import cache_replies, open_answer_model
        from .retrieval.request import QUERY_LIMITS, Mode, Query

        query = Query(text=question, mode=mode, token_budget=token_budget).check()
        if self._chat is None:
            self._chat = await open_answer_model(self.settings)
        model = cache_replies(self._chat, self._stores, collection)
        by = Answerer(model, prompts=self.prompts, open_mode=open_mode)
        results: list[QueryResult] = []

        async def retrieve(queries: Sequence[str], seen: Sequence[str], budget: int) -> Context:
            text, *others = queries
            searched = replace(
                query, text=text, sub_queries=tuple(others), seen=tuple(seen), token_budget=budget
            )
            results.append(await self.query(searched, collection=collection))
            return results[-1].context

        if rounds > 1:
            limits = AnswerLimits(rounds=rounds, tokens=token_budget)
            types = await self.list_schema_types(collection=collection)
            made = await answer_iteratively(by, query.text, retrieve, limits, types)
            if len(made.rounds) > 1:
                # One subgraph for the evidence of all rounds: their seeds united, with the LCAs that join them.
                asked = dict.fromkeys(query for each in made.rounds for query in each.queries)
                await retrieve(list(asked)[: QUERY_LIMITS.texts], (), token_budget)
                results.insert(0, results.pop())
            found, context, trace, ending = made.answer, made.context, made.rounds, str(made.ending)
        else:
            most = PAGE_TOKENS if mode == Mode.GLOBAL else token_budget
            pages = [await retrieve((query.text,), (), min(token_budget, most))]
            while (
                mode == Mode.GLOBAL
                and (left := token_budget - sum(each.tokens for each in pages)) > LEAST_PAGE
            ):
                seen = unite_contexts(pages).cited
                page = await retrieve((query.text,), seen[: QUERY_LIMITS.seen], min(left, most))
                if set(page.cited) <= set(seen):
                    break
                pages.append(page)
            context = unite_contexts(pages)
            found = await answer_from_pages(by, query.text, pages)
            trace, ending = (), ""
        warnings = tuple(dict.fromkeys(warning for each in results for warning in each.warnings))
        result = replace(results[0], query=query, context=context, warnings=warnings)
        cited = await self._stores.documents.chunks_by_citation(collection, found.cited)
        return ModelAnswer(found, result, tuple(cited), self._chat.name, by.meter, trace, ending)

    async def search_entities(
        self,
        text: str,
        *,
        layer: int | None = None,
        offset: int = 0,
        limit: int = 10,
        collection: str = "default",
    ) -> EntityPage:
        """Find entities of one or all layers by meaning and keyword, best first."""
        from .retrieval.browse import entities as browsing

        async def find(index: IndexSnapshot, *problems: str) -> EntityPage:
            seeds, total = await browsing.search_entities(index, text, layer, offset, limit)
            return EntityPage(tuple(seeds), total, problems)

        with watch("search", "entities"):
            return await self._snapshots.search(collection, find, built=True)

    async def find_passages(self, question: str, *, collection: str = "default") -> FoundPassages:
        """Return the passages that search finds for a question, credited to what they mention and upwards: what is browsed can
        be ranked by them."""
        from .retrieval.evidence.passages import find_passages

        async def find(index: IndexSnapshot, *problems: str) -> FoundPassages:
            found = await find_passages(await self._snapshots.add_adjacency(index), question)
            return replace(found, warnings=(*found.warnings, *problems))

        with watch("search", "passages"):
            return await self._snapshots.search(collection, find, built=True)

    async def ancestors(
        self, entity: str, *, max_layers: int = 0, collection: str = "default"
    ) -> list[Entity]:
        """Return the chain from an entity (name or ref) up to the root, or at most ``max_layers`` steps of it."""
        from .retrieval.browse import entities as browsing

        chain = await self._snapshots.read_entity(collection, entity, browsing.ancestors)
        return chain[: max_layers + 1] if max_layers else chain

    async def second_cluster(self, entity: str, *, collection: str = "default") -> Entity | None:
        """Return the cluster to which an entity (name or ref) belongs beside its own, if it does so in a fifth or more."""
        from .retrieval.browse.entities import second_cluster

        return await self._snapshots.read_entity(collection, entity, second_cluster)

    async def neighbourhood(
        self,
        entity: str,
        *,
        hops: int,
        limit: int = 20,
        found: FoundPassages | None = None,
        collection: str = "default",
    ) -> list[Neighbour]:
        """Return what lies within ``hops`` relations of an entity (name or ref), nearest first, with the passages that
        state the relations; of one hop those first that mention most of the passages of ``find_passages``."""
        from .retrieval.browse.neighbourhood import walk

        return await self._snapshots.read_entity(
            collection, entity, partial(walk, hops=hops, limit=limit, found=found)
        )

    async def root(self, *, collection: str = "default") -> Entity:
        """Return the entity above all others. Raises ``NotReady`` before any build."""
        from .retrieval.browse import entities as browsing

        return await self._snapshots.read(collection, browsing.root, built=True)

    async def cluster(
        self,
        cluster: str,
        *,
        offset: int = 0,
        limit: int = 20,
        found: FoundPassages | None = None,
        collection: str = "default",
    ) -> ClusterView:
        """Return an aggregated entity (name or ref), one page of its members, its parent and strongest relations; ranked by the
        passages of ``find_passages``, if given."""
        from .retrieval.browse import entities as browsing

        view = partial(browsing.view_cluster, offset=offset, limit=limit, found=found)
        return await self._snapshots.read_entity(collection, cluster, view)

    async def relations_of(
        self, entity: str, *, limit: int = 20, collection: str = "default"
    ) -> RelationPage:
        """Return the strongest relations of an entity of any layer (name or ref), and the number of those returned."""

        async def read(index: IndexSnapshot, found: Entity) -> RelationPage:
            relations = await index.generations.relations_of(index.generation.number, [found.id], limit)
            return await _name_ends(index, relations, len(relations))

        return await self._snapshots.read_entity(collection, entity, read)

    async def relations_within(
        self, cluster: str, *, limit: int = 100, collection: str = "default"
    ) -> list[Relation]:
        """Return the strongest relations among the members of an aggregated entity (name or ref)."""
        from .retrieval.browse import entities as browsing

        return await self._snapshots.read_entity(
            collection, cluster, partial(browsing.relations_within, limit=limit)
        )

    async def entity_heads(self, *, collection: str = "default") -> list[EntityHead]:
        """Return all entities without their texts: the root first, then layer by layer, most mentions first."""
        return await self._snapshots.read(
            collection, lambda index: index.generations.entity_heads(index.generation.number), built=True
        )

    async def inter_cluster_relations(
        self,
        *,
        cluster: str | None = None,
        layer: int | None = None,
        min_strength: int = 0,
        offset: int = 0,
        limit: int = 20,
        found: FoundPassages | None = None,
        collection: str = "default",
    ) -> RelationPage:
        """Return relations between aggregated entities, strongest first, or ranked by the passages of ``find_passages``."""
        from .retrieval.browse import entities as browsing

        async def read(index: IndexSnapshot) -> RelationPage:
            entity = await browsing.resolve(index, cluster) if cluster else None
            relations, total = await browsing.inter_cluster_relations(
                index, entity, layer, min_strength, offset, limit, found
            )
            return await _name_ends(index, relations, total)

        return await self._snapshots.read(collection, read, built=True)

    async def sources(
        self,
        citations: Sequence[str] = (),
        entity: str = "",
        document: str = "",
        *,
        sections: Sequence[str] = (),
        question: str = "",
        neighbours: int = 0,
        offset: int = 0,
        limit: int = 100,
        collection: str = "default",
    ) -> SourcePage:
        """Return one page of the chunks behind citations (and so many ``neighbours`` on each side), of what supports an
        entity or relation, or of a document or some ``sections`` of it; by a ``question`` the best of these first."""
        from .retrieval.browse import passages
        from .retrieval.browse.support import resolve_item
        from .retrieval.request import clean_text

        if sum(map(bool, (citations, entity, document))) != 1:
            raise InvalidInput(
                "Sources need either citations or an entity or a document: exactly one of them.",
                "Give citations such as d3:c12, or the name of an entity or document.",
            )
        if sections and not document:
            raise InvalidInput(f"The section {sections[0]!r} needs a document.", "Give `document` too.")
        question = clean_text("query", question)
        if neighbours and not citations:
            raise InvalidInput(
                "Only citations have neighbours.", "Give `citations`, or leave `neighbours` out."
            )

        async def find(index: IndexSnapshot, *problems: str) -> SourcePage:
            found = await find_page(index)
            return replace(found, problems=(*found.problems, *problems))

        async def find_page(index: IndexSnapshot) -> SourcePage:
            if document:
                return await passages.sources_of_document(index, document, offset, limit, sections, question)
            if entity:
                item = await resolve_item(index, entity)
                return await passages.sources_of_item(index, item, offset, limit, question)
            return await passages.sources(index, citations, offset, limit, neighbours, question)

        return await self._snapshots.search(collection, find, by_meaning=bool(question), built=bool(entity))

    async def outline(self, document: str, section: str = "", *, collection: str = "default") -> Outline:
        """Return the sections of a document (id, title, number or end of a path), or those below one of its headings."""
        from .retrieval.browse.outline import view_outline

        return await self._snapshots.read(
            collection, partial(view_outline, document=document, section=section)
        )

    async def folder(self, name: str, *, collection: str) -> FolderView:
        """Return what lies directly in a folder of the documents; "" for the one that holds all."""
        from .retrieval.browse.outline import view_folder

        return await self._snapshots.read(collection, partial(view_folder, name=name))

    async def search_text(
        self,
        text: str,
        *,
        match: str = "exact",
        by_document: bool = False,
        by_date: bool = False,
        filters: Filters | None = None,
        offset: int = 0,
        limit: int = 20,
        collection: str = "default",
    ) -> TextMatches:
        """Find ``text`` as it stands in the documents, as a ``pattern`` (a regular expression), or all passages on it as a
        ``topic``, the best first page by page; a page is in reading order or ``by_date``, with an entry for each passage or, ``by_document``, document."""
        from .retrieval.browse.text_search import NO_FILTERS, search_text
        from .retrieval.browse.topic_search import search_topic

        search = search_topic if match == "topic" else partial(search_text, pattern=match == "pattern")

        async def find(index: IndexSnapshot, *problems: str) -> TextMatches:
            found = await search(
                index,
                text,
                offset,
                limit,
                by_document=by_document,
                by_date=by_date,
                filters=filters or NO_FILTERS,
            )
            about = index.collection.describe_folders([each.path for each in found.matches])
            return replace(found, problem=" ".join(problems) or found.problem, about=about)

        with watch("search", "text"):
            return await self._snapshots.search(collection, find, by_meaning=match == "topic")

    async def collections(self) -> list[Collection]:
        """Return all collections by name."""
        return await self._stores.documents.collections()

    async def choose_collection(self, name: str, *, strict: bool = True) -> str:
        """Return ``name``; if that is the empty default, the only full collection; of several, ``NotFound`` names them if ``strict``."""
        if name != self.settings.collection:
            return name
        full = [each for each in await self.collections() if each.documents]
        if not full or name in [each.name for each in full]:
            return name
        if len(full) > 1 and strict:
            raise NotFound(
                f"Collection {name!r} is empty.",
                "Give one of these as `collection`:",
                tuple(Candidate("", each.name, f"{each.documents} documents") for each in full[:20]),
            )
        return full[0].name if len(full) == 1 else name

    async def documents(self, *, collection: str = "default") -> list[Document]:
        """Return all documents of a collection, by number."""
        await self._snapshots.collection(collection)
        return await self._stores.documents.find_all(collection)

    async def read_graph(self, *, collection: str = "default") -> ExportedGraph:
        """Return documents, passages and all layers of the published generation, for an export."""
        from .exchange.exporting.graph import read_graph

        async def read(index: IndexSnapshot) -> ExportedGraph:
            layers = await read_layers(index.generations, index.generation)
            return await read_graph(index.documents, collection, layers)

        return await self._snapshots.read(collection, read, built=True)

    async def history(self, *, collection: str = "default") -> list[HistoryEntry]:
        """Return what each generation of a collection changed, why it was published and what it cost, newest first."""
        await self._snapshots.collection(collection)
        return await self._stores.generations.history(collection)

    async def changes(self, since: str = "", *, collection: str = "default") -> CollectionChanges:
        """Return what changed since a generation (its number) or an ISO date; "": since the generation before the published
        one. Raises ``NotFound`` or ``InvalidInput`` if ``since`` is neither, ``NotReady`` before any build."""
        from .pipeline.history import find_changes

        return await self._snapshots.read(
            collection,
            lambda index: find_changes(self._stores, index.collection, index.generation, since),
            built=True,
        )

    async def names_like(self, text: str, *, aggregated: bool, limit: int, collection: str) -> list[str]:
        """Return names of entities of layer 0, or of ``aggregated`` ones, that begin with ``text``, else similar ones."""
        from .retrieval.browse import entities as browsing

        complete = partial(browsing.complete_names, text=text, aggregated=aggregated, limit=limit)
        return await self._snapshots.read(collection, complete, built=True)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, by the tokenizer that all budgets use."""
        return self._stores.tokenizer.count_many(texts)

    async def version(self) -> int:
        """Return a number that grows with every write to what queries read."""
        return await self._stores.generations.vector_version()

    async def status(self, collection: str = "default", *, strict: bool = False) -> Status:
        """Return counts, layers, jobs, the writer and warnings. Raises ``UnknownCollection``, of the default
        one only if ``strict`` and others exist."""
        collections = await self._stores.documents.collections()
        names = tuple(each.name for each in collections)
        may_lack = collection == self.settings.collection and not (strict and names)
        unborn = may_lack and collection not in names
        held = Collection.empty(collection) if unborn else await self._snapshots.collection(collection)
        await self._snapshots.see_other_writers()
        vectors: dict[str, int] = {}
        broken: list[str] = []
        unreachable = ""
        try:
            vectors, broken = await vector_counts(self._stores, held.generation)
        except StoreUnreachable as problem:
            unreachable = str(problem)
        trouble = tuple(await embedder_trouble(self._stores, held.generation))
        unread = 0 if unborn else await self._stores.documents.count_asked(collection)
        return Status(
            collection=held,
            collections=names,
            extracts={} if unborn else await self._stores.documents.count_extracts(collection),
            spent=() if unborn else tuple(await self._stores.replies.spending(collection)),
            vectors=vectors,
            jobs=tuple(await self._jobs.recent(collection)),
            writer=await self._stores.lock.holder(),
            warnings=(
                *health_warnings(held, None if unreachable else vectors),
                *reading_warnings(unread),
                *schema_warnings(await self._stores.documents.schema(collection), held.generation),
                *staleness_warnings(held.generation),
                *([f"Keywords alone answer. {unreachable}"] if unreachable else broken),
                *trouble,
            ),
            embedder_note=note_embedder(held.generation, self.settings.embedder),
            corrections=() if unborn else tuple(await self._stores.corrections.find_all(collection)),
            types=await self.list_schema_types(collection=collection),
            embedder_trouble=trouble,
            vector_trouble=unreachable,
        )

    # --- a damaged vector index -----------------------------------------------------------

    async def find_damage(self, *, collection: str = "default", vectors: bool = True) -> Damage:
        """Return what of a collection is no longer as it was written; ``vectors``: also of those, in a process of its own.

        Raises ``StoreUnreachable`` if that cannot be known, ``StoreUnusable`` if the database is damaged.
        """
        await self._stores.database.check()
        held = await self._snapshots.collection(collection)
        damage = await find_damage(self._stores, held)
        spaces = held.generation.record.spaces.by_kind() if held.generation and vectors else {}
        if not spaces:
            return damage
        try:
            async with open_processes() as process:
                damaged = await process.run(_find_spaces_apart, (self.settings, collection), lambda _: None)
        except WorkerLost:  # Chroma's compiled code ends the process that opens some damaged files
            damaged = [*spaces.values()]
        return replace(damage, vectors=tuple(kind for kind, space in spaces.items() if space in damaged))

    def watch_vectors(self) -> None:
        """Repair damaged vector spaces in the background, now and when a query meets one."""
        self._repair.watch(self._jobs)

    # --- inside ---------------------------------------------------------------------------

    async def _undo(self, collection: str, find: Callable[[Sequence[Correction]], Correction]) -> Correction:
        self._writable()
        found = find(await self.corrections(collection=collection))
        await self._stores.corrections.remove(collection, found.number)
        return found

    async def _correct(
        self, collection: str, plan: Callable[[IndexSnapshot], Awaitable[Correction]]
    ) -> Correction:
        self._writable()
        return await self._stores.corrections.put(
            collection, await self._snapshots.read(collection, plan, built=True)
        )

    async def _agent_work(self, collection: str) -> AgentWork:
        from .pipeline.agent.work import AgentWork

        self._writable()
        return AgentWork(self._stores, await self._snapshots.collection(collection), self.prompts)

    async def _check_idle(self, name: str) -> None:
        """Raise ``Busy`` while a job of the collection runs, in whichever process."""
        await self._snapshots.collection(name)
        if running := await find_running(self._stores.jobs, name):
            raise Busy(
                f"Job {running.id} ({running.kind}) of collection {name!r} is at work.",
                "Wait until it has ended, or cancel it.",
            )

    def _writable(self) -> None:
        if self.settings.read_only:
            raise InvalidInput(
                "This data folder was opened read-only.", "Open it without the setting read_only."
            )


async def _name_ends(index: IndexSnapshot, relations: Sequence[Relation], total: int) -> RelationPage:
    """Return the page with the names of the relations' ends."""
    ends = sorted({end for each in relations for end in (each.source_id, each.target_id)})
    nodes = await index.generations.entities(index.generation.number, ends)
    return RelationPage(tuple(relations), total, {node.id: node.name for node in nodes})


def check_name(collection: str) -> str:
    """Return the name. Raises ``InvalidInput`` if it is no valid name of a collection."""
    if re.fullmatch(COLLECTION_NAME, collection):
        return collection
    raise InvalidInput(
        f"A collection cannot be called {collection!r}.",
        "Use 1 to 63 letters, digits, dots, hyphens and underscores, beginning with a letter or digit.",
    )


def _find_spaces_apart(task: tuple[Settings, str], _: Callable[[str], None]) -> list[str]:
    async def find() -> list[str]:
        settings, collection = task
        async with await LeanRAG.open(settings) as engine:
            return await find_foreign_spaces(engine._stores, await engine._snapshots.collection(collection))  # noqa: SLF001 - it is ours

    return anyio.run(find)
