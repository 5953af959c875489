"""``leanrag build`` and ``reindex``: the hierarchy, and the vector index beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..options import CollectionOption, DataDir, Json, Verbose
from ..running import end, follow_job, on_engine, read_settings, run_long

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG

KEPT = (
    "Readers see the previous hierarchy until a build is finished; replies of the model are kept and not paid for twice."
    " The same command builds again."
)
"""What Ctrl-C leaves of a build."""

KEPT_INDEX = "Vectors that were written are kept. The same command writes the rest."
"""What Ctrl-C leaves of a rewritten index."""


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
        following = same if dry_run else ["query", "QUESTION"]
        end(job, engine.settings, json=json, following=following)

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
