"""Write and read model replies, which are both cache and ledger, and the texts that agents wrote."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy import delete as delete_from

from leanrag_engine.core.graphs.restriction import cut_parts
from leanrag_engine.core.model import Evidence, Spent
from leanrag_engine.core.ports import AgentText, AgentTextKind, FinishReason, Reply, ReplyRecord
from leanrag_engine.core.text.language.words import content_words

from . import collections as collection_rows
from .dialect.statements import among, rests_on_others
from .schema.tables import agent_texts, chunks, documents, replies

_CACHED = replies.c.text.is_not(None)  # A row without its text counts for spending only


def put(connection: Connection, collection: int, record: ReplyRecord) -> None:
    """Insert a reply; older replies to the same request lose their texts."""
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
        "chunk_ids": record.request.chunk_ids,
        "text": record.reply.text,
    }
    connection.execute(insert(replies).values(row))


def find(connection: Connection, digest: str, job: str = "") -> Reply | None:
    statement = select(replies).where(replies.c.digest == digest, _CACHED)
    row = connection.execute(statement.where(replies.c.job == job) if job else statement).first()
    if row is None:
        return None
    used = (row.prompt_tokens, row.completion_tokens, row.cost)
    return Reply(row.text, FinishReason(row.finish_reason), *used, kept=True)


_SUMS = (
    func.count().label("calls"),
    func.sum(replies.c.prompt_tokens).label("prompt_tokens"),
    func.sum(replies.c.completion_tokens).label("completion_tokens"),
    func.coalesce(func.sum(replies.c.cost), 0.0).label("cost"),
    (func.count() - func.count(replies.c.cost)).label("unpriced"),
    func.sum(replies.c.counted).label("counted"),
    func.sum(replies.c.room).label("room"),
)


def sum_spending_by_job(connection: Connection, collection: int) -> dict[str, Spent]:
    """Add up calls, tokens and cost of all steps of each job of collection number ``collection``."""
    rows = connection.execute(
        select(replies.c.job, *_SUMS).where(replies.c.collection == collection).group_by(replies.c.job)
    ).mappings()
    return {row["job"]: Spent("", **{each.name: row[each.name] for each in _SUMS}) for row in rows}


def sum_spending(connection: Connection, name: str | None, job: str = "", model: str = "") -> list[Spent]:
    statement = select(replies.c.step, *_SUMS).group_by(replies.c.step).order_by(replies.c.step)
    if name is not None:
        statement = statement.where(replies.c.collection == collection_rows.number_of(connection, name))
    if job:
        statement = statement.where(replies.c.job == job)
    if model:
        statement = statement.where(replies.c.model == model)
    return [Spent(**row) for row in connection.execute(statement).mappings()]


def drop_unfounded(connection: Connection, collection: int, untouched: Collection[str]) -> None:
    """Delete the texts of replies and of agents that rest on anything but chunks of the collection and the
    aggregated entities ``untouched``, or on unknown things."""
    here = (replies.c.collection == collection) & _CACHED
    held = select(chunks.c.id).where(chunks.c.collection == collection).scalar_subquery()
    gone = rests_on_others(replies.c.chunk_ids, held, untouched)
    connection.execute(update(replies).where(here, gone).values(text=None))
    mine = agent_texts.c.collection == collection
    gone = rests_on_others(agent_texts.c.chunk_ids, held, untouched)
    connection.execute(delete_from(agent_texts).where(mine, gone))


def put_texts(
    connection: Connection, collection: int, kind: AgentTextKind, new: Mapping[str, AgentText], replace: bool
) -> list[str]:
    """Store an agent's texts by the ids of their tasks; return those that held another text, which stays unless ``replace``."""
    held = texts(connection, collection, kind, [*new])
    others = [task for task, text in held.items() if text != new[task]]
    written = {
        task: each for task, each in new.items() if task not in held or (replace and held[task] != each)
    }
    if not written:
        return others
    collection_rows.raise_revision(connection, collection)
    here = (agent_texts.c.collection == collection) & (agent_texts.c.kind == kind)
    connection.execute(delete_from(agent_texts).where(here, among(agent_texts.c.task, [*written])))
    rows = [
        {"collection": collection, "kind": kind, "task": task, "chunk_ids": each.chunk_ids, "text": each.text}
        for task, each in written.items()
    ]
    connection.execute(insert(agent_texts), rows)
    return others


def texts(
    connection: Connection, collection: int, kind: AgentTextKind, tasks: Sequence[str] | None = None
) -> dict[str, AgentText]:
    """Return the texts of one kind by task id, sorted by it; only of ``tasks`` if they are given."""
    here = agent_texts.c.collection == collection
    columns = (agent_texts.c.task, agent_texts.c.text, agent_texts.c.chunk_ids)
    statement = select(*columns).where(here, agent_texts.c.kind == kind)
    if tasks is not None:
        statement = statement.where(among(agent_texts.c.task, tasks))
    rows = connection.execute(statement.order_by(agent_texts.c.task))
    return {row.task: AgentText(row.text, tuple(row.chunk_ids)) for row in rows}


def cut_descriptions(connection: Connection, collection: int, gone: Collection[str]) -> None:
    """Take out of what agents wrote of entities of collection number ``collection`` what rests on chunks that will be ``gone``, or has a word that
    of its chunks only these say; delete what has nothing left. To be called before they are deleted."""
    mine = (agent_texts.c.collection == collection) & (agent_texts.c.kind == "description")
    columns = (agent_texts.c.task, agent_texts.c.text, agent_texts.c.chunk_ids)
    rows = connection.execute(select(*columns).where(mine)).all() if gone else ()
    of = (documents.c.collection == chunks.c.collection) & (documents.c.number == chunks.c.document)
    for row in (each for each in rows if not set(gone).isdisjoint(each.chunk_ids)):
        here = (chunks.c.collection == collection) & among(chunks.c.id, row.chunk_ids)
        held = select(chunks.c.id, chunks.c.text, chunks.c.heading, documents.c.title).where(here, of)
        words = {each.id: content_words(" ".join(each[1:])) for each in connection.execute(held)}
        kept = [id_ for id_ in row.chunk_ids if id_ not in gone]
        lost = set().union(*(words.get(id_, ()) for id_ in row.chunk_ids if id_ in gone))
        lost -= set().union(*(words.get(id_, ()) for id_ in kept))
        origins = (Evidence(*each) for each in row.text.get("evidence", ()))
        text, evidence = cut_parts(row.text["description"], origins, kept, lost)
        task = mine & (agent_texts.c.task == row.task)
        if text:
            parts = [[each.start, each.end, each.chunk_id] for each in evidence]
            new = {"text": {"description": text, "evidence": parts}, "chunk_ids": kept}
            connection.execute(update(agent_texts).where(task).values(new))
        else:
            connection.execute(delete_from(agent_texts).where(task))
