"""``leanrag status``, ``ls`` and ``tree``: what a collection holds, its documents, its hierarchy from the root down; and
``leanrag collections``: list the collections of the data folder; rename, copy and delete them."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import CollectionOption, DataDir, Json, Verbose, echo, is_followed
from ..running import (
    end,
    find_width,
    follow_job,
    on_engine,
    print_report,
    print_rows,
    read_settings,
    run,
    run_long,
)

if TYPE_CHECKING:
    from leanrag_engine.core.model import Entity
    from leanrag_engine.engine import LeanRAG

    from ...replies.graph import TreeNode


def status(data_dir: DataDir = None, collection: CollectionOption = None, json: Json = False) -> None:
    """Show what is indexed, how it was built, and which jobs run."""

    async def work(engine: LeanRAG) -> None:
        from ...replies.state.status import StatusReply  # noqa: PLC0415 - heavy

        found = await engine.status(engine.settings.collection, strict=bool(collection))
        reply = StatusReply.from_engine(found)
        print_report(reply.model_dump_json() if json else "\n".join(reply.to_lines()), json=json)

    run(read_settings(data_dir, collection, read_only=True), work)


@on_engine(read_only=True)
async def list_documents(
    engine: LeanRAG,
    contains: Annotated[
        str, typer.Argument(help="Only documents whose path or title contains this.", show_default=False)
    ] = "",
    json: Json = False,
) -> None:
    """List the documents: number, state, date, chunks, path, title.

    Pending ones came after the last build: they are found, but the hierarchy does not know them yet.

    Example: `leanrag ls report`
    """
    from ...replies.state.collections import ListedDocument, format_documents  # noqa: PLC0415 - heavy

    name = engine.settings.collection
    wanted = contains.casefold()
    documents = [
        each
        for each in await engine.documents(collection=name)
        if wanted in f"{each.source or each.id}\n{each.title}".casefold()
    ]
    generation = (await engine.status(name)).collection.generation
    built = generation.revision if generation else -1
    cards = [ListedDocument.from_engine(each, built) for each in documents]
    listed = {"collection": name, "documents": [each.model_dump() for each in cards]}
    if contains and not documents and not json:
        echo(f"No path or title of a document contains {contains!r}. `leanrag ls` lists all documents.")
    else:
        shown = format_documents(cards, name, find_width())
        print_rows(dumps(listed, ensure_ascii=False) if json else shown, json=json)


@on_engine(read_only=True)
async def tree(
    engine: LeanRAG,
    top: Annotated[
        str,
        typer.Argument(
            help="Begin at this cluster (name or ref).", metavar="[CLUSTER]", show_default="the root"
        ),
    ] = "",
    depth: Annotated[int, typer.Option(min=1, max=20, help="Layers below it.")] = 2,
    width: Annotated[int, typer.Option(min=1, max=400, help="Most members shown of each cluster.")] = 4,
    json: Json = False,
) -> None:
    """Draw the hierarchy from the root down, most mentioned members first. The default fits one screen.

    Example: `leanrag tree --depth 3 --width 8`, then `leanrag show` with a name from it
    """
    name = engine.settings.collection
    chain = await engine.ancestors(top, collection=name) if top else [await engine.root(collection=name)]
    root = await read_branch(engine, chain[0], depth, width)
    drawn = "\n".join([root.to_title(), *root.to_lines()])
    print_rows(dumps({"root": root.model_dump()}, ensure_ascii=False) if json else drawn, json=json)


async def read_branch(engine: LeanRAG, entity: Entity, depth: int, width: int) -> TreeNode:
    """Return a node with ``depth`` layers below it, ``width`` members of each cluster."""
    from ...replies.graph import TreeNode  # noqa: PLC0415 - heavy

    members: tuple[Entity, ...] = ()
    if depth and entity.layer:
        view = await engine.cluster(entity.id, limit=width, collection=engine.settings.collection)
        members = view.members
    children = [await read_branch(engine, each, depth - 1, width) for each in members]
    return TreeNode.to(entity, children=children)


# --- collections ---------------------------------------------------------------------------

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
    if not is_followed(context):
        list_collections(data_dir, json=json)


@app.command("list")
@on_engine(chosen=False, read_only=True)
async def list_collections(engine: LeanRAG, json: Json = False) -> None:
    """List the collections: documents, chunks, the last build, and whether documents changed since.

    Example: `leanrag collections`, then `leanrag ls --collection NAME`
    """
    from ...replies.base import show_time  # noqa: PLC0415 - heavy
    from ...replies.state.collections import CollectionCard  # noqa: PLC0415 - heavy

    cards = [CollectionCard.from_engine(each) for each in await engine.collections()]
    shown = "\n".join(each.to_line(show_time) for each in cards) or "There is no collection yet."
    listed = {"collections": [each.model_dump() for each in cards]}
    print_report(dumps(listed, ensure_ascii=False) if json else shown, json=json)


@app.command("rename")
@on_engine(chosen=False)
async def rename_collection(engine: LeanRAG, name: Name, new: NewName) -> None:
    """Give a collection another name. Clients that were set up with `--collection NAME` need `leanrag install` again.

    Example: `leanrag collections rename default notes`
    """
    await engine.rename_collection(name, new)
    typer.echo(f"Collection {name} is called {new} now.")


@app.command("copy")
@on_engine(KEPT_COPY, chosen=False, collection=lambda given: given["name"])
async def copy_collection(
    engine: LeanRAG, name: Name, new: NewName, verbose: Verbose = False, json: Json = False
) -> None:
    """Copy a collection with its published build, agents' work and corrections, but without its history.

    Citations stay the same. The vectors are copied; nothing is read or embedded again.

    Example: `leanrag collections copy notes trial`
    """
    job = await follow_job(engine, await engine.submit_copy(new, collection=name), verbose=verbose)
    end(job, engine.settings.model_copy(update={"collection": new}), json=json, following=["ls"])


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
