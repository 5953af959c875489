"""Put load on several HTTP servers over one data folder, and report errors, times and memory.

    python tests/programs/load.py [--queries 20000] [--replicas 4] [--clients 64] [--documents 300] [--data-dir FOLDER]

Each client is a session of the SDK with one of the servers (real ``leanrag serve --http`` processes) and calls the
tools that read, mixed, one after the other. In the middle third of the queries documents are ingested and replaced, and the
hierarchy is rebuilt, through one of the servers. With LEANRAG_TESTS_POSTGRES the servers share a PostgreSQL database.
Prints one JSON line: calls, errors, p50 and p99 in milliseconds for each tool without and with a writer at work,
megabytes that each server holds at the times of ``MOMENTS``. Exit code 1 if any call failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import psutil
from mcp.client import Client
from mcp_types import CallToolResult, TextContent

PEOPLE = [
    f"{first} {last}"
    for first in ("Ewan", "Moira", "Calum", "Isla")
    for last in ("Reid", "Kerr", "Boyd", "Shaw", "Hay")
]
PLACES = [
    f"{one} {other}"
    for one in ("North", "South", "Old", "New")
    for other in ("Skerry", "Tiree", "Arbroath", "Oban")
]
THINGS = (
    "lamp",
    "foghorn",
    "granite tower",
    "supply boat",
    "telegraph",
    "lens",
    "keeper's house",
    "signal mast",
)
READING = ("query_lca_context", "query_lca_context", "search_entities", "get_entity_ancestors", "get_cluster",
    "list_inter_cluster_relations", "get_sources", "search_text", "get_outline", "get_index_status")  # fmt: skip
MOMENTS = (0.1, 0.33, 0.5, 0.7, 0.85, 1.0)
"""Shares of the queries after which memory is noted; the writer works from a third to two thirds."""
BATCH = 20
"""Documents that are ingested at once while clients ask."""


def text_of(number: int, version: int = 0) -> str:
    """Return a document on people and places, the same for the same number and version."""
    chance = random.Random(f"{number}/{version}")  # noqa: S311 - no secret
    lines = (
        f"{chance.choice(PEOPLE)} repaired the {chance.choice(THINGS)} at {chance.choice(PLACES)} in "
        f"{1800 + chance.randrange(150)} with {chance.choice(PEOPLE)}, as {chance.choice(PEOPLE)} wrote."
        for _ in range(12)
    )
    return f"# Report {number}\n\n{' '.join(lines)}\n"


def documents(numbers: range, version: int = 0) -> list[dict[str, str]]:
    return [
        {"text": text_of(number, version), "title": f"Report {number}", "id": f"r{number}"}
        for number in numbers
    ]


@contextmanager
def serve(folder: Path, database: str) -> Iterator[tuple[psutil.Process, str]]:
    """Run a server until the block ends; yield its process and its address."""
    options = ["--database-url", database] if database else []
    server = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "leanrag_mcp",
            "serve",
            "--http",
            "127.0.0.1:0",
            "--data-dir",
            str(folder),
            *options,
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LEANRAG_EMBEDDER": "fitted", "LEANRAG_CONFIG": os.devnull},
    )
    assert server.stderr
    try:
        address = next((word for word in server.stderr.readline().split() if word.startswith("http://")), "")
        assert address, server.stderr.read()
        # What it says must be read, or it would wait for that.
        threading.Thread(target=sys.stderr.writelines, args=(server.stderr,), daemon=True).start()
        yield psutil.Process(server.pid), address
    finally:
        server.terminate()
        server.wait()


@contextmanager
def database_of(address: str) -> Iterator[str]:
    """Yield the address of a new database on the server of ``address``, which goes with the block; "" without a server."""
    if not address:
        yield ""
        return
    import psycopg  # noqa: PLC0415 - an extra

    name = f"load_{os.getpid()}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")  # type: ignore[arg-type]
        try:
            yield urlsplit(address)._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[Client]:
    async with Client(address, read_timeout_seconds=120) as client:
        yield client


@dataclass(slots=True)
class Figures:
    """What the clients saw."""

    wanted: int
    calls: int = 0
    milliseconds: dict[tuple[str, bool], list[float]] = field(default_factory=lambda: defaultdict(list))
    """By tool and whether a writer was at work."""
    errors: list[str] = field(default_factory=list)
    replaced: int = 0
    """Clusters that a rebuild replaced between the call that named them and the next one."""
    memory: list[list[int]] = field(default_factory=list)
    processor: float = 0
    """Seconds that all servers used together while the clients asked."""
    is_writing: bool = False
    writes: list[str] = field(default_factory=list)

    async def call(self, client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, note how long it took and whether it failed, and return its structured content."""
        writing, started = self.is_writing, time.perf_counter()
        try:
            result = await client.call_tool(tool, arguments)
        except Exception as problem:  # noqa: BLE001 - whatever a client may see is counted
            self.errors.append(f"{tool} {arguments}: {problem!r}")
            return {}
        assert isinstance(result, CallToolResult)
        self.milliseconds[tool, writing].append(1000 * (time.perf_counter() - started))
        if result.is_error:
            said = " ".join(block.text for block in result.content if isinstance(block, TextContent))
            if tool == "get_cluster" and writing and said.startswith("No entity is called"):
                self.replaced += 1
            else:
                self.errors.append(f"{tool} {arguments}: {said[:300]}")
        return result.structured_content or {}

    def report(self, seconds: float) -> dict[str, Any]:
        times: dict[str, dict[str, list[float]]] = {}
        for (tool, writing), each in sorted(self.milliseconds.items()):
            ordered = sorted(each)
            places = [ordered[len(ordered) * share // 100] for share in (50, 99)]
            times.setdefault(tool, {})["writer at work" if writing else "quiet"] = [
                len(each),
                *(round(place, 1) for place in (*places, ordered[-1])),
            ]
        return {
            "calls": self.calls,
            "errors": len(self.errors),
            "clusters replaced meanwhile": self.replaced,
            "seconds": round(seconds),
            "calls a second": round(self.calls / seconds, 1),
            "processor time of the servers, a call (ms)": round(1000 * self.processor / self.calls, 1),
            "calls, p50, p99, longest (ms)": times,
            f"memory (MB) after {MOMENTS} of the calls": self.memory,
            "writes": self.writes,
            "first errors": self.errors[:5],
        }


async def ask(client: Client, figures: Figures, chance: random.Random) -> None:
    """Call tools until all clients together have made as many calls as wanted."""
    while figures.calls < figures.wanted:
        figures.calls += 1
        person, place, thing = chance.choice(PEOPLE), chance.choice(PLACES), chance.choice(THINGS)
        match chance.choice(READING):
            case "query_lca_context" as tool:
                await figures.call(client, tool, query=f"Who repaired the {thing} at {place} with {person}?")
            case "search_entities" as tool:
                await figures.call(client, tool, query=f"{person} {place}")
            case "get_entity_ancestors" as tool:
                await figures.call(client, tool, entity=person)
            case "get_cluster" as tool:
                chain = (await figures.call(client, "get_entity_ancestors", entity=person)).get("path", ())
                await figures.call(client, tool, cluster=chain[-1]["name"] if chain else "")
            case "get_sources" as tool:
                await figures.call(client, tool, entity=place)
            case "search_text" as tool:
                await figures.call(client, tool, text=f"at {place}")
            case "get_outline" as tool:
                await figures.call(client, tool, document=f"Report {chance.randrange(20)}")
            case tool:
                await figures.call(client, tool)


async def finish(client: Client, figures: Figures, tool: str, **arguments: Any) -> None:
    """Call a tool that begins a job, and wait for the job's end."""
    started = time.perf_counter()
    job = await figures.call(client, tool, wait_seconds=0, **arguments)
    while job.get("status") in {"queued", "running"}:
        job = await figures.call(client, "get_job", job_id=job["job_id"], wait_seconds=20)
    if job.get("status") != "done":
        figures.errors.append(f"{tool} ended as {job}")
    figures.writes.append(f"{tool}: {time.perf_counter() - started:.1f} s")


async def write(client: Client, figures: Figures, held: int) -> None:
    """In the middle third of the calls ingest new documents, replace old ones and rebuild."""
    while figures.calls < figures.wanted / 3:
        await anyio.sleep(0.05)
    figures.is_writing = True
    version = 1
    while version == 1 or figures.calls < figures.wanted * 2 / 3:
        # The first twenty stay as they are: clients ask for them by title.
        replaced = range(BATCH, min(2 * BATCH, held))
        added = range(held + (version - 1) * BATCH, held + version * BATCH)
        await finish(
            client, figures, "ingest_documents", documents=[*documents(replaced, version), *documents(added)]
        )
        await finish(client, figures, "build_hierarchy", mode="rebuild")
        version += 1
    figures.is_writing = False


async def watch(servers: list[psutil.Process], figures: Figures) -> None:
    """Note the memory of the servers at ``MOMENTS``."""
    for share in MOMENTS:
        while figures.calls < figures.wanted * share:
            await anyio.sleep(0.02)
        figures.memory.append([server.memory_info().rss >> 20 for server in servers])


async def run(
    servers: list[tuple[psutil.Process, str]], queries: int, clients: int, held: int
) -> dict[str, Any]:
    """Fill the servers' folder, let the clients ask, and return the figures."""
    figures = Figures(queries)
    async with AsyncExitStack() as opened:
        writer = await opened.enter_async_context(connect(servers[0][1]))
        await finish(writer, Figures(0), "ingest_documents", documents=documents(range(held)))
        sessions = [
            await opened.enter_async_context(connect(servers[number % len(servers)][1]))
            for number in range(clients)
        ]
        # The first call opens the engine of a server.
        for session in sessions:
            await Figures(0).call(session, "query_lca_context", query=f"Who is {PEOPLE[0]}?")
        started, used = time.perf_counter(), processor_time(servers)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write, writer, figures, held)
            tasks.start_soon(watch, [process for process, _ in servers], figures)
            for number, session in enumerate(sessions):
                tasks.start_soon(ask, session, figures, random.Random(number))  # noqa: S311 - no secret
        figures.processor = processor_time(servers) - used
        return figures.report(time.perf_counter() - started)


def processor_time(servers: list[tuple[psutil.Process, str]]) -> float:
    times = [process.cpu_times() for process, _ in servers]
    return sum(each.user + each.system for each in times)


def main(*, queries: int, replicas: int, clients: int, held: int, folder: Path) -> dict[str, Any]:
    """Start the servers and return what the clients saw."""
    with ExitStack() as opened:
        database = opened.enter_context(database_of(os.environ.get("LEANRAG_TESTS_POSTGRES", "")))
        servers = [opened.enter_context(serve(folder, database)) for _ in range(replicas)]
        store = "PostgreSQL" if database else "SQLite"
        return {"store": store, "replicas": replicas, "clients": clients} | anyio.run(
            run, servers, queries, clients, held
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--data-dir", type=Path)
    given = parser.parse_args()
    figures = main(
        queries=given.queries,
        replicas=given.replicas,
        clients=given.clients,
        held=given.documents,
        folder=given.data_dir or Path(tempfile.mkdtemp()),
    )
    print(json.dumps(figures, ensure_ascii=False))
    sys.exit(bool(figures["errors"]))
