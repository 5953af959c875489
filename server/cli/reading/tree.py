"""``leanrag tree``: the hierarchy from the root down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..options import Json, echo
from ..running import on_engine, print_rows

if TYPE_CHECKING:
    from leanrag_engine.core.model import Entity
    from leanrag_engine.engine import LeanRAG

    from ...replies.graph import TreeNode


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
