"""``leanrag schema``: constrain what is extracted by types of entities, relations and attributes."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import CollectionOption, DataDir, Json, report_errors
from ..running import on_engine, print_report, read_settings, run

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG
    from leanrag_engine.pipeline.building.schemas import SchemaView

app = typer.Typer(
    help="Constrain what is extracted by types of entities, relations and attributes.\n\n"
    "Example: `leanrag schema set people`, then `leanrag build`",
    no_args_is_help=True,
)

Type = Annotated[str, typer.Argument(help="A type as `leanrag schema show` lists it: entity:vessel.")]


@app.command("set")
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
    _print(await engine.set_schema(source, collection=engine.settings.collection), engine, json=json)


@app.command("show")
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
        _print(await engine.schema(collection=engine.settings.collection), engine, json=json)

    if not name:
        run(read_settings(data_dir, collection, read_only=True), work)
        return
    from leanrag_engine.extraction.schemas.reading import load_schema, write_yaml  # noqa: PLC0415

    with report_errors():
        schema = load_schema(name)
    text = write_yaml(schema)
    typer.echo(dumps({"name": schema.name, "yaml": text}, ensure_ascii=False) if json else text)


@app.command("list")
def list_schemas(json: Json = False) -> None:
    """List the schemas that come with LeanRAG."""
    from leanrag_engine.extraction.schemas.reading import ready_schemas  # noqa: PLC0415

    found = {name: [*schema.entities] for name, schema in ready_schemas().items()}
    if json:
        typer.echo(dumps({"schemas": found}, ensure_ascii=False))
    else:
        print_report("\n".join(f"{name}: {', '.join(types)}" for name, types in found.items()))


@app.command("remove")
@on_engine()
async def remove_schema(engine: LeanRAG, json: Json = False) -> None:
    """Leave extraction open again, from the next build on."""
    _print(await engine.remove_schema(collection=engine.settings.collection), engine, json=json)


@app.command("adopt")
@on_engine()
async def adopt_type(engine: LeanRAG, type_: Type, json: Json = False) -> None:
    """Take a type into the schema that models or agents gave outside it; no passage is read again."""
    await _decide(engine, type_, json=json, adopt=True)


@app.command("refuse")
@on_engine()
async def refuse_type(engine: LeanRAG, type_: Type, json: Json = False) -> None:
    """Keep a type apart that was adopted, or would be."""
    await _decide(engine, type_, json=json, adopt=False)


async def _decide(engine: LeanRAG, type_: str, *, json: bool, adopt: bool) -> None:
    found = await engine.decide_type(type_, adopt=adopt, collection=engine.settings.collection)
    if json:
        typer.echo(dumps({"type": found.ref, "adopted": adopt}))
    else:
        done = "is taken into the schema" if adopt else "is kept apart"
        typer.echo(f"{found.ref} {done} from the next build on: leanrag build.")


def _print(view: SchemaView, engine: LeanRAG, *, json: bool) -> None:
    from ...replies.changes.schema import SchemaReply  # noqa: PLC0415 - heavy

    reply = SchemaReply.from_engine(view, engine.settings)
    print_report(reply.model_dump_json() if json else reply.to_markdown(), json=json)
