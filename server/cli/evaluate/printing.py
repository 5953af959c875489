"""What the commands of ``leanrag eval`` print alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from leanrag_engine.llm.batching import Meter


def print_result(
    remarks: Iterable[str], figures: dict[str, object], show: Callable[[], None], *, as_json: bool
) -> None:
    """Print the remarks to standard error, and to standard output the figures as JSON or what ``show`` prints."""
    for remark in remarks:
        typer.echo(remark, err=True)
    if as_json:
        typer.echo(json.dumps(figures))
    else:
        show()


def format_usage(meter: Meter) -> str:
    """Return how many calls and tokens a model took."""
    return (
        f"{meter.calls:,} calls, {meter.prompt_tokens:,} input and {meter.completion_tokens:,} output tokens"
    )
