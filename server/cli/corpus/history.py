"""``leanrag history`` and ``rollback``: what builds changed and cost, and back to an earlier one."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Annotated

import typer

from leanrag_engine.core.jobs import RollbackResult

from ..options import Json, Verbose
from ..running import end, follow_job, on_engine, print_report

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG

KEPT = "Readers see the same hierarchy as before. The same command rolls back again."
"""What Ctrl-C leaves of a rollback: it is published in one transaction."""


@on_engine(read_only=True)
async def history(
    engine: LeanRAG,
    since: Annotated[
        str, typer.Option(help="A generation or an ISO date: show what changed since then.", metavar="WHEN")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, help="Most generations that are listed.")] = 20,
    json: Json = False,
) -> None:
    """List the generations of a collection, newest first: what changed, why, and what it cost.

    Example: `leanrag history --since 2026-01-31`
    """
    from ...replies.changes.history import GenerationCard, HistoryReply  # noqa: PLC0415 - heavy

    named = engine.settings.collection
    entries = (await engine.history(collection=named))[:limit]
    if since:
        changes = await engine.changes(since, collection=named)
        reply = HistoryReply.from_engine(changes, entries, engine.count_tokens)
        print_report(reply.model_dump_json() if json else "\n".join(reply.to_lines()), json=json)
        return
    cards = [GenerationCard.from_engine(each) for each in entries]
    if json:
        typer.echo(dumps({"generations": [each.model_dump() for each in cards]}, ensure_ascii=False))
    else:
        print_report("\n".join(each.to_line() for each in cards) or "There is no build yet: leanrag build.")


@on_engine(KEPT)
async def rollback(
    engine: LeanRAG,
    generation: Annotated[
        int, typer.Argument(min=1, help="Number of the generation, as `leanrag history` lists it.")
    ],
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Publish an earlier build again, as a new generation. Documents, corrections and what agents wrote stay.

    What came since is pending: it is found as passages, and the next build adds it to what was rolled back to. How many
    builds can be rolled back to: LEANRAG_KEPT_GENERATIONS and LEANRAG_KEPT_DAYS; a deletion removes them all.

    Example: `leanrag rollback 5`
    """
    job = await engine.submit_rollback(generation, collection=engine.settings.collection)
    job = await follow_job(engine, job, verbose=verbose)
    pending = isinstance(job.result, RollbackResult) and job.result.pending
    following = ["build"] if pending else ["query", "QUESTION"]
    end(job, engine.settings, json=json, following=following)
