"""Report to OpenTelemetry how long, how often, how much, and never a text, a question, a name or a key. Its
API does nothing until a program sets up its SDK, and is imported at the first report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram
    from opentelemetry.trace import Span, Tracer

# ruff: noqa: PLC0415

Fact = str | int | float | bool
"""What may be reported: numbers, and words of this program's own (a kind of job, a tool, a model)."""

SCOPE = "leanrag"


class Activity:
    """Something under way: a span, with a span of its own for each stage that it enters."""

    def __init__(self, span: Span, name: str, kind: str) -> None:
        self.outcome = "ok"
        self._span = span
        self._name = name
        self._kind = kind
        self._stage: tuple[str, Span, float] | None = None

    def note(self, **facts: Fact) -> None:
        """Add facts to the span."""
        self._span.set_attributes({f"{SCOPE}.{name}": fact for name, fact in facts.items()})

    def fail(self, outcome: str) -> None:
        """Note that it has failed, and how in one word: the text of an error may quote a document."""
        from opentelemetry.trace import StatusCode

        self.outcome = outcome
        self._span.set_status(StatusCode.ERROR)

    def enter(self, stage: str) -> None:
        """Begin a stage and end the one before. May be called from any thread."""
        from opentelemetry.trace import set_span_in_context

        self.end_stage()
        within = set_span_in_context(self._span)
        span = _tracer().start_span(f"{self._name} {self._kind}: {stage}", context=within)
        self._stage = stage, span, time.perf_counter()

    def end_stage(self) -> None:
        """End the stage under way, if there is one."""
        if self._stage is not None:
            (stage, span, began), self._stage = self._stage, None
            span.end()
            measure(f"{self._name}.stage", time.perf_counter() - began, "s", kind=self._kind, stage=stage)


@contextmanager
def watch(name: str, kind: str) -> Iterator[Activity]:
    """Report what the block does as a span, and how long it takes by kind and outcome as a metric."""
    began = time.perf_counter()
    with _tracer().start_as_current_span(
        f"{name} {kind}", record_exception=False, set_status_on_exception=False
    ) as span:
        activity = Activity(span, name, kind)
        try:
            yield activity
        except BaseException as problem:
            activity.fail(type(problem).__name__)
            raise
        finally:
            activity.end_stage()
            activity.note(kind=kind, outcome=activity.outcome)
            measure(name, time.perf_counter() - began, "s", kind=kind, outcome=activity.outcome)


def measure(name: str, value: float, unit: str, **facts: Fact) -> None:
    attributes = {f"{SCOPE}.{each}": fact for each, fact in facts.items()}
    _histogram(f"{SCOPE}.{name}", unit).record(value, attributes)


@cache
def _tracer() -> Tracer:
    from opentelemetry.trace import get_tracer

    return get_tracer(SCOPE)


@cache
def _histogram(name: str, unit: str) -> Histogram:
    from opentelemetry.metrics import get_meter

    return get_meter(SCOPE).create_histogram(name, unit)
