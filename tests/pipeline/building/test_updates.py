"""A corpus that changes: what an update keeps, what it says is stale, and that it ends where a rebuild would."""

from __future__ import annotations

import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from leanrag_tests_jobs import build, finish, ingest, open_engine, published

from leanrag_engine.adapters.sql.dialect.sqlite.opening import FILE
from leanrag_engine.adapters.sql.generations import entities
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.graphs.stored import pack_layers
from leanrag_engine.core.jobs import AskedMode
from leanrag_engine.core.model import DocumentSource, Entity, Method, Relation
from leanrag_engine.engine import LeanRAG
from leanrag_engine.hierarchy.health import count_methods
from leanrag_engine.pipeline.index import read_hierarchy
from leanrag_engine.retrieval.graph.adjacency_cache import make_adjacency
from leanrag_engine.retrieval.request import Query

pytestmark = pytest.mark.anyio

TRADES = ("lighthouse", "bakery", "foundry", "orchard", "printing house", "observatory")
NAMES = ("Ewan Reid", "Moira Kerr", "Calum Boyd", "Isla Grant", "Rory Shaw", "Ailsa Munro", "Fergus Hay")
PLACES = ("Skerry", "Tiree", "Arbroath", "Oban", "Islay", "Lewis", "Mull", "Barra", "Jura", "Iona", "Coll")


def note(number: int, more: str = "") -> DocumentSource:
    """A document about a person of its own at a trade and place that others share."""
    person = f"{NAMES[number % 7]} {'ABCDEFGHIJ'[number // 7]}"
    trade, place, other = TRADES[number % 6], PLACES[number % 11], PLACES[(number * 3 + 1) % 11]
    text = (
        f"{person} keeps the {trade} of {place}. The {trade} of {place} was built by {person} in {1700 + number}. "
        f"{person} wrote letters to the {trade} of {other}. {more}"
    )
    return DocumentSource(text=text, title=f"Note {number}", id=f"n{number}")


def isle_note(isle: int, number: int) -> DocumentSource:
    """A document about an isle of which no other one tells."""
    place, first, second = (
        f"{stem}{'aeiouy'[isle % 6]}{'bdfgklmnprst'[isle // 6]}" for stem in ("Ske", "Tor", "Fen")
    )
    text = (
        f"{first} {NAMES[number]} of {place} Isle met {second} {NAMES[number]} at {place} Harbour. "
        f"{second} {NAMES[number]} built {place} Harbour with {first} {NAMES[number - 1]}."
    )
    return DocumentSource(text=text, title=f"{place} {number}", id=f"i{isle}-{number}")


CIRCLES = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
]
NOTES = [note(number) for number in range(30)]
ISLES = [isle_note(isle, number) for isle in range(30) for number in range(6)]

opened = partial(open_engine, embedder="fitted", cluster_size=8)


async def layers(engine: LeanRAG) -> tuple[Graph, ...]:
    return (await read_hierarchy(engine._stores, await published(engine))).layers


def without_parents(graph: Graph) -> dict[str, Entity]:
    """G0 as it was merged: the clusters above it may differ."""
    return {
        each.id: replace(
            each, parent_id=None, second_parent_id=None, responsibility=1.0, second_responsibility=0.0
        )
        for each in graph.entities
    }


def companions(graph: Graph) -> dict[str, set[str]]:
    """The members of each cluster."""
    members: dict[str, set[str]] = defaultdict(set)
    for each in graph.entities:
        members[each.parent_id or ""].add(each.id)
    return members


async def submit_summaries(engine: LeanRAG) -> int:
    """Write every pending summary of the lowest layer, as an agent would."""
    page = await engine.pending_work("summary", 50)
    items = [
        {
            "work_id": item.work_id,
            "name": f"Trades of the {circle} circle",
            "description": f"The trades of the {circle} circle are kept by those who write to each other.",
            "findings": [
                {
                    "summary": f"They trade {what}.",
                    "explanation": f"The {circle} circle is known for its {what}.",
                }
                for what in ("oil", "bread", "iron", "apples", "maps")
            ],
        }
        for circle, item in zip(CIRCLES, page.items, strict=False)
    ]
    done = await engine.submit_summaries(items)
    assert len(done.accepted) == len(items), done.rejected
    return len(items)


async def test_the_adjacency_and_the_record_after_each_change_are_those_of_all_rows(tmp_path: Path) -> None:
    """An update makes them of the adjacency and the columns of the build before; the oracle reads every row."""
    async with opened(tmp_path) as engine:

        async def check() -> Hierarchy:
            generation = await published(engine)
            stores = engine._stores
            hierarchy = await read_hierarchy(stores, generation)
            chunks = await stores.documents.all_chunks(generation.collection)
            found = (await stores.adjacencies.of(generation)).arrays()
            expected = make_adjacency(hierarchy.layers, chunks).arrays()
            assert [name for name in expected if not np.array_equal(found[name], expected[name])] == []
            columns = await stores.adjacencies.find_arrays("columns", generation)
            if columns is not None:
                places = (columns["entities-places"], columns["relations-places"])
                packed = pack_layers(hierarchy.layers, places)
                assert [name for name in packed if not np.array_equal(columns[name], packed[name])] == []
            return hierarchy

        await ingest(engine, NOTES)
        await submit_summaries(engine)
        for changed in (
            [note(30)],
            [note(4, "It was sold to Nightingale Harbour.")],
            [replace(note(5), title="Nightingale Harbour"), note(31, "Oban bought it.")],
        ):
            built = await ingest(engine, changed)
            assert built.mode == "update"
            assert (await published(engine)).record.methods == count_methods(await check())
        await finish(engine, (await engine.submit_delete(["n3", "n30"]))[0] or pytest.fail("no job"))
        await check()
        for changed in ([note(3)], [note(6, "Islay and Jura lie near it.")]):
            assert (await ingest(engine, changed)).mode == "update"
            await check()


async def test_an_update_reads_few_of_the_relations_and_none_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    relations_at = entities.relations_at

    def count(connection: Any, generation: int, positions: Sequence[int]) -> list[Relation]:
        read.extend(positions)
        return relations_at(connection, generation, positions)

    async with opened(tmp_path) as engine:
        await ingest(engine, ISLES)
        before = await layers(engine)
        monkeypatch.setattr(entities, "relations_at", count)
        await ingest(engine, [isle_note(3, 6)])
        after = await layers(engine)
    assert len(read) < 0.2 * sum(len(each.relations) for each in before)
    assert {each.id for each in before[0].relations} < {each.id for each in after[0].relations}


async def test_the_vector_index_stays_open_after_a_change_in_place_until_another_process_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as engine:
        refresh, reopened = engine._stores.vectors.refresh, list[str]()

        async def count() -> None:
            reopened.append("again")
            await refresh()

        monkeypatch.setattr(engine._stores.vectors, "refresh", count)
        await ingest(engine, ISLES)
        await ingest(engine, [isle_note(3, 6)])
        assert reopened
        reopened.clear()
        for isle in (5, 7):
            new = isle_note(isle, 6)
            assert (await ingest(engine, [new])).mode == "update"
            found = await engine.query(Query(f"Nightingale {new.text}", mode="naive", token_budget=300))
            assert new.title in found.context.text
        assert not reopened
        await engine._stores.generations.bump_vector_version()
        await engine.query(Query("lighthouse"))
        assert len(reopened) == 1
        await ingest(engine, [isle_note(9, 6)])
        assert len(reopened) == 2


async def test_columns_of_other_rows_are_noticed_and_all_rows_are_read(noted: Path) -> None:
    async with opened(noted) as engine:
        before = await layers(engine)
    (folder,) = (noted / "arrays").glob("*-columns")
    ids = np.load(folder / "entities-ids.npy")
    np.save(folder / "entities-ids.npy", np.roll(ids, 1))
    async with opened(noted) as engine:
        assert await layers(engine) == before
        assert (await ingest(engine, [note(30)])).mode == "update"
        changed = await layers(engine)
    async with opened(noted / "whole") as engine:
        await ingest(engine, NOTES)
        await ingest(engine, [note(30)])
        assert await layers(engine) == changed


async def test_empty_files_of_arrays_are_made_anew_by_the_next_query_and_ingest(noted: Path) -> None:
    question = Query("Who built the lighthouse of Skerry?")
    async with opened(noted) as engine:
        before = (await engine.query(question)).context.text
    for file in (noted / "arrays").rglob("*.npy"):
        file.write_bytes(b"")
    async with opened(noted) as engine:
        assert (await engine.query(question)).context.text == before
        assert (await ingest(engine, [note(30)])).mode == "update"
    assert all(file.stat().st_size for file in (noted / "arrays").rglob("*.npy"))


async def test_what_is_kept_for_the_next_update_can_be_lost(tmp_path: Path) -> None:
    """Then all rows are read, and the result is the same."""

    async def change(folder: Path, *, lose: bool) -> list[tuple[Graph, ...]]:
        found = []
        for changed in (NOTES, [note(30), note(4, "It was sold to Coll.")], [note(31)], [note(2, "Jura.")]):
            if lose:
                shutil.rmtree(folder / "arrays", ignore_errors=True)
            async with opened(folder) as engine:
                await ingest(engine, changed)
                found.append(await layers(engine))
        return found

    assert await change(tmp_path / "kept", lose=False) == await change(tmp_path / "lost", lose=True)


async def test_an_update_keeps_old_entities_together_and_writes_only_the_clusters_that_changed(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as engine:
        first = await ingest(engine, NOTES)
        assert (first.mode, first.reason) == ("rebuild", "it is the first build")
        before = await layers(engine)
        second = await ingest(engine, [note(30)])
        assert second.mode == "update"
        after = await layers(engine)
        old, new = companions(before[0]), companions(after[0])
        together = [members for members in old.values() if members in new.values()]
        assert len(together) >= len(old) - 4
        joined = [members for members in new.values() if members - set().union(*old.values())]
        assert joined
        (new_chunk,) = {id_ for each in after[0].entities for id_ in each.chunk_ids} - {
            id_ for each in before[0].entities for id_ in each.chunk_ids
        }
        unsaid = {each.id for each in before[0].entities} & {
            each.id for each in after[0].entities if new_chunk not in each.chunk_ids
        }
        same = {each.id: each for each in before[1].entities if old[each.id] <= unsaid}
        kept = [each for each in after[1].entities if each.id in same]
        assert kept
        assert all(each.description == same[each.id].description for each in kept)


async def test_what_an_agent_wrote_stays_when_documents_come_and_says_what_changed(noted: Path) -> None:
    async with opened(noted) as engine:
        written = await submit_summaries(engine)
        assert (await build(engine)).stale == 0
        texts = {each.name: each.description for each in (await layers(engine))[1].entities}
        result = await ingest(engine, [note(30), note(31)])
        after = (await layers(engine))[1].entities
        agents = [each for each in after if each.method is Method.AGENT]
        assert len(agents) == written
        assert all(texts[each.name] == each.description for each in agents)
        stale = [each for each in agents if each.stale]
        assert 0 < len(stale) == result.stale
        assert sum(each.stale.joined for each in stale if each.stale) > 0
        waiting = await engine.pending_work("summary", 50)
        assert {each.id for each in stale} <= {item.work_id for item in waiting.items}
        assert any("are stale" in warning for warning in (await engine.status()).warnings)


async def test_an_agents_summary_counts_although_its_cluster_changed_before_the_build(noted: Path) -> None:
    async with opened(noted) as engine:
        written = await submit_summaries(engine)
        await ingest(engine, [note(30), note(31)])
        after = (await layers(engine))[1].entities
        assert sum(each.method is Method.AGENT for each in after) == written
        assert any(each.stale for each in after)


async def test_a_stale_summary_that_is_written_again_is_stale_no_more(noted: Path) -> None:
    async with opened(noted) as engine:
        await submit_summaries(engine)
        assert (await ingest(engine, [note(30), note(31)])).stale
        await submit_summaries(engine)
        assert (await build(engine)).stale == 0
        assert (await ingest(engine, [note(31)])).stale == 0  # unchanged


async def test_a_rebuild_carries_written_summaries_over_by_the_members_of_their_clusters(noted: Path) -> None:
    async with opened(noted) as engine:
        written = await submit_summaries(engine)
        await build(engine)
        result = await build(engine, "rebuild")
        assert (result.mode, result.reason) == ("rebuild", "a rebuild was asked for")
        after = (await layers(engine))[1].entities
        assert sum(each.method is Method.AGENT for each in after) == written
        assert result.stale == 0


async def test_an_update_asks_the_model_for_little_and_a_missing_model_undoes_nothing(
    tmp_path: Path, scribe: Any
) -> None:
    model = {"llm_model": "openai/tiny", "llm_api_base": scribe.url, "tau": 0}
    async with opened(tmp_path / "a", **model) as engine:
        await ingest(engine, NOTES)
        assert {each.method for each in (await layers(engine))[1].entities} == {Method.MODEL}
        paid = len(scribe.requests)
        scribe.requests.clear()
        await ingest(engine, [note(30)])
        assert len(scribe.requests) <= paid / 4
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    async with opened(tmp_path / "b") as engine:
        before = {(each.name, each.description) for each in (await layers(engine))[1].entities}
        sentences = {each.description for each in (await layers(engine))[1].relations}
        result = await ingest(engine, [note(31)])
        assert result.stale
        after = (await layers(engine))[1]
        # A cluster that was split off is new; nobody has written of it.
        kept = {(each.name, each.description) for each in after.entities if each.method is Method.MODEL}
        assert kept == before
        written = [each for each in after.relations if each.method is Method.MODEL]
        assert {each.description for each in written} <= sentences
        assert len(written) >= len(sentences) - 1


async def test_sentences_whose_document_is_gone_go_and_the_rest_of_a_summary_stays(noted: Path) -> None:
    async with opened(noted) as engine:
        written = await submit_summaries(engine)
        await build(engine)
        await finish(engine, (await engine.submit_delete(["n3"]))[0] or pytest.fail("no job"))
        hidden = [each for each in (await layers(engine))[1].entities if each.method is not Method.AGENT]
        assert not hidden
        assert (await build(engine)).mode == "update"
        after = (await layers(engine))[1].entities
        assert sum(each.method is Method.AGENT for each in after) >= written - 1


@pytest.mark.parametrize("mode", ["auto", "update"])
async def test_after_any_changes_g0_is_that_of_a_build_from_nothing(tmp_path: Path, mode: AskedMode) -> None:
    changed = [*(note(n, "It burned down in a storm.") for n in (4, 9)), note(34), note(35)]
    async with opened(tmp_path / "grown") as engine:
        await ingest(engine, NOTES[:22])
        for step in (NOTES[22:26], NOTES[26:], changed):
            await ingest(engine, step, build=False)
            await build(engine, mode)
        await finish(engine, (await engine.submit_delete(["n7", "n34"]))[0] or pytest.fail("no job"))
        assert (await build(engine, mode)).mode == "update"
        grown = await layers(engine)
    left = {each.id: each for each in [*NOTES, *changed] if each.id not in ("n7", "n34")}
    async with opened(tmp_path / "at once") as engine:
        await ingest(engine, list(left.values()))
        at_once = await layers(engine)
    assert without_parents(grown[0]) == without_parents(at_once[0])
    assert grown[0].relations == at_once[0].relations


async def test_after_many_changes_auto_clusters_everything_again_and_says_why(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await ingest(engine, NOTES[:6])
        result = await ingest(engine, NOTES[6:])
        assert result.mode == "rebuild"
        assert "of the entities came or went" in result.reason or "embedder" in result.reason
        assert (await build(engine, "update")).mode == "update"


async def test_other_cluster_sizes_ask_for_a_rebuild(noted: Path) -> None:
    async with opened(noted, cluster_size=6) as engine:
        result = await build(engine, "update")
        assert result.mode == "rebuild"
        assert "6 members" in result.reason


async def test_a_collection_of_a_method_that_is_no_longer_there_is_read_and_built_again_by_the_default(
    noted: Path,
) -> None:
    with closing(sqlite3.connect(noted / FILE)) as connection, connection:
        connection.execute(
            "UPDATE generations SET settings ="
            " json_set(settings, '$.health.clustering', 'dual', '$.health.relation_weight', 0.43)"
        )
    async with opened(noted) as engine:
        assert (await engine.query(Query("lighthouse"))).sources
        result = await build(engine, "auto")
    assert result.reason == "clustering is gmm now, dual before"


async def test_relations_between_unchanged_clusters_keep_the_texts_that_they_would_get_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leanrag_engine.hierarchy import build as building  # noqa: PLC0415 - only to replace one of its names

    kept, anew = tmp_path / "kept", tmp_path / "anew"
    async with opened(kept, tau=1) as engine:
        await ingest(engine, NOTES)
    shutil.copytree(kept, anew)

    async def change(folder: Path) -> list[tuple[Graph, ...]]:
        async with opened(folder, tau=1) as engine:
            await ingest(
                engine, [note(3, "Ewan Reid A wrote to the foundry of Jura."), note(31)], build=False
            )
            await build(engine, "update")
            found = [await layers(engine)]
            job, _ = await engine.submit_delete(["n5"])
            assert job
            await finish(engine, job)
            await build(engine, "update")
            return [*found, await layers(engine)]

    used: list[int] = []
    find_unchanged = building.find_unchanged

    def count(*place: Any) -> Any:
        found = find_unchanged(*place)
        used.append(0 if found is None else int((found.ends >= 0).all(axis=1).sum()))
        return found

    monkeypatch.setattr(building, "find_unchanged", count)
    changed = await change(kept)
    monkeypatch.setattr(building, "find_unchanged", lambda *_: None)
    assert changed == await change(anew)
    assert sum(used) > 0
