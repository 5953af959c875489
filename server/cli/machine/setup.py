"""``leanrag setup FOLDER``: from a folder to an answer in a client, with one command."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import InvalidInput, LeanRAGError
from leanrag_engine.core.text.shortening import count_things

from ...clients.files import apply_change, find_installed_command, plan_install
from ...clients.places import CLIENTS, Machine, config_file, is_present
from ..options import CollectionOption, DataDir, escape_controls, report_errors
from ..running import (
    command_line,
    confirm,
    find_width,
    index_options,
    leave_unless_done,
    read_settings,
    run,
    run_ingest,
)
from .install import check_name, find_client, merge_arguments, server_arguments, server_command, server_entry

if TYPE_CHECKING:
    from leanrag_engine.core.jobs import Job
    from leanrag_engine.engine import LeanRAG


def setup(
    folder: Annotated[Path, typer.Argument(help="The folder with your documents.", metavar="FOLDER")],
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Add the server to every client found, without asking.")
    ] = False,
    client: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Add it to this client, found or not; repeatable. One of {', '.join(CLIENTS)}.",
            metavar="CLIENT",
            show_default=False,
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="What the client calls the server.")] = "leanrag",
    data_dir: DataDir = None,
    collection: CollectionOption = None,
) -> None:
    """Index a folder, add the server to your clients, start it once, and suggest three questions.

    Safe to repeat: unchanged documents are not read again, vanished ones are removed, and a client that is set up stays as
    it is. Ctrl-C keeps what is done; the same command goes on from there.

    Example: `leanrag setup ~/notes`
    """
    with report_errors():
        check_name(name)
        chosen = [find_client(each) for each in client or []]
        if not folder.expanduser().is_dir():
            raise InvalidInput(f"{folder} is not a folder.", "Give the folder that holds your documents.")
    folder = folder.expanduser().resolve()
    settings = read_settings(data_dir, collection, allow_dirs=(folder,))
    try:
        questions, collections, levels = index_folder(folder, settings)
        if len(collections) > 1:  # a server of one collection would take the others away from the client
            settings = read_settings(data_dir, None, allow_dirs=(folder,))
            tick(
                f"Clients see all collections: {', '.join(collections)}. One alone: `leanrag install CLIENT --collection NAME`."
            )
        command = [*server_command(), *server_arguments(settings)]
        failed = add_to_clients(chosen, name, command, yes=yes)
        check_server(command)
    except KeyboardInterrupt:
        typer.echo(f"\nStopped. What is done is kept; `leanrag setup {folder}` goes on from there.", err=True)
        raise typer.Exit(130) from None
    print_questions(questions, settings)
    again = command_line(["leanrag", "sync", str(folder), *index_options(settings)])
    typer.echo(f"\nWhen files change: {again}")
    if levels:
        typer.echo()
        tick(levels)
    if failed:
        raise typer.Exit(1)


def tick(text: str, *, ok: bool = True) -> None:
    """Print a line of the list of what was done, at a terminal broken between words; not ``ok``: it may need attention."""
    mark = typer.style("✓", fg="green") if ok else typer.style("!", fg="yellow")
    if width := find_width():
        text = fill(text, width, initial_indent="  ", subsequent_indent="  ", break_long_words=False).strip()
    typer.echo(f"{mark} {escape_controls(text)}")


def index_folder(folder: Path, settings: Settings) -> tuple[list[str], list[str], str]:
    """Make the collection equal to the folder and build it; return questions that it answers, the names of all collections, and what a
    language model would add, "" if one writes."""
    questions, collections, levels = list[str](), list[str](), ""

    async def work(engine: LeanRAG) -> None:
        from leanrag_engine.core.model import DocumentSource  # noqa: PLC0415 - heavy

        nonlocal levels
        started = time.monotonic()
        job = await run_ingest(engine, [DocumentSource(path=str(folder))], sync=True)
        if job.status.value == "done":
            levels = await tick_index(engine, settings, time.monotonic() - started)
        tick_missing(job)
        leave_unless_done(job.status.value)
        questions.extend(await engine.suggest_questions(3, collection=settings.collection))
        collections.extend(each.name for each in await engine.collections())

    run(settings, work)
    return questions, collections, levels


async def tick_index(engine: LeanRAG, settings: Settings, seconds: float) -> str:
    """Print what the published build of the collection holds, and where; return what a language model would add."""
    found = (await engine.status(settings.collection)).collection
    layers = " → ".join(f"{each.entities:,}" for each in found.generation.layers) if found.generation else ""
    data_dir = settings.data_dir.expanduser().absolute()
    size = sum(file.stat().st_size for file in data_dir.rglob("*") if file.is_file())
    tick(
        f"Indexed in {seconds:.0f} s: {count_things(found.documents, 'document')}, {count_things(found.chunks, 'passage')}, "
        f"entities by layer {layers}; in {data_dir} ({max(size / 1e6, 1):.0f} MB)."
    )
    if not found.generation or settings.llm_model:
        return ""
    clusters = sum(each.entities for each in found.generation.layers[1:])
    return (
        "Written by a language model: nothing, and none is needed. Two more levels: summaries alone "
        f"({count_things(clusters, 'cluster')} to write about), or everything ({count_things(found.chunks, 'passage')} to "
        "read first). `leanrag build --dry-run` tells calls and tokens when LEANRAG_LLM_MODEL is set; the agent in "
        "your client can write, too."
    )


def tick_missing(job: Job) -> None:
    """Print what was left out, what could not be read and why the job failed; names if they are few."""
    from ...replies.work.jobs import IngestReply  # noqa: PLC0415 - heavy

    few = 5
    for group in job.skipped:
        names = f" ({', '.join(group.examples)})" if group.count <= few else ""
        tick(f"Left out: {group.count} {group.reason}{names}.", ok=False)
    reply = IngestReply.from_engine(job)
    failed = [each.error for each in reply.documents if each.status == "failed"]  # it names the file
    failed += [f"{each['document']}: {each['error']}" for each in reply.failures]
    for line in failed[:few]:
        tick(f"Not read: {line}", ok=False)
    if len(failed) > few:
        tick(f"Not read: {len(failed) - few} more, which `leanrag sync` lists.", ok=False)
    if reply.status != "done":
        typer.echo(f"Error: indexing {reply.status}. {reply.message}".rstrip(), err=True)


def add_to_clients(chosen: Sequence[str], name: str, command: Sequence[str], *, yes: bool) -> bool:
    """Add the server to the chosen clients, or ask for each one found. Returns whether any of them failed."""
    machine = Machine.here()
    found = [each for each in CLIENTS if is_present(each, machine)]
    failed, added = False, False
    for client in chosen or found:
        title, file = CLIENTS[client].title, config_file(client, "user", machine)
        if not (chosen or yes or confirm(f"Add the server to {title} ({file})?")):
            continue
        try:
            added = True
            tick(f"{title}: {add_to_client(client, file, name, command)}")
        except LeanRAGError as problem:
            failed = True
            tick(f"{title} was left as it is. {problem}", ok=False)
    if not added:
        what = "No client was changed" if found else "No client was found"
        tick(f"{what}: `leanrag install CLIENT` adds the server to one, and --help lists them.", ok=False)
    return failed


def add_to_client(client: str, file: Path, name: str, command: Sequence[str]) -> str:
    """Add the server to one client and return what was done. Folders and options of an older entry stay."""
    kind = CLIENTS[client]
    program, *arguments = command
    present = find_installed_command(kind, file, name)
    entry = server_entry(kind, [program, *merge_arguments(present[1:], arguments)])
    plan = plan_install(kind, file, name, entry)
    if not plan.changes:
        return f"{file} is up to date."
    backup = apply_change(plan)
    return f"wrote {file}{f' (backup: {backup.name})' if backup else ''}. {kind.then}"


def check_server(command: Sequence[str]) -> None:
    """Start the server as a client does, list its tools, and print how many there are."""
    from .session import list_tools  # noqa: PLC0415 - heavy

    with report_errors():
        tools = anyio.run(list_tools, command)
    tick(f"Server: started once, as a client starts it; it offers {len(tools)} tools.")


def print_questions(questions: Sequence[str], settings: Settings) -> None:
    """Print the questions, or how to ask if none could be made."""
    command = command_line(["leanrag", "query", *index_options(settings)])
    how = f'Ask in your client, or here with {command} "…"'
    typer.echo(f"\n{how}{', for example:' if questions else ''}")
    for number, question in enumerate(questions, 1):
        typer.echo(f"  {number}. {question}")
