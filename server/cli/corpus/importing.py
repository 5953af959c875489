"""``leanrag import``: a graph that another program has made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from leanrag_engine.exchange.formats import ImportFormat

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
