"""Write and read model replies, which are both cache and ledger, and the summaries that agents wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy import delete as delete_from

from leanrag_engine.core.model import Spent
from leanrag_engine.core.ports import ChatRequest, FinishReason, Reply

from . import collections as collection_rows
from .dialect.statements import among, insert_or_update, is_empty_list, lists_any
from .schema.tables import replies, summaries

_CACHED = replies.c.text.is_not(None)
"""A row without its text counts for spending only."""


@dataclass(frozen=True, slots=True)
class ReplyRecord:
    """A reply with its request, job and model."""

    job: str
    digest: str
    request: ChatRequest
    reply: Reply
    model: str
    counted: int


def put(connection: Connection, name: str, record: ReplyRecord) -> None:
    """Insert a reply; older replies to the same request lose their texts."""
    collection = collection_rows.number_of(connection, name)
    connection.execute(update(replies).where(replies.c.digest == record.digest, _CACHED).values(text=None))
    row = {
        "digest": record.digest,
        "collection": collection,
        "job": record.job,
        "step": record.request.step,
        "model": record.model,
        "created_at": datetime.now(UTC),
        "finish_reason": record.reply.finish_reason.value,
        "prompt_tokens": record.reply.prompt_tokens,
        "completion_tokens": record.reply.completion_tokens,
        "cost": record.reply.cost,
        "counted": record.counted,
        "room": record.request.max_tokens,
        "suspect": False,
        "chunk_ids": record.request.chunk_ids,
        "text": record.reply.text,
    }
    connection.execute(insert(replies).values(row))


def find(connection: Connection, digest: str, job: str) -> tuple[Reply, bool] | None:
    """Return the cached reply to a request and whether it is suspect; ``None`` if there is none.

    Unless ``job`` is "", only a reply that this job asked for counts.
    """
    statement = select(replies).where(replies.c.digest == digest, _CACHED)
    row = connection.execute(statement.where(replies.c.job == job) if job else statement).first()
    if row is None:
        return None
    reply = Reply(
        row.text,
        FinishReason(row.finish_reason),
        row.prompt_tokens,
        row.completion_tokens,
        row.cost,
        kept=True,
    )
    return reply, row.suspect


def trust(connection: Connection, digest: str) -> None:
    """Mark the reply as not suspect."""
    connection.execute(update(replies).where(replies.c.digest == digest, _CACHED).values(suspect=False))


def sum_spending(connection: Connection, name: str | None, job: str, model: str) -> list[Spent]:
    """Add up calls, tokens and cost of each step, sorted by its name. ``None`` and "" select everything."""
    statement = (
        select(
            replies.c.step,
            func.count().label("calls"),
            func.sum(replies.c.prompt_tokens).label("prompt_tokens"),
            func.sum(replies.c.completion_tokens).label("completion_tokens"),
            func.coalesce(func.sum(replies.c.cost), 0.0).label("cost"),
            (func.count() - func.count(replies.c.cost)).label("unpriced"),
            func.sum(replies.c.counted).label("counted"),
            func.sum(replies.c.room).label("room"),
        )
        .group_by(replies.c.step)
        .order_by(replies.c.step)
    )
    if name is not None:
        statement = statement.where(replies.c.collection == collection_rows.number_of(connection, name))
    if job:
        statement = statement.where(replies.c.job == job)
    if model:
        statement = statement.where(replies.c.model == model)
    return [Spent(**row) for row in connection.execute(statement).mappings()]


# --- deletion ------------------------------------------------------------------------------


def drop(connection: Connection, name: str, chunk_ids: Sequence[str]) -> None:
    """Delete the texts of replies about these chunks.

    Replies whose chunks are unknown, and the summaries of the collection, become suspect: they may contain text of
    these chunks.
    """
    collection = collection_rows.number_of(connection, name)
    here = (replies.c.collection == collection) & _CACHED
    about_chunks = lists_any(replies.c.chunk_ids, chunk_ids)
    connection.execute(update(replies).where(here, about_chunks).values(text=None))
    unknown = is_empty_list(replies.c.chunk_ids)
    connection.execute(update(replies).where(here, unknown).values(suspect=True))
    connection.execute(update(summaries).where(summaries.c.collection == collection).values(suspect=True))


def drop_suspect(connection: Connection, name: str) -> None:
    """Delete the texts of suspect replies, and suspect summaries."""
    collection = collection_rows.number_of(connection, name)
    suspect = (replies.c.collection == collection) & replies.c.suspect & _CACHED
    connection.execute(update(replies).where(suspect).values(text=None, suspect=False))
    connection.execute(
        delete_from(summaries).where(summaries.c.collection == collection, summaries.c.suspect)
    )


# --- summaries -----------------------------------------------------------------------------


def put_summaries(connection: Connection, name: str, new: Mapping[str, Mapping[str, Any]]) -> None:
    """Write summaries by task, replacing older ones of the same tasks; the collection's revision grows by one."""
    if not new:
        return
    collection = collection_rows.raise_revision(connection, name)
    statement = insert_or_update(summaries)
    statement = statement.on_conflict_do_update(
        index_elements=["collection", "task"],
        set_={"summary": statement.excluded.summary, "suspect": statement.excluded.suspect},
    )
    rows = [
        {"collection": collection, "task": task, "suspect": False, "summary": summary}
        for task, summary in new.items()
    ]
    connection.execute(statement, rows)


def all_summaries(connection: Connection, name: str) -> dict[str, Mapping[str, Any]]:
    """Return the summaries by task id, sorted by it."""
    here = summaries.c.collection == collection_rows.number_of(connection, name)
    rows = connection.execute(
        select(summaries.c.task, summaries.c.summary).where(here).order_by(summaries.c.task)
    )
    return {row.task: row.summary for row in rows}


def use_summaries(connection: Connection, name: str, tasks: Sequence[str]) -> None:
    """Mark the summaries of these tasks as not suspect."""
    here = summaries.c.collection == collection_rows.number_of(connection, name)
    connection.execute(update(summaries).where(here, among(summaries.c.task, tasks)).values(suspect=False))
