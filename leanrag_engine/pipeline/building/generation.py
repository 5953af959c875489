"""Build a generation within a job: merge all extracts into G0, build the layers above it, publish all at once."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

import anyio
import anyio.to_thread
import numpy as np

from leanrag_engine.adapters.wiring import embedder_source
from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import Busy, no_documents, open_task_group
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.graphs.rows import find_rows, select_rows
from leanrag_engine.core.grouping import group
from leanrag_engine.core.history import Publication
from leanrag_engine.core.jobs import AskedMode, BuildRequest, Forecast, StepRange
from leanrag_engine.core.model import (
    BuildHistory,
    BuildRecord,
    ChunkHead,
    Collection,
    CorrectionEffects,
    Evidence,
    Extract,
    ExtractionSchema,
    ExtractState,
    Generation,
    Method,
    SchemaEffects,
    Vectors,
)
from leanrag_engine.core.ports import EmbedderSource, Progress, ProgressReport
from leanrag_engine.core.text.shortening import count_things
from leanrag_engine.documents.notices import is_licence
from leanrag_engine.extraction.by_model.describe import Description, apply_descriptions, describe_by_model
from leanrag_engine.extraction.by_model.extract import extract_by_model
from leanrag_engine.extraction.heuristic.extract import find_key_words
from leanrag_engine.extraction.mentions import MentionIndex
from leanrag_engine.extraction.merging import ExtractSource, LongDescription, PreviousMerge, merge_source
from leanrag_engine.extraction.schemas.conforming import conform
from leanrag_engine.hierarchy.build import BuiltHierarchy, HierarchyOptions, build
from leanrag_engine.hierarchy.by_model.write import TextSources
from leanrag_engine.hierarchy.changes.comparing import compare, count_stale
from leanrag_engine.hierarchy.clustering.methods import ClusteringMethod, ClusteringOptions
from leanrag_engine.hierarchy.health import count_methods
from leanrag_engine.llm.cache import StepForecast
from leanrag_engine.pipeline.index import Stores, open_hierarchy, read_hierarchy
from leanrag_engine.pipeline.pending import PendingIndex
from leanrag_engine.pipeline.token_vectors import embed_lacking

from .embedding_reuse import reuse_vectors
from .memory import hold_cycle_search, search_cycles_rarely
from .models import NO_MODELS, BuildModels, open_forecast_models
from .modes import ModeChoice, choose_mode, find_previous, keep_embedder
from .publishing import FinishedBuild, FittedChunks, publish_build
from .schemas import find_schema
from .vectors import write_entities_early, write_windows_early
from .windows import index_chunks

READING, GLEANING = "extract", "glean"
"""The step that reads chunks, whose calls are known in advance, and the step that looks at them again."""


@dataclass(frozen=True, slots=True)
class BuildRun:
    """What all steps of a build work with. ``mode`` is the one that was asked for."""

    stores: Stores
    report: ProgressReport
    models: BuildModels
    mode: AskedMode


GivenLayers = Callable[[Graph], Hierarchy | None]
"""Lays clusters that were made elsewhere over G0."""


@dataclass(frozen=True, slots=True)
class BaseGraph:
    """G0, what corrections and the schema, if there is one, did in it, and the index of its mentions, if the next build can use it."""

    graph: Graph
    corrections: CorrectionEffects
    schema: SchemaEffects | None
    mentions: MentionIndex | None


@dataclass(frozen=True, slots=True, eq=False)
class DraftBuild:
    """A built hierarchy that is not published yet, the G0 that it was built on, and why it was built in this mode."""

    built: BuiltHierarchy
    choice: ModeChoice
    base: BaseGraph


async def build_generation(
    stores: Stores,
    collection: str,
    report: ProgressReport,
    models: BuildModels = NO_MODELS,
    mode: AskedMode = "auto",
    job: str = "",
    given: GivenLayers | None = None,
    pending: PendingIndex | None = None,
) -> Generation:
    """Read chunks, merge all extracts into G0, build or update the layers, write their vectors and publish. ``job``
    is the id of the job that asks for it; ``given`` are layers that the first build keeps; ``pending`` holds vectors
    of chunks that the job has stored. Raises ``NotReady`` if the collection has no document."""
    with search_cycles_rarely(), ExitStack() as held:
        started = datetime.now(UTC)
        found = await require_documents(stores, collection)
        if found.generation is not None and mode != "rebuild" and not models.names():
            report = held.enter_context(hold_cycle_search(report))
        outdated = (await stores.documents.count_outdated(collection)).get(Method.MODEL, 0)
        run = BuildRun(stores, report, models, mode)
        fitted = await read_beside_embedding(run, found, pending)
        # Once more: new extracts have changed its revision.
        found = await require_documents(stores, collection)
        async with open_task_group() as group:

            def write_early(base: Graph, vectors: Vectors) -> None:
                if not fitted.embedder.shelves:
                    fitted.embedder.ahead.clear()  # windows are written, and only G0 is embedded beside them
                group.start_soon(write_entities_early, stores, found, fitted.embedder, base, vectors)

            drafted = await draft(run, found, fitted, given, write_early)
        schema = drafted.base.schema
        if schema is not None and outdated:
            left = (await stores.documents.count_outdated(collection)).get(Method.MODEL, 0)
            schema = replace(schema, read_again=outdated - left)
        publication = Publication(
            started,
            await anyio.to_thread.run_sync(compare, fitted.previous, drafted.built.hierarchy),
            since=found.generation.revision if found.generation else -1,
            job=job,
        )
        vectors = drafted.built.vectors
        finished = FinishedBuild(
            hierarchy=drafted.built.hierarchy,
            fitted=fitted,
            revision=found.revision,
            record=replace(describe_build(run, found, fitted, drafted), schema=schema),
            publication=publication,
            vectors={"entities": vectors[0], "aggregates": np.concatenate(vectors[1:])},
            mentions=drafted.base.mentions,
        )
        generation = await publish_build(stores, found, finished, report)
        if models.reading is None:
            with suppress(Busy):  # the next build without a model that reads does it
                await stores.documents.accept_heuristic(collection)
        return generation


async def read_beside_embedding(
    run: BuildRun, collection: Collection, pending: PendingIndex | None
) -> FittedChunks:
    """Embed the chunks and let a model read new ones at the same time: neither step depends on the other."""
    stores = run.stores
    reading: list[Progress] = []
    done: list[FittedChunks] = []

    def read(progress: Progress) -> None:
        reading[:] = [progress]
        run.report(progress)

    def beside(progress: Progress) -> None:
        run.report(reading[0] if reading else progress)

    async def embed() -> None:
        fitted = await fit(replace(run, report=beside), collection, stores.embedders)
        done.append(fitted)
        if pending is not None and pending.embedder is not None:
            fitted.embedder.take_over(pending.embedder, pending.vectors)
        inner, windows = fitted.embedder.inner, fitted.chunks.windows
        if not fitted.embedder.shelves:
            await write_windows_early(stores, collection, fitted.embedder, windows, beside)
            return
        fitted.embedder.take_over(
            inner, await embed_lacking(stores.documents, collection.name, inner, windows, beside)
        )
        await fitted.embedder.embed_ahead(windows, beside)

    async with open_task_group() as group:
        group.start_soon(embed)
        await read_chunks(replace(run, report=read), collection.name)
        reading.clear()
    return done[0]


async def require_documents(stores: Stores, collection: str) -> Collection:
    found = await stores.documents.collection(collection)
    if found is None or not found.documents:
        raise no_documents(collection)
    return found


async def read_chunks(run: BuildRun, collection: str, *, dry: bool = False) -> int:
    """Let the model read new chunks but of licences, those it failed to read and those it read with another schema, in an
    upgrade all heuristic ones; return how many. ``dry``: nothing is stored."""
    stores, models = run.stores, run.models
    if models.reading is None:
        return 0
    asked = await stores.documents.heuristic_chunks(collection, due=not models.upgrade)
    held = group((each.document_id, each) for each in asked)
    due = [each for chunks in held.values() if not is_licence(chunks) for each in chunks]
    if not dry:
        # What is not read now, for whatever reason, is asked for again by the next build.
        await stores.documents.ask_for(collection, [each.id for each in due])

    async def store(extracts: Sequence[Extract]) -> None:
        if not dry:
            await stores.documents.put_extracts(collection, extracts)

    def read(done: int, total: int) -> None:
        run.report(Progress("extract", done, total))

    found = await stores.documents.collection(collection)
    schema = await find_schema(stores, found) if found else None
    await extract_by_model(models.reading, due, store, read, gleaning=stores.settings.gleaning, schema=schema)
    return len(due)


async def fit(run: BuildRun, collection: Collection, embedders: EmbedderSource) -> FittedChunks:
    """Return the chunks of a collection with the embedder of the published build, if it serves, or a new one."""
    stores, mode = run.stores, run.mode
    run.report(Progress("fit", 0, collection.chunks))
    chunks = await index_chunks(stores, collection, anew=mode == "rebuild")
    before = collection.generation.embedder if collection.generation else ""
    kept = await keep_embedder(stores, embedders, collection, chunks.pending, mode)
    embedder, state, unknown = kept or (*await embedders.fit(chunks.windows, before), 0.0)
    # A rebuild looks at all rows, and makes good what is wrong with columns.
    read = read_hierarchy if mode == "rebuild" else open_hierarchy
    previous = await read(stores, collection.generation) if collection.generation else None
    reusing = await reuse_vectors(stores, collection.generation, previous, chunks, embedder)
    return FittedChunks(chunks, reusing, state, previous, unknown)


async def draft(
    run: BuildRun,
    collection: Collection,
    fitted: FittedChunks,
    given: GivenLayers | None = None,
    note_base: Callable[[Graph, Vectors], None] = lambda *_: None,
) -> DraftBuild:
    """Merge, describe, cluster and summarise; nothing is written. ``note_base`` gets G0 and its vectors if these need a new space."""
    stores, models, mode = run.stores, run.models, run.mode
    reused = fitted.previous.layers[0] if fitted.previous and mode != "rebuild" else None
    base = await base_graph(run, collection, fitted.chunks.heads, reused)
    summaries = await stores.replies.texts(collection.name, "summary")
    sentences = await stores.replies.texts(collection.name, "relation")
    sources = TextSources(
        models.writing,
        {id_: each.text for id_, each in summaries.items()},
        {id_: each.text["sentence"] for id_, each in sentences.items()},
        relates=models.reading is not None,
    )
    plan = plan_of(stores.settings)
    before = collection.generation
    adjacency = await stores.adjacencies.of(before) if before and fitted.previous else None
    previous = find_previous(fitted.previous, fitted.chunks.heads, adjacency)
    choice = choose_mode(mode, base.graph, previous, before, plan, fitted.embedder.identity)
    if given is not None and previous is None:
        previous = find_previous(given(base.graph), fitted.chunks.heads)
        if previous is not None:
            choice = ModeChoice("update", "it keeps the clusters of an import")
    if choice.mode == "update" and before and before.record.health:
        health = before.record.health
        plan = replace(plan, cluster_size=health.cluster_size, cap=health.cluster_cap)
    built = await build(
        base.graph,
        fitted.embedder,
        plan,
        progress=run.report,
        sources=sources,
        previous=previous,
        mode=choice.mode,
        name_keys=base.mentions.keys_by_name() if base.mentions else {},
        note_base=partial(note_base, base.graph) if choice.mode == "rebuild" else lambda _: None,
    )
    return DraftBuild(built, choice, base)


async def base_graph(
    run: BuildRun, collection: Collection, chunks: Sequence[ChunkHead], previous: Graph | None = None
) -> BaseGraph:
    """Merge all extracts into G0, by the schema and with corrections, and let the model condense long
    descriptions; what is the same as in the ``previous`` G0 is taken over."""
    stores, models = run.stores, run.models
    run.report(Progress("merge", 0, collection.chunks))
    schema = await stores.documents.schema(collection.name)
    held = await _find_previous_merge(stores, collection, previous, indexed=schema is None)
    corrections = await stores.corrections.find_all(collection.name)
    overlong: list[LongDescription] = []
    effects: list[CorrectionEffects] = []
    documents = len({each.document_id for each in chunks})
    for last in (False, False, True):
        source, applied = await read_extracts(stores, collection.name, documents, schema)
        work = partial(
            merge_source,
            source,
            report=run.report,
            overlong=overlong.append,
            corrections=corrections,
            note_effects=effects.append,
            previous=held,
        )
        try:
            merged = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
            break
        except Busy:
            if last:
                raise
            overlong.clear()
            effects.clear()
    base = merged.graph
    if not base.entities:
        # A text of a few plain words has no names: without any entity the collection could not be built.
        numbers = [each.id for each in chunks if each.number == 1]
        openings = await stores.documents.chunks(collection.name, numbers)
        named = [Extract(each.id, Method.HEURISTIC, find_key_words(each.text)) for each in openings]
        base = merge_source(ExtractSource.of(named)).graph
    by_agents = await descriptions_by_agents(stores, collection.name, base)
    asked = [each for each in overlong if each.id not in by_agents]
    if models.writing is not None and models.reading is not None and asked:
        by_model = await describe_by_model(
            models.writing, base, asked, lambda done, total: run.report(Progress("describe", done, total))
        )
        base = apply_descriptions(base, by_model)
    base = apply_descriptions(base, by_agents, Method.AGENT)
    index = merged.mark_described(base).index if schema is None and merged.graph.entities else None
    return BaseGraph(base, effects[0], applied, index)


async def _find_previous_merge(
    stores: Stores, collection: Collection, previous: Graph | None, *, indexed: bool
) -> PreviousMerge | None:
    """Return the ``previous`` G0, which is that of the published build, with the index of its mentions if that was kept."""
    if previous is None or collection.generation is None:
        return None
    arrays = await stores.adjacencies.find_arrays("mentions", collection.generation) if indexed else None
    return PreviousMerge(previous, MentionIndex.from_arrays(arrays) if arrays else None)


async def read_extracts(
    stores: Stores, collection: str, documents: int, schema: ExtractionSchema | None
) -> tuple[ExtractSource, SchemaEffects | None]:
    """Return what to merge, and what the ``schema``, if there is one, did to it. Reading raises ``Busy`` if it changed."""
    states = await stores.documents.extract_states(collection)

    async def fetch(rows: Sequence[int]) -> list[Extract]:
        places = list(dict.fromkeys(states[row][:2] for row in rows))
        found: dict[ExtractState, Extract] = {}
        for start in range(0, len(places), 2000):  # the rows of many take as much memory as what is read
            found |= await stores.documents.extracts_at(collection, places[start : start + 2000])
        if any(states[row] not in found for row in rows):
            raise Busy("Extractions were handed in while they were read.", "Build again.")
        return [found[states[row]] for row in rows]

    if schema is None:
        return ExtractSource(states, lambda rows: anyio.from_thread.run(fetch, rows), documents), None
    extracts, applied = await anyio.to_thread.run_sync(conform, await fetch(range(len(states))), schema)
    return ExtractSource(states, lambda rows: [extracts[row] for row in rows], documents), applied


async def descriptions_by_agents(stores: Stores, collection: str, base: Graph) -> dict[str, Description]:
    """Return what agents wrote of entities of G0, by id. Left out is what rests on chunks of another entity, after a split."""
    texts = await stores.replies.texts(collection, "description")
    numbers = [number for number in find_rows(base.entities, [*texts]) if number >= 0]
    mentions = {each.id: frozenset(each.chunk_ids) for each in select_rows(base.entities, numbers)}
    return {
        id_: Description(each.text["description"], tuple(Evidence(*part) for part in each.text["evidence"]))
        for id_, each in texts.items()
        if mentions.get(id_, frozenset()).issuperset(each.chunk_ids)
    }


def describe_build(
    run: BuildRun, collection: Collection, fitted: FittedChunks, drafted: DraftBuild
) -> BuildRecord:
    """Return the record that is stored beside the hierarchy, but for the vectors and the schema."""
    built, choice = drafted.built, drafted.choice
    before = collection.generation.record if collection.generation is not None else BuildRecord()
    tightness = built.health.layers[0].tightness
    if choice.mode == "update" and collection.generation is not None:
        tightness = before.history.tightness
    record = BuildRecord(
        embedder=run.stores.embedders.name,
        latin=fitted.chunks.is_mostly_latin(),
        health=built.health,
        tau=run.stores.settings.tau,
        models=run.models.names(),
        methods=count_methods(built.hierarchy),
        stale=count_stale(built.hierarchy),
        corrections=drafted.base.corrections,
    )
    reason, lost = choice.reason, before.written - record.written
    if lost > 0:
        gone = count_things(lost, "written summary", "written summaries")
        reason += f"; {gone} found no cluster with enough of the same members"
    return replace(record, history=BuildHistory(choice.mode, reason, choice.moved, tightness, fitted.unknown))


# --- before a build ------------------------------------------------------------------------


async def forecast_build(
    stores: Stores, collection: str, order: BuildRequest, report: ProgressReport
) -> Forecast:
    """Return what a build of this order would request of its models, by step, from a dry run. With chunks to
    read, later steps are ranges: a model finds other entities than heuristics."""
    found = await require_documents(stores, collection)
    async with open_forecast_models(stores, collection, order) as (models, counting):
        unread = 0
        if counting:
            run = BuildRun(stores, report, models, order.mode)
            unread = await read_chunks(run, collection, dry=True)
            await draft(run, found, await fit(run, found, dry_embedders(stores)))
        steps = [each for model in counting for each in await model.forecast()]
        gleaning = stores.settings.gleaning
        looks = [replace(each, step=GLEANING) for each in steps if each.step == READING and gleaning]
        # Models find between a tenth (terse text) and about one and a half times of the entities that the heuristics
        # find: the steps after reading take so much of what is counted before reading.
        return Forecast(
            documents=found.documents,
            chunks=found.chunks,
            steps=(
                *(
                    step_range(each, (1, 1) if not unread or each.step == READING else (0.1, 1.7))
                    for each in steps
                ),
                # Whether a second look is needed depends on what the first one finds. Its input is that of the first
                # one and what was found: 1.2 times as much, by reading.
                *(step_range(each, (0, gleaning * 1.2)) for each in looks),
            ),
            exact=not unread and not looks,
            guessed=tuple(sorted({each.step for each in (*steps, *looks) if each.guessed})),
            models=models.names(),
        )


def dry_embedders(stores: Stores) -> EmbedderSource:
    """Return the source of embedders for a dry run: the configured one, but the fitted one if that is a paid service."""
    if stores.embedders.name.startswith("litellm/"):
        return embedder_source(stores.settings.model_copy(update={"embedder": "fitted"}))
    return stores.embedders


def step_range(step: StepForecast, shares: tuple[float, float]) -> StepRange:
    """Return the figures of a step at the least and at the greatest share of what was counted."""

    def span(count: int) -> tuple[int, int]:
        low, high = (round(share * count) for share in shares)
        return low, high

    low, high = shares
    return StepRange(
        step.step,
        calls=span(step.calls),
        input_tokens=span(step.prompt_tokens),
        output_tokens=span(step.completion_tokens),
        cost=None if step.cost is None else (round(low * step.cost, 4), round(high * step.cost, 4)),
    )


def plan_of(settings: Settings) -> HierarchyOptions:
    return HierarchyOptions(
        cluster_size=settings.cluster_size,
        cap=settings.cluster_cap or None,
        tau=settings.tau,
        relation_calls=settings.relation_calls,
        batch=settings.llm_batch,
        clustering=ClusteringOptions(ClusteringMethod(settings.clustering)),
    )
