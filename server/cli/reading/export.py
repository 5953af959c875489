"""``leanrag export``: the graph in the format of another program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from anyio import to_thread

from leanrag_engine.core.text.counting import count_things
from leanrag_engine.exchange.formats import ExportFormat

from ..running import on_engine

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG


@on_engine(read_only=True)
async def export(
    engine: LeanRAG,
    to: Annotated[
        ExportFormat,
        typer.Argument(metavar="FORMAT", help=f"One of {', '.join(ExportFormat)}.", show_default=False),
    ],
    path: Annotated[
        Path,
        typer.Argument(help="The file to write; for obsidian and parquet, the folder.", show_default=False),
    ],
) -> None:
    """Write the graph with its layers, relations and passages for another program. Nothing is changed or replaced.

    graphml: Gephi, yEd, Neo4j's APOC. json: networkx, d3. obsidian: a vault of linked notes. parquet: a folder of tables with the columns
    of Microsoft GraphRAG.

    Example: `leanrag export graphml graph.graphml`
    """
    from leanrag_engine.exchange.exporting.write import write_graph  # noqa: PLC0415 - heavy

    graph = await engine.read_graph(collection=engine.settings.collection)
    await to_thread.run_sync(write_graph, graph, to, path)
    typer.echo(
        f"Wrote {count_things(len(graph.names), 'entity', 'entities')} in {len(graph.layers)} layers, "
        f"{sum(1 for _ in graph.relations()):,} relations and {count_things(len(graph.chunks), 'passage')} of "
        f"{count_things(len(graph.documents), 'document')} to {path}."
    )
