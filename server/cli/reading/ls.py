"""``leanrag ls``: the documents of a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..options import Json, echo
from ..running import find_width, on_engine, print_rows

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG


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
