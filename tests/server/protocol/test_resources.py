"""Resources, prompts and completions, as a client asks for them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CompletionArgument,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)

from leanrag_engine import LeanRAG, load_settings
from leanrag_engine.llm.prompts import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from conftest import Caller

pytestmark = pytest.mark.anyio


@pytest.fixture
async def call(
    lighthouses: Path, serve_in_process: Callable[..., AbstractAsyncContextManager[Caller]]
) -> AsyncIterator[Caller]:
    """Return a caller whose client lives in the test's own event loop: it asks for more than tools."""
    async with serve_in_process(lighthouses) as caller:
        yield caller


async def read_text_at(call: Caller, address: str) -> str:
    (content,) = (await call.client.read_resource(address)).contents
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "text/markdown"
    return content.text


async def test_every_kind_of_resource_says_what_its_tool_says(call: Caller) -> None:
    chain = (await call("get_entity_ancestors", entity="Skerryvore")).data["path"]
    cluster = chain[1]
    for address, said in (
        ("leanrag://collections", ["default: 6 documents"]),
        ("leanrag://default/documents", ["[d1] Skerryvore", "[d6] Northern Lighthouse Board"]),
        ("leanrag://default/hierarchy", ["6 documents", chain[-1]["name"], "the root"]),
        ("leanrag://default/entity/Skerryvore", [cluster["name"], "[d1:c1]", "1844"]),
        (f"leanrag://default/entity/{cluster['ref']}", [cluster["name"]]),
        (f"leanrag://default/cluster/{quote(cluster['name'], safe='')}", ["Members", "Skerryvore"]),
        ("leanrag://default/document/d5", ["Augustin Fresnel invented"]),
        ("leanrag://default/document/Fresnel%20lens", ["Augustin Fresnel invented"]),
        ("leanrag://default/chunk/d5:c1", ["Augustin Fresnel invented"]),
    ):
        text = await read_text_at(call, address)
        for part in said:
            assert part in text, address
        assert "Next:" not in text


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("leanrag://default/entity/Skeryvore", "Skerryvore"),
        ("leanrag://default/document/Belrock", "Bell Rock"),
        ("leanrag://default/chunk/d99:c1", "d99:c1"),
        ("leanrag://default/cluster/Skerryvore", "not a cluster"),
        ("leanrag://nope/hierarchy", "nope"),
        ("leanrag://default/document/..%2F..%2Fetc%2Fpasswd", "passwd"),
    ],
)
async def test_an_unknown_address_is_an_error_that_says_what_there_is(
    call: Caller, address: str, said: str
) -> None:
    with pytest.raises(Exception, match=said) as caught:
        await call.client.read_resource(address)
    assert "Error" not in str(caught.value)


async def test_the_prompts_hold_the_question_and_name_the_tools(call: Caller) -> None:
    for name, arguments, said in (
        ("answer_with_leanrag", {"question": "Who lit it?"}, ["Who lit it?", "query_lca_context"]),
        ("deep_research", {"question": "$x {y} %s"}, ["$x {y} %s", "Reflect", "`seen`", "nothing is new"]),
        ("index_folder", {"folder": "/a b"}, ["/a b", "ingest_documents"]),
        ("run_agent_extraction", {"collection": "moon"}, ["collection='moon'", "get_pending_work"]),
    ):
        (message,) = (await call.client.get_prompt(name, arguments)).messages
        assert isinstance(message.content, TextContent)
        for part in said:
            assert part in message.content.text
        assert "$scope" not in message.content.text


async def test_an_argument_that_a_prompt_does_not_have_is_named_without_its_value(call: Caller) -> None:
    with pytest.raises(MCPError, match="has no argument 'bogus'; it takes question") as caught:
        await call.client.get_prompt("answer_with_leanrag", {"question": "Q?", "bogus": "secret"})
    assert "secret" not in str(caught.value)


async def test_the_research_prompt_names_the_types_of_a_schema_and_is_the_same_bytes_without_one(
    lighthouses: Path, tmp_path: Path, serve_in_process: Callable[..., AbstractAsyncContextManager[Caller]]
) -> None:
    data = tmp_path / "data"
    shutil.copytree(lighthouses, data)

    async def read(**arguments: str) -> str:
        async with serve_in_process(data) as call:
            prompt = await call.client.get_prompt("deep_research", {"question": "Q?", **arguments})
            assert isinstance(prompt.messages[0].content, TextContent)
            return prompt.messages[0].content.text

    plain = BUILT_IN.fill("deep_research", question="Q?", scope="")
    assert await read() == plain
    async with await LeanRAG.open(load_settings(data_dir=data)) as engine:
        await engine.set_schema("people")
    typed = await read()
    assert "type the sub-queries by it. Types of entities: person, " in typed
    assert " Relations: works for, " in typed
    assert " Attributes: date of birth, " in typed
    assert await read(collection="nowhere") == BUILT_IN.fill(
        "deep_research", question="Q?", scope=" Pass collection='nowhere' in every call."
    )


async def test_completions_begin_with_what_is_typed_and_are_bounded(call: Caller) -> None:
    place = ResourceTemplateReference(uri="leanrag://{collection}/entity/{entity}")

    async def complete(name: str, value: str, ref: object = place) -> list[str]:
        argument = CompletionArgument(name=name, value=value).model_dump()
        values: list[str] = (await call.client.complete(ref=ref, argument=argument)).completion.values
        assert len(values) <= 50
        return values

    assert await complete("collection", "De") == ["default"]
    assert await complete("collection", "x") == []
    assert "Skerryvore" in await complete("entity", "skerr")
    assert "Skerryvore" in await complete("entity", "skeryvore")
    clusters = await complete("cluster", "")
    assert clusters
    for name in clusters:
        assert not (await call("get_cluster", cluster=name)).is_error
    assert await complete("document", "bell") == ["Bell Rock"]
    assert await complete("citation", "d1") == []
    assert await complete("question", "x", PromptReference(name="deep_research")) == []
    assert await complete("entity", "\x00" + "é" * 10_000) is not None


async def test_completing_in_an_unknown_collection_gives_nothing(call: Caller) -> None:
    done = await call.client.complete(
        ref=ResourceTemplateReference(uri="leanrag://{collection}/entity/{entity}"),
        argument={"name": "entity", "value": "a"},
        context_arguments={"collection": "nope"},
    )
    assert done.completion.values == []
