"""What a client sees before it calls anything: names, schemas, annotations, sizes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from mcp.client import Client

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.config import load_settings
from leanrag_mcp.app import create_server

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_types import Tool

pytestmark = pytest.mark.anyio

READING = {
    "query_lca_context",
    "search_entities",
    "get_entity_ancestors",
    "get_cluster",
    "list_inter_cluster_relations",
    "search_text",
    "get_outline",
    "get_sources",
    "get_index_status",
    "get_history",
    "list_collections",
}
WRITING = {
    *("ingest_documents", "build_hierarchy", "delete_documents", "get_job", "cancel_job"),
    *("merge_entities", "split_entity"),
}
META = {
    "query_lca_context": {
        *("anthropic/alwaysLoad", "anthropic/maxResultSizeChars"),
        *("ui", "openai/outputTemplate"),
    },
    "get_sources": {"anthropic/maxResultSizeChars"},
    "delete_documents": {"anthropic/requiresUserInteraction"},
}
AGENT = {"get_pending_work", "submit_extractions", "submit_summaries"}


@pytest.fixture
async def tools(tmp_path: Path) -> list[Tool]:
    async with Client(create_server(load_settings(data_dir=tmp_path))) as client:
        return (await client.list_tools()).tools


async def test_the_tools_are_those_of_the_design(tools: list[Tool]) -> None:
    assert {tool.name for tool in tools} == READING | WRITING | AGENT


async def test_every_tool_says_what_it_is_takes_and_gives(tools: list[Tool]) -> None:
    for tool in tools:
        assert tool.title
        assert tool.description
        assert len(tool.description) < 900
        assert tool.output_schema
        assert tool.output_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        assert tool.input_schema["properties"]["collection"]["default"] == "default"
        assert (tool.meta or {}).keys() == META.get(tool.name, set())
        hints = tool.annotations
        assert hints
        assert None not in (
            hints.read_only_hint,
            hints.destructive_hint,
            hints.idempotent_hint,
            hints.open_world_hint,
        )
        assert hints.read_only_hint is (tool.name in READING | {"get_job", "get_pending_work"})
        assert hints.destructive_hint is (tool.name == "delete_documents")


async def test_the_surface_is_small_enough_to_sit_in_every_conversation(tools: list[Tool]) -> None:
    tokens = TiktokenTokenizer()
    sent = sum(tokens.count(json.dumps([tool.name, tool.description, tool.input_schema])) for tool in tools)
    assert sent < 3000
    assert sum(tokens.count(json.dumps(tool.output_schema)) for tool in tools) < 5000


async def test_the_instructions_teach_the_workflow_with_tools_that_exist(tmp_path: Path) -> None:
    text = create_server(load_settings(data_dir=tmp_path)).instructions
    assert text
    assert len(text) < 2048
    for tool in ("get_index_status", "ingest_documents", "query_lca_context", "get_sources", "get_job"):
        assert tool in text


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_old_and_new_clients_are_served_alike(lighthouses: Path, mode: str) -> None:
    async with Client(create_server(load_settings(data_dir=lighthouses)), mode=mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == READING | WRITING | AGENT
        reply = await client.call_tool("query_lca_context", {"query": "Who designed Skerryvore?"})
        assert "Alan Stevenson" in str(reply.content)


async def test_a_server_without_calls_has_opened_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with Client(create_server(load_settings(data_dir=folder))) as client:
        await client.list_tools()
    assert not folder.exists()


def test_starting_up_imports_no_heavy_library() -> None:
    # A fresh interpreter is the only honest witness.
    code = (
        "import sys, leanrag_mcp.cli.main; from leanrag_mcp.app import create_server;"
        "from leanrag_engine.core.config import load_settings; create_server(load_settings());"
        "heavy = {'numpy','sqlalchemy','chromadb','sklearn','networkx','litellm','tiktoken','scipy',"
        "'onnxruntime','tokenizers'};"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


UNUSED_IN_READING = {
    *("chromadb", "sklearn", "scipy", "networkx", "graspologic_native", "litellm", "mcp", "mcp_types"),
    *("docx", "lxml", "pypdf", "jsonschema", "alembic", "leanrag_engine.documents.readers"),
    *("filelock", "psutil", "tiktoken", "leanrag_engine.retrieval.browse.text_search"),
    *("leanrag_engine.documents.headings", "leanrag_engine.exchange", "leanrag_engine.retrieval.suggestions"),
    *("leanrag_engine.extraction", "leanrag_engine.pipeline.building", "leanrag_engine.pipeline.agent"),
}


@pytest.mark.parametrize(
    ("command", "used"), [(["status"], set()), (["query", "Who designed Skerryvore?"], {"scipy", "tiktoken"})]
)
def test_a_command_that_reads_imports_nothing_that_only_writing_needs(
    lighthouses: Path, command: list[str], used: set[str]
) -> None:
    # The tests' embedder, fitted, embeds a question by scipy; tiktoken counts what the reply holds.
    code = (
        "import atexit, gc, sys; from leanrag_mcp.cli import main; app = main.app;"
        "searches = lambda: sum(each['collections'] for each in gc.get_stats()); before = searches();"
        "tell = lambda: print(searches() - before, *sys.modules, file=sys.stderr);"
        "main.app = lambda: (atexit.register(tell), app());"
        "main.main()"
    )
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code, *command, "--data-dir", str(lighthouses)],
        capture_output=True,
        text=True,
        check=True,
    )
    searches, *modules = ran.stderr.splitlines()[-1].split()
    assert searches == "0", "Python searched all that was imported for unused cycles"
    imported = set(modules)
    assert "sqlalchemy" in imported
    assert UNUSED_IN_READING & imported == used
    assert "leanrag_mcp.replies.query" not in imported, "only --json needs it"
