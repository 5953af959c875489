"""``leanrag backup`` and ``leanrag restore``: everything of a data folder, in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from functools import cache, partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leanrag_engine.core.text.shortening import count_things

from ..options import DataDir, Json, as_command
from ..running import read_settings

if TYPE_CHECKING:
    from leanrag_engine.core.ports import Progress, ProgressReport
    from leanrag_engine.pipeline.backup import Backup


@as_command
async def backup(
    target: Annotated[Path, typer.Argument(help="A folder that does not exist yet.", metavar="TARGET")],
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Write everything of the data folder to a new folder, as it is at one moment.

    Servers go on answering meanwhile; builds and other jobs wait until it is done.

    Example: `leanrag backup /backups/leanrag-monday`
    """
    settings = read_settings(data_dir, None)
    from leanrag_engine.pipeline.backup import back_up  # noqa: PLC0415 - heavy

    with show_bytes() as report:
        made = await back_up(settings, target, report)
    print_backup(made, f"{made.folder} holds", "`leanrag restore` brings it back.", json=json)


@as_command
async def restore(
    source: Annotated[Path, typer.Argument(help="What `leanrag backup` has written.", metavar="SOURCE")],
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Fill an empty data folder from a backup, after each file of it was compared with its hash. Overwrites nothing.

    Example: `leanrag restore /backups/leanrag-monday --data-dir /srv/leanrag`
    """
    settings = read_settings(data_dir, None)
    from leanrag_engine.pipeline import backup as backups  # noqa: PLC0415 - heavy

    with show_bytes() as report:
        made = await backups.restore(settings, source, report)
    following = (
        "`leanrag serve` serves it."
        if made.vectors
        else "`leanrag reindex` writes the vectors of each collection anew."
    )
    print_backup(made, f"{settings.data_dir} holds again", following, json=json)


def print_backup(made: Backup, words: str, following: str, *, json: bool) -> None:
    if json:
        typer.echo(dumps({**asdict(made), "folder": str(made.folder)}))
        return
    held = (
        ", ".join(f"{name} ({count_things(count, 'document')})" for name, count in made.collections.items())
        or "no collection"
    )
    without = "" if made.vectors else ", without vectors"
    typer.echo(
        f"{words} {held}: {made.size / 1e6:,.1f} MB{without}, as of {datetime.fromisoformat(made.created_at).astimezone():%Y-%m-%d %H:%M}. {following}"
    )


@contextmanager
def show_bytes() -> Iterator[ProgressReport]:
    """Show on standard error how many bytes are done; yield what takes the progress, from any thread."""
    from rich import progress as bars  # noqa: PLC0415 - as above
    from rich.console import Console  # noqa: PLC0415 - heavy

    console = Console(stderr=True)
    if not console.is_terminal:
        say = cache(partial(typer.echo, err=True))  # for whom the command waits, once

        def report(now: Progress) -> None:
            if now.message:
                say(now.message)

        yield report
        return
    columns = bars.TextColumn("{task.description}"), bars.BarColumn(), bars.DownloadColumn()
    with bars.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda now: bar.update(
            task, description=now.message or now.stage, completed=now.done, total=now.total or None
        )
