"""The command line: ``leanrag serve | ingest | sync | build | query | status | forget | merge | split | reindex | …``.

Results go to standard output (``--json``: one JSON object), progress and errors to standard error.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .corrections import corrections, merge, split
from .documents import forget, ingest, sync
from .evaluate.commands import app as evaluation
from .install import install, uninstall
from .options import (
    AllowDirs,
    CollectionOption,
    DataDir,
    HttpAddress,
    HttpAllowedHosts,
    HttpAllowedOrigins,
    HttpTokenFile,
    Json,
    Toolsets,
    report_errors,
    run_async,
)
from .running import follow_job, leave_unless_done, read_settings, run

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG

app = typer.Typer(
    help="LeanRAG: documents become a layered knowledge graph; questions get a small, cited context.\n\n"
    "First steps: `leanrag demo` shows everything on real input; `leanrag ingest FOLDER` then "
    '`leanrag query "..."` works on yours; `leanrag serve` is what an MCP client starts.',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.add_typer(evaluation, name="eval")
app.command()(ingest)
app.command()(sync)
app.command("forget")(forget)
app.command("delete", hidden=True)(forget)
app.command()(install)
app.command()(uninstall)
app.command()(merge)
app.command()(split)
app.command()(corrections)


@app.command()
def serve(
    data_dir: DataDir = None,
    allow_dir: AllowDirs = None,
    collection: CollectionOption = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer no tool that writes.")] = False,
    toolsets: Toolsets = None,
    http: HttpAddress = None,
    http_token_file: HttpTokenFile = None,
    http_allowed_host: HttpAllowedHosts = None,
    http_allowed_origin: HttpAllowedOrigins = None,
) -> None:
    """Run the MCP server. An MCP client starts it over standard input and output; see `leanrag demo` for how.

    One server for several clients: `leanrag serve --http 127.0.0.1:8000` is open to all programs on this machine.
    To be reachable from elsewhere it needs a token, `LEANRAG_HTTP_TOKEN=... leanrag serve --http 0.0.0.0:8000
    --http-allowed-host rag.example`, or an OAuth issuer (the `LEANRAG_HTTP_OAUTH_...` variables in the README);
    it uses plain HTTP, so put a proxy with TLS in front of it. `/health` answers without a token.
    """
    from ..http.settings import load_http_settings  # noqa: PLC0415 - the other commands serve nothing

    with report_errors():
        http_settings = load_http_settings(
            http=http,
            http_token_file=http_token_file,
            http_allowed_hosts=tuple(http_allowed_host) if http_allowed_host else None,
            http_allowed_origins=tuple(http_allowed_origin) if http_allowed_origin else None,
        )
    settings = read_settings(
        data_dir,
        collection,
        allow_dirs=tuple(allow_dir) if allow_dir else None,
        read_only=read_only or None,
        toolsets=toolsets,
    )
    for folder in settings.allow_dirs:
        if not folder.expanduser().is_dir():
            typer.echo(f"Warning: the allowed folder {folder} does not exist.", err=True)
    if http_settings.http:
        from ..http.serving import run_http  # noqa: PLC0415 - stdio must not wait for a web server

        with report_errors():
            run_http(settings, http_settings)
    else:
        from ..app import create_server  # noqa: PLC0415 - the other commands need no MCP server

        create_server(settings).run("stdio")


@app.command()
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
        str | None,
        typer.Option(help="gmm (by meaning), leiden (by relations) or dual (by both).", show_default="gmm"),
    ] = None,
    cluster_size: Annotated[
        str | None, typer.Option(help="Mean members of a cluster, or auto.", show_default="20")
    ] = None,
    data_dir: DataDir = None,
    collection: CollectionOption = None,
    json: Json = False,
) -> None:
    """Build the hierarchy from everything ingested and publish it. Readers see the old one until then.

    With a chat model (LEANRAG_LLM_MODEL) it reads new documents and writes summaries and relations, within the
    caps; every reply is cached, so none is paid for twice.

    Example: `leanrag build --dry-run`, then `leanrag build --max-cost 2`
    """

    async def work(engine: LeanRAG) -> None:
        from leanrag_engine.core.jobs import BuildRequest  # noqa: PLC0415 - heavy
        from leanrag_engine.pipeline.build.modes import parse_mode  # noqa: PLC0415 - heavy

        from ..replies.jobs import JobReply  # noqa: PLC0415 - heavy

        order = BuildRequest(upgrade, max_calls, max_tokens, max_cost, parse_mode(mode))
        job = await engine.submit_build(collection=engine.settings.collection, order=order, dry_run=dry_run)
        reply = JobReply.from_engine(await follow_job(engine, job))
        typer.echo(reply.model_dump_json() if json else "\n".join(reply.to_lines()))
        leave_unless_done(reply.status)

    more = {"clustering": clustering, "cluster_size": cluster_size}
    run(read_settings(data_dir, collection, **more), work)


@app.command()
def query(
    text: Annotated[str, typer.Argument(help="The question.")],
    mode: Annotated[str, typer.Option(help="lca, local, global or naive.")] = "lca",
    ranking: Annotated[str, typer.Option(help="spread, fused or paper.")] = "spread",
    token_budget: Annotated[int, typer.Option(help="Most tokens of the context.")] = 4000,
    data_dir: DataDir = None,
    collection: CollectionOption = None,
    json: Json = False,
) -> None:
    """Print the cited context for a question.

    Example: `leanrag query "What is a context manager?" --token-budget 1000`
    """

    async def work(engine: LeanRAG) -> None:
        from leanrag_engine.retrieval.request import Query  # noqa: PLC0415 - heavy

        from ..replies.query import QueryReply  # noqa: PLC0415 - heavy

        asked = Query(text=text, mode=mode, ranking=ranking, token_budget=token_budget)
        result = await engine.query(asked, collection=engine.settings.collection)
        if json:
            typer.echo(QueryReply.from_engine(result, detailed=True).model_dump_json())
            return
        typer.echo(result.context.text)
        for warning in result.warnings:
            typer.echo(f"Warning: {warning}", err=True)
        typer.echo(f"{result.context.tokens} tokens", err=True)

    run(read_settings(data_dir, collection, read_only=True), work)


@app.command()
def status(data_dir: DataDir = None, collection: CollectionOption = None, json: Json = False) -> None:
    """Show what is indexed, how it was built, and which jobs run."""

    async def work(engine: LeanRAG) -> None:
        from ..replies.status import StatusReply  # noqa: PLC0415 - heavy

        reply = StatusReply.from_engine(await engine.status(engine.settings.collection))
        typer.echo(reply.model_dump_json() if json else "\n".join(reply.to_lines()))

    run(read_settings(data_dir, collection, read_only=True), work)


@app.command()
def reindex(data_dir: DataDir = None, collection: CollectionOption = None, json: Json = False) -> None:
    """Rebuild the vector store from the graph store, e.g. after its folder was lost or damaged."""

    async def work(engine: LeanRAG) -> None:
        from ..replies.jobs import JobReply  # noqa: PLC0415 - heavy

        reply = JobReply.from_engine(
            await follow_job(engine, await engine.submit_reindex(collection=engine.settings.collection))
        )
        counts = ", ".join(f"{count} {kind}" for kind, count in reply.result.items())
        typer.echo(reply.model_dump_json() if json else f"{reply.status}. {reply.message or counts}")
        leave_unless_done(reply.status)

    run(read_settings(data_dir, collection), work)


@app.command()
def demo(
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep the demo's data here; default: a folder that is removed afterwards."),
    ] = None,
    collection: Annotated[str, typer.Option(help="What to call the corpus.")] = "python-reference",
    json: Annotated[bool, typer.Option("--json", help="End with one JSON object of figures.")] = False,
) -> None:
    """Run everything on real input: the Python language reference that comes with Python.

    Ingests it, builds the hierarchy, starts the MCP server, asks it three questions and goes through the
    hierarchy step by step. No network, no key, no download.
    """
    from .demo import run_demo  # noqa: PLC0415 - heavy

    run_async(lambda: run_demo(data_dir, collection, json))


def main() -> None:
    """Run the console command ``leanrag``."""
    app()


def serve_main() -> None:
    """Run the console command ``leanrag-mcp``, the same as ``leanrag serve``."""
    sys.argv.insert(1, "serve")
    app()
