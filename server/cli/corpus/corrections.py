"""The commands that correct the graph: ``leanrag merge | split | corrections``."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Annotated

import typer

from ..options import Json
from ..running import on_engine

if TYPE_CHECKING:
    from leanrag_engine.core.model import Correction
    from leanrag_engine.engine import LeanRAG


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
    show(made, json=json)


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
    show(made, json=json)


@on_engine(read_only=lambda given: not given["undo"])
async def corrections(
    engine: LeanRAG,
    undo: Annotated[str, typer.Option(help="Ref of a correction to take back.")] = "",
    json: Json = False,
) -> None:
    """List merges and splits, or take one back with `--undo REF`."""
    name = engine.settings.collection
    if undo:
        show(await engine.undo_correction(undo, collection=name), json=json, undone=True)
        return
    from ...replies.changes.history import format_correction  # noqa: PLC0415 - heavy

    effects = await engine.correction_effects(collection=name)
    lines = [format_correction(each, effects) for each in await engine.corrections(collection=name)]
    shown = "\n".join(lines) or "There are no corrections."
    typer.echo(dumps({"corrections": lines}, ensure_ascii=False) if json else shown)


def show(correction: Correction, *, json: bool, undone: bool = False) -> None:
    from ...replies.changes.history import CorrectionsReply  # noqa: PLC0415 - heavy

    reply = CorrectionsReply.from_engine(correction, undone=undone)
    shown = f"{reply.correction}\nIt takes effect at the next build: leanrag build."
    typer.echo(reply.model_dump_json() if json else shown)
