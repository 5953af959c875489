"""``leanrag query``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leanrag_engine.core.runtime.replacement import write_output

from ..options import Json, echo, name_options
from ..running import on_engine, print_report

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG
    from leanrag_engine.retrieval.query import QueryResult


@on_engine(read_only=True)
async def query(
    engine: LeanRAG,
    words: Annotated[list[str], typer.Argument(help="The question.", metavar="QUESTION")],
    mode: Annotated[str, typer.Option(help="lca, local, global or naive.")] = "lca",
    ranking: Annotated[str, typer.Option(help="spread or paper.")] = "spread",
    token_budget: Annotated[int, typer.Option(help="Tokens, at least 100; 0: 2,000, 1,200 for a fact.")] = 0,
    seen: Annotated[
        list[str] | None,
        typer.Option(metavar="CITATION", help="What was read before, such as d3:c12: it is not shown again."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Draw the answer into this page, with its evidence and links.", show_default=False),
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(help="Draw the answer into this picture.", show_default=False)
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why each line is in the context, by parts of its value.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the cited context for a question.

    Examples: `leanrag query "What is a context manager?" --token-budget 1000`,
    `leanrag query "What is a context manager?" --html answer.html`
    """
    from leanrag_engine.retrieval.request import Query  # noqa: PLC0415 - heavy

    asked = Query(
        text=" ".join(words), mode=mode, ranking=ranking, token_budget=token_budget, seen=tuple(seen or ())
    )
    result = await engine.query(asked, collection=engine.settings.collection)
    if html or svg:
        write_drawings(result, engine, html, svg)
    if json:
        from ...replies.query import ExplainedReply  # noqa: PLC0415 - heavy

        echo(ExplainedReply.explain(result, engine.count_tokens).model_dump_json())
        return
    print_report(name_options(result.context.text))
    if explain:
        from ...replies.drawing.accounting import explain_lines  # noqa: PLC0415 - heavy

        echo("\n" + "\n".join(explain_lines(result.context, engine.count_tokens)))
    for warning in result.warnings:
        if warning not in result.context.text:  # it did not fit
            echo(f"Warning: {warning}", err=True)
    echo(f"{result.context.tokens} tokens", err=True)


def write_drawings(result: QueryResult, engine: LeanRAG, html: Path | None, svg: Path | None) -> None:
    """Draw the answer into the files that are given. Raises ``InvalidInput`` if one cannot be written."""
    from ...replies.drawing.page import render_page  # noqa: PLC0415 - heavy
    from ...replies.drawing.svg import draw_answer  # noqa: PLC0415 - heavy

    for path, draw in ((html, render_page), (svg, draw_answer)):
        if path:
            write_output(path, draw(result, engine.count_tokens).encode())
            echo(f"Drawn: {path}", err=True)
