"""Builds with a model, through litellm to a real HTTP server: what is asked for, what is never asked twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest
from leanrag_tests_forks import Fork
from leanrag_tests_jobs import finish

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.jobs import BuildRequest, BuildResult, Forecast, Job
from leanrag_engine.core.model import DocumentSource, Method
from leanrag_engine.engine import LeanRAG

pytestmark = pytest.mark.anyio

PEOPLE = (
    "Ada Lovelace",
    "Charles Babbage",
    "Mary Somerville",
    "Luigi Menabrea",
    "Alan Turing",
    "Grace Hopper",
)
PLACES = ("London", "Turin", "Edinburgh", "Bletchley", "Arlington", "Cambridge")
THINGS = ("Analytical Engine", "Difference Engine", "Mark Two", "Compiler", "Bombe", "Punched Card")


def texts(count: int) -> list[DocumentSource]:
    """Documents of a few sentences, each of its own people, places and things."""
    return [
        DocumentSource(
            text=f"{PEOPLE[n % 6]} Number{chr(65 + n // 6)} met {PEOPLE[(n + 1) % 6]} in {PLACES[n % 6]}. "
            f"The {THINGS[n % 6]} of {PLACES[(n + 2) % 6]} was admired by {PEOPLE[(n + 3) % 6]}.",
            title=f"Note {n}",
            id=f"note-{n}",
        )
        for n in range(count)
    ]


@asynccontextmanager
async def engine(folder: Path, server: Any = None, **settings: Any) -> AsyncIterator[LeanRAG]:
    """With the scripted server as its chat model, if one is given."""
    if server is not None:
        settings = {"llm_model": "openai/tiny", "llm_api_base": server.url, **settings}
    async with await LeanRAG.open(load_settings(data_dir=folder, **settings)) as opened:
        yield opened


async def ingested(engine: LeanRAG, count: int, *, build: bool = False) -> Job:
    return await finish(engine, await engine.submit_ingest(texts(count), build=build))


async def built(engine: LeanRAG, **order: Any) -> Job:
    return await finish(engine, await engine.submit_build(order=BuildRequest(**order)))


async def forecast(engine: LeanRAG) -> Forecast:
    found = (await finish(engine, await engine.submit_build(dry_run=True))).result
    assert isinstance(found, Forecast)
    return found


def works(server: Any) -> Counter[str]:
    """How often each kind of work was asked for."""
    work_of = import_module("leanrag_tests_scribe").work_of
    return Counter(work_of(request) for request in server.requests)


async def test_a_build_reads_and_writes_with_the_model_and_a_second_one_makes_no_call(
    tmp_path: Path, scribe: Any
) -> None:
    async with engine(tmp_path, scribe) as opened:
        await ingested(opened, 30)
        assert scribe.calls == 0
        job = await built(opened)
        asked = works(scribe)
        assert asked["extract"] >= 30 / opened.settings.llm_batch
        assert asked["aggregate"] > 0
        status = await opened.status()
        assert status.extracts == {"model": 30}
        assert sum(each.calls for each in status.spent) == scribe.calls
        root = (await opened.ancestors("London"))[-1]
        assert root.method is Method.MODEL
        assert len(root.findings) >= 5
        assert isinstance(job.result, BuildResult)
        assert len(job.result.layers) >= 2

        before = scribe.calls
        again = await built(opened)
        assert scribe.calls == before
        assert isinstance(again.result, BuildResult)
        assert again.result.layers == job.result.layers


async def test_a_model_reads_no_licence(tmp_path: Path, scribe: Any) -> None:
    terms = "Copyright 2014 Big Corp Labs\n\nPermission is hereby granted, free of charge, to any person in London."
    licence = DocumentSource(text=terms, title="LICENSE", id="licence")
    async with engine(tmp_path, scribe) as opened:
        await finish(opened, await opened.submit_ingest([*texts(2), licence], build=False))
        await built(opened)
        assert (await opened.status()).extracts == {"model": 2, "heuristic": 1}
    assert not any("hereby" in request.last for request in scribe.requests)


async def test_a_dry_run_makes_no_call_and_says_what_the_run_then_makes(tmp_path: Path, scribe: Any) -> None:
    async with engine(tmp_path, scribe) as opened:
        await ingested(opened, 30)
        first = await forecast(opened)
        assert scribe.calls == 0
        assert not first.exact
        fewest, most = first.figures()["calls"]
        assert fewest < most
        await built(opened)
        assert fewest <= scribe.calls <= most
        then = await forecast(opened)
        assert (then.figures()["calls"], then.exact) == ([0, 0], True)


async def test_a_forecast_of_gleaning_is_a_range_from_nothing(tmp_path: Path, scribe: Any) -> None:
    async with engine(tmp_path, scribe, gleaning=2) as opened:
        await ingested(opened, 8)
        found = await forecast(opened)
        steps = {each.step: each.calls for each in found.steps}
        assert steps["glean"][0] == 0
        await built(opened)
        assert steps["extract"] == (works(scribe)["extract"],) * 2
        assert works(scribe)["glean"] <= steps["glean"][1]


async def test_a_cap_on_calls_is_never_passed_and_an_upgrade_does_the_rest(
    tmp_path: Path, scribe: Any
) -> None:
    async with engine(tmp_path, scribe, llm_batch=1) as opened:
        await ingested(opened, 12)
        job = await built(opened, max_calls=5)
        assert scribe.calls == 5
        assert (await opened.status()).extracts == {"model": 5, "heuristic": 7}
        assert any("cap" in failure.error for failure in job.failures)
        await built(opened, upgrade=True)
        assert (await opened.status()).extracts == {"model": 12}
        assert works(scribe)["extract"] == 12


async def test_without_a_model_first_and_an_upgrade_later(tmp_path: Path, scribe: Any) -> None:
    async with engine(tmp_path) as opened:
        await ingested(opened, 8, build=True)
        assert (await opened.status()).extracts == {"heuristic": 8}
        with pytest.raises(InvalidInput, match="llm_model"):
            await opened.submit_build(order=BuildRequest(upgrade=True))
    async with engine(tmp_path, scribe) as opened:
        await built(opened)
        assert works(scribe)["extract"] == 0, "a plain build reads new documents alone"
        await built(opened, upgrade=True)
        assert (await opened.status()).extracts == {"model": 8}


async def test_one_model_reads_and_another_writes(tmp_path: Path, scribe: Any) -> None:
    async with engine(tmp_path, scribe, extraction_model="openai/small") as opened:
        await ingested(opened, 8)
        await built(opened)
    work_of = import_module("leanrag_tests_scribe").work_of
    by = {(work_of(each), each.body["model"]) for each in scribe.requests}
    assert ("extract", "small") in by
    assert ("aggregate", "tiny") in by
    assert not {("extract", "tiny"), ("aggregate", "small")} & by


async def test_what_an_agent_did_is_left_alone_by_a_model_that_does_the_rest(
    tmp_path: Path, scribe: Any
) -> None:
    async with engine(tmp_path) as opened:
        await ingested(opened, 8, build=True)
        items = (await opened.pending_work("extraction", 3)).items
        said = {"entities": [{"name": "London", "type": "place", "description": "A city."}], "relations": []}
        named = [each for each in items if "London" in each.text]
        done = await opened.submit_extractions([{"work_id": each.work_id, **said} for each in named])
        assert len(done.accepted) == len(named) > 0
    async with engine(tmp_path, scribe) as opened:
        await built(opened, upgrade=True)
        assert (await opened.status()).extracts == {"agent": len(named), "model": 8 - len(named)}
        read = "".join(each.prompt for each in scribe.requests if "passages of documents" in each.prompt)
        assert not any(each.title.split(" ", 1)[1] + "\n" in read for each in named)


async def test_a_dead_service_leaves_everything_heuristic_and_says_so(
    tmp_path: Path, chat_server: Any
) -> None:
    chat_server.follows(lambda _: chat_server.hung_up())
    async with engine(tmp_path, chat_server, llm_concurrency=2) as opened:
        await ingested(opened, 20)
        job = await built(opened)
        assert (await opened.status()).extracts == {"heuristic": 20}
        assert any(failure.document == "extract" for failure in job.failures)


async def test_a_service_that_hangs_in_silence_is_asked_once_and_the_next_build_goes_on(
    tmp_path: Path, scribe: Any
) -> None:
    write = import_module("leanrag_tests_scribe").write
    scribe.follows(lambda _: scribe.stalled())
    async with engine(tmp_path, scribe, llm_concurrency=2, llm_silence_seconds=0.5) as opened:
        await ingested(opened, 20)
        job = await built(opened)
        assert (await opened.status()).extracts == {"heuristic": 20}
        failure = next(failure for failure in job.failures if failure.document == "extract")
        assert "timed out" in failure.error
        assert scribe.calls <= 4, "no call is repeated, and no step after the first one calls"
    scribe.follows(write)
    async with engine(tmp_path, scribe) as opened:
        await built(opened)
        assert (await opened.status()).extracts == {"model": 20}


async def test_one_document_with_bad_replies_stays_heuristic_alone(tmp_path: Path, scribe: Any) -> None:
    write = import_module("leanrag_tests_scribe").write
    scribe.follows(lambda request: "Sorry, no." if "Note 3" in request.prompt else write(request))
    async with engine(tmp_path, scribe, llm_batch=1) as opened:
        await ingested(opened, 6)
        job = await built(opened)
        assert (await opened.status()).extracts == {"model": 5, "heuristic": 1}
        assert any("Sorry, no." in failure.error for failure in job.failures)


KILLED = """
import anyio, sys
from pathlib import Path
from leanrag_engine.core.config import load_settings
from leanrag_engine.engine import LeanRAG

async def work():
    settings = load_settings(data_dir=Path(sys.argv[1]), llm_model="openai/tiny", llm_api_base=sys.argv[2], llm_batch=1)
    async with await LeanRAG.open(settings) as engine:
        job = await engine.submit_build()
        print("built", (await engine.job(job.id, wait_seconds=100)).status.value, flush=True)

anyio.run(work)
"""


async def test_a_build_that_was_killed_repeats_no_call(tmp_path: Path, scribe: Any) -> None:
    async with engine(tmp_path) as opened:
        await ingested(opened, 20)
    write = import_module("leanrag_tests_scribe").write
    scribe.follows(lambda request: scribe.stalled() if scribe.calls > 12 else write(request))
    child = Fork(["-c", KILLED, tmp_path, scribe.url])
    with anyio.fail_after(100):
        while scribe.calls <= 12:
            await anyio.sleep(0.05)
    child.kill()
    child.wait()
    scribe.released.set()
    scribe.follows(write)
    async with engine(tmp_path, scribe, llm_batch=1) as opened:
        # Not earlier: what the process sent last may still be on its way.
        before = scribe.calls
        kept = sum(each.calls for each in (await opened.status()).spent)
        assert 0 < kept <= 12
        (job,) = await opened.resume_jobs()
        await finish(opened, job)
        status = await opened.status()
        assert status.extracts == {"model": 20}
        # Every reply is one row: what was kept before the kill was not asked for again.
        assert scribe.calls - before == sum(each.calls for each in status.spent) - kept


async def test_summaries_alone_are_forecast_exactly_leave_the_graph_heuristic_and_are_asked_once(
    tmp_path: Path, scribe: Any
) -> None:
    async with engine(tmp_path, scribe, llm_writes="summaries", cluster_size=5, tau=1) as opened:
        await ingested(opened, 30)
        said = await forecast(opened)
        assert said.exact
        assert {each.step for each in said.steps} == {"summary"}
        job = await built(opened)
        assert set(works(scribe)) == {"aggregate"}
        assert said.figures()["calls"] == [scribe.calls] * 2
        status = await opened.status()
        assert status.extracts == {"heuristic": 30}
        assert status.collection.generation
        assert set(status.collection.generation.record.summaries) == {"model"}
        assert status.graph == "heuristic graph, summaries by openai/tiny"
        relations = (await opened.inter_cluster_relations(limit=100)).relations
        assert not {each.method for each in relations} & {Method.MODEL, Method.AGENT}
        assert not job.failures

        before = scribe.calls
        await built(opened)
        assert scribe.calls == before
        await built(opened, upgrade=True)
        assert (await opened.status()).graph == "graph written by openai/tiny"
        assert works(scribe)["relate"]


async def test_a_cap_spends_the_calls_on_the_clusters_with_most_beneath(tmp_path: Path, scribe: Any) -> None:
    more = {"llm_writes": "summaries", "llm_batch": 1, "llm_concurrency": 1, "cluster_size": 5}
    async with engine(tmp_path, scribe, **more) as opened:
        await ingested(opened, 30)
        await built(opened, max_calls=3)
        generation = (await opened.status()).collection.generation
        assert generation
        clusters = await opened._stores.generations.layer(generation.number, 1)
        written = [each.mentions for each in clusters if each.method is Method.MODEL]
        assert sorted(written) == sorted(each.mentions for each in clusters)[-3:]
