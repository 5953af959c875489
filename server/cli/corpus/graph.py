"""The commands that change or pass on the graph: ``leanrag merge | split | corrections | schema | import | export``."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from anyio import to_thread

from leanrag_engine.core.text.shortening import count_things
from leanrag_engine.exchange.formats import ExportFormat, ImportFormat

from ..options import CollectionOption, DataDir, Json, Verbose, report_errors
from ..running import end, follow_job, on_engine, print_report, read_settings, run

if TYPE_CHECKING:
    from leanrag_engine.core.model import Correction
    from leanrag_engine.engine import LeanRAG
    from leanrag_engine.pipeline.building.schemas import SchemaView


# --- corrections -------------------------------------------------------------------------


@on_engine()
async def merge(
    engine: LeanRAG,
    entities: Annotated[list[str], typer.Argument(help="Names or refs of entities.", metavar="ENTITY...")],
    name: Annotated[str, typer.Option(help="What to call it; default: as the first one.")] = "",
    json: Json = False,
) -> None:
    """Make entities one, in this and every later build.

    Example: `leanrag merge "Ewan Reid" "E. Reid"`, then `leanrag build`
    """
    made = await engine.merge_entities(entities, name, collection=engine.settings.collection)
    print_correction(made, json=json)


@on_engine()
async def split(
    engine: LeanRAG,
    entity: Annotated[str, typer.Argument(help="Name or ref of the entity.")],
    name: Annotated[str, typer.Argument(help="What the other entity is called.")],
    places: Annotated[
        list[str],
        typer.Option(
            "--in", help="A document (id, d3) or passage (d3:c12) where it is the other one; repeatable."
        ),
    ],
    json: Json = False,
) -> None:
    """Make what a name means in some documents or passages another entity, in this and every later build.

    Example: `leanrag split Mercury "Mercury (planet)" --in d3`, then `leanrag build`
    """
    made = await engine.split_entity(entity, name, places, collection=engine.settings.collection)
    print_correction(made, json=json)


@on_engine(read_only=lambda given: not given["undo"])
async def corrections(
    engine: LeanRAG,
    undo: Annotated[str, typer.Option(help="Ref of a correction to take back.")] = "",
    json: Json = False,
) -> None:
    """List merges and splits, or take one back with `--undo REF`."""
    name = engine.settings.collection
    if undo:
        print_correction(await engine.undo_correction(undo, collection=name), json=json, undone=True)
        return
    from ...replies.changes import format_correction  # noqa: PLC0415 - heavy

    effects = await engine.correction_effects(collection=name)
    lines = [format_correction(each, effects) for each in await engine.corrections(collection=name)]
    shown = "\n".join(lines) or "There are no corrections."
    typer.echo(dumps({"corrections": lines}, ensure_ascii=False) if json else shown)


def print_correction(correction: Correction, *, json: bool, undone: bool = False) -> None:
    from ...replies.changes import CorrectionsReply  # noqa: PLC0415 - heavy

    reply = CorrectionsReply.from_engine(correction, undone=undone)
    shown = f"{reply.correction}\nIt takes effect at the next build: leanrag build."
    typer.echo(reply.model_dump_json() if json else shown)


# --- the schema --------------------------------------------------------------------------

schema_app = typer.Typer(
    help="Constrain what is extracted by types of entities, relations and attributes.\n\n"
    "Example: `leanrag schema set people`, then `leanrag build`",
    no_args_is_help=True,
)

Type = Annotated[str, typer.Argument(help="A type as `leanrag schema show` lists it: entity:vessel.")]


@schema_app.command("set")
@on_engine()
async def set_schema(
    engine: LeanRAG,
    source: Annotated[
        str,
        typer.Argument(
            help="A YAML file, or the name of a schema as `leanrag schema list` shows it.",
            metavar="FILE|NAME",
        ),
    ],
    json: Json = False,
) -> None:
    """Give the collection a schema.

    Example: `leanrag schema set software --collection manuals`, then `leanrag build --dry-run`
    """
    print_schema(await engine.set_schema(source, collection=engine.settings.collection), engine, json=json)


@schema_app.command("show")
def show_schema(
    name: Annotated[
        str, typer.Argument(help="One of ours; by default the schema of the collection.", metavar="[NAME]")
    ] = "",
    data_dir: DataDir = None,
    collection: CollectionOption = None,
    json: Json = False,
) -> None:
    """Show the schema of the collection, what was adopted and what is kept apart; or one of ours, as YAML."""

    async def work(engine: LeanRAG) -> None:
        print_schema(await engine.schema(collection=engine.settings.collection), engine, json=json)

    if not name:
        run(read_settings(data_dir, collection, read_only=True), work)
        return
    from leanrag_engine.extraction.schemas.reading import load_schema, write_yaml  # noqa: PLC0415

    with report_errors():
        schema = load_schema(name)
    text = write_yaml(schema)
    typer.echo(dumps({"name": schema.name, "yaml": text}, ensure_ascii=False) if json else text)


@schema_app.command("list")
def list_schemas(json: Json = False) -> None:
    """List the schemas that come with LeanRAG."""
    from leanrag_engine.extraction.schemas.reading import ready_schemas  # noqa: PLC0415

    found = {name: [*schema.entities] for name, schema in ready_schemas().items()}
    shown = "\n".join(f"{name}: {', '.join(types)}" for name, types in found.items())
    print_report(dumps({"schemas": found}, ensure_ascii=False) if json else shown, json=json)


@schema_app.command("remove")
@on_engine()
async def remove_schema(engine: LeanRAG, json: Json = False) -> None:
    """Leave extraction open again, from the next build on."""
    print_schema(await engine.remove_schema(collection=engine.settings.collection), engine, json=json)


@schema_app.command("adopt")
@on_engine()
async def adopt_type(engine: LeanRAG, type_: Type, json: Json = False) -> None:
    """Take a type into the schema that models or agents gave outside it; no passage is read again."""
    await decide_type(engine, type_, json=json, adopt=True)


@schema_app.command("refuse")
@on_engine()
async def refuse_type(engine: LeanRAG, type_: Type, json: Json = False) -> None:
    """Keep a type apart that was adopted, or would be."""
    await decide_type(engine, type_, json=json, adopt=False)


async def decide_type(engine: LeanRAG, type_: str, *, json: bool, adopt: bool) -> None:
    found = await engine.decide_type(type_, adopt=adopt, collection=engine.settings.collection)
    done = "is taken into the schema" if adopt else "is kept apart"
    shown = f"{found.ref} {done} from the next build on: leanrag build."
    typer.echo(dumps({"type": found.ref, "adopted": adopt}) if json else shown)


def print_schema(view: SchemaView, engine: LeanRAG, *, json: bool) -> None:
    from ...replies.changes import SchemaReply  # noqa: PLC0415 - heavy

    reply = SchemaReply.from_engine(view, engine.settings)
    print_report(reply.model_dump_json() if json else reply.to_markdown(), json=json)


# --- graphs of other programs ------------------------------------------------------------

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
