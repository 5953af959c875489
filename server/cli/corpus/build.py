"""``leanrag build``, ``reindex``, ``history`` and ``rollback``: the hierarchy, its generations, and the vector index beside it;
and ``leanrag jobs``: list the jobs of the data folder, watch one, cancel one."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Annotated

import typer

from leanrag_engine.core.errors import NotFound

from ..options import CollectionOption, DataDir, Json, Verbose, is_followed
from ..running import end, follow_job, on_engine, print_report, read_settings, run_long

if TYPE_CHECKING:
    from leanrag_engine.core.jobs import Job
    from leanrag_engine.engine import LeanRAG

KEPT = (
    "Readers see the previous hierarchy until a build is finished; replies of the model are kept and not paid for twice."
    " The same command builds again."
)
"""What Ctrl-C leaves of a build."""

KEPT_INDEX = "Vectors that were written are kept. The same command writes the rest."
"""What Ctrl-C leaves of a rewritten index."""

KEPT_ROLLBACK = "Readers see the same hierarchy as before. The same command rolls back again."
"""What Ctrl-C leaves of a rollback: it is published in one transaction."""


def build(
    mode: Annotated[
        str,
        typer.Option(
            help="update (keep the clusters of the last build), rebuild (cluster everything again), or auto: by how much"
            " has changed."
        ),
    ] = "auto",
    upgrade: Annotated[
        bool,
        typer.Option("--upgrade", help="Let the model also read chunks that were extracted without one."),
    ] = False,
    summaries_only: Annotated[
        bool,
        typer.Option("--summaries-only", help="Let the model write summaries of clusters and nothing else."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only forecast model calls, tokens and cost, by step.")
    ] = False,
    max_calls: Annotated[
        int | None, typer.Option(min=1, help="Most model calls; what is left stays heuristic.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Most tokens of model calls, in and out.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(min=0.000001, help="Most US dollars for model calls.")
    ] = None,
    clustering: Annotated[
        str | None, typer.Option(help="gmm (by meaning) or leiden (by relations).", show_default="gmm")
    ] = None,
    cluster_size: Annotated[
        int | None, typer.Option(min=2, help="Mean members of a cluster.", show_default="20")
    ] = None,
    verbose: Verbose = False,
    data_dir: DataDir = None,
    collection: CollectionOption = None,
    json: Json = False,
) -> None:
    """Build the hierarchy from everything ingested and publish it. Readers see the old one until then.

    Jobs whose process was killed are finished first. With a chat model (LEANRAG_LLM_MODEL) it reads new documents and writes summaries and relations, within the
    caps; every reply is cached, so none is paid for twice.

    Example: `leanrag build --dry-run`, then `leanrag build --max-cost 2`
    """

    async def work(engine: LeanRAG) -> None:
        from leanrag_engine.core.jobs import BuildRequest  # noqa: PLC0415 - heavy
        from leanrag_engine.pipeline.building.modes import parse_mode  # noqa: PLC0415 - heavy

        if not dry_run:
            # The jobs whose process was killed.
            for left in await engine.resume_jobs():
                said = f"Finishing {left.id} ({left.kind} of {left.collection}), which was interrupted …"
                typer.echo(said, err=True)
                await follow_job(engine, left, verbose=verbose)
        order = BuildRequest(upgrade, max_calls, max_tokens, max_cost, parse_mode(mode))
        job = await engine.submit_build(collection=engine.settings.collection, order=order, dry_run=dry_run)
        job = await follow_job(engine, job, verbose=verbose)
        same = ["build", *(["--summaries-only"] if summaries_only else [])]
        end(job, engine.settings, json=json, following=same if dry_run else ["query", "QUESTION"])

    if upgrade and summaries_only:
        raise typer.BadParameter("--upgrade reads everything, --summaries-only reads nothing: give one.")
    more = {"clustering": clustering, "cluster_size": cluster_size}
    more |= {"llm_writes": "summaries"} if summaries_only else {}
    run_long(read_settings(data_dir, collection, **more), work, KEPT)


@on_engine(KEPT_INDEX)
async def reindex(engine: LeanRAG, verbose: Verbose = False, json: Json = False) -> None:
    """Rebuild the vector store from the graph store, e.g. after its folder was lost or damaged."""
    job = await engine.submit_reindex(collection=engine.settings.collection)
    end(await follow_job(engine, job, verbose=verbose), engine.settings, json=json)


@on_engine(read_only=True)
async def history(
    engine: LeanRAG,
    since: Annotated[
        str, typer.Option(help="A generation or an ISO date: show what changed since then.", metavar="WHEN")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, help="Most generations that are listed.")] = 20,
    json: Json = False,
) -> None:
    """List the generations of a collection, newest first: what changed, why, and what it cost.

    Example: `leanrag history --since 2026-01-31`
    """
    from ...replies.changes import GenerationCard, HistoryReply  # noqa: PLC0415 - heavy

    named = engine.settings.collection
    entries = (await engine.history(collection=named))[:limit]
    if since:
        changes = await engine.changes(since, collection=named)
        reply = HistoryReply.from_engine(changes, entries, engine.count_tokens)
        print_report(reply.model_dump_json() if json else "\n".join(reply.to_lines()), json=json)
        return
    cards = [GenerationCard.from_engine(each) for each in entries]
    shown = "\n".join(each.to_line() for each in cards) or "There is no build yet: leanrag build."
    listed = {"generations": [each.model_dump() for each in cards]}
    print_report(dumps(listed, ensure_ascii=False) if json else shown, json=json)


@on_engine(KEPT_ROLLBACK)
async def rollback(
    engine: LeanRAG,
    generation: Annotated[
        int, typer.Argument(min=1, help="Number of the generation, as `leanrag history` lists it.")
    ],
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Publish an earlier build again, as a new generation. Documents, corrections and what agents wrote stay.

    What came since is pending: it is found as passages, and the next build adds it to what was rolled back to. How many
    builds can be rolled back to: LEANRAG_KEPT_GENERATIONS and LEANRAG_KEPT_DAYS; a deletion removes them all.

    Example: `leanrag rollback 5`
    """
    from leanrag_engine.core.jobs import RollbackResult  # noqa: PLC0415 - heavy

    job = await engine.submit_rollback(generation, collection=engine.settings.collection)
    job = await follow_job(engine, job, verbose=verbose)
    pending = isinstance(job.result, RollbackResult) and job.result.pending
    end(job, engine.settings, json=json, following=["build"] if pending else ["query", "QUESTION"])


# --- jobs ----------------------------------------------------------------------------------

jobs_app = typer.Typer(
    help="List the jobs, newest first; watch and cancel them.\n\nExample: `leanrag jobs`, then `leanrag jobs watch`",
    invoke_without_command=True,
)

Id = Annotated[
    str,
    typer.Argument(
        metavar="[JOB]", help="Its id; without: the newest that has not ended.", show_default=False
    ),
]


@jobs_app.callback()
def list_by_default(context: typer.Context, data_dir: DataDir = None, json: Json = False) -> None:
    """List the jobs, unless a command follows."""
    if not is_followed(context):
        list_jobs(data_dir, json=json)


@jobs_app.command("list")
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


@jobs_app.command("watch")
@on_engine(chosen=False, read_only=True)
async def watch_job(engine: LeanRAG, id_: Id = "", verbose: Verbose = False, json: Json = False) -> None:
    """Show how far a job is, in whichever process it runs, until it ends. Ctrl-C ends only the watching."""
    job = await find_job(engine, id_)
    end(await follow_job(engine, job, verbose=verbose, watched=True), engine.settings, json=json)


@jobs_app.command("cancel")
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
