"""Send OpenTelemetry traces and metrics of this process, the engine's and the SDK's, to a collector, by OTLP over gRPC."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from leanrag_engine.core.errors import InvalidInput

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

# ruff: noqa: PLC0415 - those who ask for no telemetry must not wait for its libraries

ENDPOINTS = tuple(f"OTEL_EXPORTER_OTLP_{each}ENDPOINT" for each in ("", "TRACES_", "METRICS_"))
"""OpenTelemetry's own variables that name a collector: one of them asks for telemetry."""

OF_REQUESTS = {
    "mcp.method.name",
    "mcp.protocol.version",
    "gen_ai.operation.name",
    "error.type",
    "rpc.response.status_code",
}
"""Attributes of the SDK's spans that no client chooses."""


_providers: list[TracerProvider | MeterProvider] = []
"""What this process has set up; OpenTelemetry keeps one of each for a process, too."""

METHOD = re.compile(r"[a-z]+(/[a-z_]+)*")


def start_telemetry_if_asked(wanted: bool, tools: Collection[str] = ()) -> None:
    """Send traces and metrics if the setting or OpenTelemetry's variables ask for it; spans may name
    ``tools``. Raises ``InvalidInput`` without the extra."""
    is_asked = wanted or any(os.environ.get(each) for each in ENDPOINTS)
    if not is_asked or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    check_exporters()
    try:
        from opentelemetry import metrics, trace
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
    except ImportError as problem:
        raise InvalidInput(
            f"Telemetry is asked for, and the package {problem.name} is not installed.",
            "Install the extra `telemetry`, or unset LEANRAG_TELEMETRY and OTEL_EXPORTER_OTLP_ENDPOINT.",
        ) from None

    class WordlessExporter(OTLPSpanExporter):
        """Leaves out what clients and the texts of errors say."""

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return super().export([without_words(each, tools) for each in spans])

    # A collector that is away must not hold up the end of a command: the default is ten seconds.
    os.environ.setdefault("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    named = {
        "service.name": os.environ.get("OTEL_SERVICE_NAME") or "leanrag",
        "service.version": version("leanrag-mcp"),
    }
    resource = Resource.create(named)
    if is_exported("TRACES"):
        traces = TracerProvider(resource=resource)
        traces.add_span_processor(BatchSpanProcessor(WordlessExporter()))
        trace.set_tracer_provider(traces)
        _providers.append(traces)
    if is_exported("METRICS"):
        meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource=resource)
        metrics.set_meter_provider(meters)
        _providers.append(meters)


def flush_telemetry() -> None:
    """Send what waits to be sent, for a process that a signal ends: others send it when they exit. Takes some seconds at most."""
    for provider in _providers:
        provider.force_flush(timeout_millis=3000)


def is_exported(signal: str) -> bool:
    return os.environ.get(f"OTEL_{signal}_EXPORTER") != "none"


def check_exporters() -> None:
    """Raise ``InvalidInput`` if a variable asks for anything but OTLP over gRPC: standard output belongs to the protocol."""
    for variable, allowed in (
        ("OTEL_TRACES_EXPORTER", ("", "otlp", "none")),
        ("OTEL_METRICS_EXPORTER", ("", "otlp", "none")),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", ("", "grpc")),
    ):
        if (value := os.environ.get(variable, "")) not in allowed:
            raise InvalidInput(
                f"{variable} is {value!r}, expected {' or '.join(each for each in allowed if each)}.",
                "This server sends telemetry by OTLP over gRPC; a collector passes it on in other forms.",
            )


def without_words(span: ReadableSpan, tools: Collection[str]) -> ReadableSpan:
    """Return the span without the words of errors; one of a request also without what its client chose."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Status

    name, attributes = span.name, dict(span.attributes or {})
    method = attributes.get("mcp.method.name")
    if isinstance(method, str):
        tool = attributes.get("gen_ai.tool.name")
        attributes = {key: value for key, value in attributes.items() if key in OF_REQUESTS}
        name = method if METHOD.fullmatch(method) else "unknown"
        attributes["mcp.method.name"] = name
        if tool in tools:
            attributes["gen_ai.tool.name"] = tool
            name = f"{name} {tool}"
    return ReadableSpan(
        name=name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=attributes,
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
