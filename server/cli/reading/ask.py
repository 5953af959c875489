"""``leanrag query``, ``grep`` and ``explore``: a question, text or a pattern as it stands in the documents, and a collection on a
page in the browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Annotated

import typer

from leanrag_engine.core.runtime.replacement import write_output
from leanrag_engine.core.text.shortening import count_things

from ..options import CollectionOption, DataDir, Json, echo, name_options, report_errors
from ..running import find_width, on_engine, print_report, read_settings, run

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG
    from leanrag_engine.retrieval.browse.text_search import TextMatches
    from leanrag_engine.retrieval.query import QueryResult

    from ...replies.sources import TextSearchReply

NOT_FOUND = 1  # Exit code where nothing matches, as grep has it
HOST = "127.0.0.1"


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


@on_engine(read_only=True)
async def grep(
    engine: LeanRAG,
    pattern: Annotated[
        str, typer.Argument(help="The text, or with -E a regular expression.", metavar="PATTERN")
    ],
    regex: Annotated[bool, typer.Option("--regex", "-E", help="PATTERN is a regular expression.")] = False,
    topic: Annotated[
        bool,
        typer.Option(
            "--topic", "-t", help="List all on this topic, by names, words and meaning; a|b: either."
        ),
    ] = False,
    by_document: Annotated[bool, typer.Option("--by-document", "-d", help="One line a document.")] = False,
    by_date: Annotated[bool, typer.Option("--by-date", help="The oldest documents first.")] = False,
    document: Annotated[
        list[str] | None, typer.Option(help="Only in this document: id, title, file name or d3; repeatable.")
    ] = None,
    since: Annotated[str, typer.Option(help="Only in documents dated from this day on.")] = "",
    until: Annotated[str, typer.Option(help="Only in documents dated up to this day.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-m", min=1, max=1000, help="Most passages.")] = 100,
    json: Json = False,
) -> None:
    r"""Print the passages where a text stands word for word, or all on a topic; the same text once.

    Case does not count. Exit code 1: there is none.

    Examples: `leanrag grep -- --ws-max-size`, `leanrag grep -E "v0\.3\d" --document changelog.md`, `leanrag grep -td "build isolation"`
    """
    from leanrag_engine.retrieval.request import Filters  # noqa: PLC0415 - heavy

    found = await engine.search_text(
        pattern,
        match="pattern" if regex else "topic" if topic else "exact",
        by_document=by_document,
        by_date=by_date,
        filters=Filters(tuple(document or ()), since=since or None, until=until or None),
        limit=limit,
        collection=engine.settings.collection,
    )
    from ...replies.sources import TextSearchReply  # noqa: PLC0415 - heavy

    reply = TextSearchReply.from_engine(found)
    if json:
        typer.echo(reply.model_dump_json())
    else:
        for line in format_matches(reply, pattern, regex=regex):
            typer.echo(line)
        typer.echo(summarise(reply, found), err=True)
    if not found.total:
        raise typer.Exit(NOT_FOUND)


def format_matches(reply: TextSearchReply, pattern: str, *, regex: bool) -> Iterator[str]:
    """Yield a line for each passage, at a terminal with the hits in colour."""
    from leanrag_engine.retrieval.browse.text_search import compile_text  # noqa: PLC0415 - heavy

    hits = compile_text(pattern, pattern=regex) if find_width() and not reply.topic else None

    def colour(hit: re.Match[str]) -> str:
        return typer.style(hit[0], fg="red", bold=True) if hit[0] else ""

    for match in reply.matches:
        shown = hits.sub(colour, match.excerpt) if hits else match.excerpt
        yield f"[{match.citation}] {match.to_place()}: {match.to_text(shown, reply.counted)}"


def summarise(reply: TextSearchReply, found: TextMatches) -> str:
    """Return how much was found, and whether that is all."""
    from ...replies.sources import suggest_spellings  # noqa: PLC0415 - heavy

    parts = [reply.summarise(), *filter(None, [suggest_spellings(found).strip()])]
    if len(reply.matches) < reply.entries:
        parts.append("--limit gives more.")
    if not reply.complete:
        parts.append("The time ran out, there may be more.")
    if found.undated:
        parts.append(f"Left out for lack of a date: {count_things(found.undated, 'document')}.")
    if reply.nearest:
        parts.append(f"The most similar text, [{reply.nearest.citation}]: {reply.nearest.excerpt}")
    return " ".join(parts)


def explore(
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Write the page with all its data to this file instead, to send or keep; questions need the server.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0: a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address.")] = False,
    data_dir: DataDir = None,
    collection: CollectionOption = None,
) -> None:
    """Explore the layers from the root down in a browser: clusters, entities with their sources, documents, questions.

    The page is served to this machine alone, at an address with a token, until Ctrl-C. It only reads.

    Example: `leanrag explore`, or `leanrag explore --out notes.html`
    """
    settings = read_settings(data_dir, collection, read_only=True)
    chosen = settings.collection

    async def prepare(engine: LeanRAG) -> None:
        nonlocal chosen
        if collection is None:
            chosen = await engine.choose_collection(settings.collection)
        await engine.root(collection=chosen)
        if out is not None:
            from ...explorer.page import write_page  # noqa: PLC0415 - only with --out

            size = await write_page(engine, chosen, out.expanduser())
            typer.echo(f"Wrote {chosen} to {out} ({size / 1e6:.1f} MB). A browser opens it without a server.")

    # Before the server starts, so that what is missing is an error of this command.
    run(settings, prepare)
    if out is not None:
        return
    from ...engine_handle import EngineHandle  # noqa: PLC0415 - heavy
    from ...explorer.routes import explorer_app  # noqa: PLC0415 - heavy
    from ...http.serving import listening, serve_app  # noqa: PLC0415 - heavy
    from ...http.settings import Address, load_http_settings  # noqa: PLC0415 - heavy

    with report_errors():
        http = load_http_settings()
        with listening(Address(HOST, port)) as bound:
            token = token_urlsafe()
            url = f"http://{HOST}:{bound.getsockname()[1]}/explore/{token}/"
            typer.echo(f"Explore {chosen} at {url} (Ctrl-C stops it)", err=True)
            if not no_open:
                typer.launch(url)
            handle = EngineHandle(settings)
            serve_app(explorer_app(handle, chosen, token), handle, bound, http, "warning")
