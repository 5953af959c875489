"""The store of replies: cached replies, what they used, summaries of agents, and extracts made later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from leanrag_engine.adapters.sql import SqlDatabase
from leanrag_engine.core.errors import NotFound
from leanrag_engine.core.graphs.graph import GenerationContent, Graph, Hierarchy
from leanrag_engine.core.history import Publication
from leanrag_engine.core.model import BuildRecord, Chunk, Extract, ExtractedEntity, Generation, Method, Spent
from leanrag_engine.core.ports import AgentText, ChatRequest, FinishReason, Message, Reply, ReplyRecord

pytestmark = pytest.mark.anyio

MakeParcel = Callable[..., Any]
MakeHierarchy = Callable[..., Hierarchy]
Publish = Callable[..., Awaitable[Generation]]

REPLY = Reply("Marley was dead.", FinishReason.STOP, 100, 20, cost=0.25)


def make_request(step: str = "extraction", *chunk_ids: str, room: int = 500) -> ChatRequest:
    return ChatRequest((Message("user", "?"),), room, step=step, chunk_ids=chunk_ids)


async def put_reply(
    store: SqlDatabase, digest: str, request: ChatRequest | None = None, reply: Reply = REPLY, **more: Any
) -> None:
    given = {"collection": "default", "job": "j1", "model": "m", "counted": 90, **more}
    asked = request or make_request()
    record = ReplyRecord(given["job"], digest, asked, reply, given["model"], given["counted"])
    await store.replies.put(given["collection"], record)


@pytest.fixture
async def filled_store(store: SqlDatabase, parcel: MakeParcel) -> SqlDatabase:
    await store.documents.create_collection("default")
    for name in ("carol", "moons"):
        each = parcel(name, *(f"Sentence {number} of {name}." for number in range(3)))
        await store.documents.put_all("default", [each])
    return store


async def chunk_ids(store: SqlDatabase, document_id: str = "carol") -> list[str]:
    return await store.documents.chunk_ids("default", [document_id])


async def delete_document(store: SqlDatabase, document_id: str = "carol") -> None:
    await store.documents.delete("default", [document_id], None, Publication())


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
async def test_a_cached_reply_is_returned_unchanged_and_marked_as_kept(
    filled_store: SqlDatabase, reply: Reply
) -> None:
    assert await filled_store.replies.find("d1") is None
    await put_reply(filled_store, "d1", reply=reply)
    assert await filled_store.replies.find("d1") == replace(reply, kept=True)
    assert await filled_store.replies.find("d2") is None


async def test_a_reply_can_be_looked_up_for_one_job_only(filled_store: SqlDatabase) -> None:
    await put_reply(filled_store, "d1", job="first")
    assert await filled_store.replies.find("d1", "first")
    assert await filled_store.replies.find("d1", "second") is None


async def test_a_second_reply_replaces_the_first_and_both_count_as_spent(filled_store: SqlDatabase) -> None:
    await put_reply(filled_store, "d1", job="first")
    await put_reply(filled_store, "d1", reply=Reply("Marley lives.", FinishReason.STOP, 10, 2), job="second")
    kept = await filled_store.replies.find("d1")
    assert kept
    assert kept.text == "Marley lives."
    assert await filled_store.replies.spending("default") == [
        Spent("extraction", 2, 110, 22, cost=0.25, unpriced=1, counted=180, room=1000)
    ]


async def test_a_reply_for_an_unknown_collection_is_refused(filled_store: SqlDatabase) -> None:
    with pytest.raises(NotFound, match="elsewhere"):
        await put_reply(filled_store, "d1", collection="elsewhere")


async def test_replies_of_a_killed_process_survive(
    filled_store: SqlDatabase, place: Any, child: Callable[..., Any]
) -> None:
    process = child(
        """
from leanrag_engine.core.ports import ChatRequest, FinishReason, Message, Reply, ReplyRecord
async def main():
    store = await open_store()
    for number in range(10):
        asked = ChatRequest((Message("user", "?"),), 9, step="extraction")
        reply = Reply(f"reply {number}", FinishReason.STOP, 1, 1)
        await store.replies.put("default", ReplyRecord("j", f"d{number}", asked, reply, "m", 1))
    say("kept")
    wait()
anyio.run(main)
""",
        place.address,
    )
    assert process.read_line() == "kept"
    process.kill()
    for number in range(10):
        kept = await filled_store.replies.find(f"d{number}")
        assert kept
        assert kept.text == f"reply {number}"


# --- the ledger ----------------------------------------------------------------------------


async def test_spending_is_added_up_by_step_job_model_and_collection(filled_store: SqlDatabase) -> None:
    await filled_store.documents.create_collection("other")
    await put_reply(filled_store, "d1")
    await put_reply(filled_store, "d2", make_request("aggregation", room=100), job="j2", model="n")
    await put_reply(
        filled_store,
        "d3",
        make_request("aggregation", room=100),
        Reply("", FinishReason.EMPTY, 5, 0),
        job="j2",
    )
    await put_reply(filled_store, "d4", collection="other")
    one = Spent("extraction", 1, 100, 20, 0.25, 0, 90, 500)
    both = Spent("aggregation", 2, 105, 20, 0.25, 1, 180, 200)
    assert await filled_store.replies.spending("default") == [both, one]
    assert await filled_store.replies.spending("default", "j1") == [one]
    assert await filled_store.replies.spending("default", "j2") == [both]
    assert await filled_store.replies.spending("default", "j2", "n") == [
        Spent("aggregation", 1, 100, 20, 0.25, 0, 90, 100)
    ]
    assert await filled_store.replies.spending("default", "none") == []
    assert [each.calls for each in await filled_store.replies.spending(None)] == [2, 2]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_spending_is_added_up_from_an_index_without_reading_texts(filled_store: SqlDatabase) -> None:
    await put_reply(filled_store, "d1")
    sql = "EXPLAIN QUERY PLAN SELECT step, count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost),"
    sql += " sum(counted), sum(room) FROM replies WHERE collection = 1 AND job = 'j1' GROUP BY step"
    plan = await filled_store._transactions.read(lambda connection: connection.execute(text(sql)).all())
    assert "COVERING INDEX replies_spent" in str(plan[0])


# --- what a deletion removes ---------------------------------------------------------------


async def test_deleting_a_document_removes_replies_about_its_chunks_and_keeps_what_they_used(
    filled_store: SqlDatabase,
) -> None:
    carol, moons = await chunk_ids(filled_store), await chunk_ids(filled_store, "moons")
    await put_reply(filled_store, "theirs", make_request("extraction", moons[0], carol[1]))
    await put_reply(filled_store, "others", make_request("extraction", moons[1]))
    before = await filled_store.replies.spending("default")
    await delete_document(filled_store)
    assert await filled_store.replies.find("theirs") is None
    assert await filled_store.replies.find("others")
    assert await filled_store.replies.spending("default") == before
    texts = await filled_store._transactions.read(
        lambda connection: (
            connection.execute(text("SELECT text FROM replies ORDER BY number")).scalars().all()
        )
    )
    assert texts == [None, REPLY.text]


async def test_a_deletion_drops_what_rests_on_changed_summaries_on_unknown_things_or_on_replaced_chunks(
    filled_store: SqlDatabase, hierarchy: MakeHierarchy, publish: Publish, parcel: MakeParcel
) -> None:
    layers = hierarchy("Scrooge", "Marley")
    await publish(filled_store, layers)
    root = layers.layers[-1].entities[0]
    moons = await chunk_ids(filled_store, "moons")
    newer = parcel("moons", "Io is a moon.")
    await filled_store.documents.put_all("default", [newer])
    rests = {
        "the root": [root.id],
        "an unknown cluster": ["gone"],
        "nothing that is known": [],
        "a replaced chunk": [moons[0]],
        "a new chunk": [newer.chunks[0].id],
    }
    for digest, ids in rests.items():
        await put_reply(filled_store, digest, make_request("aggregation", *ids))
        text_of_agent = {digest: AgentText({"name": digest}, tuple(ids))}
        await filled_store.replies.put_texts("default", "summary", text_of_agent, replace=True)
    before = await filled_store.replies.spending("default")
    for rewritten, kept in ((False, {"the root", "a new chunk"}), (True, {"a new chunk"})):
        if rewritten:
            again = parcel("carol", "Marley was dead.")
            await filled_store.documents.put_all("default", [again])
        remains = layers
        if rewritten:
            changed = Graph((replace(root, description="Other words."),), layers.layers[-1].relations)
            remains = Hierarchy((*layers.layers[:-1], changed))
        await filled_store.documents.delete(
            "default",
            ["carol"],
            GenerationContent(remains, "fitted-test", 8, b"x", BuildRecord()),
            Publication(),
        )
        assert {each for each in rests if await filled_store.replies.find(each)} == kept
        assert set(await summaries(filled_store)) == kept
    assert await filled_store.replies.spending("default") == before


async def test_a_publish_without_a_deletion_drops_nothing(
    filled_store: SqlDatabase, hierarchy: MakeHierarchy, publish: Publish
) -> None:
    await put_reply(filled_store, "d1", make_request("aggregation"))
    await put_summaries(filled_store, {"t1": {"name": "A"}})
    await publish(filled_store, hierarchy("Scrooge", "Marley"))
    assert await filled_store.replies.find("d1")
    assert await summaries(filled_store) == {"t1": {"name": "A"}}


async def test_another_collection_is_not_touched_by_a_deletion(filled_store: SqlDatabase) -> None:
    await filled_store.documents.create_collection("other")
    await put_reply(
        filled_store, "d1", make_request("extraction", *await chunk_ids(filled_store)), collection="other"
    )
    await delete_document(filled_store)
    assert await filled_store.replies.find("d1")


async def put_summaries(store: SqlDatabase, texts: dict[str, dict[str, Any]]) -> None:
    wrapped = {id_: AgentText(each) for id_, each in texts.items()}
    await store.replies.put_texts("default", "summary", wrapped, replace=True)


async def summaries(store: SqlDatabase) -> dict[str, Any]:
    return {id_: each.text for id_, each in (await store.replies.texts("default", "summary")).items()}


# --- what agents wrote ---------------------------------------------------------------------


async def test_a_new_summary_replaces_the_old_one_and_makes_the_collection_stale(
    filled_store: SqlDatabase, hierarchy: MakeHierarchy, publish: Publish
) -> None:
    before = await filled_store.documents.collection("default")
    assert before
    await publish(filled_store, hierarchy("Scrooge"), revision=before.revision)
    await put_summaries(filled_store, {})
    current = await filled_store.documents.collection("default")
    assert current
    assert not current.stale
    await put_summaries(filled_store, {"t1": {"name": "A", "findings": [{"summary": "é"}]}})
    await put_summaries(filled_store, {"t1": {"name": "B"}, "t2": {"name": "C"}})
    assert await summaries(filled_store) == {"t1": {"name": "B"}, "t2": {"name": "C"}}
    after = await filled_store.documents.collection("default")
    assert after
    assert after.stale
    assert after.pending_documents == 0


# --- extracts made later -------------------------------------------------------------------


def list_citations(chunks: list[Chunk]) -> list[str]:
    return [each.citation for each in chunks]


async def test_heuristic_chunks_come_in_reading_order(
    filled_store: SqlDatabase, hierarchy: MakeHierarchy, publish: Publish, parcel: MakeParcel
) -> None:
    everything = await filled_store.documents.heuristic_chunks("default", due=True)
    assert list_citations(everything) == ["d1:c1", "d1:c2", "d1:c3", "d2:c1", "d2:c2", "d2:c3"]
    assert everything == await filled_store.documents.all_chunks("default")
    await filled_store.documents.put_extracts("default", [Extract(everything[1].id, Method.MODEL)])
    await filled_store.documents.put_extracts("default", [Extract(everything[3].id, Method.AGENT)])
    assert list_citations(await filled_store.documents.heuristic_chunks("default", due=False)) == [
        "d1:c1",
        "d1:c3",
        "d2:c2",
        "d2:c3",
    ]
    stored = await filled_store.documents.collection("default")
    assert stored
    await publish(filled_store, hierarchy("Scrooge"), revision=stored.revision)
    await filled_store.documents.accept_heuristic("default")
    assert await filled_store.documents.heuristic_chunks("default", due=True) == []
    late = parcel("late", "It came late.")
    await filled_store.documents.put_all("default", [late])
    assert list_citations(await filled_store.documents.heuristic_chunks("default", due=True)) == ["d3:c1"]
    assert len(await filled_store.documents.heuristic_chunks("default", due=False)) == 5


async def test_new_extracts_replace_the_old_ones_of_their_chunks(filled_store: SqlDatabase) -> None:
    first, *others = await filled_store.documents.all_chunks("default")
    before = {each.chunk_id: each for each in await filled_store.documents.extracts("default")}
    new = [
        Extract(first.id, Method.MODEL, (ExtractedEntity("Marley"),)),
        Extract(first.id, Method.MODEL, (ExtractedEntity("Scrooge"),)),  # such as of a gleaning round
    ]
    gone = Extract("gone meanwhile", Method.MODEL)
    replaced = await filled_store.documents.put_extracts("default", [*new, gone])
    assert replaced == [first.id]
    assert await filled_store.documents.extracts("default") == [*new, *(before[each.id] for each in others)]
    assert await filled_store.documents.count_extracts("default") == {"heuristic": 5, "model": 2}


async def test_new_extracts_make_the_collection_stale_and_no_document_pending(
    filled_store: SqlDatabase, hierarchy: MakeHierarchy, publish: Publish
) -> None:
    before = await filled_store.documents.collection("default")
    assert before
    await publish(filled_store, hierarchy("Scrooge"), revision=before.revision)
    chunk = (await filled_store.documents.all_chunks("default"))[0]
    await filled_store.documents.put_extracts("default", [Extract(chunk.id, Method.AGENT)])
    after = await filled_store.documents.collection("default")
    assert after
    assert (after.stale, after.pending_documents) == (True, 0)
    assert await filled_store.documents.put_extracts("default", [Extract("none", Method.AGENT)]) == []
    unchanged = await filled_store.documents.collection("default")
    assert unchanged == after


async def test_another_text_stays_unless_it_is_to_be_replaced(filled_store: SqlDatabase) -> None:
    replies = filled_store.replies
    new = {"t1": AgentText({"name": "B"}), "t2": AgentText({"name": "C"})}
    await put_summaries(filled_store, {"t1": {"name": "A"}})
    assert await replies.put_texts("default", "summary", new, replace=False) == ["t1"]
    assert await summaries(filled_store) == {"t1": {"name": "A"}, "t2": {"name": "C"}}
    assert await replies.put_texts("default", "summary", new, replace=True) == ["t1"]
    assert (await summaries(filled_store))["t1"] == {"name": "B"}
    assert not await replies.texts("default", "relation")


async def test_a_text_goes_with_the_documents_that_it_rests_on(filled_store: SqlDatabase) -> None:
    gone, stays = await chunk_ids(filled_store), await chunk_ids(filled_store, "moons")
    texts = {
        "e1": AgentText({"description": "A"}, gone[:1]),
        "e2": AgentText({"description": "B"}, stays[:1]),
    }
    await filled_store.replies.put_texts("default", "description", texts, replace=False)
    await delete_document(filled_store)
    assert list(await filled_store.replies.texts("default", "description")) == ["e2"]
