"""``leanrag collections``: list the collections of the data folder; rename, copy and delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..options import DataDir, Json, Verbose
from ..running import end, follow_job, on_engine, print_report, read_settings, run, run_long

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG

app = typer.Typer(
    help="List the collections; rename, copy and delete them.\n\n"
    "Example: `leanrag collections`, then `leanrag collections rename default notes`",
    invoke_without_command=True,
)

KEPT_COPY = (
    "The original is as it was. If the copy is listed by `leanrag collections`, its documents are complete:"
    " `leanrag build --collection NAME` builds it."
)
"""What Ctrl-C leaves of a copy: the documents are copied in one transaction."""

KEPT_DELETION = "The same command deletes the rest."
"""What Ctrl-C leaves of a deletion: vectors go before the rows of the database."""

Name = Annotated[str, typer.Argument(help="Name of a collection.", show_default=False)]
NewName = Annotated[
    str, typer.Argument(help="A name that no collection has.", metavar="NEW", show_default=False)
]


@app.callback()
def list_by_default(context: typer.Context, data_dir: DataDir = None, json: Json = False) -> None:
    """List the collections, unless a command follows."""
    if context.invoked_subcommand is None:
        list_collections(data_dir, json=json)
        return
    source = context.get_parameter_source("data_dir")
    if source is not None and source.name == "COMMANDLINE":
        # It would be ignored, and another folder be changed.
        raise typer.BadParameter(f"Give --data-dir after `{context.invoked_subcommand}`.", context)


@app.command("list")
@on_engine(chosen=False, read_only=True)
async def list_collections(engine: LeanRAG, json: Json = False) -> None:
    """List the collections: documents, chunks, the last build, and whether documents changed since.

    Example: `leanrag collections`, then `leanrag ls --collection NAME`
    """
    from ...replies.state.collections import CollectionList  # noqa: PLC0415 - heavy

    reply = CollectionList.from_engine(await engine.collections())
    print_report(reply.model_dump_json() if json else reply.to_markdown(), json=json)


@app.command("rename")
@on_engine(chosen=False)
async def rename_collection(engine: LeanRAG, name: Name, new: NewName) -> None:
    """Give a collection another name. Clients that were set up with `--collection NAME` need `leanrag install` again.

    Example: `leanrag collections rename default notes`
    """
    await engine.rename_collection(name, new)
    typer.echo(f"Collection {name} is called {new} now.")


@app.command("copy")
def copy_collection(
    name: Name, new: NewName, verbose: Verbose = False, data_dir: DataDir = None, json: Json = False
) -> None:
    """Copy a collection with its published build, agents' work and corrections, but without its history.

    Citations stay the same. The vectors are copied; nothing is read or embedded again.

    Example: `leanrag collections copy notes trial`
    """

    async def work(engine: LeanRAG) -> None:
        job = await follow_job(engine, await engine.submit_copy(new, collection=name), verbose=verbose)
        end(job, engine.settings.model_copy(update={"collection": new}), json=json, following=["ls"])

    run_long(read_settings(data_dir, name), work, KEPT_COPY)


@app.command("delete")
def delete_collection(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete it without asking.")] = False,
    verbose: Verbose = False,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Delete a collection permanently, with its documents, hierarchy, history, model replies and vectors.

    Your files stay as they are. Asks first; then jobs of the collection are cancelled.

    Example: `leanrag collections delete trial`
    """
    settings = read_settings(data_dir, name)

    async def describe(engine: LeanRAG) -> None:
        from ...replies.state.collections import CollectionCard  # noqa: PLC0415 - heavy

        status = await engine.status(name, strict=True)
        typer.echo(CollectionCard.from_engine(status.collection).to_line(), err=True)

    async def work(engine: LeanRAG) -> None:
        job = await follow_job(
            engine, await engine.submit_delete_collection(name, cancel=True), verbose=verbose
        )
        end(job, engine.settings, json=json)

    if not yes:
        run(settings, describe)
        typer.confirm(f"Delete collection {name} permanently?", abort=True, err=True)
    run_long(settings, work, KEPT_DELETION)
