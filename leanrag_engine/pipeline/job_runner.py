"""Run jobs in the background: stored before they start, cancellable from any process, resumed after a crash.
A job belongs to one process and holds the writer lock of the data folder while it works."""

import contextlib
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from leanrag_engine.core.errors import Cancelled, LeanRAGError, LockLost, NotFound
from leanrag_engine.core.jobs import (
    OF_SERVER,
    BuildRequest,
    DeleteRequest,
    IngestOutcome,
    IngestRequest,
    IngestResult,
    Job,
    JobFailure,
    JobRequest,
    JobResult,
    JobState,
    JobStatus,
    LeftOut,
    ReindexRequest,
)
from leanrag_engine.core.ports import Progress, WriterLock, report_holder
from leanrag_engine.core.runtime.telemetry import Activity, watch

if TYPE_CHECKING:
    from leanrag_engine.adapters.sql.stores import SqlJobStore

logger = logging.getLogger(__name__)

HEARTBEAT = timedelta(seconds=2)  # How often a running job's row is written even if nothing moved


SILENCE = timedelta(seconds=60)  # A job on another machine counts as dead after so long without an update

MOST_LOSSES = 3  # How often a job begins again because the writer lock was lost

END_PAUSES = (1, 5, 20, 60)  # Seconds to wait before each retry of writing how a job ended


@dataclass(slots=True)
class JobProgress:
    """Progress, outcomes and failures of a running job, for ``JobRunner`` to write. Thread-safe, cheap; ``report`` raises ``Cancelled`` on a stop."""

    latest: Progress = field(default_factory=lambda: Progress("queued"))
    outcomes: list[IngestOutcome] = field(default_factory=list)
    skipped: tuple[LeftOut, ...] = ()
    failures: list[JobFailure] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    scope: anyio.CancelScope | None = None
    """The scope that the work runs in: work that does not report for a while after a stop is cancelled."""
    activity: Activity | None = None
    """What telemetry is told of the job."""
    request: JobRequest | None = None
    """What the work began with: a deletion may have taken documents out of the request before."""

    began: tuple[float, int] = field(default_factory=lambda: (time.monotonic(), 0))
    """When the present stage began, and ``done`` at that time."""

    def report(self, progress: Progress) -> None:
        """Record the progress. Raises ``Cancelled`` if the work should stop."""
        if progress.stage != self.latest.stage or progress.done < self.latest.done:
            self.began = (time.monotonic(), progress.done)
        if self.activity and progress.stage != self.latest.stage:
            self.activity.enter(progress.stage)
        self.latest = progress
        self.check()

    @property
    def rate(self) -> float:
        """Units per second, over the whole present stage; 0 while the stage is too young."""
        seconds = time.monotonic() - self.began[0]
        young = 1.0
        return (self.latest.done - self.began[1]) / seconds if seconds >= young else 0.0

    def say(self, message: str) -> None:
        """Record what is done with the present unit of work. Raises ``Cancelled`` if the work should stop."""
        self.report(replace(self.latest, message=message))

    def check(self) -> None:
        """Raise ``Cancelled`` if the work should stop."""
        if self.stop.is_set():
            raise Cancelled(f"Stopped during {self.latest.stage}.", "What was finished before is kept.")

    def fail(self, what: str, error: str) -> None:
        self.failures.append(JobFailure(what, error))


Work = Callable[[Job, JobProgress], Awaitable[JobResult]]
"""Run one job to its end and return its result."""


def is_alive(job: JobState) -> bool:
    """Return whether the process that runs an unfinished job still exists."""
    pid, host, created, *_ = job.owner.split("@")
    if host != socket.gethostname():
        return datetime.now(UTC) - job.updated_at < SILENCE
    import psutil  # noqa: PLC0415 - as above

    try:
        return f"{psutil.Process(int(pid)).create_time():.2f}" == created
    except psutil.NoSuchProcess:
        return False


def is_abandoned(job: JobState) -> bool:
    """Return whether an unfinished job has no process: it was interrupted by a close, or its process is gone."""
    return job.status is JobStatus.INTERRUPTED or not is_alive(job)


AnyJob = TypeVar("AnyJob", bound=JobState)


def as_seen(job: AnyJob) -> AnyJob:
    """Return a job as interrupted if its process is gone, whatever its row says."""
    if job.status.finished or not is_abandoned(job):
        return job
    return replace(
        job,
        status=JobStatus.INTERRUPTED,
        message="Its process is gone; "
        + (
            "a server that starts on this data folder resumes the job."
            if job.resumes
            else "`leanrag build` finishes it, and so does the command that began it."
        ),
    )


def without_texts(request: JobRequest) -> JobRequest:
    """Return a request as a finished job keeps it: without documents given as texts and the ids of deleted ones."""
    match request:
        case IngestRequest(documents):
            return replace(request, documents=tuple(each for each in documents if each.text is None))
        case DeleteRequest():
            return DeleteRequest(())
    return request


class JobRunner:
    """The jobs of one process, on an event loop in a thread of their own: they outlive the call that
    submitted them, and queries do not wait for them."""

    def __init__(self, store: "SqlJobStore", lock: WriterLock, work: Work) -> None:
        self._store = store
        self._lock = lock
        self._work = work
        self._running: dict[str, JobProgress] = {}
        self._unwritten: dict[str, Job] = {}
        """Jobs that have ended, as long as their rows do not say so: on a full disk that may take until there is room."""
        self._turn = anyio.Lock()
        """Jobs of one process work in the order of their submission: a later one may replace what an earlier one stores."""
        self._portal: BlockingPortal | None = None
        self._serves = False
        self._closing = False
        self._exit = contextlib.ExitStack()

    @cached_property
    def _owner(self) -> str:
        """A name of this process that is unique over time and machines."""
        import psutil  # noqa: PLC0415 - reading starts no job

        process = f"{os.getpid()}@{socket.gethostname()}@{psutil.Process().create_time():.2f}"
        return process + (OF_SERVER if self._serves else "")

    async def submit(self, kind: str, collection: str, request: JobRequest) -> Job:
        """Store the job, then start it. A crash after this call does not lose it."""
        now = datetime.now(UTC)
        job = Job(
            id=f"job-{uuid.uuid4().hex[:12]}",
            kind=kind,
            collection=collection,
            status=JobStatus.QUEUED,
            request=request,
            owner=self._owner,
            created_at=now,
            updated_at=now,
            stage="queued",
        )
        await self._store.put(job)
        await self._start(job)
        return job

    async def state(self, job_id: str, wait_seconds: float = 0, collection: str | None = None) -> JobState:
        """Return how far a job is, after up to ``wait_seconds`` for its end. Raises ``NotFound``, also if it is not of ``collection``."""
        deadline, pause = anyio.current_time() + wait_seconds, 0.01
        while (state := self._unwritten.get(job_id) or await self._store.find_state(job_id)) is not None:
            left = deadline - anyio.current_time()
            elsewhere = collection not in (None, state.collection)
            if state.status.finished or left <= 0 or elsewhere or is_abandoned(state):
                break
            await anyio.sleep(min(pause, left))
            pause = min(1.5 * pause, 0.1)  # a small job takes a few hundredths of a second
        if state is None or collection not in (None, state.collection):
            raise await self._missing(job_id, collection)
        return as_seen(state)

    async def job(self, job_id: str, wait_seconds: float = 0, collection: str | None = None) -> Job:
        """Return the job, after waiting up to ``wait_seconds`` for its end. Raises ``NotFound`` as :meth:`state`."""
        await self.state(job_id, wait_seconds, collection)
        job = self._unwritten.get(job_id) or await self._store.find(job_id)
        if job is None:
            raise await self._missing(job_id, collection)
        return as_seen(job)

    async def _missing(self, job_id: str, collection: str | None) -> NotFound:
        known = [each.id for each in await self._store.find_newest(collection, limit=5)]
        listed = f"The latest jobs are {', '.join(known)}." if known else "There is no job yet."
        where = f" in collection {collection!r}" if collection is not None else ""
        return NotFound(f"There is no job {job_id!r}{where}.", listed)

    async def cancel(self, job_id: str, collection: str | None = None) -> Job:
        """Request a job to stop, in whichever process it runs, and wait briefly for that. Raises as :meth:`job`."""
        await self.job(job_id, 0, collection)
        if progress := self._running.get(job_id):
            # First, because while the job publishes, no other write to the store succeeds.
            progress.stop.set()
        await self._store.request_cancel(job_id)
        job = await self.job(job_id, wait_seconds=2)
        if job.status is JobStatus.INTERRUPTED:
            message, request = "Cancelled while no process ran it.", without_texts(job.request)
            job = replace(job, status=JobStatus.CANCELLED, message=message, request=request)
            await self._store.put(job)
        return job

    async def recent(self, collection: str | None = None, limit: int = 5) -> list[Job]:
        """Return jobs with their present status, newest first."""
        return [as_seen(job) for job in await self._store.find_newest(collection, limit)]

    async def resume(self, *, serves: bool = False) -> list[Job]:
        """Take over the jobs of processes that are gone, in their order. A job that crashed too often fails instead.

        ``serves``: this process is a server, which takes over only what a server began, and deletions: a person who gave
        another command up may not want it to go on.
        """
        self._serves = serves
        resumed = []
        for job in reversed(await self._store.find_unfinished()):
            if (
                (serves and not job.resumes)
                or not is_abandoned(job)
                or not await self._store.claim(job.id, job.owner, self._owner)
            ):
                continue
            # An attempt counts only if the process crashed and made no progress; a regular close does not count.
            crashed = job.status is not JobStatus.INTERRUPTED and job.done <= job.reached
            claimed = replace(
                job,
                status=JobStatus.QUEUED,
                owner=self._owner,
                message="",
                attempts=job.attempts + crashed,
                reached=job.done,
            )
            attempts = 3  # without progress
            if job.cancel_requested or claimed.attempts > attempts:
                await self._end_unrun(claimed)
                continue
            await self._start(claimed)
            resumed.append(claimed)
        return resumed

    async def close(self) -> None:
        """Stop all jobs of this process; they count as interrupted and can be resumed."""
        self._closing = True
        for progress in list(self._running.values()):
            progress.stop.set()
        portal, self._portal = self._portal, None
        if portal is not None:
            portal.start_task_soon(portal.stop, True)
            await anyio.to_thread.run_sync(self._exit.close)

    def run_beside(self, work: Callable[[], Awaitable[object]]) -> None:
        """Begin ``work`` on the event loop of the jobs. Nothing waits for it: its errors are logged, and ``close`` cancels it."""

        async def run() -> None:
            try:
                await work()
            except LeanRAGError as problem:
                logger.warning("Work beside the jobs failed: %s", problem)

        self._open_portal().start_task_soon(run)

    async def _end_unrun(self, job: Job) -> None:
        status, message = JobStatus.CANCELLED, "Cancelled before it was resumed."
        if not job.cancel_requested:
            status = JobStatus.FAILED
            message = f"Its process crashed {job.attempts - 1} times at the same place in {job.stage}; it is not tried again."
        request, now = without_texts(job.request), datetime.now(UTC)
        await self._store.put(replace(job, status=status, message=message, request=request, updated_at=now))

    async def _start(self, job: Job) -> None:
        self._running[job.id] = JobProgress()
        # From a worker thread: the portal cannot be called from its own event loop, where repairs submit jobs.
        await anyio.to_thread.run_sync(self._open_portal().start_task_soon, self._run, job)

    def _open_portal(self) -> BlockingPortal:
        if self._portal is None:
            self._portal = self._exit.enter_context(start_blocking_portal())
        return self._portal

    async def _run(self, job: Job) -> None:
        progress = self._running[job.id]
        last = replace(job, status=JobStatus.INTERRUPTED, message="Its process was closed.")
        try:
            async with self._keep_row(job, progress):
                with watch("job", job.kind) as progress.activity:
                    ended = await self._work_under_lock(job, progress)
                    if ended.status is not JobStatus.DONE:
                        progress.activity.fail(ended.status.value)
            last = replace(ended, request=without_texts(progress.request or ended.request))
            await self._write_end(self._complete(last, progress))
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._store.put(self._complete(last, progress))
            raise
        finally:
            self._unwritten.pop(job.id, None)
            del self._running[job.id]

    async def _work_under_lock(self, job: Job, progress: JobProgress) -> Job:
        """Run the job and return it with its end, whatever happens inside."""
        try:
            result = await self._hold_and_work(job, progress)
        except Cancelled as stopped:
            ended = JobStatus.INTERRUPTED if self._closing else JobStatus.CANCELLED
            return replace(job, status=ended, message=str(stopped))
        except LeanRAGError as problem:
            return replace(job, status=JobStatus.FAILED, message=str(problem))
        except Exception as bug:
            # A crash must reach the job's row as well as the log, or callers would wait forever.
            logger.exception("Job %s crashed", job.id)
            return replace(job, status=JobStatus.FAILED, message=f"Unexpected {type(bug).__name__}: {bug}")
        # The last message belongs to work that is finished now.
        progress.latest = replace(progress.latest, message="", done=progress.latest.total)
        return replace(job, status=JobStatus.DONE, message="", result=result)

    async def _hold_and_work(self, job: Job, progress: JobProgress) -> JobResult:
        """Do the work under the lock. What depends on the present state alone begins again where the lock was lost.
        Other work might undo what was done meanwhile: bring back a document that was deleted, say."""
        losses, purpose = 0, f"{job.kind} of collection {job.collection}"
        waiting = partial(report_holder, progress.report)
        while True:
            try:
                with anyio.CancelScope() as progress.scope:
                    if self._turn.locked():
                        waiting(await self._lock.holder())
                    async with self._turn, self._lock.hold(purpose, waiting=waiting):
                        if isinstance(job.request, IngestRequest) and (row := await self._store.find(job.id)):
                            job = replace(job, request=row.request)
                        progress.request = job.request
                        return await self._work(job, progress)
                progress.check()
            except LockLost as problem:
                losses += 1
                if losses > MOST_LOSSES or not isinstance(job.request, BuildRequest | ReindexRequest):
                    raise
                logger.warning("Job %s begins again: %s", job.id, problem)
                job = replace(job, reached=progress.latest.done)
                progress.failures.clear()

    @contextlib.asynccontextmanager
    async def _keep_row(self, job: Job, progress: JobProgress) -> AsyncIterator[None]:
        """Keep the job's row up to date and watch for a cancel request while the block runs."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._keep, job, progress)
            group.start_soon(self._enforce, progress)
            yield
            group.cancel_scope.cancel()

    async def _keep(self, job: Job, progress: JobProgress) -> None:
        written: Progress | None = None
        listed: tuple[int, int] | None = None  # outcomes and failures in the row
        last, next_list = datetime.now(UTC), time.monotonic()
        while True:
            seen, lists = progress.latest, (len(progress.outcomes), len(progress.failures))
            running = replace(job, status=JobStatus.RUNNING)
            try:
                if lists != listed and time.monotonic() >= next_list:
                    started = time.monotonic()
                    await self._store.put(self._complete(running, progress))
                    # Outcomes and failures grow with the job: writing all of them takes a twentieth of the time
                    # at most.
                    next_list = time.monotonic() + 20 * (time.monotonic() - started)
                    written, listed, last = seen, lists, datetime.now(UTC)
                elif seen != written or datetime.now(UTC) - last > HEARTBEAT:
                    await self._store.put_progress(self._with_progress(running, progress))
                    written, last = seen, datetime.now(UTC)
                state = await self._store.find_state(job.id)
                if state is not None and state.cancel_requested:
                    progress.stop.set()
            except LeanRAGError as problem:
                # A busy store must not end the work.
                logger.warning("Job %s could not write its progress: %s", job.id, problem)
            await anyio.sleep(0.25)

    @staticmethod
    async def _enforce(progress: JobProgress) -> None:
        """Cancel work that does not stop by itself within a second after a stop: by then it should have reported."""
        while not progress.stop.is_set():  # noqa: ASYNC110 - it is set from any thread
            await anyio.sleep(0.1)
        await anyio.sleep(1.0)
        if progress.scope is not None:
            progress.scope.cancel()

    async def _write_end(self, ended: Job) -> None:
        """Write how the job ended, as soon as the store takes it: no other process knows it."""
        pauses = chain(END_PAUSES, repeat(END_PAUSES[-1]))
        while True:
            try:
                return await self._store.put(ended)
            except LeanRAGError as problem:
                self._unwritten[ended.id] = ended
                logger.warning("Job %s could not write its end: %s", ended.id, problem)
                await anyio.sleep(next(pauses))

    def _complete(self, job: Job, progress: JobProgress) -> Job:
        """Return the job with all that its row says of its progress."""
        result = job.result
        if progress.outcomes or progress.skipped:
            ingest = result if isinstance(result, IngestResult) else IngestResult()
            result = replace(ingest, documents=tuple(progress.outcomes), skipped=progress.skipped)
        return replace(self._with_progress(job, progress), failures=tuple(progress.failures), result=result)

    @staticmethod
    def _with_progress(job: Job, progress: JobProgress) -> Job:
        latest = progress.latest
        waits = latest.stage in ("queued", "waiting") and job.status is JobStatus.RUNNING
        return replace(
            job,
            status=JobStatus.QUEUED if waits else job.status,
            stage=latest.stage,
            done=latest.done,
            total=latest.total,
            rate=round(progress.rate, 3),
            message=job.message or latest.message,
            updated_at=datetime.now(UTC),
        )


async def find_running(store: "SqlJobStore", collection: str) -> Job | None:
    """Return an unfinished job of the collection whose process lives."""
    jobs = [each for each in await store.find_unfinished() if each.collection == collection]
    return next((each for each in jobs if not is_abandoned(each)), None)


async def find_later_documents(store: "SqlJobStore", job: Job) -> frozenset[str]:
    """Return the ids of the documents that jobs after an interrupted one have ingested; none where jobs run in their order."""
    newest = await store.find_newest(job.collection, limit=1000) if job.reached >= 0 else []
    later = [each for job_ in newest if job_.created_at > job.created_at for each in job_.documents]
    return frozenset(each.id for each in later if each.status != "failed")
