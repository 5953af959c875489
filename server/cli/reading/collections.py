"""``leanrag collections``: the collections of the data folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ..options import DataDir, Json
from ..running import read_settings, run

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG


def list_collections(data_dir: DataDir = None, json: Json = False) -> None:
    """List the collections: documents, chunks, the last build, and whether documents changed since.

    Example: `leanrag collections`, then `leanrag ls --collection NAME`
    """

    async def work(engine: LeanRAG) -> None:
        from ...replies.collections import CollectionList  # noqa: PLC0415 - heavy

        reply = CollectionList.from_engine(await engine.collections())
        typer.echo(reply.model_dump_json() if json else reply.to_markdown())

    run(read_settings(data_dir, None, read_only=True), work)
