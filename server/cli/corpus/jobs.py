"""``leanrag jobs``: list the jobs of the data folder, watch one, cancel one."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Annotated

import typer

from leanrag_engine.core.errors import NotFound

from ..options import DataDir, Json, Verbose
from ..running import end, follow_job, on_engine, print_report

if TYPE_CHECKING:
    from leanrag_engine.core.jobs import Job
    from leanrag_engine.engine import LeanRAG

app = typer.Typer(
    help="List the jobs, newest first; watch and cancel them.\n\nExample: `leanrag jobs`, then `leanrag jobs watch`",
    invoke_without_command=True,
)

Id = Annotated[
    str,
    typer.Argument(
        metavar="[JOB]", help="Its id; without: the newest that has not ended.", show_default=False
    ),
]


@app.callback()
def list_by_default(context: typer.Context, data_dir: DataDir = None, json: Json = False) -> None:
    """List the jobs, unless a command follows."""
    if context.invoked_subcommand is None:
        list_jobs(data_dir, json=json)


@app.command("list")
@on_engine(chosen=False, read_only=True)
async def list_jobs(engine: LeanRAG, json: Json = False) -> None:
    """List the last twenty jobs: when each began, its collection, and how far it is or how it ended."""
    from ...replies.work.jobs import JobReply, progress_line  # noqa: PLC0415 - heavy

    found = await engine.recent_jobs()
    if json:
        typer.echo(dumps({"jobs": [JobReply.from_engine(each).model_dump(mode="json") for each in found]}))
        return
    lines = [
        f"{each.created_at.astimezone():%Y-%m-%d %H:%M}  {each.kind} of collection {each.collection}. {progress_line(each.id, each)}"
        for each in found
    ]
    print_report("\n".join(lines or ["There is no job yet."]))


@app.command("watch")
@on_engine(chosen=False, read_only=True)
async def watch_job(engine: LeanRAG, id_: Id = "", verbose: Verbose = False, json: Json = False) -> None:
    """Show how far a job is, in whichever process it runs, until it ends. Ctrl-C ends only the watching."""
    job = await find_job(engine, id_)
    end(await follow_job(engine, job, verbose=verbose, watched=True), engine.settings, json=json)


@app.command("cancel")
@on_engine(chosen=False)
async def cancel_job(engine: LeanRAG, id_: Id = "") -> None:
    """Stop a job, in whichever process it runs. What it has finished is kept."""
    job = await engine.cancel_job((await find_job(engine, id_)).id)
    said = job.status.value if job.status.finished else "stopping"
    typer.echo(f"{job.id} ({job.kind} of collection {job.collection}): {said}.")


async def find_job(engine: LeanRAG, id_: str) -> Job:
    """Return the job, or the newest that has not ended. Raises ``NotFound``."""
    if id_:
        return await engine.job(id_)
    for job in await engine.recent_jobs():
        if not job.status.finished:
            return job
    raise NotFound("No job is running or waiting.", "`leanrag jobs` lists those that have ended.")
