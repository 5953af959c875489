"""``answer_question`` in rounds, with a scripted model: what it asks, when it stops, and what it costs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from leanrag_engine import LeanRAG, Query, load_settings
from leanrag_engine.core.text.cleaning import fence
from leanrag_engine.llm.prompts import BUILT_IN

pytestmark = pytest.mark.anyio

QUESTION = "Who was the father of the engineer of Skerryvore, and what did he build?"


CONCLUDED = "Alan Stevenson designed Skerryvore [d1:c1]."


def kind_of(request: Any) -> str:
    """Return which of the three requests of an iterative answer this is."""
    title = request.body.get("response_format", {}).get("json_schema", {}).get("name", "")
    for kind in ("decompose", "reflect"):
        if kind in title or f'"{kind}"' in json.dumps(request.body.get("response_format", {})):
            return kind
    if "Write the searches" in request.prompt:
        return "decompose"
    return "reflect" if "You decide whether the evidence" in request.prompt else "answer"


def script(
    decompose: str = '{"queries": ["engineer who designed Skerryvore"]}',
    reflect: Callable[[int], str] = lambda _: json.dumps(
        {"missing": "nothing", "sufficient": True, "queries": []}
    ),
    answer: str = "Robert Stevenson [d2:c1].",
) -> Callable[[Any], str]:
    """Return a model that answers each kind of request as given; ``reflect`` gets the number of the reflection."""
    reflections = count()

    def reply(request: Any) -> str:
        kind = kind_of(request)
        if kind == "reflect":
            return reflect(next(reflections))
        return decompose if kind == "decompose" else answer

    return reply


def missing(*queries: str) -> str:
    return json.dumps(
        {"known": CONCLUDED, "missing": "what he built", "sufficient": False, "queries": queries}
    )


def model(server: Any) -> dict[str, Any]:
    return {"llm_model": "openai/tiny", "llm_api_base": server.url, "read_only": True}


async def ask(serve: Any, folder: Path, server: Any, **arguments: Any) -> Any:
    async with serve(folder, **model(server)) as call:
        reply = await call("answer_question", question=QUESTION, **{"strategy": "iterative", **arguments})
    assert not reply.is_error, reply.text
    return reply


async def test_rounds_retrieve_what_the_model_misses_until_it_has_enough(
    lighthouses: Path, serve_in_process: Any, chat_server: Any
) -> None:
    enough = json.dumps({"missing": "", "sufficient": True, "queries": []})
    replies = [missing("Bell Rock lighthouse built by Robert Stevenson"), enough]
    chat_server.follows(script(reflect=lambda number: replies[number]))
    reply = await ask(serve_in_process, lighthouses, chat_server, token_budget=800)
    first_reflection, second_reflection = [
        request.last for request in chat_server.requests if kind_of(request) == "reflect"
    ]
    assert CONCLUDED not in first_reflection
    assert CONCLUDED in second_reflection, "a reflection keeps what was concluded before"
    first, second = reply.data["rounds"]
    assert first["queries"] == [QUESTION, "engineer who designed Skerryvore"]
    assert first["missing"] == "what he built"
    assert second["queries"] == ["Bell Rock lighthouse built by Robert Stevenson"]
    assert first["found"]
    assert second["found"]
    assert not set(first["found"]) & set(second["found"])
    assert sum(each["tokens"] for each in reply.data["rounds"]) == reply.data["tokens"] <= 800
    assert [kind_of(request) for request in chat_server.requests] == [
        *("decompose", "reflect", "reflect", "answer")
    ]
    # The answer is written from the evidence of both rounds, each passage once.
    shown = re.findall(r"^\[(d\d+:c\d+)\]", chat_server.requests[-1].last, re.MULTILINE)
    assert set(shown) >= {*first["found"], *second["found"]}
    assert len(shown) == len(set(shown))
    assert reply.data["usage"] == {"calls": 4, "input_tokens": 400, "output_tokens": 80}
    assert reply.data["ending"] == "the model found the evidence sufficient"
    for said in (*second["queries"], *second["found"], "what he built", "4 calls", reply.data["ending"]):
        assert said in reply.text


async def test_one_shot_takes_one_call_and_has_no_rounds(
    lighthouses: Path, serve_in_process: Any, chat_server: Any
) -> None:
    chat_server.follows(script())
    reply = await ask(serve_in_process, lighthouses, chat_server, strategy="one_shot")
    assert (reply.data["rounds"], reply.data["ending"]) == ([], "")
    assert reply.data["usage"] == {"calls": 1, "input_tokens": 100, "output_tokens": 20}


async def test_a_model_that_never_stops_asking_is_bounded(
    lighthouses: Path, serve_in_process: Any, chat_server: Any
) -> None:
    topics = ["Fresnel lens", "Bell Rock", "Northern Lighthouse Board", "Isle of Man", "Tiree", "Arbroath"]
    chat_server.follows(script(reflect=lambda number: missing(topics[number])))
    reply = await ask(serve_in_process, lighthouses, chat_server, rounds=3, token_budget=600)
    assert len(reply.data["rounds"]) <= 3
    assert reply.data["tokens"] <= 600
    assert chat_server.calls <= 1 + 2 + 1
    assert reply.data["ending"] != "the model found the evidence sufficient"
    assert reply.data["answer"]


async def test_the_tokens_end_the_rounds_too(
    lighthouses: Path, serve_in_process: Any, chat_server: Any
) -> None:
    chat_server.follows(script(reflect=lambda number: missing(f"Bell Rock {number}")))
    reply = await ask(serve_in_process, lighthouses, chat_server, rounds=8, token_budget=250)
    assert reply.data["ending"] == "the token budget is spent"
    assert len(reply.data["rounds"]) == 1
    assert reply.data["tokens"] <= 250


@pytest.mark.parametrize(
    ("again", "ending"),
    [
        (missing(QUESTION.upper()), "the model had no further search"),
        (missing(), "the model had no further search"),
        (missing("sourdough bread and wild yeast"), "nothing new was found"),
    ],
)
async def test_rounds_stop_when_nothing_new_comes(
    again: str, ending: str, lighthouses: Path, serve_in_process: Any, chat_server: Any
) -> None:
    chat_server.follows(script(reflect=lambda _: again))
    reply = await ask(serve_in_process, lighthouses, chat_server, rounds=8, token_budget=8000)
    assert reply.data["ending"] == ending


async def test_it_declines_where_the_evidence_does_not_suffice(
    lighthouses: Path, serve_in_process: Any, chat_server: Any
) -> None:
    chat_server.follows(
        script(reflect=lambda _: missing(), answer="INSUFFICIENT. The documents do not say who paid for it.")
    )
    reply = await ask(serve_in_process, lighthouses, chat_server)
    assert not reply.data["sufficient"]
    assert "does not settle" in reply.text


@pytest.mark.parametrize(
    "bad", ["I would look for lighthouses.", '{"queries": "one"}', '{"sufficient": "perhaps", "queries": []}']
)
async def test_a_reflection_that_cannot_be_read_is_asked_for_once_more_then_ends_the_rounds(
    bad: str, lighthouses: Path, serve_in_process: Any, chat_server: Any
) -> None:
    chat_server.follows(script(reflect=lambda _: bad))
    reply = await ask(serve_in_process, lighthouses, chat_server)
    kinds = [kind_of(request) for request in chat_server.requests]
    assert kinds == ["decompose", "reflect", "reflect", "answer"]
    assert reply.data["ending"] == "the model's reply could not be read, twice"
    assert len(reply.data["rounds"]) == 1
    assert reply.data["answer"] == "Robert Stevenson [d2:c1]."


async def test_a_question_that_the_model_cannot_divide_is_asked_as_it_stands(
    lighthouses: Path, serve_in_process: Any, chat_server: Any
) -> None:
    chat_server.follows(script(decompose="no idea"))
    reply = await ask(serve_in_process, lighthouses, chat_server)
    kinds = [kind_of(request) for request in chat_server.requests]
    assert kinds == ["decompose", "decompose", "answer"]
    (only,) = reply.data["rounds"]
    assert only["queries"] == [QUESTION]
    assert "could not be read" in reply.data["ending"]


async def test_a_search_of_invisible_characters_is_dropped(
    lighthouses: Path, serve_in_process: Any, chat_server: Any
) -> None:
    queries = ["\u200b", " ", "engineer of\u200b Skerryvore"]
    chat_server.follows(script(decompose=json.dumps({"queries": queries})))
    reply = await ask(serve_in_process, lighthouses, chat_server)
    assert reply.data["rounds"][0]["queries"] == [QUESTION, "engineer of Skerryvore"]


async def test_with_a_schema_the_model_is_asked_for_searches_in_its_terms_and_without_one_as_before(
    lighthouses: Path, tmp_path: Path, serve_in_process: Any, chat_server: Any
) -> None:
    data = tmp_path / "data"
    shutil.copytree(lighthouses, data)
    chat_server.follows(script(reflect=lambda _: missing("Bell Rock lighthouse")))
    await ask(serve_in_process, data, chat_server, rounds=2)
    (plain, *_) = chat_server.requests
    expected = BUILT_IN.fill("decompose", question=fence(QUESTION), most="4", schema="")
    assert expected in plain.prompt
    assert "schema" not in expected
    asked = len(chat_server.requests)
    async with await LeanRAG.open(load_settings(data_dir=data)) as engine:
        await engine.set_schema("people")
    await ask(serve_in_process, data, chat_server, rounds=2)
    kinds = {kind_of(request): request.prompt for request in chat_server.requests[asked:]}
    for kind in ("decompose", "reflect"):
        assert "write each search in its terms" in kinds[kind]
        assert "Types of entities: person, " in kinds[kind]
    assert "in its terms" not in kinds["answer"]


async def test_the_seeds_of_all_rounds_are_joined_in_one_subgraph(
    lighthouses: Path, chat_server: Any
) -> None:
    replies = [missing("Fresnel lens"), json.dumps({"missing": "", "sufficient": True, "queries": []})]
    chat_server.follows(script(reflect=lambda number: replies[number]))
    settings = load_settings(data_dir=lighthouses, **model(chat_server))
    async with await LeanRAG.open(settings) as engine:
        answered = await engine.answer(QUESTION, rounds=3)
        asked = [query for each in answered.rounds for query in each.queries]
        assert len(answered.rounds) == 2
        first, *others = asked
        whole = (await engine.query(Query(first, sub_queries=tuple(others)))).subgraph
        alone = [(await engine.query(Query(each))).subgraph for each in (QUESTION, "Fresnel lens")]
    found = answered.result.subgraph
    assert found == whole
    assert found.lca is not None
    joined = {seed.entity.id for seed in found.seeds}
    assert all(joined & {seed.entity.id for seed in each.seeds} for each in alone)
    assert answered.result.context.text != "", "the evidence is that of the rounds"


async def test_sub_queries_that_contradict_each_other_are_all_asked_and_their_evidence_stands_side_by_side(
    lighthouses: Path, serve_in_process: Any, chat_server: Any
) -> None:
    opposites = ["Alan Stevenson built Skerryvore", "Alan Stevenson did not build Skerryvore"]
    chat_server.follows(script(decompose=json.dumps({"queries": opposites})))
    reply = await ask(serve_in_process, lighthouses, chat_server)
    (only,) = reply.data["rounds"]
    assert only["queries"] == [QUESTION, *opposites]
    async with serve_in_process(lighthouses) as call:
        both = await call("query_lca_context", query=opposites[0], queries=opposites[1:])
        each = [await call("query_lca_context", query=query) for query in opposites]
    assert not both.is_error, both.text
    best = {one.data["sources"][0] for one in each}
    assert best <= set(both.data["sources"])
    assert best <= set(only["found"])
    assert len(only["found"]) == len(set(only["found"]))
