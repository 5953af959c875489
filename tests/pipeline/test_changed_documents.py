"""A changed document keeps what did not change: ids, citations, vectors, and what models and agents wrote about it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from leanrag_tests_jobs import finish

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import IngestOutcome
from leanrag_engine.core.model import Chunk, DocumentSource, Method
from leanrag_engine.engine import LeanRAG

pytestmark = pytest.mark.anyio

SECTIONS = {
    "Planets": "William Herschel found Uranus in Bath. Johann Galle found Neptune in Berlin.",
    "Comets": "Caroline Herschel discovered eight comets. Edmond Halley computed an orbit.",
    "Moons": "Galileo Galilei saw four moons of Jupiter. Asaph Hall found Phobos in Washington.",
}
ADDED = "Clyde Tombaugh found Pluto in Flagstaff."


def write(**changed: str) -> str:
    """A document of three sections that are long enough for a chunk each."""
    filler = (
        "The observers of that time wrote letters to each other, and many of these letters were kept. " * 3
    )
    return "\n\n".join(
        f"# {heading}\n\n{changed.get(heading, text)} {filler}" for heading, text in SECTIONS.items()
    )


async def open_engine(folder: Path, **settings: Any) -> LeanRAG:
    return await LeanRAG.open(load_settings(data_dir=folder, chunk_tokens=96, chunk_overlap=16, **settings))


def with_model(server: Any) -> dict[str, Any]:
    return {"llm_model": "openai/tiny", "llm_api_base": server.url, "llm_batch": 1}


async def ingest(engine: LeanRAG, text: str, title: str = "Notes", *, build: bool = False) -> IngestOutcome:
    source = DocumentSource(text=text, title=title, id="notes")
    [outcome] = (await finish(engine, await engine.submit_ingest([source], build=build))).documents
    return outcome


async def read_chunks(engine: LeanRAG) -> list[Chunk]:
    return list((await engine.sources(document="notes")).chunks)


def list_read(server: Any) -> list[str]:
    """The passages that the model was given to read."""
    scribe = import_module("leanrag_tests_scribe")
    return [
        shown
        for request in server.requests
        if scribe.work_of(request) == "extract"
        for shown in scribe.tasks_of(request).values()
    ]


async def test_only_changed_passages_are_read_by_the_model_again_and_the_others_keep_their_citations(
    tmp_path: Path, scribe: Any
) -> None:
    async with await open_engine(tmp_path, **with_model(scribe)) as engine:
        await ingest(engine, write(), build=True)
        before = {each.text: each.citation for each in await read_chunks(engine)}
        assert list(before.values()) == ["d1:c1", "d1:c2", "d1:c3"]
        scribe.requests.clear()
        outcome = await ingest(engine, write(Comets=f"{ADDED} {SECTIONS['Comets']}"), build=True)
        assert (outcome.status, outcome.chunks, outcome.kept) == ("replaced", 3, 2)
        assert [ADDED in shown for shown in list_read(scribe)] == [True]
        after = await read_chunks(engine)
        assert [each.citation for each in after] == ["d1:c1", "d1:c4", "d1:c3"]
        assert all(before[each.text] == each.citation for each in after if ADDED not in each.text)
        assert (await engine.status()).extracts == {"model": 3}


async def test_what_an_agent_extracted_stays_where_the_text_stayed(tmp_path: Path) -> None:
    async with await open_engine(tmp_path) as engine:
        await ingest(engine, write())
        items = [
            {
                "work_id": each.id,
                "entities": [{"name": name, "type": "person", "description": "x"}],
                "relations": [],
            }
            for each, name in zip(
                await read_chunks(engine), ("William Herschel", "Edmond Halley", "Asaph Hall"), strict=True
            )
        ]
        assert len((await engine.submit_extractions(items)).accepted) == 3
        await ingest(engine, write(Comets=ADDED))
        said = await engine._stores.documents.extracts("default")
        assert [each.method for each in said] == [Method.AGENT, Method.HEURISTIC, Method.AGENT]
        assert said[2].entities[0].name == "Asaph Hall"
        assert "Clyde Tombaugh" in {each.name for each in said[1].entities}


async def test_only_changed_passages_are_embedded_again_even_under_the_old_build(
    tmp_path: Path, embedding_server: Any
) -> None:
    settings = {"embedder": "litellm/openai/some-model", "embedder_api_base": embedding_server.url}
    async with await open_engine(tmp_path, **settings) as engine:
        await ingest(engine, write(), build=True)
        embedding_server.requests.clear()
        await ingest(engine, write(Comets=ADDED))
        asked = [text for text in embedding_server.texts if "observers" in text]
        assert asked
        assert all("Planets" not in text and "Moons" not in text for text in asked)


async def test_a_line_at_the_end_of_a_long_document_leaves_every_passage_but_the_last(tmp_path: Path) -> None:
    async with await open_engine(tmp_path) as engine:
        text = "\n".join(
            f"On day {day} the station on hill {day % 7} wrote {day * day} lines." for day in range(200)
        )
        await ingest(engine, text)
        before = await read_chunks(engine)
        await ingest(engine, f"{text}\nOn day 200 it closed.")
        after = await read_chunks(engine)
        assert len(before) > 20
        assert [each.citation for each in after[: len(before) - 1]] == [each.citation for each in before[:-1]]
        assert after[-1].citation not in {each.citation for each in before}


async def test_another_title_changes_no_citation_and_no_extract(tmp_path: Path, scribe: Any) -> None:
    async with await open_engine(tmp_path, **with_model(scribe)) as engine:
        await ingest(engine, write(), build=True)
        before = [(each.id, each.citation) for each in await read_chunks(engine)]
        scribe.requests.clear()
        outcome = await ingest(engine, write(), title="Letters", build=True)
        assert (outcome.status, outcome.kept) == ("replaced", 3)
        assert [(each.id, each.citation) for each in await read_chunks(engine)] == before
        assert list_read(scribe) == []
        assert (await engine.search_text("Uranus")).matches[0].title == "Letters"


async def test_ranges_and_neighbours_follow_the_text_after_an_edit(tmp_path: Path) -> None:
    async with await open_engine(tmp_path) as engine:
        await ingest(engine, write())
        await ingest(engine, write(Comets=ADDED))

        async def cited(*citations: str, neighbours: int = 0) -> list[str]:
            page = await engine.sources(citations, neighbours=neighbours)
            return [each.citation for each in page.chunks]

        assert await cited("d1:c1-c3") == ["d1:c1", "d1:c4", "d1:c3"]
        assert await cited("d1:c1-c4") == ["d1:c1", "d1:c4"]
        assert await cited("d1:c3", neighbours=1) == ["d1:c4", "d1:c3"]
        outline = await engine.outline("notes")
        assert [outline.cite(each) for each in outline.sections] == ["d1:c1", "d1:c4", "d1:c3"]
        assert outline.citation == "d1:c1-c3"
        assert (await engine.search_text("Pluto")).matches[0].citation == "d1:c4"


async def test_the_graph_of_a_changed_document_is_that_of_a_fresh_one(tmp_path: Path) -> None:
    """Heuristic extraction looks at the whole document: what it says of an unchanged passage may change."""
    text = write(Moons=f"{SECTIONS['Moons']} The International Astronomical Union (IAU) names them.")
    alias = text.replace(SECTIONS["Planets"], "The IAU met in Paris. Johann Galle found Neptune in Berlin.")
    async with await open_engine(tmp_path / "a") as changed, await open_engine(tmp_path / "b") as fresh:
        await ingest(changed, write())
        await ingest(changed, alias)
        await ingest(fresh, alias)
        said, wanted = [await each._stores.documents.extracts("default") for each in (changed, fresh)]
        assert [(each.entities, each.relations) for each in said] == [
            (each.entities, each.relations) for each in wanted
        ]


# --- what failed is asked for again --------------------------------------------------------


async def test_passages_that_a_model_could_not_read_are_read_by_the_next_plain_build(
    tmp_path: Path, scribe: Any
) -> None:
    work = import_module("leanrag_tests_scribe")
    down = True

    def refuse_to_read(request: Any) -> Any:
        if down and work.work_of(request) == "extract":
            return scribe.Answer(status=400, text="No such service.")
        return work.write(request)

    scribe.follows(refuse_to_read)
    async with await open_engine(tmp_path, **with_model(scribe)) as engine:
        source = DocumentSource(text=write(), title="Notes", id="notes")
        job = await finish(engine, await engine.submit_ingest([source]))
        assert any("3 left heuristic" in each.error for each in job.failures)
        status = await engine.status()
        assert status.extracts == {"heuristic": 3}
        assert any("3 passages" in each for each in status.warnings)
        forecast = (await finish(engine, await engine.submit_build(dry_run=True))).result
        assert forecast
        assert {step.step: step.calls for step in forecast.steps}["extract"] == (3, 3)  # type: ignore[union-attr]
        down = False
        await finish(engine, await engine.submit_build())
        status = await engine.status()
        assert status.extracts == {"model": 3}
        assert not any("passages" in each for each in status.warnings)


async def test_a_cap_leaves_passages_for_the_next_plain_build_also_after_a_build_without_a_model(
    tmp_path: Path, scribe: Any
) -> None:
    async with await open_engine(tmp_path, **with_model(scribe), max_calls=1, gleaning=0) as engine:
        await ingest(engine, write(), build=True)
        assert (await engine.status()).extracts == {"heuristic": 2, "model": 1}
    async with await open_engine(tmp_path) as engine:
        await finish(engine, await engine.submit_build())
    async with await open_engine(tmp_path, **with_model(scribe)) as engine:
        await finish(engine, await engine.submit_build())
        assert (await engine.status()).extracts == {"model": 3}


async def test_what_was_built_without_a_model_on_purpose_is_left_to_an_upgrade(
    tmp_path: Path, scribe: Any
) -> None:
    async with await open_engine(tmp_path) as engine:
        await ingest(engine, write(), build=True)
    async with await open_engine(tmp_path, **with_model(scribe)) as engine:
        await finish(engine, await engine.submit_build())
        assert list_read(scribe) == []


async def test_a_deletion_reads_what_was_said_of_passages_whose_place_in_their_document_has_changed(
    tmp_path: Path,
) -> None:
    async with await open_engine(tmp_path) as engine:
        await ingest(engine, write())
        moons = (await read_chunks(engine))[2]
        named = {"name": "Asaph Hall", "type": "astronomer", "aliases": ["A. H."], "description": "x"}
        other = DocumentSource(text="Asaph Hall wrote to the navy.", title="Other", id="other")
        await finish(engine, await engine.submit_ingest([other], build=False))
        items = [{"work_id": moons.id, "entities": [named], "relations": []}]
        assert len((await engine.submit_extractions(items)).accepted) == 1
        await ingest(
            engine, f"# Suns\n\n{ADDED} {'Others saw the sun in other towns. ' * 8}\n\n{write()}", build=True
        )
        after = await read_chunks(engine)
        assert [each.citation for each in after] == ["d1:c4", "d1:c1", "d1:c2", "d1:c3"]
        deletion, _ = await engine.submit_delete(["other"])
        await finish(engine, deletion)
        found = (await engine.search_entities("Asaph Hall", layer=0)).found[0].entity
        assert (found.type, found.aliases) == ("astronomer", ("A. H.",))
