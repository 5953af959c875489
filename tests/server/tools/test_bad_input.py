"""Every tool with whatever a client may send: the reply is an answer or an error that can be acted on."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp_types import CallToolResult, TextContent

from leanrag_engine.core.config import load_settings
from leanrag_mcp.app import create_server

SETTINGS = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

AWKWARD = [
    "",
    " ",
    "\n",
    "\x00",
    "\u200b\u202e",
    "'\"`;--",
    "a/b\\c",
    "../../etc/passwd",
    "x\ny\nNext: do as I say",
    "🙂🏳️‍🌈",
    "שלום עולם",
    "مرحبا",
    "漢字かな",
    "Z" * 10_000,
    "é" * 10_000,
    "(" * 500,
    "```",
    "%s {0} $x",
    "d1:c1",
    "d99999999999999999999:c1",
    "-1",
    "null",
    "[1",
    '{"a": {"b": []}}',
    '["Skerryvore", 3]',
    "Skerryvore",
    "default",
    "\ud800",
]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 2**31, 2**63, -(2**70), 10**30, 1.5, -0.0, 1e308, math.inf, math.nan]),
    st.sampled_from(AWKWARD),
    st.text(max_size=40),
    st.lists(st.sampled_from(AWKWARD), max_size=3),
    st.dictionaries(
        st.sampled_from(["text", "path", "id", "documents", "since", "x"]),
        st.sampled_from(AWKWARD),
        max_size=3,
    ),
    st.lists(
        st.dictionaries(st.sampled_from(["text", "path", "work_id"]), st.none() | st.sampled_from(AWKWARD)),
        max_size=2,
    ),
)
FAST = {"wait_seconds": 0}


def valid_argument(name: str, schema: dict[str, Any]) -> Any:
    """Return a value that fits the schema of an argument."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    texts = {"job_id": "job-1", "collection": "default"}
    plain = {"integer": 3, "number": 0, "boolean": False, "string": texts.get(name, "Skerryvore")}
    if kind == "array":
        return [{"text": "Tycho."}] if name == "documents" else [{}] if name == "items" else ["d1:c1"]
    return plain.get(kind or "", {})


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no call report progress, however long it takes: these calls have no client to report it to."""
    monkeypatch.setattr("leanrag_mcp.tools.manage.PROGRESS_INTERVAL_S", 1000)


@pytest.fixture(scope="module")
def schemas() -> dict[str, dict[str, Any]]:
    tools = anyio.run(create_server(load_settings()).list_tools)
    return {tool.name: tool.input_schema for tool in tools}


def check_reply(name: str, result: Any) -> None:
    assert isinstance(result, CallToolResult)
    (block,) = result.content
    assert isinstance(block, TextContent)
    text = block.text
    assert text.strip()
    assert "Error executing tool" not in text
    assert "Traceback" not in text
    assert "defect of the server" not in text, f"{name}: {text}"
    assert not any(hidden in text for hidden in ("\x00", "\u200b", "\u202e", "\ud800"))
    assert result.is_error or result.structured_content
    if result.is_error and not result.structured_content:
        assert len(text) < 8000
        assert len(text) > 20
    json.dumps(result.structured_content)


def call_each(folder: Path, name: str, calls: list[dict[str, Any]], **more: Any) -> None:
    """Make each of the calls, on one server, none longer than a call may take."""

    async def call_all() -> None:
        server = create_server(load_settings(data_dir=folder, **more))
        async with server._lowlevel_server.lifespan(server._lowlevel_server):
            for arguments in calls:
                with anyio.fail_after(45):
                    check_reply(name, await server.call_tool(name, arguments))

    anyio.run(call_all)


READING = [
    *("query_lca_context", "search_entities", "get_entity_ancestors", "get_cluster"),
    *(
        "list_inter_cluster_relations",
        "search_text",
        "get_outline",
        "get_sources",
        "get_index_status",
        "list_collections",
    ),
    *("get_job", "get_pending_work"),
]
WRITING = [
    *("ingest_documents", "build_hierarchy", "delete_documents", "cancel_job"),
    *("submit_extractions", "submit_summaries", "merge_entities", "split_entity"),
]


@pytest.mark.parametrize("name", [*READING, *WRITING])
def test_every_argument_may_be_missing_null_of_another_type_or_huge(
    schemas: dict[str, dict[str, Any]], lighthouses: Path, tmp_path: Path, name: str
) -> None:
    known = schemas[name]["properties"]
    right = {each: valid_argument(each, schema) for each, schema in known.items()} | {
        each: 0 for each in known if each == "wait_seconds"
    }
    calls: list[dict[str, Any]] = [{}, right, {"nope": 1}, {**right, "x" * 5000: 1}, {**right, "a\nb": None}]
    for each in known:
        calls.append({key: value for key, value in right.items() if key != each})
        calls += [
            {**right, each: odd} for odd in (None, True, -1, 10**30, math.nan, [], {}, [None], "Z" * 10_000)
        ]
        calls.append({**right, each: json.dumps(right[each])})
    call_each(lighthouses if name in READING else tmp_path, name, calls)


@pytest.mark.parametrize("name", READING)
def test_no_text_of_a_reading_call_may_be_as_long_as_a_document(
    schemas: dict[str, dict[str, Any]], lighthouses: Path, name: str
) -> None:
    known = schemas[name]["properties"]
    right = {each: valid_argument(each, known[each]) for each in schemas[name].get("required", ())}
    long = "light house keeper " * 3_000
    texts = [each for each, schema in known.items() if schema.get("type") in ("string", "array")]
    more = {"section": {"document": "d1"}, "query": {"document": "d1"} if name == "get_sources" else {}}

    async def call_all() -> None:
        server = create_server(load_settings(data_dir=lighthouses))
        async with server._lowlevel_server.lifespan(server._lowlevel_server):
            for each in texts:
                if "enum" not in known[each]:
                    value = long if known[each]["type"] == "string" else [long]
                    result = await server.call_tool(name, right | more.get(each, {}) | {each: value})
                    check_reply(name, result)
                    assert isinstance(result, CallToolResult)
                    assert result.is_error, each

    anyio.run(call_all)


def test_a_call_of_countless_values_is_refused_before_each_becomes_an_error(lighthouses: Path) -> None:
    many = [1] * 300_000
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_sources", {"citations": many}),
        ("get_sources", {"citations": json.dumps(many)}),
        ("search_text", {"text": "lamp", "filters": {"documents": many}}),
        ("search_text", {"text": "lamp", "filters": {"metadata": {"tags": "a|" * 300_000}}}),
        ("search_text", {f"argument{number}": 1 for number in range(300_000)}),
        ("get_sources", {"citations": ["d1:c1 d2:c1 " * 1_000]}),
        ("ingest_documents", {"documents": many}),
    ]

    async def call_all() -> None:
        server = create_server(load_settings(data_dir=lighthouses))
        async with server._lowlevel_server.lifespan(server._lowlevel_server):
            for name, arguments in calls:
                started = time.process_time()
                result = await server.call_tool(name, arguments)
                check_reply(name, result)
                assert isinstance(result, CallToolResult)
                assert result.is_error, name
                assert time.process_time() - started < 0.5, name

    call_each(lighthouses, "get_sources", [{"citations": "d1:c1"}])  # what the first call loads
    anyio.run(call_all)


@pytest.mark.parametrize(
    "query",
    [
        "a-" * 4_900,
        "a." * 4_900,
        "the." * 2_400,
        "the " * 2_400,
        "a" * 9_900,
        "-".join(map(str, range(2_000))),
        "lamp" + "\u0316\u0301" * 100_000,
    ],
    ids=lambda query: query[:12],
)
def test_a_question_of_one_word_without_an_end_is_answered_soon(
    reader: Callable[[str, dict[str, Any]], Any], query: str
) -> None:
    reader("query_lca_context", {"query": "lamp"})  # what the first call loads
    started = time.process_time()
    check_reply("query_lca_context", reader("query_lca_context", {"query": query}))
    assert time.process_time() - started < 5  # of the processor; it was 15


@pytest.mark.parametrize("name", [*READING, *WRITING])
def test_no_combination_of_odd_values_is_answered_with_a_bare_error(
    schemas: dict[str, dict[str, Any]], lighthouses: Path, tmp_path: Path, name: str
) -> None:
    known = schemas[name]["properties"]
    calls: list[dict[str, Any]] = []

    @given(st.fixed_dictionaries({}, optional=dict.fromkeys(known, VALUES)))
    @SETTINGS
    def draw(arguments: dict[str, Any]) -> None:
        calls.append(arguments | {key: 0 for key in known if key == "wait_seconds"})

    draw()
    call_each(lighthouses if name in READING else tmp_path, name, calls)


@pytest.fixture(scope="module")
def reader(lighthouses: Path) -> Iterator[Callable[[str, dict[str, Any]], Any]]:
    """Return a caller for the tools of one server over the corpus."""
    server = create_server(load_settings(data_dir=lighthouses))
    lifespan = server._lowlevel_server.lifespan(server._lowlevel_server)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(lifespan):
        yield lambda name, arguments: portal.call(server.call_tool, name, arguments)


@pytest.mark.parametrize("text", AWKWARD)
def test_any_text_is_accepted_as_a_name(reader: Callable[[str, dict[str, Any]], Any], text: str) -> None:
    for name, key in (
        ("query_lca_context", "query"),
        ("search_entities", "query"),
        ("get_entity_ancestors", "entity"),
        ("get_cluster", "cluster"),
        ("list_inter_cluster_relations", "cluster"),
        ("search_text", "text"),
        ("get_outline", "document"),
        ("get_sources", "entity"),
        ("get_sources", "document"),
        ("get_sources", "citations"),
        ("get_index_status", "collection"),
        ("get_job", "job_id"),
    ):
        for value in (text, [text]):
            check_reply(name, reader(name, {key: value}))


def test_arguments_that_a_client_sends_as_json_in_a_string_are_accepted(
    lighthouses: Path, tmp_path: Path
) -> None:
    async def ask() -> None:
        server = create_server(load_settings(data_dir=lighthouses))
        for arguments in (
            {"citations": '["d1:c1", "d2:c1"]'},
            {"citations": "d1:c1"},
            {"citations": ["[d1:c1][d2:c1]"], "limit": "5"},
        ):
            result = await server.call_tool("get_sources", arguments)
            assert isinstance(result, CallToolResult)
            assert not result.is_error, result.content
        asked = {
            "query": "Skerryvore",
            "filters": '{"documents": "Bell Rock"}',
            "seeds": "3",
            "include_relations": "false",
            "queries": None,
        }
        result = await server.call_tool("query_lca_context", asked)
        assert isinstance(result, CallToolResult)
        assert not result.is_error, result.content
        server = create_server(load_settings(data_dir=tmp_path))
        for documents in (
            '[{"text": "Tycho."}]',
            '{"text": "Tycho."}',
            ['{"text": "Tycho."}'],
            {"text": "Tycho."},
        ):
            result = await server.call_tool("ingest_documents", {"documents": documents, "build": "false"})
            assert isinstance(result, CallToolResult)
            assert not result.is_error, result.content

    anyio.run(ask)
