"""MCP Apps: hosts that show pages inside the chat get an answer drawn, and no other client gets anything else than before."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from mcp.client import Client
from mcp.client.extension import ClientExtension
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from mcp_types import CallToolResult, TextResourceContents

from leanrag_engine.core.config import load_settings
from leanrag_mcp.app import create_server

pytestmark = pytest.mark.anyio

QUESTION = {"query": "Who designed Skerryvore?"}
DRAWING = "leanrag/drawing"


class ShowsApps(ClientExtension):
    identifier = EXTENSION_ID

    def settings(self) -> dict[str, Any]:
        return {"mimeTypes": [APP_MIME_TYPE]}


def titles(result: CallToolResult) -> list[str]:
    """Return the titles of the drawings that came with a result."""
    drawn = (result.meta or {}).get(DRAWING, {})
    pictures = [ET.fromstring(drawn[width]) for width in ("wide", "narrow") if drawn]  # noqa: S314 - the server's own
    return [picture.findtext("{http://www.w3.org/2000/svg}title") or "" for picture in pictures]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_host_that_shows_pages_gets_the_drawing_and_others_the_same_answer_without(
    lighthouses: Path, mode: str
) -> None:
    server = create_server(load_settings(data_dir=lighthouses))
    async with (
        Client(server, mode=mode, extensions=[ShowsApps()]) as host,
        Client(server, mode=mode) as client,
    ):
        shown = await host.call_tool("query_lca_context", QUESTION)
        plain = await client.call_tool("query_lca_context", QUESTION)
        asked = await client.call_tool("query_lca_context", QUESTION, meta={DRAWING: True})  # type: ignore[typeddict-unknown-key]
        unknown = await host.call_tool("query_lca_context", {"query": "What did Xyzzy build?"})
    assert "No document has 'Xyzzy'." in (unknown.meta or {})[DRAWING]["warnings"]
    assert titles(shown) == titles(asked) == [f"Answer drawn: {QUESTION['query']}"] * 2
    assert titles(plain) == []
    (best, *_) = (shown.meta or {})[DRAWING]["evidence"]
    assert "Alan Stevenson designed Skerryvore" in best["text"]
    assert best["citations"] in shown.structured_content["context"]  # type: ignore[index]
    assert shown.content == plain.content
    assert shown.structured_content == plain.structured_content


async def test_the_tool_names_a_page_that_needs_nothing_from_elsewhere(lighthouses: Path) -> None:
    async with Client(create_server(load_settings(data_dir=lighthouses))) as client:
        tools = {tool.name: tool.meta or {} for tool in (await client.list_tools()).tools}
        address = tools["query_lca_context"]["ui"]["resourceUri"]
        assert address == tools["query_lca_context"]["openai/outputTemplate"]
        (page,) = (await client.read_resource(address)).contents
        assert client.server_capabilities.extensions
        assert EXTENSION_ID in client.server_capabilities.extensions
    assert isinstance(page, TextResourceContents)
    assert page.mime_type == APP_MIME_TYPE
    assert page.text.startswith("<!doctype html>")
    assert "://" not in page.text
    # Text of documents is never read as markup.
    assert not [
        way
        for way in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(")
        if way in page.text
    ]


async def test_a_server_without_the_query_tool_has_no_page(tmp_path: Path) -> None:
    async with Client(create_server(load_settings(data_dir=tmp_path, toolsets=("manage",)))) as client:
        assert "ui://leanrag/answer" not in [
            str(each.uri) for each in (await client.list_resources()).resources
        ]
