"""Write and read jobs: their requests, owners, progress and results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select, update

from leanrag_engine.core.jobs import (
    BuildRequest,
    BuildResult,
    CopyRequest,
    CopyResult,
    DeleteCollectionRequest,
    DeleteRequest,
    DeleteResult,
    Forecast,
    ImportCounts,
    ImportRequest,
    ImportResult,
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
    ReindexResult,
    RollbackRequest,
    RollbackResult,
    StepRange,
)
from leanrag_engine.core.model import CorrectionEffects, DocumentSource, LayerCount, Spent

from .schema.records import expect_fields, schema_effects_from_json
from .schema.tables import jobs

FINISHED = [status.value for status in JobStatus if status.finished]
_NEWEST = (jobs.c.created_at.desc(), jobs.c.number.desc())
REQUESTS: Mapping[str, Callable[..., JobRequest]] = {
    "reindex": ReindexRequest,
    "rollback": RollbackRequest,
    "copy": CopyRequest,
    "delete_collection": DeleteCollectionRequest,
}
"""Requests that are stored by the names of their fields, by the kind of the job; of the other kinds, a build."""

_INGEST_OPTIONS = ("build", "allowed", "sync", "allow_empty", "dry_run")


def put(connection: Connection, job: Job) -> None:
    """Insert the job, or overwrite all but ``cancel_requested``, which only ``request_cancel`` sets."""
    values = {name: getattr(job, name) for name in Job.__dataclass_fields__} | {
        "status": job.status.value,
        "request": _request_to_json(job.request),
        "failures": [asdict(each) for each in job.failures],
        "result": _result_to_json(job),
    }
    del values["attempts"], values["reached"]
    cancel_requested = values.pop("cancel_requested")
    # A request may contain megabytes of text: it is written when the job is inserted and when it ends.
    updated = {name: value for name, value in values.items() if name != "request" or job.status.finished}
    changed = connection.execute(update(jobs).where(jobs.c.id == job.id).values(updated))
    if not changed.rowcount:
        connection.execute(insert(jobs).values(cancel_requested=cancel_requested, **values))


def put_progress(connection: Connection, job: Job) -> None:
    """Overwrite what has a fixed size: results and failures grow with the documents of a job."""
    values = {
        name: getattr(job, name) for name in ("stage", "done", "total", "rate", "message", "updated_at")
    }
    statement = update(jobs).where(jobs.c.id == job.id)
    connection.execute(statement.values(status=job.status.value, **values))


def find_state(connection: Connection, id_: str) -> JobState | None:
    columns = [jobs.c[each.name] for each in fields(JobState)]
    row = connection.execute(select(*columns).where(jobs.c.id == id_)).mappings().first()
    return JobState(**{**row, "status": JobStatus(row["status"])}) if row else None


def find(connection: Connection, id_: str) -> Job | None:
    row = connection.execute(select(jobs).where(jobs.c.id == id_)).mappings().first()
    return _job(row) if row else None


def find_newest(connection: Connection, collection: str | None, limit: int) -> list[Job]:
    statement = select(jobs).order_by(*_NEWEST).limit(max(limit, 0))
    if collection is not None:
        statement = statement.where(jobs.c.collection == collection)
    return [_job(row) for row in connection.execute(statement).mappings()]


def find_unfinished(connection: Connection) -> list[Job]:
    """Return queued and running jobs, newest first."""
    statement = select(jobs).where(jobs.c.status.not_in(FINISHED)).order_by(*_NEWEST)
    return [_job(row) for row in connection.execute(statement).mappings()]


def claim(connection: Connection, id_: str, seen_owner: str, new_owner: str) -> bool:
    """Set the owner if it still is ``seen_owner``; return whether this succeeded.

    Of several callers that saw the same owner, exactly one succeeds.
    """
    unchanged = (jobs.c.id == id_) & (jobs.c.owner == seen_owner) & jobs.c.status.not_in(FINISHED)
    # Another process that is just claiming it has locked the row: this one does not wait for it.
    free = select(jobs.c.number).where(unchanged).with_for_update(skip_locked=True)
    number = connection.execute(free).scalar()
    if number is None:
        return False
    values = {"owner": new_owner, "status": JobStatus.QUEUED.value}
    connection.execute(update(jobs).where(jobs.c.number == number).values(values))
    return True


def request_cancel(connection: Connection, id_: str) -> JobStatus | None:
    """Request that the job is cancelled, unless it is finished; return its status, ``None`` if it does not exist."""
    status = connection.execute(select(jobs.c.status).where(jobs.c.id == id_)).scalar()
    if status is None:
        return None
    if status not in FINISHED:
        connection.execute(update(jobs).where(jobs.c.id == id_).values(cancel_requested=True))
    return JobStatus(status)


def _job(row: RowMapping) -> Job:
    values: dict[str, Any] = {**row}
    del values["number"]
    with expect_fields():
        values |= {
            "status": JobStatus(row["status"]),
            "failures": tuple(JobFailure(**each) for each in row["failures"]),
            "request": _request_from_json(row["kind"], row["request"]),
            **_result_from_json(row["kind"], row["result"]),
        }
        return Job(**values)


def _request_to_json(request: JobRequest) -> dict[str, Any]:
    match request:
        case IngestRequest():
            sources = [
                {name: getattr(each, name) for name in DocumentSource.__dataclass_fields__}
                | {"metadata": dict(each.metadata)}
                for each in request.documents
            ]
            options = {name: getattr(request, name) for name in _INGEST_OPTIONS}
            return {"documents": sources, **options}
        case BuildRequest() | ReindexRequest() | ImportRequest():
            return asdict(request)
        case DeleteRequest(ids):
            return {"document_ids": [*ids]}
        case RollbackRequest(number):
            return {"number": number}
        case CopyRequest(target):
            return {"target": target}
    return {}


def _request_from_json(kind: str, stored: Mapping[str, Any]) -> JobRequest:
    match kind:
        case "ingest":
            allowed = stored["allowed"]
            options = {name: stored[name] for name in _INGEST_OPTIONS} | {
                "allowed": None if allowed is None else tuple(allowed)
            }
            return IngestRequest(tuple(DocumentSource(**each) for each in stored["documents"]), **options)
        case "import":
            allowed = stored["allowed"]
            return ImportRequest(**{**stored, "allowed": None if allowed is None else tuple(allowed)})
        case "delete":
            return DeleteRequest(tuple(stored["document_ids"]))
    return REQUESTS.get(kind, BuildRequest)(**stored)


def _result_to_json(job: Job) -> dict[str, Any]:
    """Return the column ``result``: the figures of the result beside what resuming needs to know."""
    resumed = {"attempts": job.attempts, "reached": job.reached} if job.reached >= 0 else {}
    return {**resumed, **(job.result.figures() if job.result else {})}


def _result_from_json(kind: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of ``Job`` that the column ``result`` holds."""
    figures = dict(stored)
    resumed: dict[str, Any] = {name: figures.pop(name) for name in ("attempts", "reached") if name in figures}
    return {**resumed, "result": _figures_to_result(kind, figures) if figures else None}


def _figures_to_result(kind: str, figures: Mapping[str, Any]) -> JobResult:
    result: JobResult
    match kind:
        case "ingest":
            documents = tuple(IngestOutcome(**each) for each in figures.get("documents", ()))
            build = _figures_to_build(figures) if "generation" in figures else None
            skipped = _read_left_out(figures.get("skipped", ()))
            result = IngestResult(
                documents, figures.get("built"), build, skipped, figures.get("dry_run", False)
            )
        case "import":
            result = ImportResult(
                figures["format"],
                ImportCounts(**figures["found"]),
                ImportCounts(**figures["taken"]),
                figures["changed"],
                _read_left_out(figures["remarks"]),
                figures["built"],
                _figures_to_build(figures) if "generation" in figures else None,
            )
        case "copy":
            result = CopyResult(**figures)
        case "delete" | "delete_collection":
            result = DeleteResult(**figures)
        case "reindex":
            result = ReindexResult(figures)
        case "rollback":
            layers = tuple(LayerCount(**each) for each in figures["layers"])
            result = RollbackResult(figures["generation"], figures["restored"], layers, figures["pending"])
        case "forecast":
            result = Forecast(
                figures["documents"],
                figures["chunks"],
                tuple(_step_from_json(each) for each in figures["steps"]),
                figures["exact"],
                tuple(figures["guessed"]),
                figures["models"],
            )
        case _:
            result = _figures_to_build(figures)
    return result


def _read_left_out(stored: Iterable[Mapping[str, Any]]) -> tuple[LeftOut, ...]:
    return tuple(LeftOut(each["reason"], each["count"], tuple(each["examples"])) for each in stored)


def _figures_to_build(figures: Mapping[str, Any]) -> BuildResult:
    effects = figures.get("corrections", {})
    return BuildResult(
        figures["generation"],
        tuple(LayerCount(**each) for each in figures["layers"]),
        tuple(Spent(**each) for each in figures.get("spent", ())),
        figures["mode"],
        figures["reason"],
        figures["stale"],
        CorrectionEffects(tuple(effects.get("applied", ())), tuple(effects.get("without_effect", ()))),
        schema_effects_from_json(figures.get("schema")),
    )


def _step_from_json(stored: Mapping[str, Any]) -> StepRange:
    values: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in stored.items()
    }
    return StepRange(**values)
