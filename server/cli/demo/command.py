"""``leanrag demo``: the command; ``run`` does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import run_async


def demo(
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep the demo's data here; default: a folder that is removed afterwards."),
    ] = None,
    collection: Annotated[str, typer.Option(help="What to call the corpus.")] = "python-reference",
    json: Annotated[bool, typer.Option("--json", help="End with one JSON object of figures.")] = False,
) -> None:
    """Run everything on real input: the Python language reference that comes with Python.

    Ingests it, builds the hierarchy, starts the MCP server, asks it three questions and goes through the
    hierarchy step by step. No network, no key, no download.
    """
    from .run import run_demo  # noqa: PLC0415 - heavy

    run_async(lambda: run_demo(data_dir, collection, json))
