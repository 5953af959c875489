"""Do the work of a job: one function of the pipeline for each type of request."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from leanrag_engine.core import jobs
from leanrag_engine.core.errors import StoreUnreachable

from .index import Stores
from .job_runner import JobProgress, find_later_documents
from .pending import PendingIndex
from .repair import rebuild_vectors, repair_first
from .snapshots import Snapshots

if TYPE_CHECKING:
    from .building.generation import GivenLayers

# What only some jobs need is imported where it is used: clustering takes a second to import.


class Dispatcher:
    """Runs jobs, which hold the writer lock."""

    def __init__(self, stores: Stores, snapshots: Snapshots) -> None:
        self._stores = stores
        self._snapshots = snapshots

    async def run(self, job: jobs.Job, progress: JobProgress) -> jobs.JobResult:
        """Do the work of a job. A collection that never held anything is gone at the end."""
        async with self._snapshots.write(job.collection, anew=isinstance(job.request, jobs.ReindexRequest)):
            try:
                return await self._run(job, progress)
            finally:
                await self._stores.documents.drop_unused(job.collection)

    async def _run(self, job: jobs.Job, progress: JobProgress) -> jobs.JobResult:  # noqa: PLR0911 - one for each type of request
        stores, name, report = self._stores, job.collection, progress.report
        match job.request:
            case jobs.DeleteRequest(ids):
                from .delete import delete_documents

                # What was ingested again since the interrupted deletion was asked for stays.
                later = await find_later_documents(stores.jobs, job)
                return await delete_documents(stores, name, sorted({*ids} - later), report, job.created_at)
            case jobs.RollbackRequest(number):
                from .building.publishing import roll_back

                return await roll_back(stores, await self._snapshots.collection(name), number, report)
            case jobs.CopyRequest(target):
                from .building.publishing import copy_collection

                held = await self._snapshots.collection(name)
                return await copy_collection(stores, held, target, report, resumed=job.reached >= 0)
            case jobs.DeleteCollectionRequest():
                from .delete import delete_collection

                return await delete_collection(stores, name, job, report)
            case jobs.ReindexRequest(damaged_only):
                return await rebuild_vectors(stores, name, report, damaged_only=damaged_only)
            case jobs.IngestRequest() as request:
                # Another job that found nothing may have dropped it since this one was submitted.
                await stores.documents.create_collection(name)
                return await self._ingest(job, request, progress)
            case jobs.ImportRequest() as request:
                await stores.documents.create_collection(name)
                return await self._import(job, request, progress)
            case jobs.BuildRequest() as order if job.kind == "forecast":
                from .building.generation import forecast_build

                return await forecast_build(stores, name, order, report)
            case jobs.BuildRequest() as order:
                return await self._build(job, order, progress)

    async def _ingest(
        self, job: jobs.Job, request: jobs.IngestRequest, progress: JobProgress
    ) -> jobs.IngestResult:
        from .ingest.run import ingest_all

        if not request.dry_run:
            with suppress(StoreUnreachable):  # documents go in all the same
                await repair_first(self._stores, job.collection, progress.report)
        index = await PendingIndex.open(self._stores, job.collection)
        later = await find_later_documents(self._stores.jobs, job)
        changed = await ingest_all(self._stores, job.collection, request, progress, index, later)
        held = await self._snapshots.collection(job.collection)
        if request.dry_run or not (request.build and held.documents and (changed or held.stale)):
            return jobs.IngestResult(built=not held.stale, dry_run=request.dry_run)
        return jobs.IngestResult(
            built=True, build=await self._build(job, jobs.BuildRequest(), progress, index)
        )

    async def _import(
        self, job: jobs.Job, request: jobs.ImportRequest, progress: JobProgress
    ) -> jobs.ImportResult:
        from .ingest.importing import import_graph

        with suppress(StoreUnreachable):  # the documents go in all the same
            await repair_first(self._stores, job.collection, progress.report)
        held = await self._snapshots.collection(job.collection)
        index = await PendingIndex.open(self._stores, job.collection)
        result, layers = await import_graph(self._stores, held, request, progress.report, index)
        held = await self._snapshots.collection(job.collection)
        if not request.build or not held.stale:
            return replace(result, built=not held.stale)
        build = await self._build(job, jobs.BuildRequest(), progress, index, layers)
        return replace(result, built=True, build=build)

    async def _build(
        self,
        job: jobs.Job,
        order: jobs.BuildRequest,
        progress: JobProgress,
        index: PendingIndex | None = None,
        given: GivenLayers | None = None,
    ) -> jobs.BuildResult:
        from .building.generation import build_generation
        from .building.models import open_models

        await repair_first(self._stores, job.collection, progress.report)
        async with open_models(self._stores, job.collection, job.id, order) as models:
            generation = await build_generation(
                self._stores, job.collection, progress.report, models, order.mode, job.id, given, index
            )
            for step, reason, count in models.fallbacks():
                progress.fail(step, f"{count} left heuristic: {reason}")
        spent = await self._stores.replies.spending(job.collection, job.id)
        record = generation.record
        return jobs.BuildResult(
            generation=generation.number,
            layers=generation.layers,
            spent=tuple(spent),
            mode=record.history.mode,
            reason=record.history.reason,
            stale=record.stale,
            corrections=record.corrections,
            schema=record.schema and record.schema.shorten(8),
        )
