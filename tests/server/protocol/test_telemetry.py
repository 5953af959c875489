"""What a server reports to OpenTelemetry: every call, job, stage, model call and search, and no word of any text."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from typer.testing import CliRunner

from leanrag_mcp.cli.main import app

pytestmark = pytest.mark.anyio

PLANTED = "Vorblunsky"
"""A word that stands in documents, questions, names and the key, and must stand in nothing that is reported."""


class Collector(trace_service_pb2_grpc.TraceServiceServicer, metrics_service_pb2_grpc.MetricsServiceServicer):
    """A collector on loopback that keeps what it is sent."""

    def __init__(self) -> None:
        self.traces: list[Any] = []
        self.metrics: list[Any] = []
        self.server = grpc.server(ThreadPoolExecutor(2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self.server)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(_Metrics(self.metrics), self.server)
        self.address = f"http://127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - the protocol's name
        self.traces.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()

    def spans(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for request in self.traces:
            for resource in request.resource_spans:
                for span in (span for scope in resource.scope_spans for span in scope.spans):
                    found.setdefault(span.name, []).append(span)
        return found

    def values(self) -> dict[str, list[Any]]:
        """Return the points of each metric."""
        return {
            metric.name: list(metric.histogram.data_points)
            for request in self.metrics
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, received: list[Any]) -> None:
        self._received = received

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - the protocol's name
        self._received.append(request)
        return metrics_service_pb2.ExportMetricsServiceResponse()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.server.stop(None)


def attributes_of(item: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in item.attributes}


def server_at(folder: Path, *options: str, **environment: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "leanrag_mcp", "serve", "--log-level", "info", "--data-dir", str(folder), *options],
        env={"LEANRAG_EMBEDDER": "fitted", **environment},
    )


async def test_calls_jobs_stages_model_calls_and_searches_are_reported_without_a_word_of_any_text(
    tmp_path: Path, collector: Collector, scribe: Any
) -> None:
    server = server_at(
        tmp_path / "data",
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.address,
        OPENAI_API_KEY=f"sk-{PLANTED}",
        LEANRAG_LLM_MODEL="openai/scripted",
        LEANRAG_LLM_API_BASE=scribe.url,
    )
    text = f"{PLANTED} of Tiree met Ewan Reid. Ewan Reid wrote to Moira Kerr about {PLANTED} and Tiree."
    with (tmp_path / "log").open("w+", encoding="utf-8") as log:
        async with Client(stdio_client(server, errlog=log)) as client:

            async def call(tool: str, **arguments: Any) -> CallToolResult:
                result = await client.call_tool(tool, arguments)
                assert isinstance(result, CallToolResult)
                return result

            job = await call(
                "ingest_documents", documents=[{"text": text, "title": PLANTED}], wait_seconds=40
            )
            assert (job.structured_content or {})["status"] == "done"
            assert not (await call("query_lca_context", query=f"Who met {PLANTED}?")).is_error
            await call("search_entities", query=PLANTED)
            await call("search_text", text=PLANTED)
            # What fails names what was asked for.
            assert (await call("get_cluster", cluster=PLANTED)).is_error
            assert (await call("query_lca_context", query=PLANTED, entities=[PLANTED * 2])).is_error
            assert (await call(PLANTED)).is_error
            for uri in (f"leanrag://entity/default/{PLANTED}", f"leanrag://{PLANTED}"):
                with pytest.raises(MCPError):
                    await client.read_resource(uri)
            with pytest.raises(MCPError, match="There is no prompt"):
                await client.get_prompt(PLANTED)
            with pytest.raises(MCPError, match="needs the argument question"):
                await client.get_prompt("answer_with_leanrag", {PLANTED: PLANTED})
        log.seek(0)
        logged = log.read()
    spans, values = collector.spans(), collector.values()
    assert {
        *("tools/call ingest_documents", "tools/call query_lca_context", "tools/call", "resources/read"),
        *(
            "job ingest",
            "job ingest: publish",
            "chat openai/scripted",
            "search lca",
            "search entities",
            "search text",
        ),
    } <= spans.keys()
    # A job's stages and model calls belong to it.
    job_id = spans["job ingest"][0].span_id
    assert {
        spans["job ingest: publish"][0].parent_span_id,
        spans["chat openai/scripted"][0].parent_span_id,
    } == {job_id}
    asked = attributes_of(spans["chat openai/scripted"][0])
    assert (asked["leanrag.input_tokens"], asked["leanrag.output_tokens"], asked["leanrag.attempts"]) == (
        100,
        20,
        1,
    )
    assert {
        "leanrag.tool",
        "leanrag.job",
        "leanrag.job.stage",
        "leanrag.chat.tokens",
        "leanrag.search",
    } <= values.keys()
    tools = {attributes_of(point)["leanrag.kind"] for point in values["leanrag.tool"]}
    assert tools == {"ingest_documents", "query_lca_context", "search_entities", "search_text", "get_cluster"}
    assert "Tool search_text answered" in logged
    reported = [request.SerializeToString() for request in (*collector.traces, *collector.metrics)]
    assert not [each for each in (*reported, logged.encode()) if PLANTED.lower().encode() in each.lower()]


async def test_a_server_that_is_told_to_end_sends_what_it_has_not_sent_yet(
    tmp_path: Path, collector: Collector
) -> None:
    server = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "leanrag_mcp",
            "serve",
            "--http",
            "127.0.0.1:0",
            "--data-dir",
            str(tmp_path),
        ],
        env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.address},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr
    address = next(word for word in server.stderr.readline().split() if word.startswith("http://"))
    async with Client(address) as client:
        await client.call_tool("list_collections", {})
    server.terminate()
    server.communicate()
    assert "tools/call list_collections" in collector.spans()
    assert "leanrag.tool" in collector.values()


def test_another_exporter_is_refused_before_the_server_starts(tmp_path: Path) -> None:
    ran = CliRunner().invoke(
        app,
        ["serve", "--data-dir", str(tmp_path)],
        env={"LEANRAG_TELEMETRY": "true", "OTEL_TRACES_EXPORTER": "console"},
    )
    assert ran.exit_code == 1
    assert "OTEL_TRACES_EXPORTER is 'console', expected otlp or none" in ran.stderr


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = "opentelemetry.sdk"
    for name in (extra, *(name for name in sys.modules if name.startswith(f"{extra}."))):
        monkeypatch.setitem(sys.modules, name, None)
    ran = CliRunner().invoke(app, ["serve", "--data-dir", str(tmp_path)], env={"LEANRAG_TELEMETRY": "true"})
    assert ran.exit_code == 1
    assert "Install the extra `telemetry`" in ran.stderr


def test_without_telemetry_neither_sdk_nor_exporter_is_imported() -> None:
    code = (
        "import sys; from leanrag_mcp.app import create_server; import leanrag_mcp.protocol.telemetry as telemetry;"
        "from leanrag_engine.core.config import load_settings; create_server(load_settings());"
        "telemetry.start_telemetry_if_asked(wanted=False);"
        "print(*(name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter', 'grpc'))))"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
