"""``leanrag import`` and ``export``: a graph that another program has made, and ours in the format of another program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from anyio import to_thread

from leanrag_engine.core.text.shortening import count_things
from leanrag_engine.exchange.formats import ExportFormat, ImportFormat

from ..options import Json, Verbose
from ..running import end, follow_job, on_engine

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG

KEPT = "Either the graph is in with everything, or nothing is; the same command goes on from there."
"""What Ctrl-C leaves of an import: it is one transaction, and the build after it resumes."""


@on_engine(KEPT)
async def import_graph(
    engine: LeanRAG,
    from_: Annotated[
        ImportFormat,
        typer.Argument(metavar="FORMAT", help=f"One of {', '.join(ImportFormat)}.", show_default=False),
    ],
    path: Annotated[str, typer.Argument(help="The file or folder to read.", show_default=False)],
    build: Annotated[bool, typer.Option(help="Build the hierarchy afterwards.")] = True,
    communities: Annotated[
        bool,
        typer.Option("--communities", help="Keep GraphRAG's communities and reports as the first hierarchy."),
    ] = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Take over a graph that another program has made, with its passages; no model is called for it.

    graphrag: Microsoft GraphRAG's output folder (Parquet). lightrag: a working folder of LightRAG or nano-graphrag. openie:
    HippoRAG's JSON. leanrag: a folder with entity.jsonl and relation.jsonl. graphml, csv, jsonl: a graph, or tables of
    entities and relations. obsidian: a folder of linked notes.

    All is taken or nothing, and what was left out or changed is counted with its reason. Safe to repeat.

    Example: `leanrag import graphrag ./ragtest/output`
    """
    collection = engine.settings.collection
    job = await engine.submit_import(
        from_.value, path, collection=collection, build=build, hierarchy=communities, allowed=None
    )
    following = ("query", "QUESTION") if build else ("build",)
    end(await follow_job(engine, job, verbose=verbose), engine.settings, json=json, following=following)


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
