"""Real processes on one data folder, this one among them: they see each other's work, and a kill loses nothing."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from leanrag_tests_forks import Fork, run
from typer.testing import CliRunner

from leanrag_mcp.cli.main import app

pytestmark = pytest.mark.anyio

Serve = Callable[..., AbstractAsyncContextManager[Any]]


LEANRAG = (sys.executable, "-P", "-m", "leanrag_mcp")


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*LEANRAG, *arguments], capture_output=True, text=True, check=False)


def test_a_server_started_by_hand_says_that_it_waits_for_a_client_and_ends_by_an_interrupt(
    tmp_path: Path,
) -> None:
    typed, terminal = pty.openpty()
    server = subprocess.Popen(
        [*LEANRAG, "serve", "--data-dir", str(tmp_path)],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout
    assert server.stderr
    try:
        said = server.stderr.readline()
        assert "waits for a client" in said
        assert "leanrag setup FOLDER" in said
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == -signal.SIGINT
    finally:
        server.kill()
        written, _ = server.communicate()
        os.close(terminal)
        os.close(typed)
    # Standard output belongs to the protocol.
    assert written == ""


def test_a_command_ends_with_its_status_after_all_of_its_output() -> None:
    shown, wrong = cli("--version"), cli("query")
    assert (shown.returncode, wrong.returncode) == (0, 2)
    assert shown.stdout.startswith("leanrag-mcp ")
    assert "Missing argument" in wrong.stderr


async def test_two_servers_on_one_folder_find_what_the_other_wrote(
    serve_over_stdio: Serve, serve_in_process: Serve, tmp_path: Path
) -> None:
    async with serve_over_stdio(tmp_path) as first, serve_in_process(tmp_path) as second:
        io = {"text": "Io is a moon of Jupiter. Io has sulphur volcanoes such as Loki Patera.", "id": "io"}
        titan = {
            "text": "Titan is a moon of Saturn. Titan has methane lakes such as Kraken Mare.",
            "id": "titan",
        }
        await first.finish(await first("ingest_documents", documents=[io], wait_seconds=40))
        seen = await second("search_entities", query="Loki Patera")
        assert "Loki Patera" in [each["name"] for each in seen.data["entities"]]
        await second.finish(await second("ingest_documents", documents=[titan], wait_seconds=40))
        for call in (first, second):
            reply = await call("query_lca_context", query="Where is Kraken Mare?", response_format="detailed")
            assert "methane lakes" in reply.data["context"]
            assert "Kraken Mare" in [seed["name"] for seed in reply.data["seeds"]]
        counts = [(await call("get_index_status")).data["vectors"] for call in (first, second)]
        assert counts[0] == counts[1]


async def test_a_job_whose_server_was_killed_is_resumed_by_the_next_one(
    serve_over_stdio: Serve, serve_in_process: Serve, tmp_path: Path
) -> None:
    planets = ("Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune")
    documents = [
        {
            "text": "\n\n".join(f"{planet} passes in front of star Kepler-{star}." for star in range(400)),
            "id": planet,
        }
        for planet in planets
    ]
    async with serve_over_stdio(tmp_path) as call:
        begun = await call("ingest_documents", documents=documents, wait_seconds=0)
        job_id = begun.data["job_id"]
        assert begun.data["status"] in {"queued", "running"}
        for child in children_of(os.getpid()):
            os.kill(child, signal.SIGKILL)
    async with serve_in_process(tmp_path) as call:
        await call("get_index_status")
        job = await call.finish(await call("get_job", job_id=job_id, wait_seconds=40))
        assert job.data["status"] == "done", job.text
        status = await call("get_index_status")
        assert status.data["documents"] == len(planets)
        assert not status.data["stale"]


def children_of(pid: int) -> list[int]:
    import psutil  # noqa: PLC0415 - only this test looks at processes

    found = [
        child.pid for child in psutil.Process(pid).children() if "leanrag_mcp" in " ".join(child.cmdline())
    ]
    assert found
    return found


async def test_a_job_is_cancelled_from_another_process(
    serve_over_stdio: Serve, serve_in_process: Serve, tmp_path: Path
) -> None:
    documents = [{"text": f"Comet C-{n} passes Jupiter.", "id": f"c{n}"} for n in range(900)]
    async with serve_over_stdio(tmp_path) as worker, serve_in_process(tmp_path) as other:
        begun = await worker("ingest_documents", documents=documents, wait_seconds=0)
        cancelled = await other("cancel_job", job_id=begun.data["job_id"])
        ended = await other.finish(await other("get_job", job_id=begun.data["job_id"], wait_seconds=20))
        assert ended.data["status"] == "cancelled", cancelled.text
        kept = (await other("get_index_status")).data["documents"]
        assert kept < len(documents)


async def test_what_the_command_line_ingests_the_server_answers_from(
    serve_in_process: Serve, tmp_path: Path
) -> None:
    (tmp_path / "europa.txt").write_text(
        "Europa is a moon of Jupiter. Europa has an ocean under Conamara Chaos."
    )
    async with serve_in_process(tmp_path / "data") as call:
        assert (await call("get_index_status")).data["documents"] == 0
        ran = run("ingest", tmp_path / "europa.txt", "--data-dir", tmp_path / "data", "--json")
        assert ran.returncode == 0, ran.stderr
        reply = await call("query_lca_context", query="What lies under Conamara Chaos?")
        assert "ocean" in reply.data["context"]


def test_a_process_with_another_hash_seed_gives_the_same_answer(lighthouses: Path) -> None:
    question = "Which engineers built lighthouses in Scotland, and for whom?"
    arguments = ["query", question, "--data-dir", str(lighthouses), "--json"]
    here = json.loads(CliRunner().invoke(app, arguments).stdout)
    ran = subprocess.run(
        [*LEANRAG, *arguments],
        capture_output=True,
        text=True,
        check=True,
        # The seed of this process is random, or what its own caller set.
        env={**os.environ, "PYTHONHASHSEED": "8" if os.environ.get("PYTHONHASHSEED") == "7" else "7"},
    )
    for key in ("seeds", "sources", "groups", "path"):
        assert here[key], key
    assert json.loads(ran.stdout) == here


def test_a_line_that_is_no_message_is_answered_and_the_next_one_too(tmp_path: Path) -> None:
    """Models write half a surrogate pair, as ``json.dumps`` and ``JSON.stringify`` do; a client waits for each reply."""
    asked = '{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "x", "arguments": {"q": "\\ud83d"}}}'
    lines = {
        "no JSON": (None, -32700),
        asked: (7, -32700),
        "[]": (None, -32600),
        '{"jsonrpc": "2.0", "id": 8}': (8, -32600),
        '{"id": "\\ud83d"}': (None, -32700),
    }
    with Fork(["serve", "--data-dir", tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        for line, (id_, code) in lines.items():
            # A blank line asks nothing.
            server.stdin.write(f'{line}\n\n{{"jsonrpc": "2.0", "id": "next", "method": "ping"}}\n')
            server.stdin.flush()
            refused, answered = (json.loads(server.stdout.readline()) for _ in range(2))
            assert (refused["id"], refused["error"]["code"]) == (id_, code)
            assert answered["id"] == "next"
        server.stdin.close()
        assert server.wait() == 0


def test_the_module_reads_what_is_read_in_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "notes.html").write_text(f"<p>Ines trims the lamp.</p><!--{'x' * 300_000}-->")
    command = [
        sys.executable,
        "-P",
        "-m",
        "leanrag_mcp",
        "ingest",
        str(tmp_path / "notes.html"),
        "--no-build",
    ]
    done = subprocess.run(
        [*command, "--data-dir", str(tmp_path / "data")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
