"""``leanrag query`` and ``status``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..options import CollectionOption, DataDir, Json
from ..running import print_report, read_settings, run

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG


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

        from ...replies.query import QueryReply  # noqa: PLC0415 - heavy

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


def status(data_dir: DataDir = None, collection: CollectionOption = None, json: Json = False) -> None:
    """Show what is indexed, how it was built, and which jobs run."""

    async def work(engine: LeanRAG) -> None:
        from ...replies.state.status import StatusReply  # noqa: PLC0415 - heavy

        found = await engine.status(engine.settings.collection, strict=bool(collection))
        reply = StatusReply.from_engine(found)
        print_report(reply.model_dump_json() if json else "\n".join(reply.to_lines()), json=json)

    run(read_settings(data_dir, collection, read_only=True), work)
