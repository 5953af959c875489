"""Write and read jobs: their requests, owners, progress and results."""

from dataclasses import fields

from sqlalchemy import Connection, RowMapping, insert, select, update

from leanrag_engine.core.jobs import KINDS, Job, JobFailure, JobState, JobStatus, plain

from .schema.tables import from_json, jobs

FINISHED = [status.value for status in JobStatus if status.finished]
_NEWEST = (jobs.c.created_at.desc(), jobs.c.number.desc())


def put(connection: Connection, job: Job) -> None:
    """Insert the job, or overwrite all of it but ``cancel_requested``."""
    values = {name: getattr(job, name) for name in Job.__dataclass_fields__} | {
        "status": job.status.value,
        "result": plain(job.result) if job.result else {},
    }
    if job.reached >= 0:  # what resuming needs to know
        values["result"] = {"attempts": job.attempts, "reached": job.reached, **values["result"]}
    del values["attempts"], values["reached"]
    cancel_requested = values.pop("cancel_requested")
    # A request may contain megabytes of text: it is written when the job is inserted and when it ends.
    updated = {name: value for name, value in values.items() if name != "request" or job.status.finished}
    if not connection.execute(update(jobs).where(jobs.c.id == job.id).values(updated)).rowcount:
        connection.execute(insert(jobs).values(cancel_requested=cancel_requested, **values))


def put_progress(connection: Connection, job: Job) -> None:
    """Overwrite status, progress and message of a job, without what grows with its documents."""
    values = {
        name: getattr(job, name) for name in ("stage", "done", "total", "rate", "message", "updated_at")
    }
    connection.execute(update(jobs).where(jobs.c.id == job.id).values(status=job.status.value, **values))


def find_state(connection: Connection, id_: str) -> JobState | None:
    """Return the state of a job, which costs the same however large the job is."""
    columns = [jobs.c[each.name] for each in fields(JobState)]
    row = connection.execute(select(*columns).where(jobs.c.id == id_)).mappings().first()
    return JobState(**{**row, "status": JobStatus(row["status"])}) if row else None


def find(connection: Connection, id_: str) -> Job | None:
    row = connection.execute(select(jobs).where(jobs.c.id == id_)).mappings().first()
    return _job(row) if row else None


def find_newest(connection: Connection, collection: str | None = None, limit: int = 20) -> list[Job]:
    """Return jobs, newest first."""
    statement = select(jobs).order_by(*_NEWEST).limit(max(limit, 0))
    if collection is not None:
        statement = statement.where(jobs.c.collection == collection)
    return [_job(row) for row in connection.execute(statement).mappings()]


def find_unfinished(connection: Connection) -> list[Job]:
    """Return queued and running jobs, newest first."""
    statement = select(jobs).where(jobs.c.status.not_in(FINISHED)).order_by(*_NEWEST)
    return [_job(row) for row in connection.execute(statement).mappings()]


def claim(connection: Connection, id_: str, seen_owner: str, new_owner: str) -> bool:
    """Take over an unfinished job and queue it, if its owner still is ``seen_owner``; False otherwise."""
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
    """Set ``cancel_requested``; return the job's status, ``None`` if the job does not exist."""
    status = connection.execute(select(jobs.c.status).where(jobs.c.id == id_)).scalar()
    if status is None:
        return None
    if status not in FINISHED:
        connection.execute(update(jobs).where(jobs.c.id == id_).values(cancel_requested=True))
    return JobStatus(status)


def _job(row: RowMapping) -> Job:
    values = {name: row[name] for name in Job.__dataclass_fields__ if name in row}
    (asked, done), figures = KINDS[row["kind"]], dict(row["result"])
    resumed = {name: figures.pop(name) for name in ("attempts", "reached") if name in figures}
    values |= {
        "status": JobStatus(row["status"]),
        "failures": tuple(JobFailure(**each) for each in row["failures"]),
        "request": from_json(asked, row["request"]),
        "result": from_json(done, figures, whole=False) if figures else None,
    }
    return Job(**values, **resumed)
