"""``leanrag status``, ``ls`` and ``tree``: what a collection holds, its documents, its hierarchy from the root down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..options import CollectionOption, DataDir, Json, echo
from ..running import find_width, on_engine, print_report, print_rows, read_settings, run

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
    from ...replies.state.collections import DocumentsReply  # noqa: PLC0415 - heavy

    name = engine.settings.collection
    wanted = contains.casefold()
    documents = [
        each
        for each in await engine.documents(collection=name)
        if wanted in f"{each.source or each.id}\n{each.title}".casefold()
    ]
    generation = (await engine.status(name)).collection.generation
    built = generation.revision if generation else -1
    reply = DocumentsReply.from_engine(name, documents, built)
    if json:
        echo(reply.model_dump_json())
    elif contains and not documents:
        echo(f"No path or title of a document contains {contains!r}. `leanrag ls` lists all documents.")
    else:
        print_rows(reply.to_markdown(find_width()))


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
    from ...replies.graph import TreeReply  # noqa: PLC0415 - heavy

    name = engine.settings.collection
    chain = await engine.ancestors(top, collection=name) if top else [await engine.root(collection=name)]
    reply = TreeReply(root=await read_branch(engine, chain[0], depth, width))
    if json:
        echo(reply.model_dump_json())
    else:
        print_rows(reply.to_markdown())


async def read_branch(engine: LeanRAG, entity: Entity, depth: int, width: int) -> TreeNode:
    """Return a node with ``depth`` layers below it, ``width`` members of each cluster."""
    from ...replies.graph import TreeNode  # noqa: PLC0415 - heavy

    members: tuple[Entity, ...] = ()
    if depth and entity.layer:
        view = await engine.cluster(entity.id, limit=width, collection=engine.settings.collection)
        members = view.members
    return TreeNode(
        ref=entity.id,
        name=entity.name,
        layer=entity.layer,
        members=entity.members,
        children=[await read_branch(engine, each, depth - 1, width) for each in members],
    )
