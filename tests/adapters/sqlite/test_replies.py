"""The store of replies: cached replies, what they used, summaries of agents, and extracts made later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from leanrag_engine.adapters.sqlite import SqliteDatabase
from leanrag_engine.core.errors import NotFound
from leanrag_engine.core.model import (
    BuildRecord,
    Chunk,
    Extract,
    ExtractedEntity,
    Generation,
    Hierarchy,
    Method,
    Spent,
)
from leanrag_engine.core.ports import ChatRequest, FinishReason, Message, Reply

pytestmark = pytest.mark.anyio

MakeParcel = Callable[..., Any]
MakeHierarchy = Callable[..., Hierarchy]
Publish = Callable[..., Awaitable[Generation]]

REPLY = Reply("Marley was dead.", FinishReason.STOP, 100, 20, cost=0.25)


def asked(step: str = "extraction", *chunk_ids: str, room: int = 500) -> ChatRequest:
    return ChatRequest((Message("user", "?"),), room, step=step, chunk_ids=chunk_ids)


async def keep(
    store: SqliteDatabase, digest: str, request: ChatRequest | None = None, reply: Reply = REPLY, **more: Any
) -> None:
    given = {"collection": "default", "job": "j1", "model": "m", "counted": 90, **more}
    await store.replies.put(
        given["collection"],
        given["job"],
        digest,
        request or asked(),
        reply,
        model=given["model"],
        counted=given["counted"],
    )


@pytest.fixture
async def filled(store: SqliteDatabase, parcel: MakeParcel) -> SqliteDatabase:
    await store.documents.create_collection("default")
    for name in ("carol", "moons"):
        each = parcel(name, *(f"Sentence {number} of {name}." for number in range(3)))
        await store.documents.put("default", each.document, each.chunks, each.extracts)
    return store


async def chunk_ids(store: SqliteDatabase, document_id: str = "carol") -> list[str]:
    return await store.documents.chunk_ids("default", [document_id])


async def delete_document(store: SqliteDatabase, document_id: str = "carol") -> None:
    await store.documents.delete(
        "default", [document_id], None, embedder="", dimension=0, embedder_state=b"", record=BuildRecord()
    )


# --- the cache -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        REPLY,
        Reply("", FinishReason.EMPTY, 7, 0),
        Reply("No.", FinishReason.REFUSAL, 1, 2, cost=0.0),
        Reply("Half a sen", FinishReason.LENGTH, 1, 2),
    ],
)
async def test_a_reply_is_given_again_as_it_was_and_says_that_it_is_kept(
    filled: SqliteDatabase, reply: Reply
) -> None:
    assert await filled.replies.find("d1") is None
    await keep(filled, "d1", reply=reply)
    assert await filled.replies.find("d1") == replace(reply, kept=True)
    assert await filled.replies.find("d2") is None


async def test_a_reply_may_be_asked_of_one_job_alone(filled: SqliteDatabase) -> None:
    await keep(filled, "d1", job="first")
    assert await filled.replies.find("d1", "first")
    assert await filled.replies.find("d1", "second") is None


async def test_a_second_reply_takes_the_place_of_the_first_and_both_are_spent(filled: SqliteDatabase) -> None:
    await keep(filled, "d1", job="first")
    await keep(filled, "d1", reply=Reply("Marley lives.", FinishReason.STOP, 10, 2), job="second")
    kept = await filled.replies.find("d1")
    assert kept
    assert kept.text == "Marley lives."
    assert await filled.replies.spending("default") == [
        Spent("extraction", 2, 110, 22, cost=0.25, unpriced=1, counted=180, room=1000)
    ]


async def test_a_reply_is_kept_for_a_collection_that_there_is(filled: SqliteDatabase) -> None:
    with pytest.raises(NotFound, match="elsewhere"):
        await keep(filled, "d1", collection="elsewhere")


async def test_what_a_killed_process_had_kept_is_there(
    filled: SqliteDatabase, tmp_path: Path, child: Callable[..., Any]
) -> None:
    process = child(
        """
from leanrag_engine.adapters.sqlite import SqliteDatabase
from leanrag_engine.core.ports import ChatRequest, FinishReason, Message, Reply
async def main():
    store = await SqliteDatabase.open(folder, read_only=False)
    for number in range(10):
        asked = ChatRequest((Message("user", "?"),), 9, step="extraction")
        reply = Reply(f"reply {number}", FinishReason.STOP, 1, 1)
        await store.replies.put("default", "j", f"d{number}", asked, reply, model="m", counted=1)
    say("kept")
    wait()
anyio.run(main)
""",
        tmp_path,
    )
    assert process.hear() == "kept"
    process.kill()
    for number in range(10):
        kept = await filled.replies.find(f"d{number}")
        assert kept
        assert kept.text == f"reply {number}"


# --- the ledger ----------------------------------------------------------------------------


async def test_what_was_spent_is_told_by_step_job_model_and_collection(filled: SqliteDatabase) -> None:
    await filled.documents.create_collection("other")
    await keep(filled, "d1")
    await keep(filled, "d2", asked("aggregation", room=100), job="j2", model="n")
    await keep(filled, "d3", asked("aggregation", room=100), Reply("", FinishReason.EMPTY, 5, 0), job="j2")
    await keep(filled, "d4", collection="other")
    one = Spent("extraction", 1, 100, 20, 0.25, 0, 90, 500)
    both = Spent("aggregation", 2, 105, 20, 0.25, 1, 180, 200)
    assert await filled.replies.spending("default") == [both, one]
    assert await filled.replies.spending("default", "j1") == [one]
    assert await filled.replies.spending("default", "j2") == [both]
    assert await filled.replies.spending("default", "j2", "n") == [
        Spent("aggregation", 1, 100, 20, 0.25, 0, 90, 100)
    ]
    assert await filled.replies.spending("default", "none") == []
    assert [each.calls for each in await filled.replies.spending(None)] == [2, 2]


async def test_adding_up_reads_no_text(filled: SqliteDatabase) -> None:
    await keep(filled, "d1")
    sql = "EXPLAIN QUERY PLAN SELECT step, count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost),"
    sql += " sum(counted), sum(room) FROM replies WHERE collection = 1 AND job = 'j1' GROUP BY step"
    plan = await filled._transactions.read(lambda connection: connection.execute(text(sql)).all())
    assert "COVERING INDEX replies_spent" in str(plan[0])


# --- what a deletion removes ---------------------------------------------------------------


async def test_deleting_a_document_removes_replies_about_its_chunks_and_keeps_what_they_used(
    filled: SqliteDatabase,
) -> None:
    carol, moons = await chunk_ids(filled), await chunk_ids(filled, "moons")
    await keep(filled, "theirs", asked("extraction", moons[0], carol[1]))
    await keep(filled, "others", asked("extraction", moons[1]))
    before = await filled.replies.spending("default")
    await delete_document(filled)
    assert await filled.replies.find("theirs") is None
    assert await filled.replies.find("others")
    assert await filled.replies.spending("default") == before
    texts = await filled._transactions.read(
        lambda connection: (
            connection.execute(text("SELECT text FROM replies ORDER BY number")).scalars().all()
        )
    )
    assert texts == [None, REPLY.text]


async def test_what_may_come_from_deleted_chunks_goes_with_the_next_publish_unless_it_is_asked_for(
    filled: SqliteDatabase, hierarchy: MakeHierarchy, publish: Publish
) -> None:
    for digest in ("asked again", "not asked again"):
        await keep(filled, digest, asked("aggregation"))
    await keep(filled, "of other chunks", asked("extraction", *await chunk_ids(filled, "moons")))
    await filled.replies.put_summaries("default", {"t1": {"name": "Used"}, "t2": {"name": "Not used"}})
    before = await filled.replies.spending("default")
    await delete_document(filled)
    assert await filled.replies.find("asked again")
    await filled.replies.use_summaries("default", ["t1"])
    await publish(filled, hierarchy("Scrooge", "Marley"))
    assert await filled.replies.find("asked again")
    assert await filled.replies.find("not asked again") is None
    assert await filled.replies.find("of other chunks")
    assert await filled.replies.summaries("default") == {"t1": {"name": "Used"}}
    assert await filled.replies.spending("default") == before


async def test_a_publish_without_a_deletion_drops_nothing(
    filled: SqliteDatabase, hierarchy: MakeHierarchy, publish: Publish
) -> None:
    await keep(filled, "d1", asked("aggregation"))
    await filled.replies.put_summaries("default", {"t1": {"name": "A"}})
    await publish(filled, hierarchy("Scrooge", "Marley"))
    assert await filled.replies.find("d1")
    assert await filled.replies.summaries("default") == {"t1": {"name": "A"}}


async def test_another_collection_is_not_touched_by_a_deletion(filled: SqliteDatabase) -> None:
    await filled.documents.create_collection("other")
    await keep(filled, "d1", asked("extraction", *await chunk_ids(filled)), collection="other")
    await delete_document(filled)
    assert await filled.replies.find("d1")


# --- what agents wrote ---------------------------------------------------------------------


async def test_a_summary_written_again_takes_the_place_of_the_first_and_makes_the_collection_stale(
    filled: SqliteDatabase, hierarchy: MakeHierarchy, publish: Publish
) -> None:
    before = await filled.documents.collection("default")
    assert before
    await publish(filled, hierarchy("Scrooge"), revision=before.revision)
    await filled.replies.put_summaries("default", {})
    current = await filled.documents.collection("default")
    assert current
    assert not current.stale
    await filled.replies.put_summaries("default", {"t1": {"name": "A", "findings": [{"summary": "é"}]}})
    await filled.replies.put_summaries("default", {"t1": {"name": "B"}, "t2": {"name": "C"}})
    assert await filled.replies.summaries("default") == {"t1": {"name": "B"}, "t2": {"name": "C"}}
    after = await filled.documents.collection("default")
    assert after
    assert after.stale
    assert after.pending_documents == 0


# --- extracts made later -------------------------------------------------------------------


def cited(chunks: list[Chunk]) -> list[str]:
    return [each.citation for each in chunks]


async def test_chunks_that_nobody_has_read_are_handed_out_in_reading_order_page_by_page(
    filled: SqliteDatabase, hierarchy: MakeHierarchy, publish: Publish, parcel: MakeParcel
) -> None:
    everything = await filled.documents.heuristic_chunks("default", pending=True)
    assert cited(everything) == ["d1:c1", "d1:c2", "d1:c3", "d2:c1", "d2:c2", "d2:c3"]
    assert everything == await filled.documents.all_chunks("default")
    await filled.documents.put_extracts("default", [Extract(everything[1].id, Method.MODEL)], revise=False)
    await filled.documents.put_extracts("default", [Extract(everything[3].id, Method.AGENT)], revise=False)
    assert cited(await filled.documents.heuristic_chunks("default", pending=False)) == [
        "d1:c1",
        "d1:c3",
        "d2:c2",
        "d2:c3",
    ]
    page = await filled.documents.heuristic_chunks("default", pending=False, after=(1, 1), limit=2)
    assert cited(page) == ["d1:c3", "d2:c2"]
    held = await filled.documents.collection("default")
    assert held
    await publish(filled, hierarchy("Scrooge"), revision=held.revision)
    assert await filled.documents.heuristic_chunks("default", pending=True) == []
    late = parcel("late", "It came late.")
    await filled.documents.put("default", late.document, late.chunks, late.extracts)
    assert cited(await filled.documents.heuristic_chunks("default", pending=True)) == ["d3:c1"]
    assert len(await filled.documents.heuristic_chunks("default", pending=False)) == 5


async def test_extracts_take_the_place_of_the_chunk_s_old_ones(filled: SqliteDatabase) -> None:
    first, *others = await filled.documents.all_chunks("default")
    before = {each.chunk_id: each for each in await filled.documents.extracts("default")}
    new = [
        Extract(first.id, Method.MODEL, (ExtractedEntity("Marley"),)),
        Extract(first.id, Method.MODEL, (ExtractedEntity("Scrooge"),)),  # such as of a gleaning round
    ]
    gone = Extract("gone meanwhile", Method.MODEL)
    held = await filled.documents.put_extracts("default", [*new, gone], revise=False)
    assert held == [first.id]
    assert await filled.documents.extracts("default") == [*new, *(before[each.id] for each in others)]
    assert await filled.documents.count_extracts("default") == {"heuristic": 5, "model": 2}


@pytest.mark.parametrize("revise", [True, False])
async def test_extracts_of_others_make_the_collection_stale_and_no_document_pending(
    filled: SqliteDatabase, hierarchy: MakeHierarchy, publish: Publish, revise: bool
) -> None:
    before = await filled.documents.collection("default")
    assert before
    await publish(filled, hierarchy("Scrooge"), revision=before.revision)
    chunk = (await filled.documents.all_chunks("default"))[0]
    await filled.documents.put_extracts("default", [Extract(chunk.id, Method.AGENT)], revise=revise)
    after = await filled.documents.collection("default")
    assert after
    assert (after.stale, after.pending_documents) == (revise, 0)
    assert await filled.documents.put_extracts("default", [Extract("none", Method.AGENT)], revise=True) == []
    unchanged = await filled.documents.collection("default")
    assert unchanged == after
