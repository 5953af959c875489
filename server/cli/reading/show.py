"""``leanrag show``: one passage, entity, cluster or document."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leanrag_engine.core.errors import InvalidInput, LeanRAGError, NotFound, NotReady, UnknownCollection
from leanrag_engine.core.text.citation import parse_range
from leanrag_engine.core.text.nearest import sort_by_similarity
from leanrag_engine.core.text.paths import read_path

from ..options import Json
from ..running import on_engine, print_report

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG

    from ...replies.base import ReplyModel

PAGER = "less"

GOTO = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})
COLON = frozenset({"subl", "zed", "zeditor", "hx", "helix", "micro"})
"""Editors that take the line after a colon; others, such as vi, nano, emacs and less, take +LINE."""


@on_engine(read_only=True)
async def show(
    engine: LeanRAG,
    what: Annotated[
        str,
        typer.Argument(
            help="A citation (d3:c12, d3:c10-c14), the name or ref of an entity or cluster, or a document (d3, path, title).",
            metavar="CITATION|ENTITY|CLUSTER|DOCUMENT",
        ),
    ],
    in_editor: Annotated[
        bool,
        typer.Option(
            "--open",
            help="Open the file of a citation at the line, in VISUAL, EDITOR or less; a PDF in its own program.",
        ),
    ] = False,
    hops: Annotated[
        int,
        typer.Option(
            min=0, max=3, help="Of an entity: also what lies within so many relations, with passages."
        ),
    ] = 0,
    json: Json = False,
) -> None:
    """Show a passage in full, an entity with what it belongs to, a cluster with its members, or a document's headings.

    Example: `leanrag show d3:c12`, then `leanrag show d3:c12 --open` and `leanrag show "Skerryvore"`
    """
    name = what.strip().strip("[]")
    if in_editor:
        open_place(*await find_place(engine, name))
        return
    from ...replies.errors import without_steps  # noqa: PLC0415 - only with a reply

    reply = await find(engine, name, hops)
    print_report(reply.model_dump_json() if json else without_steps(reply.to_markdown()), json=json)


async def find(engine: LeanRAG, what: str, hops: int = 0) -> ReplyModel:
    """Return the reply on what is called so. Raises ``NotFound`` with the nearest entities and documents."""
    if cited := parse_range(what):
        _, first, last = cited
        return await (show_passage(engine, what) if first == last else show_passages(engine, what))
    # A path, a file name and a number name a document; other words first an entity.
    ways: list[Callable[[LeanRAG, str], Awaitable[ReplyModel]]] = [
        partial(show_entity, hops=hops),
        show_document,
    ]
    if os.sep in what or "/" in what or "." in what.strip(".") or what.lstrip("d").isdigit():
        ways.reverse()
    problems: list[LeanRAGError] = []
    for way in ways:
        try:
            return await way(engine, what)
        except UnknownCollection:
            raise
        except (NotFound, NotReady) as problem:
            problems.append(problem)
    if all(isinstance(each, NotFound) for each in problems):
        known = [each for problem in problems for each in getattr(problem, "candidates", ())]
        near = tuple(
            sort_by_similarity(what, known, lambda each: (each.ref, each.name, Path(each.hint).name), 3)
        )
        raise NotFound(
            f"No entity and no document is called {what!r}.",
            "Give one of these:" if near else "See `leanrag ls` and `leanrag tree`.",
            near,
        )
    raise problems[0]


async def show_passage(engine: LeanRAG, citation: str) -> ReplyModel:
    from ...replies.sources import PassageReply  # noqa: PLC0415 - heavy

    name = engine.settings.collection
    (chunk,) = (await engine.sources([citation], collection=name)).chunks
    around = (await engine.sources([citation], neighbours=1, collection=name)).chunks
    near = [each.citation for each in around]
    place = near.index(chunk.citation)
    return PassageReply.of_chunk(chunk, *((near[:place] or [""])[-1], (near[place + 1 :] or [""])[0]))


async def show_passages(engine: LeanRAG, citations: str) -> ReplyModel:
    from ...replies.sources import ReadingCursor, SourcesReply  # noqa: PLC0415 - heavy

    page = await engine.sources([citations], collection=engine.settings.collection)
    return SourcesReply.from_engine(page, ReadingCursor(), engine.count_tokens, 20_000)


async def show_entity(engine: LeanRAG, entity: str, hops: int = 0) -> ReplyModel:
    """Return the reply on an entity or cluster."""
    from ...replies.graph import ClusterReply, EntityReply  # noqa: PLC0415 - heavy

    name = engine.settings.collection
    chain = await engine.ancestors(entity, collection=name)
    found = chain[0]
    if found.layer and not hops:
        view = await engine.cluster(found.id, limit=30, collection=name)
        return ClusterReply.from_engine(view, 0, engine.count_tokens, detailed=True)
    relations = await engine.relations_of(found.id, limit=15, collection=name)
    page = await engine.sources(entity=found.id, limit=12, collection=name)
    near = await engine.neighbourhood(found.id, hops=hops, collection=name) if hops else []
    second = await engine.second_cluster(found.id, collection=name)
    return EntityReply.from_engine(chain, relations, [each.citation for each in page.chunks], near, second)


async def find_place(engine: LeanRAG, citation: str) -> tuple[Path, int]:
    """Return a passage's file and its first line there, 0 without lines. Raises ``InvalidInput`` if it is no citation or from no file."""
    if not parse_range(citation):
        raise InvalidInput(
            f"{citation!r} is no citation, and only passages have a place in a file.",
            "Give one such as d3:c12.",
        )
    (chunk, *_) = (await engine.sources([citation], collection=engine.settings.collection)).chunks
    if not chunk.source:
        raise InvalidInput(
            f"{citation} cannot be opened: its text came from no file.", f"leanrag show {citation} prints it."
        )
    return read_path(chunk.source), chunk.line or 0


def open_place(file: Path, line: int) -> None:
    """Open a file at a line. Raises ``InvalidInput`` if there is no such file or program."""
    if not file.is_file():
        raise InvalidInput(f"The file {file} is gone.", "Without --open its text is printed.")
    if not line:
        # xdg-open says at its end whether there is a program; what opens a file elsewhere would wait for that.
        if typer.launch(str(file), wait=sys.platform == "linux"):
            raise InvalidInput(
                f"No program on this machine opens {file}.", "Without --open its text is printed."
            )
        return
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or PAGER)
    name = Path(command[0]).stem.lower()
    if name in GOTO:
        place = ["--goto", f"{file}:{line}"]
    elif name in COLON:
        place = [f"{file}:{line}"]
    else:
        place = [f"+{line}", str(file)]
    try:
        subprocess.run([*command, *place], check=False)  # noqa: S603 - the program is what the user has set
    except OSError as problem:
        raise InvalidInput(
            f"The editor {command[0]!r} cannot be started: {problem.strerror}.", "Set VISUAL or EDITOR."
        ) from problem


async def show_document(engine: LeanRAG, document: str) -> ReplyModel:
    from ...replies.sources import OutlineReply  # noqa: PLC0415 - heavy

    name = engine.settings.collection
    try:
        outline = await engine.outline(to_whole_path(document), collection=name)
    except NotFound:
        outline = await engine.outline(document, collection=name)
    return OutlineReply.from_engine(outline, 0, engine.count_tokens)


def to_whole_path(document: str) -> str:
    """Return the absolute path of what may be a file, which is the id of a document that was read from it."""
    return str(Path(document).expanduser().absolute())
