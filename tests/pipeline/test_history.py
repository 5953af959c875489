"""The history of a collection: what each generation changed and cost, what changed since one, and back to one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from leanrag_tests_jobs import build, finish, ingest, open_engine

from leanrag_engine.core.errors import InvalidInput, NotFound
from leanrag_engine.core.history import DocumentChanges, HistoryEntry
from leanrag_engine.core.jobs import BuildRequest, RollbackResult
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.request import Query

pytestmark = pytest.mark.anyio

NOTES = [
    DocumentSource(
        id="skerry", text="Ewan Reid keeps the lighthouse of Skerry. Moira Kerr wrote to Ewan Reid."
    ),
    DocumentSource(
        id="tiree", text="Calum Boyd built the bakery of Tiree. Moira Kerr bought bread in Tiree."
    ),
    DocumentSource(
        id="oban", text="Isla Grant leads the foundry of Oban. Calum Boyd sells bread to Isla Grant."
    ),
]
CHANGED = DocumentSource(id="tiree", text="Calum Boyd built the bakery of Tiree. Rory Shaw bakes there now.")
NEW = DocumentSource(
    id="lewis", text="Ailsa Munro planted the orchard of Lewis. Isla Grant visits Ailsa Munro."
)

opened = open_engine


async def roll_back(engine: LeanRAG, number: int) -> RollbackResult:
    result = (await finish(engine, await engine.submit_rollback(number))).result
    assert isinstance(result, RollbackResult)
    return result


async def delete(engine: LeanRAG, *ids: str) -> None:
    job, _ = await engine.submit_delete(ids)
    assert job
    await finish(engine, job)


async def graph(engine: LeanRAG) -> list[Any]:
    """Everything that is published: entities and relations of all layers."""
    stores, generation = engine._stores.generations, (await engine.collections())[0].generation
    assert generation
    return [
        (
            await stores.layer(generation.number, each.layer),
            await stores.relations(generation.number, each.layer),
        )
        for each in generation.layers
    ]


def names(entry: HistoryEntry, kind: str) -> set[str]:
    return set(getattr(entry.changes.entities, kind).names.values())


async def test_each_generation_is_listed_with_what_changed_why_and_what_it_took(noted: Path) -> None:
    async with open_engine(noted) as engine:
        await ingest(engine, [CHANGED, NEW])
        await build(engine, "rebuild")
        await delete(engine, "oban")
        deleted, third, second, first = await engine.history()
    assert [each.number for each in (first, second, third, deleted)] == [1, 2, 3, 4]
    assert [each.build.mode for each in (first, third, deleted)] == ["rebuild", "rebuild", "deletion"]
    assert first.build.reason == "it is the first build"
    assert third.build.reason == "a rebuild was asked for"
    assert deleted.build.reason == "1 document was deleted"
    assert first.documents == DocumentChanges(added=3)
    assert second.documents == DocumentChanges(added=1, changed=1)
    assert third.documents == DocumentChanges()
    assert deleted.documents == DocumentChanges(removed=1)
    assert first.changes.entities.added.total == first.layers[0].entities
    assert second.changes.entities.added.total > 0
    assert third.changes.entities.added.total == third.changes.entities.removed.total == 0
    assert deleted.changes.entities.removed.total > 0
    assert (first.embedded.anew > 0, first.embedded.reused) == (True, 0)
    assert (third.embedded.anew, third.embedded.reused > 0) == (0, True)
    assert third.seconds > 0
    # A deletion removes all that was built before it.
    assert [each.available for each in (deleted, third, second, first)] == [True, False, False, False]


async def test_entities_that_came_went_and_changed_are_named(noted: Path) -> None:
    async with open_engine(noted) as engine:
        await ingest(engine, [CHANGED, NEW])
        second, _ = await engine.history()
    assert {"Rory Shaw", "Ailsa Munro"} <= names(second, "added")
    assert "Isla Grant" in names(second, "changed")
    assert "Ewan Reid" not in names(second, "added") | names(second, "changed") | names(second, "removed")


async def test_summaries_and_relation_sentences_that_went_stale_are_named(
    tmp_path: Path, scribe: Any
) -> None:
    model = {"llm_model": "openai/tiny", "llm_api_base": scribe.url, "tau": 0, "cluster_size": 4}
    more = DocumentSource(
        id="letters",
        text="Moira Kerr wrote to Calum Boyd about Skerry. Ewan Reid wrote to Isla Grant about Tiree and Oban.",
    )
    async with open_engine(tmp_path, **model) as engine:
        await ingest(engine, NOTES)
    async with open_engine(tmp_path, cluster_size=4) as engine:
        await ingest(engine, [more], build=False)
        await finish(engine, await engine.submit_build(order=BuildRequest(mode="update")))
        _, *above = await graph(engine)
        clusters = {each.id: each for entities, _ in above for each in entities}
        summaries = {each.id: each.name for each in clusters.values() if each.stale}
        sentences = {
            each.id: f"{clusters[each.source_id].name} — {clusters[each.target_id].name}"
            for _, relations in above
            for each in relations
            if each.stale
        }
        assert summaries
        assert sentences
        changes = (await engine.changes()).graph
        newest, *_ = await engine.history()
        assert newest.changes == changes
        assert (changes.summaries.stale.names, changes.sentences.stale.names) == (summaries, sentences)
        assert changes.summaries.stale.names.keys().isdisjoint(changes.summaries.added.names)


async def test_the_model_calls_of_a_build_are_listed_with_it(tmp_path: Path, scribe: Any) -> None:
    async with open_engine(tmp_path, llm_model="openai/tiny", llm_api_base=scribe.url) as engine:
        await ingest(engine, NOTES)
        calls = scribe.calls
        await build(engine, "rebuild")
        again, first = await engine.history()
        spent = (await engine.status()).spent
    assert first.spent.calls == calls > 0
    assert first.spent.prompt_tokens == sum(each.prompt_tokens for each in spent) > 0
    assert again.spent.calls == 0  # the same requests again: every reply was kept


# --- rollback -------------------------------------------------------------------------------


async def test_a_rollback_publishes_what_an_earlier_generation_said_and_the_history_goes_on(
    noted: Path,
) -> None:
    async with open_engine(noted) as engine:
        before = await graph(engine)
        await ingest(engine, [NEW])
        assert await graph(engine) != before
        result = await roll_back(engine, 1)
        assert (result.generation, result.restored, result.pending) == (3, 1, 1)
        assert await graph(engine) == before
        newest, second, _ = await engine.history()
        assert (newest.number, newest.build.mode, newest.build.restored) == (3, "rollback", 1)
        assert newest.changes.entities.removed == second.changes.entities.added
        pending = await engine.changes("2")
        assert [(each.document.id, each.added, each.changed, each.pending) for each in pending.documents] == [
            ("lewis", False, False, True)
        ]
        # What came since is found as a passage, and the next build has it again.
        status = await engine.status()
        assert (status.collection.pending_documents, status.collection.stale) == (1, True)
        assert status.vectors == dict(status.collection.generation.record.vectors)  # type: ignore[union-attr]
        assert "Ailsa Munro" in (await engine.query(Query("Who planted the orchard?"))).context.text
        await finish(engine, await engine.submit_build())
        assert (await engine.ancestors("Ailsa Munro"))[0].name == "Ailsa Munro"
        assert (await engine.history())[0].documents == DocumentChanges(added=1)


async def test_a_collection_can_be_rolled_back_over_documents_that_changed(noted: Path) -> None:
    async with open_engine(noted) as engine:
        await ingest(engine, [CHANGED])
        assert (await roll_back(engine, 1)).pending == 1
        # The passage that spoke of it is gone, and no citation leads elsewhere.
        assert [each.document_id for each in (await engine.sources(entity="Moira Kerr")).chunks] == ["skerry"]
        assert "Rory Shaw" in (await engine.query(Query("Who bakes at Tiree?"))).context.text
        await finish(engine, await engine.submit_build())
        assert (await engine.ancestors("Rory Shaw"))[0].name == "Rory Shaw"


async def test_a_rollback_that_was_killed_after_it_had_published_publishes_nothing_more(noted: Path) -> None:
    async with open_engine(noted) as engine:
        await build(engine, "rebuild")
        first = await roll_back(engine, 1)
        again = await roll_back(engine, 1)
        assert again.generation == first.generation
        assert len(await engine.history()) == 3


async def test_a_rollback_to_what_is_not_there_says_why_and_changes_nothing(tmp_path: Path) -> None:
    async with open_engine(tmp_path, kept_generations=2) as engine:
        await ingest(engine, NOTES)
        await build(engine, "rebuild")
        await build(engine, "rebuild")
        with pytest.raises(
            NotFound, match=r"generation 1 are gone: the last 2 are kept.*one of these"
        ) as gone:
            await engine.submit_rollback(1)
        assert [each.name for each in gone.value.candidates] == ["2"]
        with pytest.raises(NotFound, match="no generation 9"):
            await engine.submit_rollback(9)
        with pytest.raises(InvalidInput, match="Generation 3 is the published one"):
            await engine.submit_rollback(3)
        await delete(engine, "oban")
        with pytest.raises(NotFound, match="a deletion of documents"):
            await engine.submit_rollback(2)
        assert [each.number for each in await engine.history()] == [4, 3, 2, 1]


async def test_a_generation_of_another_collection_cannot_be_rolled_back_to(noted: Path) -> None:
    async with open_engine(noted) as engine:
        await finish(engine, await engine.submit_ingest(NOTES[:1], collection="other"))
        with pytest.raises(NotFound, match="'other' has had no generation 1"):
            await engine.submit_rollback(1, collection="other")


# --- pruning --------------------------------------------------------------------------------


async def test_old_generations_lose_their_data_by_count_and_keep_their_entries(noted: Path) -> None:
    async with open_engine(noted) as engine:
        for _ in range(3):
            await build(engine, "rebuild")
        found = await engine.history()
        stored = await engine._stores.generations.find_all("default")
        spaces = set(await engine._stores.vectors.spaces())
    assert [(each.number, each.available) for each in found] == [(4, True), (3, True), (2, True), (1, False)]
    assert found[-1].changes.entities.added.total > 0
    # Vectors are kept for readers alone: a rollback writes those that it needs. A space without rows does not exist.
    assert spaces <= {space for each in stored[:2] for space in each.record.spaces.by_kind().values()}


async def test_generations_that_were_replaced_too_long_ago_lose_their_data(tmp_path: Path) -> None:
    async with open_engine(tmp_path, kept_days=0, kept_generations=9) as engine:
        await ingest(engine, NOTES)
        for _ in range(2):
            await build(engine, "rebuild")
        assert [each.available for each in await engine.history()] == [True, True, False]


# --- what changed since ---------------------------------------------------------------------


async def test_what_changed_since_a_generation_is_found_by_its_number(noted: Path) -> None:
    async with open_engine(noted) as engine:
        await ingest(engine, [CHANGED])
        await ingest(engine, [NEW])
        await ingest(engine, [DocumentSource(id="late", text="Fergus Hay came late to Mull.")], build=False)
        last, all_ = await engine.changes(), await engine.changes("1")
    assert (last.since, last.published.number, last.exact) == (2, 3, True)
    assert [(each.document.id, each.added, each.pending) for each in last.documents] == [
        ("lewis", True, False),
        ("late", True, True),
    ]
    assert [(each.document.id, each.added) for each in all_.documents] == [
        ("tiree", False),
        ("lewis", True),
        ("late", True),
    ]
    assert {"Rory Shaw", "Ailsa Munro"} <= set(all_.graph.entities.added.names.values())
    assert "Rory Shaw" not in last.graph.entities.added.names.values()


async def test_of_a_date_the_generation_that_was_published_then_counts(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await ingest(engine, NOTES)
        between = datetime.now(UTC)
        await ingest(engine, [NEW])
        since = await engine.changes(between.isoformat())
        assert (since.since, [each.document.id for each in since.documents]) == (1, ["lewis"])
        everything = await engine.changes("2020-01-31")
        assert (everything.since, len(everything.documents)) == (0, 4)
        assert everything.graph.entities.added.total == everything.published.layers[0].entities
        for wrong in ("yesterday", "-1", "2020-13-01", "9" * 5000):
            with pytest.raises(InvalidInput, match="neither a generation nor a date"):
                await engine.changes(wrong)
        with pytest.raises(NotFound, match="no generation 77"):
            await engine.changes("77")


async def test_since_a_pruned_generation_the_records_of_the_builds_are_added_up(tmp_path: Path) -> None:
    async with open_engine(tmp_path, kept_generations=2) as engine:
        await ingest(engine, NOTES)
        await ingest(engine, [CHANGED])
        await ingest(engine, [NEW])
        await ingest(engine, [NOTES[1]])  # as it was at first
        pruned = await engine.changes("1")
        assert not pruned.exact
        added = set(pruned.graph.entities.added.names.values())
        # It came with one build and went with another.
        assert "Rory Shaw" not in added | set(pruned.graph.entities.removed.names.values())
        assert "Ailsa Munro" in added
        assert {each.document.id for each in pruned.documents} == {"tiree", "lewis"}


async def test_deleted_documents_are_counted_and_not_named(noted: Path) -> None:
    async with open_engine(noted) as engine:
        await delete(engine, "oban")
        found = await engine.changes("1")
        assert (found.removed, found.documents) == (1, ())
        assert found.graph.entities.removed.total > 0
        assert found.graph.entities.removed.names == {}


async def test_a_deletion_counts_the_texts_that_it_embedded_itself(noted: Path) -> None:
    async with open_engine(noted) as engine:
        before = (await engine.history())[0]
        await delete(engine, "oban")
        after = (await engine.history())[0]
    assert (before.build.mode, after.build.mode) == ("rebuild", "deletion")
    assert after.embedded.anew < before.embedded.anew
