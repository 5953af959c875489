"""What models said, which is a cache and a ledger in one, and what agents wrote."""

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

_KEPT = replies.c.text.is_not(None)


@dataclass(frozen=True, slots=True)
class Said:
    """A reply with all that is noted of it."""

    job: str
    digest: str
    asked: ChatRequest
    reply: Reply
    model: str
    counted: int


def keep(connection: Connection, name: str, said: Said) -> None:
    """Write a row; an older one of the same request loses its text."""
    collection = collection_rows.number_of(connection, name)
    connection.execute(update(replies).where(replies.c.digest == said.digest, _KEPT).values(text=None))
    row = {
        "digest": said.digest,
        "collection": collection,
        "job": said.job,
        "step": said.asked.step,
        "model": said.model,
        "created_at": datetime.now(UTC),
        "finish_reason": said.reply.finish_reason.value,
        "prompt_tokens": said.reply.prompt_tokens,
        "completion_tokens": said.reply.completion_tokens,
        "cost": said.reply.cost,
        "counted": said.counted,
        "room": said.asked.max_tokens,
        "suspect": False,
        "chunk_ids": said.asked.chunk_ids,
        "text": said.reply.text,
    }
    connection.execute(insert(replies).values(row))


def find(connection: Connection, digest: str, job: str) -> tuple[Reply, bool] | None:
    """The reply kept of a request, if ``job`` asked for it or is "", and whether it is suspect."""
    statement = select(replies).where(replies.c.digest == digest, _KEPT)
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
    """The reply is not suspect any more."""
    connection.execute(update(replies).where(replies.c.digest == digest, _KEPT).values(suspect=False))


def sum_spending(connection: Connection, name: str | None, job: str, model: str) -> list[Spent]:
    """By step, in the order of their names."""
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


# --- what is forgotten ---------------------------------------------------------------------


def drop(connection: Connection, name: str, chunk_ids: Sequence[str]) -> None:
    """Replies of these chunks lose their texts; what may come from them is suspect."""
    collection = collection_rows.number_of(connection, name)
    here = (replies.c.collection == collection) & _KEPT
    theirs = lists_any(replies.c.chunk_ids, chunk_ids)
    connection.execute(update(replies).where(here, theirs).values(text=None))
    unknown = is_empty_list(replies.c.chunk_ids)
    connection.execute(update(replies).where(here, unknown).values(suspect=True))
    connection.execute(update(summaries).where(summaries.c.collection == collection).values(suspect=True))


def drop_suspect(connection: Connection, name: str) -> None:
    collection = collection_rows.number_of(connection, name)
    suspect = (replies.c.collection == collection) & replies.c.suspect & _KEPT
    connection.execute(update(replies).where(suspect).values(text=None, suspect=False))
    connection.execute(
        delete_from(summaries).where(summaries.c.collection == collection, summaries.c.suspect)
    )


# --- what agents wrote ---------------------------------------------------------------------


def put_summaries(connection: Connection, name: str, written: Mapping[str, Mapping[str, Any]]) -> None:
    """Those of the same tasks give way. The collection's revision grows by one."""
    if not written:
        return
    collection = collection_rows.raise_revision(connection, name)
    adding = insert_or_update(summaries)
    adding = adding.on_conflict_do_update(
        index_elements=["collection", "task"],
        set_={"summary": adding.excluded.summary, "suspect": adding.excluded.suspect},
    )
    rows = [
        {"collection": collection, "task": task, "suspect": False, "summary": summary}
        for task, summary in written.items()
    ]
    connection.execute(adding, rows)


def all_summaries(connection: Connection, name: str) -> dict[str, Mapping[str, Any]]:
    """In the order of the tasks' ids."""
    here = summaries.c.collection == collection_rows.number_of(connection, name)
    rows = connection.execute(
        select(summaries.c.task, summaries.c.summary).where(here).order_by(summaries.c.task)
    )
    return {row.task: row.summary for row in rows}


def use_summaries(connection: Connection, name: str, tasks: Sequence[str]) -> None:
    here = summaries.c.collection == collection_rows.number_of(connection, name)
    connection.execute(update(summaries).where(here, among(summaries.c.task, tasks)).values(suspect=False))
