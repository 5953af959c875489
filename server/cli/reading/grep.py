"""``leanrag grep``: text or a pattern as it stands in the documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from leanrag_engine.core.text.shortening import count_things

from ..options import Json
from ..running import find_width, on_engine

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG
    from leanrag_engine.retrieval.browse.text_search import TextMatches

    from ...replies.sources import TextSearchReply

NOT_FOUND = 1  # Exit code where nothing matches, as grep has it


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

    filters = Filters(tuple(document or ()), since=since or None, until=until or None)
    found = await engine.search_text(
        pattern,
        match="pattern" if regex else "topic" if topic else "exact",
        by_document=by_document,
        by_date=by_date,
        filters=filters,
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
