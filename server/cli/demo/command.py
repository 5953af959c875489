"""``leanrag demo``: the command; ``run`` does the work."""

from typing import Annotated

import typer

from ..options import DataDir, as_command


@as_command
async def demo(
    data_dir: DataDir = None,
    collection: Annotated[str, typer.Option(help="What to call the corpus.")] = "python-reference",
    json: Annotated[bool, typer.Option("--json", help="End with one JSON object of figures.")] = False,
) -> None:
    """Show what it does on real input: the Python language reference that comes with Python.

    Indexes it, starts the MCP server, asks a question through an MCP client, and shows the best passage with the tree of
    what the question is about. The collection is kept: a second run takes seconds. No network, no key, no download.
    """
    from .run import run_demo  # noqa: PLC0415 - heavy

    await run_demo(data_dir, collection, json)
