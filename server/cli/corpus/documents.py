"""Commands that add, update and delete documents: ``leanrag ingest | sync | forget``."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import InvalidInput, NotFound
from leanrag_engine.core.runtime.replacement import replace_file
from leanrag_engine.core.text.paths import read_path
from leanrag_engine.core.text.shortening import one_line

from ..options import CollectionOption, DataDir, Json, Verbose, echo, report_errors
from ..running import (
    confirm,
    follow_job,
    leave_unless_done,
    list_lines,
    on_engine,
    read_settings,
    run,
    run_ingest,
    run_long,
    say_early_end,
    say_next,
    say_time,
)

if TYPE_CHECKING:
    from leanrag_engine.core.jobs import Job
    from leanrag_engine.core.model import Document
    from leanrag_engine.engine import LeanRAG

    from ...replies.work.jobs import DeleteReply, IngestReply

STANDARD_INPUT = "-"

IGNORE_FILE = ".leanragignore"

EXIT_PARTIAL = 3  # Exit code: some of the documents failed. 1: all failed; 2: wrong arguments

KEPT = (
    "Documents that were finished are kept; readers see the previous hierarchy until a build is finished."
    " The same command goes on from there."
)
"""What Ctrl-C leaves of an ingest or sync: each document is stored in a transaction of its own."""

KEPT_DELETION = "Either the documents are deleted with everything that only they support, or nothing is; `leanrag ls` shows which."
"""What Ctrl-C leaves of a deletion: it is one transaction."""

LISTED = 20
"""Documents of one outcome up to which each is listed; more that were added or stayed the same are only counted."""

IMPORTANT = ("failed", "removed", "replaced")  # Outcomes that are listed whatever the number of documents

Build = Annotated[bool, typer.Option(help="Build the hierarchy afterwards.")]
Details = Annotated[
    bool, typer.Option("--details", help="List each document, and each file that was left out.")
]


def ingest(
    paths: Annotated[
        list[str],
        typer.Argument(help="Files and folders; - for text from standard input.", metavar="PATH..."),
    ],
    title: Annotated[
        str, typer.Option(help="Title of the text from standard input.", show_default=False)
    ] = "",
    id_: Annotated[
        str, typer.Option("--id", help="Its id: the same id later replaces it.", show_default=False)
    ] = "",
    build: Build = True,
    details: Details = False,
    verbose: Verbose = False,
    data_dir: DataDir = None,
    collection: CollectionOption = None,
    json: Json = False,
) -> None:
    """Add documents (text, Markdown, HTML, PDF, office files, e-books, e-mail, tables, source code) and build the hierarchy.

    Safe to repeat: unchanged documents are skipped. What `.gitignore` or `.leanragignore` names is left out of a folder.
    Exit code 0: all were ingested; 3: some files failed, the others were ingested; 1: none was.

    Example: `leanrag ingest ~/notes report.pdf`, or `curl -L https://rag.example/page | leanrag ingest - --title Page`
    """
    with report_errors():
        check_paths(paths, title or id_)
    typed = sys.stdin.buffer.read() if STANDARD_INPUT in paths else b""

    async def work(engine: LeanRAG) -> None:
        from leanrag_engine.core.model import DocumentSource  # noqa: PLC0415 - heavy
        from leanrag_engine.pipeline.ingest.reading import decode_text  # noqa: PLC0415 - heavy

        text = decode_text(typed, "standard input")
        sources = [
            DocumentSource(text=text, title=title or id_ or "standard input", id=id_)
            if path == STANDARD_INPUT
            else DocumentSource(path=path)
            for path in paths
        ]
        job = await run_ingest(engine, sources, verbose=verbose, build=build)
        leave_by(print_outcomes(job, engine.settings, json=json, details=details, unchanged=True))

    run_long(read_settings(data_dir, collection), work, KEPT)


def check_paths(paths: list[str], name: str) -> None:
    """Raise ``InvalidInput`` for a web address, and for a name without the text that it would name."""
    if address := next((path for path in paths if path.startswith(("http://", "https://"))), ""):
        raise InvalidInput(
            f"{address} is a web address; only files are read.",
            "Save the page and give its file, or pass its text: "
            f"curl -L {address} | leanrag ingest - --title NAME",
        )
    if name and STANDARD_INPUT not in paths:
        raise InvalidInput(
            f"--title and --id name the text from standard input, and {' '.join(paths)} are files.",
            "Leave them out, or give - for standard input.",
        )


def sync(
    paths: Annotated[list[str], typer.Argument(help="Folders.", metavar="FOLDER...")],
    build: Build = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would happen.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on: sync whenever files change, until Ctrl-C.")
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Remove the documents of a folder that holds no file.")
    ] = False,
    details: Details = False,
    verbose: Verbose = False,
    data_dir: DataDir = None,
    collection: CollectionOption = None,
    json: Json = False,
) -> None:
    """Make the collection equal to folders: add new files, update changed ones, remove what vanished; then build.

    Removed are documents from beneath these folders whose file is gone or named by `.gitignore` or `.leanragignore`;
    texts and documents from elsewhere stay. A folder that is missing, unreadable or empty removes nothing. Exit codes as
    of `leanrag ingest`.

    Example: `leanrag sync ~/notes --dry-run`, then `leanrag sync ~/notes --watch`
    """

    async def sync_once(engine: LeanRAG) -> IngestReply:
        from leanrag_engine.core.model import DocumentSource  # noqa: PLC0415 - heavy

        more = {"build": build, "sync": True, "allow_empty": allow_empty, "dry_run": dry_run}
        job = await run_ingest(engine, [DocumentSource(path=path) for path in paths], verbose=verbose, **more)
        return print_outcomes(job, engine.settings, json=json, details=details, unchanged=False)

    async def work(engine: LeanRAG) -> None:
        if not watch:
            leave_by(await sync_once(engine))
            return
        async for _ in watch_folders(paths, engine.settings.data_dir):
            try:
                await sync_once(engine)
            except InvalidInput as problem:  # such as an empty folder, which the next change may fill
                echo(f"Error: {problem}", err=True)

    settings = read_settings(data_dir, collection)
    if not watch:
        run_long(settings, work, KEPT)
        return
    try:
        run(settings, work)
    except KeyboardInterrupt:
        echo("Stopped.", err=True)


async def watch_folders(paths: list[str], data_dir: Path) -> AsyncIterator[None]:
    """Yield once at the beginning, when changes are already noticed, and whenever files have changed."""
    from watchfiles import awatch  # noqa: PLC0415 - other commands watch nothing

    folders, ours = resolve_all(paths), resolve_all([str(data_dir)])
    first = True
    changes = awatch(
        *folders,
        watch_filter=lambda _, path: concerns_sync(Path(path), folders, ours),
        debounce=1_500,  # milliseconds that a folder must be quiet before it is synced again
        rust_timeout=500,
        yield_on_timeout=True,
    )
    async for batch in changes:
        if batch or first:
            first = False
            yield


def resolve_all(paths: list[str]) -> list[Path]:
    return [Path(path).expanduser().resolve() for path in paths]


def concerns_sync(path: Path, folders: list[Path], ours: list[Path]) -> bool:
    """Return whether a changed path may change a sync: hidden files and the data folder's own do not, ignore files do."""
    root = next((each for each in folders if path.is_relative_to(each)), None)
    if root is None or any(path.is_relative_to(each) for each in ours):
        return False
    *parents, name = path.relative_to(root).parts or ("",)
    if any(part.startswith(".") for part in parents):
        return False
    return not name.startswith(".") or name in {".gitignore", IGNORE_FILE}


def print_outcomes(
    job: Job, settings: Settings, *, json: bool, details: bool, unchanged: bool
) -> IngestReply:
    """Print what became of the documents; ``unchanged``: list those that stayed as they were too."""
    from ...replies.work.jobs import IngestReply, failure_line  # noqa: PLC0415 - heavy

    reply = IngestReply.from_engine(job)
    if json:
        echo(reply.model_dump_json())
        return reply
    many = {status for status, count in reply.counts.items() if count > LISTED}
    many |= {"unchanged"} if not unchanged or sum(reply.counts.values()) > LISTED else set()
    for each in reply.documents:
        if details or each.status in IMPORTANT or each.status not in many:
            echo(f"{each.status:10} {each.title or each.id}{each.detail}")
    for left_out in reply.skipped:
        echo(left_out.to_line())
    if details:
        for group in job.skipped:
            for path in group.examples:
                echo(f"left out   {one_line(path)}  ({group.reason})")
    for failure in reply.failures:
        echo(failure_line(failure))
    for line in summary_lines(job, settings):
        echo(line)
    return reply


def summary_lines(job: Job, settings: Settings) -> list[str]:
    """Return outcomes, types of file, layers, time, place and next command; less for a dry run or an early end."""
    from leanrag_engine.core.jobs import IngestResult  # noqa: PLC0415 - heavy

    from ...replies.work.jobs import count_outcomes  # noqa: PLC0415 - heavy
    from ...replies.work.results import schema_lines  # noqa: PLC0415 - heavy

    lines = [f"Documents: {count_outcomes(job)}."] if job.documents else []
    if job.status.value != "done":
        return [*lines, say_early_end(job)]
    lines = lines or ["Documents: none found."]
    if job.dry_run or not isinstance(job.result, IngestResult):
        return [*lines, "Dry run: nothing was changed."]
    # The id of a file is its whole path.
    paths = [Path(each.id) for each in job.documents if each.status in ("added", "replaced")]
    suffixes = (path.suffix.lower() or "without a suffix" for path in paths if path.is_absolute())
    types = Counter([*suffixes, *("from standard input" for path in paths if not path.is_absolute())])
    if types:
        counted = ", ".join(f"{count:,} {name}" for name, count in types.most_common())
        lines.append(f"Read by type: {counted}.")
    if job.result.build:
        layers = " → ".join(f"{each.entities:,}" for each in job.result.build.layers)
        lines.append(f"Entities by layer: {layers}.")
        if effects := job.result.build.schema:
            lines += schema_lines(asdict(effects))
    lines.append(f"{say_time(job)} The index lies in {settings.data_dir.expanduser().absolute()}.")
    if job.result.built or types:
        lines.append(say_next(["query", "QUESTION"] if job.result.built else ["build"], settings))
    return lines


def leave_by(reply: IngestReply) -> None:
    """End with the exit code of a reply."""
    leave_unless_done(reply.status)
    if reply.counts.get("failed"):
        raise typer.Exit(EXIT_PARTIAL)


@on_engine(KEPT_DELETION)
async def forget(
    engine: LeanRAG,
    names: Annotated[
        list[str],
        typer.Argument(
            help="Numbers of documents such as d3, paths, ids, titles or file names.", metavar="DOCUMENT..."
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.")] = False,
    ignore: Annotated[
        bool,
        typer.Option("--ignore", help="Name files that are still there in .leanragignore, without asking."),
    ] = False,
    build: Build = True,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Delete documents permanently, with everything that only they support; then build.

    Your files stay; a sync of their folder would add them again, unless its `.leanragignore` names them. Exit code 0: all were
    deleted; 3: some names are unknown, the other documents were deleted; 1: nothing was deleted.

    Example: `leanrag forget notes/old.md d12 "Minutes of May"`
    """
    from leanrag_engine.pipeline.delete import look_up_documents  # noqa: PLC0415 - heavy

    from ...replies.work.jobs import DeleteReply, JobReply  # noqa: PLC0415 - heavy

    collection = engine.settings.collection
    held = await engine.documents(collection=collection)
    ids = [find_id(each, held) for each in names]
    job = None
    if dry_run:
        found = look_up_documents(held, ids)
    else:
        job, found = await engine.submit_delete(ids, collection=collection)
        job = await follow_job(engine, job, verbose=verbose) if job else None
    reply = DeleteReply.from_engine(job, found, dry_run=dry_run)
    print_deletion(reply, job, json=json)
    leave_unless_done(reply.status if found.documents else "failed")
    keep_away([document for _, document in found.documents], ignore=ignore, dry_run=dry_run)
    lines = [say_next(["build"], engine.settings)] if job and len(found.documents) < len(held) else []
    if lines and build:
        job = await follow_job(engine, await engine.submit_build(collection=collection), verbose=verbose)
        lines = list_lines(JobReply.from_engine(job), job, engine.settings, ())
    if lines and not json:
        echo("\n".join(lines))
    if job:
        leave_unless_done(job.status.value)
    if found.unknown:
        raise typer.Exit(EXIT_PARTIAL)


def print_deletion(reply: DeleteReply, job: Job | None, *, json: bool) -> None:
    """Print what became of each document that was named, and what was deleted, or why nothing was."""
    from ...replies.work.jobs import JobReply  # noqa: PLC0415 - heavy

    if json:
        echo(reply.model_dump_json())
        return
    for each in reply.documents:
        near = f"  (did you mean {', '.join(each.did_you_mean)}?)" if each.did_you_mean else ""
        title = f"  ({each.title})" if each.title else ""
        # Without a job nothing was tried: "not deleted" would read as a failure.
        state = "would go" if each.status == "not_deleted" and not job else each.status.replace("_", " ")
        echo(f"{state:11} {each.id}{title}{near}")
    if job and job.status.value != "done":
        echo(say_early_end(job))
    elif job:
        echo("\n".join(JobReply.from_engine(job).ending_lines()))
    else:
        echo(reply.message)


def find_id(given: str, held: Sequence[Document]) -> str:
    """Return the id of the document that ``given`` names, or ``given``. Raises ``Ambiguous`` if it names several."""
    from leanrag_engine.retrieval.browse.outline import find_document  # noqa: PLC0415 - heavy

    whole = str(Path(given).expanduser().resolve())
    known = {each.id for each in held}
    if given in known or whole in known:
        return given if given in known else whole
    try:
        return find_document(given, held).id
    except NotFound:
        return given


def keep_away(documents: Sequence[Document], *, ignore: bool, dry_run: bool) -> None:
    """Say whose files are still there and would be added again by a sync; if it is wanted, name them in its ignore file."""
    for file in dict.fromkeys(read_path(each.source) for each in documents if each.source):
        if not file.is_file():
            continue
        echo(f"{file} is still there: a sync of its folder adds it again.", err=True)
        target, name = file.with_name(IGNORE_FILE), re.sub(r"([][\\*?!# ])", r"\\\1", file.name)
        # A class that no plain sign is in stands for signs that would begin another rule, or that UTF-8 cannot hold.
        line = "/" + "".join(each if each.isprintable() else "[! -~]" for each in name)
        if dry_run or not (ignore or confirm(f"Leave it out of every sync, by {line} in {target}?")):
            or_so = ", or give --ignore" if dry_run else ""
            echo(f"To leave it out, write {line} into {target}{or_so}.", err=True)
            continue
        before = target.read_text("utf-8") if target.exists() else ""
        whole = f"{before}{'' if before.endswith(chr(10)) or not before else chr(10)}{line}\n"
        replace_file(target, whole.encode())
        echo(f"Added {line} to {target}.", err=True)
