"""What is offered under which settings: toolsets, a read-only server, one fixed collection; and what is said then."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CallToolResult

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import InvalidInput
from leanrag_mcp.app import create_server
from leanrag_mcp.replies.errors import READ_ONLY, Offered
from leanrag_mcp.tools.toolsets import ALL_TOOLS, offers

pytestmark = pytest.mark.anyio

Serve = Callable[..., AbstractAsyncContextManager[Any]]
MOON = {"text": "Tycho is a crater on the Moon. Copernicus is a crater on the Moon.", "id": "moon"}


def tool_names(**settings: Any) -> set[str]:
    return {offer.name for offer in offers(load_settings(**settings))}


def test_a_server_offers_the_tools_of_its_toolsets() -> None:
    assert tool_names(toolsets="read") & {"ingest_documents", "get_pending_work"} == set()
    assert tool_names(toolsets="manage") == {
        *("ingest_documents", "build_hierarchy", "delete_documents", "get_job", "cancel_job"),
        *("merge_entities", "split_entity"),
    }
    assert tool_names(toolsets="read, agent") == tool_names() - tool_names(toolsets="manage")
    assert tool_names(read_only=True) == tool_names(toolsets="read") | {"get_job"}
    assert tool_names(llm_model="openai/x") - tool_names() == {"answer_question"}
    with pytest.raises(InvalidInput, match="toolsets"):
        load_settings(toolsets="read,magic")


async def test_a_tool_that_another_program_adds_to_the_server_is_served_too(tmp_path: Path) -> None:
    server = create_server(load_settings(data_dir=tmp_path))

    def double(number: int) -> int:
        return 2 * number

    server.add_tool(double)
    result = await server.call_tool("double", {"number": 21})
    assert isinstance(result, CallToolResult)
    assert result.structured_content == {"result": 42}


@pytest.mark.parametrize("toolsets", ["read", "manage", "agent", "read,agent", "manage,agent"])
async def test_nothing_that_a_client_sees_names_a_tool_that_is_not_offered(
    tmp_path: Path, toolsets: str
) -> None:
    server = create_server(load_settings(data_dir=tmp_path, toolsets=toolsets))
    tools = await server.list_tools()
    missing = ALL_TOOLS - {tool.name for tool in tools}
    texts = [server.instructions or "", *(tool.description or "" for tool in tools)]
    texts += [prompt.description or "" for prompt in await server.list_prompts()]
    assert not missing & set(re.findall(r"\w+", " ".join(texts)))
    assert all(tool.description for tool in tools)


async def test_the_next_step_of_a_call_names_only_what_is_offered(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        await call("ingest_documents", documents=[MOON], build=False)
    async with serve_in_process(tmp_path, toolsets="read") as call:
        for tool, arguments in (
            ("query_lca_context", {"query": "Moon"}),
            ("get_index_status", {}),
            ("search_entities", {"query": "Moon"}),
            ("list_collections", {}),
        ):
            reply = await call(tool, **arguments)
            assert not {"build_hierarchy", "ingest_documents"} & set(re.findall(r"\w+", reply.text)), tool
            assert reply.data.get("next_step", "") in reply.text
    async with serve_in_process(tmp_path, toolsets="manage") as call:
        built = await call("build_hierarchy", wait_seconds=40)
        assert built.data["next_step"] == READ_ONLY


def test_sentences_that_name_other_tools_are_left_out() -> None:
    some = Offered(frozenset({"get_job"}), ALL_TOOLS)
    assert some.steps("Read it. Call get_sources now. Then get_job.") == "Read it. Then get_job."
    assert some.steps("Call get_sources.") == READ_ONLY
    assert some.lines("1. get_sources tells.\n2. Call get_job! Or get_cluster.") == "2. Call get_job!"


# --- one collection ------------------------------------------------------------------------


async def test_with_one_collection_given_no_tool_takes_another(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_in_process(tmp_path) as call:
        other = await call("ingest_documents", documents=[MOON], collection="secret")
    async with serve_in_process(tmp_path, collection="moon") as call:
        tools = (await call.client.list_tools()).tools
        assert not [tool.name for tool in tools if "collection" in tool.input_schema["properties"]]
        assert not [
            prompt.name
            for prompt in (await call.client.list_prompts()).prompts
            if "collection" in [each.name for each in prompt.arguments or []]
        ]
        unknown = await call(
            "query_lca_context", query="Tycho"
        )  # there is no collection yet but the other one
        assert unknown.is_error
        assert "secret" not in unknown.text
        await call("ingest_documents", documents=[{**MOON, "text": "Luna 9 landed on the Moon."}])
        refused = await call("query_lca_context", query="Tycho", collection="secret")
        assert refused.is_error
        assert "'moon' alone" in refused.text
        for tool, arguments in (
            ("query_lca_context", {"query": "Tycho crater"}),
            ("get_index_status", {}),
            ("list_collections", {}),
            ("get_job", {"job_id": other.data["job_id"]}),
            ("cancel_job", {"job_id": "job-x"}),
        ):
            reply = await call(tool, **arguments)
            assert "secret" not in reply.text
            assert "Tycho is" not in reply.text
        with pytest.raises(Exception, match="no collection 'secret' here"):
            await call.client.read_resource("leanrag://secret/document/d1")


async def test_a_job_is_found_in_its_own_collection_alone(serve_in_process: Serve, tmp_path: Path) -> None:
    async with serve_in_process(tmp_path) as call:
        job = (await call("ingest_documents", documents=[MOON], collection="moon")).data["job_id"]
        assert (await call("get_job", job_id=job, collection="moon")).data["status"] == "done"
        for tool in ("get_job", "cancel_job"):
            assert "collection 'mars'" in (await call(tool, job_id=job, collection="mars")).text
            assert not (await call(tool, job_id=job)).is_error
