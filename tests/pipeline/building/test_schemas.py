"""A schema of extraction from end to end: what the model is asked, what comes into the graph, what is kept apart."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from leanrag_tests_jobs import build, finish, ingest, open_engine, published
from typer.testing import CliRunner

from leanrag_engine.core.errors import InvalidInput, NotFound
from leanrag_engine.core.jobs import Forecast
from leanrag_engine.core.model import DocumentSource, Entity
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.request import Query
from leanrag_mcp.cli.main import app

pytestmark = pytest.mark.anyio

CREW = ("Ada Moor", "Bo Lind", "Cy Vane", "Di Marsh")
NOTES = [
    DocumentSource(
        text=f"{name}, born in {1900 + n}, commands the ship Heron{n} of Northline. Whale songs please {name}.",
        title=f"Log {n}",
        id=f"log-{n}",
    )
    for n, name in enumerate(CREW)
]
SCHEMA = """
entities:
  person: a human being
  organisation: a company
relations:
  works for: employment
attributes:
  date of birth: of a person
"""


def read(shown: str, *, by_schema: bool) -> dict[str, Any]:
    """What the scripted model finds in one note; with a schema also what the schema lacks."""
    n = next(number for number, name in enumerate(CREW) if name in shown)
    rows: list[tuple[str, str, float]] = [
        (CREW[n], "person", 1),
        ("Northline", "company", 1),
        (f"Heron{n}", "vessel", 0.95),
        ("Whale songs", "hobby", 0.6),
    ]
    entities: list[dict[str, Any]] = [
        {"name": name, "type": type_, "description": f"{name} is in log {n}."} for name, type_, _ in rows
    ]
    relations: list[dict[str, Any]] = [
        {"source": CREW[n], "target": end, "description": f"{CREW[n]} and {end}, log {n}.", "importance": 5}
        for end in ("Northline", f"Heron{n}", "Whale songs")
    ]
    if by_schema:
        for row, (*_, confidence) in zip(entities, rows, strict=True):
            row |= {"confidence": confidence, "aliases": [], "attributes": []}
        entities[0]["attributes"] = [
            {"name": "date_of_birth", "value": str(1900 + n), "confidence": 1},
            {"name": "mood", "value": "glad", "confidence": 0.2},
        ]
        for row, type_ in zip(relations, ("Works for", "commands", "likes"), strict=True):
            row |= {"type": type_, "confidence": 0.95 if type_ == "commands" else 0.5}
    return {"entities": entities, "relations": relations}


class Model:
    """Follows the script and counts the passages that it read, openly and by a schema."""

    def __init__(self, scribe: Any, load: Any) -> None:
        self._scribe = load
        self.read: Counter[str] = Counter()
        self.instructions: list[str] = []
        scribe.follows(self.answer)

    def answer(self, request: Any) -> str:
        if self._scribe.work_of(request) != "extract":
            return str(self._scribe.write(request))
        instructions = str(request.body["messages"][0]["content"])
        by_schema = "as a schema prescribes" in instructions
        tasks: Mapping[int, str] = self._scribe.tasks_of(request)
        self.read["schema" if by_schema else "open"] += len(tasks)
        self.instructions.append(instructions)
        items = [{"task": number, **read(shown, by_schema=by_schema)} for number, shown in tasks.items()]
        return json.dumps({"items": items})


@pytest.fixture
def model(scribe: Any) -> Model:
    from importlib import import_module  # noqa: PLC0415 - the fixture before it makes the module

    return Model(scribe, import_module("leanrag_tests_scribe"))


@pytest.fixture
def schema_file(tmp_path: Path) -> str:
    path = tmp_path / "crew.yaml"
    path.write_text(SCHEMA, encoding="utf-8")
    return str(path)


async def base(engine: LeanRAG) -> dict[str, Entity]:
    """The entities of layer 0 of the only collection, by name."""
    generation = await published(engine)
    found = await engine._stores.generations.layer(generation.number, 0)
    return {each.name: each for each in found}


async def forecast_reading(engine: LeanRAG) -> int:
    """The calls that a dry run expects for reading chunks."""
    found = (await finish(engine, await engine.submit_build(dry_run=True))).result
    assert isinstance(found, Forecast)
    return sum(each.calls[1] for each in found.steps if each.step == "extract")


async def test_a_schema_constrains_the_graph_and_what_is_outside_it_is_reported_not_lost(
    tmp_path: Path, scribe: Any, model: Model, schema_file: str
) -> None:
    async with open_engine(
        tmp_path / "data", llm_model="openai/tiny", llm_api_base=scribe.url, llm_batch=1
    ) as engine:
        view = await engine.set_schema(schema_file)
        assert view.schema is not None
        assert view.outdated == 0
        result = await ingest(engine, NOTES[:2])
        found = await base(engine)
        assert set(found) == {"Ada Moor", "Bo Lind", "Northline"}
        assert {each.type for each in found.values()} == {"person", "organisation"}
        (born,) = found["Ada Moor"].attributes
        assert (str(born), len(born.chunk_ids)) == ("date of birth: 1900", 1)
        assert result.schema is not None
        assert {each.ref: (each.chunks, each.confident) for each in result.schema.proposals} == {
            "entity:vessel": (2, 2),
            "entity:hobby": (2, 0),
            "relation:commands": (2, 2),
            "relation:likes": (2, 0),
            "attribute:mood": (2, 0),
        }
        assert not result.schema.adopted
        assert "- person: a human being" in model.instructions[0]
        # Its keyword search and its contexts have the attribute.
        page = await engine.search_entities("date of birth 1901", limit=5)
        assert page.found[0].entity.name == "Bo Lind"
        context = (await engine.query(Query(text="What is the date of birth of Bo Lind?"))).context
        assert "date of birth: 1901" in context.text


async def test_a_type_with_support_is_adopted_at_the_next_build_without_reading_again_and_can_be_refused(
    tmp_path: Path, scribe: Any, model: Model, schema_file: str
) -> None:
    async with open_engine(
        tmp_path / "data", llm_model="openai/tiny", llm_api_base=scribe.url, llm_batch=1
    ) as engine:
        await engine.set_schema(schema_file)
        await ingest(engine, NOTES[:2])
        result = await ingest(engine, NOTES[2:3])
        assert result.schema is not None
        assert set(result.schema.adopted) == {"entity:vessel", "relation:commands"}
        found = await base(engine)
        assert {name for name, each in found.items() if each.type == "vessel"} == {
            "Heron0",
            "Heron1",
            "Heron2",
        }
        assert "Whale songs" not in found
        assert model.read["schema"] == 3
        # What is read from now on is read with the extended schema.
        await ingest(engine, NOTES[3:])
        assert "- vessel" in model.instructions[-1]
        assert "- vessel" not in model.instructions[0]
        assert model.read["schema"] == 4

        await engine.decide_type("vessel", adopt=False)
        await engine.decide_type("entity:hobby", adopt=True)
        await build(engine)
        found = await base(engine)
        assert not {name for name in found if name.startswith("Heron")}
        assert found["Whale songs"].type == "hobby"
        assert model.read["schema"] == 4
        with pytest.raises(NotFound, match="No type 'vesel' was proposed") as refused:
            await engine.decide_type("vesel", adopt=True)
        assert "entity:vessel" in str(refused.value)


async def test_another_schema_has_the_model_read_again_what_it_read_and_the_way_back_costs_nothing(
    tmp_path: Path, scribe: Any, model: Model, schema_file: str
) -> None:
    async with open_engine(
        tmp_path / "data", llm_model="openai/tiny", llm_api_base=scribe.url, llm_batch=1
    ) as engine:
        await ingest(engine, NOTES)
        before = await base(engine)
        assert "Heron1" in before
        assert model.read == {"open": 4}
        view = await engine.set_schema(schema_file)
        assert view.outdated == 4
        assert any("Schema crew was set after" in each for each in (await engine.status()).warnings)
        assert await forecast_reading(engine) == 4
        result = await build(engine)
        assert result.schema is not None
        assert result.schema.read_again == 4
        assert any("outside schema crew" in each for each in (await engine.status()).warnings)
        assert model.read == {"open": 4, "schema": 4}
        assert await forecast_reading(engine) == 0
        await build(engine)
        assert (await engine.remove_schema()).outdated == 4
        assert not any("chema crew" in each for each in (await engine.status()).warnings)
        assert await forecast_reading(engine) == 0
        await build(engine)
        assert model.read == {"open": 4, "schema": 4}
        assert {name: (each.type, each.description, each.attributes) for name, each in before.items()} == {
            name: (each.type, each.description, each.attributes)
            for name, each in (await base(engine)).items()
        }


async def test_a_relation_shows_the_types_that_a_schema_gave_it_until_their_passages_are_forgotten(
    tmp_path: Path, scribe: Any, model: Model, schema_file: str
) -> None:
    del model
    data = tmp_path / "data"
    async with open_engine(data, llm_model="openai/tiny", llm_api_base=scribe.url, llm_batch=1) as engine:
        await engine.set_schema(schema_file)
        again = replace(NOTES[0], text=f"{NOTES[0].text} Northline paid Ada Moor.", id="again", title="Again")
        await ingest(engine, [NOTES[0], again])
        (relation,) = (await engine.relations_of("Ada Moor")).relations
        assert relation.types == ("works for",)
        context = (await engine.query(Query(text="Ada Moor and Northline", token_budget=2000))).context.text
        assert "Ada Moor — Northline (works for)" in context
    command = ["show", "Ada Moor", "--data-dir", str(data)]
    shown = await anyio.to_thread.run_sync(CliRunner().invoke, app, command)
    assert "]: (works for) Ada Moor and Northline" in shown.stdout
    async with open_engine(data, llm_model="openai/tiny", llm_api_base=scribe.url, llm_batch=1) as engine:
        job, _ = await engine.submit_delete(["again"])
        await finish(engine, job)
        (relation,) = (await engine.relations_of("Ada Moor")).relations
        assert relation.types == ()
        await build(engine, mode="rebuild")
        (relation,) = (await engine.relations_of("Ada Moor")).relations
        assert relation.types == ("works for",)


async def test_forgetting_a_document_forgets_the_attributes_that_it_gave(
    tmp_path: Path, scribe: Any, model: Model, schema_file: str
) -> None:
    del model
    async with open_engine(
        tmp_path / "data", llm_model="openai/tiny", llm_api_base=scribe.url, llm_batch=1
    ) as engine:
        await engine.set_schema(schema_file)
        twice = DocumentSource(
            text="Ada Moor, born in 1900, retired from Northline. Ada Moor sings.", title="End", id="end"
        )
        await ingest(engine, [NOTES[0], twice])
        (born,) = (await base(engine))["Ada Moor"].attributes
        assert len(born.chunk_ids) == 2
        job, _ = await engine.submit_delete(["log-0"])
        await finish(engine, job)
        (born,) = (await base(engine))["Ada Moor"].attributes
        assert len(born.chunk_ids) == 1


async def test_heuristics_keep_what_they_find_map_the_types_they_know_and_say_what_they_cannot_tell(
    tmp_path: Path,
) -> None:
    async with open_engine(tmp_path / "data") as engine:
        await engine.set_schema("narrative")
        result = await ingest(
            engine,
            [DocumentSource(text="Mr Ewan Reid met Mrs Ada Moor at Oban. Oban is wet.", title="Log", id="a")],
        )
        found = await base(engine)
        assert {each.type for name, each in found.items() if "Reid" in name or "Moor" in name} == {
            "character"
        }
        assert "Oban" in found
        assert result.schema is not None
        assert result.schema.untyped > 0
        assert result.schema.apart == 0
        assert (await engine.schema()).heuristic == 1


async def test_a_faulty_schema_leaves_the_one_before(tmp_path: Path, schema_file: str) -> None:
    async with open_engine(tmp_path / "data") as engine:
        await engine.set_schema(schema_file)
        bad = tmp_path / "bad.yaml"
        bad.write_text("entities: {ship: a}\nverbs: {sail: b}\n", encoding="utf-8")
        with pytest.raises(InvalidInput, match=r"bad.yaml, line 2: the key 'verbs' is unknown"):
            await engine.set_schema(str(bad))
        held = (await engine.schema()).schema
        assert held is not None
        assert held.name == "crew"


async def test_a_copy_of_a_collection_has_its_schema_and_a_renamed_one_keeps_it(
    tmp_path: Path, schema_file: str
) -> None:
    async with open_engine(tmp_path / "data") as engine:
        await engine.set_schema(schema_file)
        await finish(engine, await engine.submit_ingest(NOTES[:1], build=False))
        held = (await engine.schema()).schema
        await finish(engine, await engine.submit_copy("trial"))
        assert (await engine.schema(collection="trial")).schema == held
        await engine.remove_schema(collection="trial")
        await engine.rename_collection("default", "crew")
        assert (await engine.schema(collection="crew")).schema == held
        assert (await engine.schema(collection="trial")).schema is None
