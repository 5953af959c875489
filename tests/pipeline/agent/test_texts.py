"""Summaries, sentences on relations and descriptions that an agent writes: the next build uses them, contexts show them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from leanrag_tests_jobs import build, finish

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.model import DocumentSource, Method
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline.agent.items import WorkItem, WorkKind
from leanrag_engine.retrieval.request import Query

pytestmark = pytest.mark.anyio

PEOPLE = (
    "Anna Berg",
    "Boris Falk",
    "Clara Holm",
    "Dagny Lund",
    "Einar Moe",
    "Frida Nes",
    "Gunnar Os",
    "Hilde Roa",
)
PLACES = ("Oslo", "Bergen", "Narvik", "Hamar", "Molde", "Alta", "Moss", "Tromso")
LETTERS = [
    DocumentSource(
        text=f"{one} of {place} wrote to {other}. {other} sent {one} a map of {place}. {one} met {third} in {place}.",
        title=f"Letter {number}",
        id=f"l{number}",
    )
    for number, (one, other, third, place) in enumerate(
        zip(PEOPLE, PEOPLE[1:] + PEOPLE[:1], PEOPLE[3:] + PEOPLE[:3], PLACES, strict=True)
    )
]


@asynccontextmanager
async def built(folder: Path) -> AsyncIterator[LeanRAG]:
    async with await LeanRAG.open(load_settings(data_dir=folder, cluster_size=4, tau=1)) as engine:
        await finish(engine, await engine.submit_ingest(LETTERS))
        yield engine


async def all_items(engine: LeanRAG, kind: WorkKind) -> list[WorkItem]:
    page = await engine.pending_work(kind, 20)
    items = list(page.items)
    while page.cursor:
        page = await engine.pending_work(kind, 20, page.cursor)
        items += page.items
    return items


def summary(work_id: str, number: int, finding: str = "letters about glaciers bind them") -> dict[str, Any]:
    return {
        "work_id": work_id,
        "name": f"Correspondence circle {number}",
        "description": "People of several towns write to each other and send maps of their towns.",
        "findings": [
            {
                "summary": f"In circle {number} {finding}, way {n}.",
                "explanation": f"Each of {number} says so, way {n}.",
            }
            for n in range(3)
        ],
    }


async def summarise_all(engine: LeanRAG) -> None:
    number = 0
    while items := await all_items(engine, "summary"):
        said = [summary(item.work_id, number := number + 1) for item in items]
        assert not (await engine.submit_summaries(said)).rejected
        await build(engine)


async def test_sentences_on_relations_come_after_their_clusters_and_appear_after_the_next_build(
    tmp_path: Path,
) -> None:
    async with built(tmp_path) as engine:
        before = await engine.pending_work("relation")
        assert not before.items
        assert "more relations come once the summaries" in before.note
        await summarise_all(engine)
        items = await all_items(engine, "relation")
        assert items
        strengths = [int(item.title.rpartition(" ")[2]) for item in items]
        assert strengths[0] >= 2
        sentence = "The members of the one circle write to members of the other and send them maps."
        bad = await engine.submit_summaries(
            [{"work_id": items[0].work_id, "sentence": "Two. Sentences here now."}]
        )
        assert "2 sentences" in bad.rejected[0][1]
        wrong = await engine.submit_summaries([{"work_id": items[0].work_id, "sentence": 5}])
        assert "sentence is 5; expected a text" in wrong.rejected[0][1]
        done = await engine.submit_summaries(
            [{"work_id": each.work_id, "sentence": sentence} for each in items]
        )
        assert len(done.accepted) == len(items)
        assert done.remaining == 0
        assert not await all_items(engine, "relation")
        await build(engine)
        relations = (await engine.inter_cluster_relations(limit=100)).relations
        by_agent = [each for each in relations if each.method is Method.AGENT]
        assert {each.id for each in by_agent} == {item.work_id for item in items}
        assert {each.description for each in by_agent} == {sentence}
        assert not await all_items(engine, "relation")
        # And they stay in a build after it.
        await finish(engine, await engine.submit_ingest([DocumentSource(text="Nothing else.", id="x")]))
        again = (await engine.inter_cluster_relations(limit=100)).relations
        assert [each.id for each in again if each.method is Method.AGENT]


async def test_descriptions_of_the_most_mentioned_entities_come_first_and_stay_over_builds(
    tmp_path: Path,
) -> None:
    async with built(tmp_path) as engine:
        items = await all_items(engine, "description")
        assert len(items) == len({item.work_id for item in items})
        mentions = [int(item.title.rpartition("mentioned in ")[2].split()[0]) for item in items]
        assert mentions == sorted(mentions, reverse=True)
        item = next(each for each in items if each.title.startswith("Anna Berg"))
        assert "Boris Falk sent Anna Berg a map of Oslo." in item.text
        text = "Anna Berg of Oslo writes letters to Boris Falk and gets maps of Oslo from him."
        long = await engine.submit_summaries(
            [{"work_id": item.work_id, "description": "Anna wrote a letter. " * 60}]
        )
        assert "240 words" in long.rejected[0][1]
        assert (await engine.submit_summaries([{"work_id": item.work_id, "description": text}])).accepted
        assert item.work_id not in {each.work_id for each in await all_items(engine, "description")}
        await build(engine)
        anna = (await engine.ancestors("Anna Berg"))[0]
        assert (anna.description, anna.method) == (text, Method.AGENT)
        assert anna.evidence
        # Not so where a split has moved what it rested on.
        await engine.split_entity("Anna Berg", "Anna Berg of Alta", ["l5"])
        await build(engine)
        assert (await engine.ancestors("Anna Berg"))[0].method is Method.HEURISTIC
        assert item.work_id in {each.work_id for each in await all_items(engine, "description")}
        await engine.split_entity("Anna Berg", "Anna Berg of Alta", undo=True)
        note = DocumentSource(text="Anna Berg was seen in Alta with Frida Nes.", id="new")
        await finish(engine, await engine.submit_ingest([note]))
        assert (await engine.ancestors("Anna Berg"))[0].description == text
        # What rested on a document that is gone goes with it.
        job, _ = await engine.submit_delete(["l0"])
        await finish(engine, job)
        await build(engine)
        assert (await engine.ancestors("Anna Berg"))[0].method is Method.HEURISTIC


@pytest.mark.parametrize("change", ["replace", "delete", "delete before the build"])
async def test_a_description_loses_only_what_rests_on_passages_that_are_gone(
    tmp_path: Path, change: str
) -> None:
    notes = {
        "a": "Sven Reid bakes bread in Kotor. Sven Reid owns a red boat.",
        "b": "Sven Reid plays the organ in Lucca. Sven Reid has a brown dog.",
        "c": "Anna Abel paints doors in Ghent. Anna Abel likes Sven Reid.",
    }
    titles = {"a": "Adriatic", "b": "Umbrian", "c": "Flemish"}
    async with await LeanRAG.open(load_settings(data_dir=tmp_path)) as engine:
        await finish(
            engine,
            await engine.submit_ingest(
                [DocumentSource(text=text, id=id_, title=titles[id_]) for id_, text in notes.items()]
            ),
        )
        item = next(
            each for each in await all_items(engine, "description") if each.title.startswith("Sven Reid")
        )
        both = "Sven Reid bakes bread in Kotor and plays the organ in Lucca."
        # Too few of its words are only in the second note for that to be cited.
        mixed = "Sven Reid, a baker in Kotor who owns a red boat, has a brown boat."
        headed = mixed.replace("brown", "Umbrian")  # a word of its title
        text = f"Sven Reid bakes bread in Kotor. {both} {mixed} {headed} Anna Abel likes Sven Reid."
        assert (await engine.submit_summaries([{"work_id": item.work_id, "description": text}])).accepted
        if "before" not in change:
            await build(engine)
        if change == "replace":
            await finish(
                engine,
                await engine.submit_ingest(
                    [DocumentSource(text="Sven Reid has a cat.", id="b", title="Cat")]
                ),
            )
        else:
            job, _ = await engine.submit_delete(["b"])
            await finish(engine, job)
        left = (await engine.ancestors("Sven Reid"))[0].description
        assert "Lucca" not in left
        assert "brown" not in left
        await build(engine)
        sven = (await engine.ancestors("Sven Reid"))[0]
        assert (sven.description, sven.method) == (
            "Sven Reid bakes bread in Kotor. Anna Abel likes Sven Reid.",
            Method.AGENT,
        )
        assert left == sven.description or "before" in change


async def test_a_rebuild_says_how_many_summaries_found_no_cluster_of_theirs(tmp_path: Path) -> None:
    async with built(tmp_path) as engine:
        items = await all_items(engine, "summary")
        done = await engine.submit_summaries(
            [summary(each.work_id, number) for number, each in enumerate(items)]
        )
        assert len(done.accepted) > 2
        await build(engine)
    async with await LeanRAG.open(load_settings(data_dir=tmp_path, cluster_size=12, tau=1)) as engine:
        assert "written summar" in (await build(engine, "rebuild")).reason


async def test_texts_of_all_kinds_may_be_submitted_in_one_call(tmp_path: Path) -> None:
    async with built(tmp_path) as engine:
        cluster = (await engine.pending_work("summary", 1)).items[0]
        entity = (await engine.pending_work("description", 1)).items[0]
        described = {"work_id": entity.work_id, "description": "Someone who writes letters to others."}
        unknown = {"work_id": "nothing", "sentence": "None."}
        done = await engine.submit_summaries([summary(cluster.work_id, 1), described, unknown])
        assert set(done.accepted) == {cluster.work_id, entity.work_id}
        assert [id_ for id_, _ in done.rejected] == ["nothing"]


async def test_a_finding_of_an_agent_reaches_the_context_of_a_question_about_it(tmp_path: Path) -> None:
    async with built(tmp_path) as engine:
        entities = {each.id: each for each in await engine._stores.generations.layer(1, 0)}
        ends = (
            (entities[each.source_id], entities[each.target_id])
            for each in await engine._stores.generations.relations(1, 0)
        )
        one, other = next((near.name, far.name) for near, far in ends if near.parent_id == far.parent_id)
        clusters = [each.work_id for each in await all_items(engine, "summary")]
        for number, cluster in enumerate(clusters):
            names = {each.name for each in (await engine.cluster(cluster)).members}
            said = summary(cluster, number)
            if {one, other} <= names:
                said["findings"][0] = {
                    "summary": f"{one} and {other} share a passion for glaciers.",
                    "explanation": f"The letters of {one} to {other} prove the shared passion for glaciers.",
                }
            assert (await engine.submit_summaries([said])).accepted
        await build(engine)
        result = await engine.query(Query(f"Which passion do {one} and {other} share?", token_budget=2000))
        assert "share a passion for glaciers" in result.context.text


async def test_a_sentence_that_became_stale_is_asked_for_again_and_needs_no_leave_to_be_replaced(
    tmp_path: Path,
) -> None:
    async with built(tmp_path) as engine:
        await summarise_all(engine)
        items = await all_items(engine, "relation")
        sentence = "The members of the one circle write to members of the other and send them maps."
        await engine.submit_summaries([{"work_id": each.work_id, "sentence": sentence} for each in items])
        await build(engine)
        assert not await all_items(engine, "relation")
        pairs = [(one, other) for number, one in enumerate(PEOPLE) for other in PEOPLE[number + 1 :]]
        news = [f"{one} sold a boat to {other}. {other} paid {one} in gold." for one, other in pairs]
        await finish(
            engine, await engine.submit_ingest([DocumentSource(text=" ".join(news), id="news", title="N")])
        )
        await summarise_all(engine)
        stale = [
            each
            for each in (await engine.inter_cluster_relations(limit=100)).relations
            if each.stale and each.layer
        ]
        again = {each.work_id for each in await all_items(engine, "relation")}
        written = [each.id for each in stale if each.id in again and each.method is Method.AGENT]
        assert written
        newer = "The members of the one circle sell boats to members of the other and are paid in gold."
        said = [{"work_id": written[0], "sentence": newer}]
        assert (await engine.submit_summaries(said)).accepted == (written[0],)
        assert (await engine.submit_summaries(said)).accepted == (written[0],)
        other = [{"work_id": written[0], "sentence": sentence}]
        assert "replace=true" in (await engine.submit_summaries(other)).rejected[0][1]
        await build(engine)
        found = {each.id: each for each in (await engine.inter_cluster_relations(limit=100)).relations}
        assert found[written[0]].description == newer
        assert not found[written[0]].stale
