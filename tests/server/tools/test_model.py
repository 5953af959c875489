"""What a configured model adds to the surface: an answer in one call, builds with a forecast and caps."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from leanrag_mcp.cli.main import app

pytestmark = pytest.mark.anyio


def model(server: Any) -> dict[str, Any]:
    return {"llm_model": "openai/tiny", "llm_api_base": server.url}


async def test_an_answer_has_its_sources_and_names_citations_without_evidence(
    lighthouses: Path, serve_in_process: Any, chat_server: Any
) -> None:
    chat_server.says("Alan Stevenson designed it [d1:c1], some say [d9:c9].")
    async with serve_in_process(lighthouses, **model(chat_server)) as call:
        reply = await call("answer_question", question="Who designed Skerryvore?")
        assert not reply.is_error, reply.text
        assert reply.data["sufficient"]
        assert [each["citation"] for each in reply.data["sources"]] == ["d1:c1"]
        assert reply.data["unfounded"] == ["d9:c9"]
        assert "d9:c9" in reply.text
        assert "openai/tiny" in reply.text
        again = await call("answer_question", question="Who designed Skerryvore?")
        assert (again.data["answer"], chat_server.calls) == (reply.data["answer"], 1)


async def test_an_answer_without_sufficient_evidence_says_so(
    lighthouses: Path, serve_in_process: Any, chat_server: Any
) -> None:
    chat_server.says("INSUFFICIENT. The evidence does not tell its colour.")
    async with serve_in_process(lighthouses, **model(chat_server)) as call:
        reply = await call("answer_question", question="What colour is Skerryvore?")
        assert not reply.data["sufficient"]
        assert "does not settle" in reply.text


async def test_a_model_that_does_not_answer_is_an_error_with_a_next_step(
    lighthouses: Path, serve_in_process: Any, chat_server: Any
) -> None:
    chat_server.says(chat_server.failed(401, "no such key"))
    async with serve_in_process(lighthouses, **model(chat_server)) as call:
        reply = await call("answer_question", question="Who lit the Bell Rock?")
        assert reply.is_error
        assert "key" in reply.text


async def test_a_global_answer_unites_the_answers_from_pages_of_summaries_and_keeps_their_citations(
    lighthouses: Path, serve_in_process: Any, chat_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leanrag_engine.llm.answering.PAGE_TOKENS", 150)
    monkeypatch.setattr("leanrag_engine.llm.answering.LEAST_PAGE", 100)

    def first_citation(prompt: str) -> str:
        return re.findall(r"\[d\d+:c\d+\]", prompt[prompt.index("The evidence:") :])[0]

    chat_server.follows(lambda request: f"They build lighthouses {first_citation(request.prompt)}.")
    async with serve_in_process(lighthouses, **model(chat_server)) as call:
        answered = await call(
            "answer_question", question="What are the main themes?", strategy="global", token_budget=1000
        )
    *pages, union = [request.prompt for request in chat_server.requests]
    assert len(pages) > 1
    assert union.count("They build lighthouses [d") == len(pages)
    assert len(set(map(first_citation, pages))) == len(pages), "each page is new"
    assert answered.data["sufficient"]
    assert answered.data["tokens"] <= 1000


async def test_an_open_answer_may_add_what_the_model_knows(
    lighthouses: Path, serve_in_process: Any, chat_server: Any
) -> None:
    chat_server.says("It is grey.")
    async with serve_in_process(lighthouses, **model(chat_server)) as call:
        for strategy in ("one_shot", "global"):
            await call("answer_question", question="What colour is it?", open=True, strategy=strategy)
            assert "use what you know" in chat_server.requests[-1].prompt


async def test_without_a_model_nothing_offers_to_answer(tmp_path: Path, serve_in_process: Any) -> None:
    async with serve_in_process(tmp_path) as call:
        assert "answer_question" not in {tool.name for tool in (await call.client.list_tools()).tools}


def test_the_command_line_forecasts_and_keeps_its_cap(tmp_path: Path, scribe: Any) -> None:
    (tmp_path / "note.md").write_text(
        "Alan Stevenson designed Skerryvore. It was lit in 1844.", encoding="utf-8"
    )
    env = {
        "LEANRAG_LLM_MODEL": "openai/tiny",
        "LEANRAG_LLM_API_BASE": scribe.url,
        "LEANRAG_DATA_DIR": str(tmp_path / "d"),
    }

    def run_cli(*arguments: str) -> Any:
        result = CliRunner().invoke(app, [*arguments, "--json"], env=env)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout.strip().splitlines()[-1])

    run_cli("ingest", str(tmp_path / "note.md"), "--no-build")
    forecast = run_cli("build", "--dry-run")
    assert scribe.calls == 0
    (extract, *_) = forecast["result"]["steps"]
    assert (extract["step"], extract["calls"]) == ("extract", [1, 1])
    assert extract["input_tokens"][0] > 100
    built = run_cli("build", "--max-calls", "1")
    assert scribe.calls == 1
    assert built["result"]["spent"][0]["calls"] == 1


async def test_list_collections_says_that_a_model_wrote_the_summaries(
    tmp_path: Path, serve_in_process: Any, scribe: Any
) -> None:
    texts = [{"text": f"Ada Lovelace met Charles Babbage in London in {1833 + n}."} for n in range(3)]
    async with serve_in_process(tmp_path, **model(scribe)) as call:
        job = await call("ingest_documents", documents=texts, wait_seconds=0)
        done = await call("get_job", job_id=job.data["job_id"], wait_seconds=40)
        assert done.data["status"] == "done", done.text
        reply = await call("list_collections")
        assert reply.data["collections"][0]["summaries"] == "model"
        assert "model summaries" in reply.text
