"""The calling agent as the model: work handed out, answers checked one by one, nothing lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from leanrag_tests_jobs import finish, ingest, open_engine

from leanrag_engine.core.errors import InvalidInput, NotReady
from leanrag_engine.core.model import DocumentSource, Extract, ExtractedEntity, Method
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline.agent.items import PendingWork, WorkKind

pytestmark = pytest.mark.anyio

NOTE = "The keeper {0} of the lighthouse at {1} wrote to {2}. {2} had built the tower of {1}."
NAMES = (
    "Ewan Reid",
    "Moira Kerr",
    "Calum Boyd",
    "Isla Grant",
    "Rory Shaw",
    "Ailsa Munro",
    "Fergus Hay",
    "Una Ross",
)
PLACES = ("Skerry", "Tiree", "Arbroath", "Oban", "Islay", "Lewis", "Mull", "Barra")
NOTES = [
    DocumentSource(
        text=NOTE.format(NAMES[n % 8], PLACES[n % 8], NAMES[(n + 3) % 8]), title=f"Letter {n}", id=f"l{n}"
    )
    for n in range(8)
]
NONE = "There is no such work"


async def all_work(engine: LeanRAG, kind: WorkKind, limit: int = 3) -> list[PendingWork]:
    """Every page, by cursor."""
    pages = [await engine.pending_work(kind, limit)]
    while pages[-1].cursor:
        pages.append(await engine.pending_work(kind, limit, pages[-1].cursor))
    return pages


def said_of(work_id: str, text: str) -> dict[str, Any]:
    """What an agent may find in a letter: its first name and its place."""
    keeper, place = next(pair for pair in zip(NAMES, PLACES, strict=True) if f"keeper {pair[0]}" in text)
    return {
        "work_id": work_id,
        "entities": [
            {"name": keeper, "type": "person", "description": f"{keeper} keeps the light at {place}."},
            {"name": place, "type": "place", "description": f"At {place} stands a lighthouse."},
        ],
        "relations": [
            {"source": keeper, "target": place, "description": f"{keeper} lives at {place}.", "importance": 8}
        ],
    }


def summary_of(work_id: str, place: int) -> dict[str, Any]:
    return {
        "work_id": work_id,
        "name": f"Keepers and their towers, circle {place}",
        "description": "Keepers of lighthouses write to those who built their towers.",
        "findings": [
            {"summary": f"Letters about {what} bind them.", "explanation": f"Each keeper writes of {what}."}
            for what in ("storms", "granite", "oil and lamps", "supplies by boat", "wages")
        ],
    }


async def test_the_pages_of_pending_work_hold_every_chunk_once(tmp_path: Path) -> None:
    async with open_engine(tmp_path, cluster_size=4) as engine:
        await ingest(engine, NOTES)
        pages = await all_work(engine, "extraction")
        ids = [item.work_id for page in pages for item in page.items]
        assert len(ids) == len(set(ids)) == pages[0].remaining == 8
        assert "Ewan Reid" in pages[0].items[0].text
        assert pages[0].schema
        assert "work_id" in pages[0].schema["required"]
        assert not pages[-1].cursor


async def test_extractions_are_taken_one_by_one_and_the_bad_come_back_with_reasons(tmp_path: Path) -> None:
    async with open_engine(tmp_path, cluster_size=4) as engine:
        await ingest(engine, NOTES)
        work = await engine.pending_work("extraction", 3)
        good, bad, twice = (said_of(item.work_id, item.text) for item in work.items)
        items = [
            good,
            {**bad, "entities": "many", "relations": 5},
            {"entities": []},
            {**twice, "work_id": "nope"},
            good,
        ]
        done = await engine.submit_extractions(items)
        assert done.accepted == (good["work_id"],)
        reasons = dict(done.rejected)
        assert set(reasons) == {bad["work_id"], "", "nope", good["work_id"]}
        assert NONE in reasons["nope"]
        assert "twice" in reasons[good["work_id"]]
        assert done.remaining == 7
        assert (await engine.status()).extracts == {"agent": 1, "heuristic": 7}
        assert (await engine.status()).collection.stale


async def test_what_agents_hand_in_survives_a_restart_and_shows_after_the_next_build(tmp_path: Path) -> None:
    async with open_engine(tmp_path, cluster_size=4) as engine:
        await ingest(engine, NOTES)
        first = await engine.pending_work("extraction", 5)
        await engine.submit_extractions([said_of(item.work_id, item.text) for item in first.items])
    async with open_engine(tmp_path, cluster_size=4) as engine:
        rest = await engine.pending_work("extraction", 20)
        assert len(rest.items) == rest.remaining == 3
        assert not {item.work_id for item in rest.items} & {item.work_id for item in first.items}
        await engine.submit_extractions([said_of(item.work_id, item.text) for item in rest.items])
        await finish(engine, await engine.submit_build())
        keeper = (await engine.ancestors("Ewan Reid"))[0]
        assert keeper.method is Method.AGENT
        assert keeper.description == "Ewan Reid keeps the light at Skerry."
        assert not (await engine.pending_work("extraction")).items


async def test_summaries_go_layer_by_layer_up_to_the_root(tmp_path: Path) -> None:
    async with open_engine(tmp_path, cluster_size=4) as engine:
        await ingest(engine, NOTES)
        written = 0
        for _ in range(6):
            pages = await all_work(engine, "summary")
            items = [item for page in pages for item in page.items]
            if not items:
                break
            done = await engine.submit_summaries(
                [summary_of(item.work_id, written + n) for n, item in enumerate(items)]
            )
            assert not done.rejected
            assert done.remaining == 0
            written += len(items)
            await finish(engine, await engine.submit_build())
        chain = await engine.ancestors("Ewan Reid")
        assert len(chain) > 2
        assert {each.method for each in chain[1:]} == {Method.AGENT}
        generation = (await engine.status()).collection.generation
        assert generation
        assert written == sum(layer.entities for layer in generation.layers[1:])


async def test_a_summary_named_like_a_member_is_refused_with_the_name(tmp_path: Path) -> None:
    async with open_engine(tmp_path, cluster_size=4) as engine:
        await ingest(engine, NOTES)
        item = (await engine.pending_work("summary", 1)).items[0]
        member = (await engine.cluster(item.work_id)).members[0].name
        done = await engine.submit_summaries([{**summary_of(item.work_id, 1), "name": member.upper()}])
        ((work_id, reason),) = done.rejected
        assert work_id == item.work_id
        assert member.casefold() in reason.casefold()


async def test_work_on_a_document_that_was_replaced_is_refused(tmp_path: Path) -> None:
    async with open_engine(tmp_path, cluster_size=4) as engine:
        await ingest(engine, NOTES)
        item = (await engine.pending_work("extraction", 1)).items[0]
        await ingest(
            engine, [DocumentSource(text="Nothing of the kind any more.", id="l0", title="Letter 0")]
        )
        done = await engine.submit_extractions([said_of(item.work_id, item.text)])
        assert NONE in done.rejected[0][1]


async def test_work_without_documents_or_without_a_build_says_what_is_missing(tmp_path: Path) -> None:
    async with open_engine(tmp_path, cluster_size=4) as engine:
        with pytest.raises((NotReady, InvalidInput)):
            await engine.pending_work("extraction")
        await ingest(engine, NOTES, build=False)
        assert (await engine.pending_work("extraction")).items
        with pytest.raises(NotReady) as missing:
            await engine.pending_work("summary")
        assert missing.value.needs == "build"
        with pytest.raises(InvalidInput, match="cursor"):
            await engine.pending_work("extraction", 3, "page two")


LETTER = DocumentSource(
    text="Alice Hay wrote to Bob Munro. Alice is the keeper. The keeper of the light asked the Board for oil.",
    title="Letter",
    id="a",
)
ALICE = {
    "name": "Alice Hay",
    "type": "person",
    "description": "Alice Hay keeps the light.",
    "aliases": ["Alice"],
}
BOB = {"name": "Bob Munro", "type": "person", "description": "Bob Munro gets a letter."}
WROTE = {
    "source": "Alice",
    "target": "Bob Munro",
    "description": "Alice Hay wrote to Bob Munro.",
    "importance": 5,
}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"entities": "Alice"}, 'entities is "Alice"; expected a list'),
        ({"relations": None}, "relations is None; expected a list"),
        (
            {"entities": [{**BOB, "description": " "}]},
            "entities[0].description is empty; expected a text, not empty",
        ),
        (
            {"entities": [{"name": "Bob Munro", "type": "person"}]},
            "entities[0].description is missing; expected",
        ),
        (
            {"entities": [{**BOB, "age": 5}]},
            "entities[0].age is unknown; expected only name, type, description, aliases",
        ),
        ({"mood": "fine"}, "mood is unknown; expected only work_id, entities, relations"),
        ({"entities": [{**BOB, "name": 5}]}, "entities[0].name is 5; expected a text"),
        (
            {"relations": [{**WROTE, "importance": 50}]},
            "relations[0].importance is 50; expected an integer from 1 to 10",
        ),
        (
            {"relations": [{**WROTE, "target": "Carol"}]},
            'relations[0].target is "Carol"; expected a name or alias that',
        ),
        ({"relations": [{**WROTE, "target": "alice hay"}]}, "relations[0] relates"),
        (
            {"entities": [ALICE, {**BOB, "name": "Zebedee"}]},
            'entities[1].name: "Zebedee" is not in the passage',
        ),
        (
            {"entities": [ALICE, {**BOB, "name": "Alice"}]},
            'entities[1].name: "Alice" is a name of entities[0] too',
        ),
        (
            {"entities": [{**BOB, "description": "word " * 90}]},
            "entities[0].description has 90 words; expected at most 80",
        ),
    ],
)
async def test_an_item_with_a_fault_is_rejected_with_its_path_and_what_was_expected(
    tmp_path: Path, said: dict[str, Any], reason: str
) -> None:
    async with open_engine(tmp_path, cluster_size=4) as engine:
        await ingest(engine, [LETTER], build=False)
        id_ = (await engine.pending_work("extraction")).items[0].work_id
        good = {"work_id": id_, "entities": [ALICE, BOB], "relations": [WROTE]}
        assert (await engine.submit_extractions([good])).accepted
        done = await engine.submit_extractions([good | said], replace=True)
        assert not done.accepted
        ((rejected, why),) = done.rejected
        assert rejected == id_
        assert reason in why
        # What was good stays.
        (kept,) = await engine._stores.documents.extracts("default")
        assert [each.name for each in kept.entities] == ["Alice Hay", "Bob Munro"]
        assert kept.entities[0].aliases == ("Alice",)
        assert kept.relations[0].source == "Alice Hay"


async def test_all_faults_of_an_item_are_told_at_once(tmp_path: Path) -> None:
    async with open_engine(tmp_path, cluster_size=4) as engine:
        await ingest(engine, [LETTER], build=False)
        id_ = (await engine.pending_work("extraction")).items[0].work_id
        bad = {"work_id": id_, "entities": [{"name": "Bob Munro"}], "relations": [{**WROTE, "importance": 0}]}
        ((_, why),) = (await engine.submit_extractions([bad])).rejected
        for path in ("entities[0].type", "entities[0].description", "relations[0].importance"):
            assert path in why


async def test_replacing_earlier_work_needs_to_be_meant_and_says_what_it_replaces(tmp_path: Path) -> None:
    async with open_engine(tmp_path, cluster_size=4) as engine:
        await ingest(engine, [LETTER], build=False)
        id_ = (await engine.pending_work("extraction")).items[0].work_id
        good = {"work_id": id_, "entities": [ALICE, BOB], "relations": [WROTE]}
        poorer = {"work_id": id_, "entities": [BOB], "relations": []}
        first = await engine.submit_extractions([good])
        assert (first.accepted, first.replaced) == ((id_,), ())
        again = await engine.submit_extractions([good])  # a client that repeats a call
        assert (again.accepted, again.replaced) == ((id_,), ())
        refused = await engine.submit_extractions([poorer])
        assert not refused.accepted
        assert "2 entities and 1 relation by an agent" in refused.rejected[0][1]
        assert "replace=true" in refused.rejected[0][1]
        done = await engine.submit_extractions([poorer], replace=True)
        assert done.accepted == (id_,)
        assert done.replaced == ((id_, "2 entities and 1 relation by an agent"),)


async def test_a_summary_is_checked_by_the_schema_and_replaced_only_on_purpose(tmp_path: Path) -> None:
    async with open_engine(tmp_path, cluster_size=4) as engine:
        await ingest(engine, NOTES)
        item = (await engine.pending_work("summary", 1)).items[0]
        good = summary_of(item.work_id, 1)
        bad = {**good, "findings": [{"summary": "No explanation."}], "colour": "red"}
        ((_, why),) = (await engine.submit_summaries([bad])).rejected
        assert "findings[0].explanation is missing; expected a text, not empty" in why
        assert "colour is unknown; expected only work_id, name, description, support, findings" in why
        twice = {**good, "findings": [*good["findings"], good["findings"][0]]}
        assert "repeat" in (await engine.submit_summaries([twice])).rejected[0][1]
        assert (await engine.submit_summaries([good])).accepted
        assert (await engine.submit_summaries([good])).accepted
        other = {**good, "name": "Another name for them"}
        assert "replace=true" in (await engine.submit_summaries([other])).rejected[0][1]
        assert (await engine.submit_summaries([other], replace=True)).replaced
        await finish(engine, await engine.submit_build())
        assert (await engine.cluster(item.work_id)).entity.name == "Another name for them"
        assert "by an agent" in (await engine.submit_summaries([good])).rejected[0][1]


async def test_what_a_model_wrote_is_not_overwritten_without_a_word_either(tmp_path: Path) -> None:
    async with open_engine(tmp_path, cluster_size=4) as engine:
        await ingest(engine, [LETTER], build=False)
        (chunk,) = await engine._stores.documents.all_chunks("default")
        by_model = Extract(chunk.id, Method.MODEL, (ExtractedEntity("Alice Hay"),))
        await engine._stores.documents.put_extracts("default", [by_model])
        said = {"work_id": chunk.id, "entities": [BOB], "relations": []}
        ((_, why),) = (await engine.submit_extractions([said])).rejected
        assert "1 entity and 0 relations by a model" in why
        assert (await engine.submit_extractions([said], replace=True)).accepted


async def test_of_two_agents_that_submit_the_same_chunk_at_once_the_second_is_told(tmp_path: Path) -> None:
    async with open_engine(tmp_path, cluster_size=4) as one, open_engine(tmp_path, cluster_size=4) as other:
        await ingest(one, [LETTER], build=False)
        id_ = (await one.pending_work("extraction")).items[0].work_id
        done = []

        async def submit(engine: LeanRAG, entity: dict[str, Any]) -> None:
            item = {"work_id": id_, "entities": [entity], "relations": []}
            done.append(await engine.submit_extractions([item]))

        async with anyio.create_task_group() as group:
            group.start_soon(submit, one, ALICE)
            group.start_soon(submit, other, BOB)
        assert sorted(len(each.accepted) for each in done) == [0, 1]
        assert "1 entity" in next(each.rejected for each in done if each.rejected)[0][1]
