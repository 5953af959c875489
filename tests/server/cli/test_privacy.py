"""Nothing leaves the machine: whatever is started looks up and reaches loopback alone, and leaves nothing beside its data."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from leanrag_mcp.cli.machine.session import call_tool, open_session

pytestmark = pytest.mark.anyio

WATCH = """
import json, os, sys

LOOK_UPS = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"}

def note(event, given):
    if event in {"socket.connect", "socket.sendto", "socket.sendmsg"} and isinstance(given[1], tuple):
        found = {"address": given[1][0]}
    elif event in LOOK_UPS:
        found = {"address": given[0]}
    elif event == "import" and given[0] == "onnxruntime":
        found = {"telemetry": os.environ.get("ORT_DISABLE_TELEMETRY")}
    else:
        return
    with open(os.environ["WATCHED"], "a") as file:
        file.write(json.dumps({"started": sys.orig_argv, **found}, default=str) + "\\n")

sys.addaudithook(note)
"""
"""A ``sitecustomize`` of every Python that is started. What compiled code does on its own it cannot see: of that,
onnxruntime's reports are known by the files that they leave in the home folder."""

LIBRARY = """
import sys, anyio
from leanrag_engine import LeanRAG, Query, load_settings
async def main():
    async with await LeanRAG.open(load_settings()) as engine:
        print((await engine.query(Query(sys.argv[1]))).context.text)
anyio.run(main)
"""

QUESTION, ANSWER = "Who designed Skerryvore?", "Alan Stevenson designed Skerryvore"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty home folder of the processes that the test starts, which are watched and told nothing else."""
    folder, watch = tmp_path / "home", tmp_path / "watch"
    folder.mkdir()
    watch.mkdir()
    (watch / "sitecustomize.py").write_text(WATCH)
    for name in set(os.environ) - {"PATH"}:
        monkeypatch.delenv(name)
    for name, value in {"HOME": folder, "PYTHONPATH": watch, "WATCHED": tmp_path / "watched"}.items():
        monkeypatch.setenv(name, str(value))
    return folder


def is_loopback(address: str | None) -> bool:
    if address in {None, "", "localhost"}:
        return True
    found = ipaddress.ip_address(address)
    return found.is_loopback or found.is_unspecified  # Dask looks up where it listens


def read_watched(folder: Path) -> list[dict[str, Any]]:
    """Return what was noted of all processes, after checking that every address was loopback's."""
    watched = [json.loads(line) for line in (folder / "watched").read_text().splitlines()]
    assert [each for each in watched if not is_loopback(each.get("address"))] == []
    return watched


def expect_data_alone(home: Path) -> None:
    data = home / ".local" / "share" / "leanrag"
    assert [
        path for path in home.rglob("*") if not (data.is_relative_to(path) or path.is_relative_to(data))
    ] == []


async def test_setup_a_server_a_question_and_the_library_reach_nothing_and_leave_nothing_but_the_data_folder(
    home: Path, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "light.txt").write_text(f"Skerryvore is a lighthouse off Tiree. {ANSWER} in 1844.")
    (notes / "lens.txt").write_text("Augustin Fresnel invented the Fresnel lens. It was used in lighthouses.")
    command = [sys.executable, "-P", "-m", "leanrag_mcp"]

    def run(*arguments: str) -> str:
        return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout

    run(*command, "setup", str(notes), "--yes")
    async with open_session([*command, "serve"]) as client:
        reply = await call_tool(client, "query_lca_context", {"query": QUESTION})
    answers = [
        reply["context"],
        run(*command, "query", QUESTION),
        run(sys.executable, "-c", LIBRARY, QUESTION),
    ]
    assert all(ANSWER in " ".join(each.split()) for each in answers)

    watched = read_watched(tmp_path)
    switches = {" ".join(each["started"]): each["telemetry"] for each in watched if "telemetry" in each}
    for started in ("setup", "serve", "query", "import LeanRAG"):
        assert any(started in each for each in switches), started
    assert set(switches.values()) == {"1"}
    expect_data_alone(home)


async def test_a_server_over_http_with_its_vectors_on_a_chroma_server_reaches_loopback_alone(
    chroma_server: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEANRAG_CHROMA_URL", chroma_server)
    command = [sys.executable, "-P", "-m", "leanrag_mcp", "serve", "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        try:
            address = next(word for word in server.stderr.readline().split() if word.startswith("http://"))
            async with Client(address) as client:
                note = {"text": f"{ANSWER} in 1844.", "title": "light"}
                job = await call_tool(client, "ingest_documents", {"documents": [note], "wait_seconds": 40})
                assert job["status"] == "done"
                reply = await call_tool(client, "query_lca_context", {"query": QUESTION})
        finally:
            server.terminate()
            server.stderr.read()
    assert ANSWER in " ".join(reply["context"].split())
    assert reply["warnings"] == []
    assert any("serve" in each["started"] for each in read_watched(tmp_path))
    expect_data_alone(home)
    assert not list(home.rglob("vectors"))


def test_reading_on_a_dask_cluster_reaches_loopback_alone(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    cluster, notes = tmp_path / "scheduler.json", tmp_path / "notes"
    given = ["--scheduler-file", str(cluster), "--no-dashboard"]
    notes.mkdir()
    for name in ("light", "lens"):  # a cluster is asked from a megabyte on
        (notes / f"{name}.html").write_text(f"<!--{'-' * 600_000}--><p>{ANSWER} in 1844, wrote {name}.</p>")
    dask = [sys.executable, "-P", "-m", "dask"]
    with (
        subprocess.Popen([*dask, "scheduler", *given, "--host", "127.0.0.1", "--port", "0"], cwd=tmp_path) as scheduler,
        subprocess.Popen([*dask, "worker", *given, "--no-nanny", "--local-directory", str(tmp_path)]) as worker,
    ):  # fmt: skip
        try:
            while not (cluster.exists() and cluster.read_text().endswith("}")):  # it is not written at once
                assert scheduler.poll() is None
                time.sleep(0.1)
            address = json.loads(cluster.read_text())["address"]
            with distributed.Client(address, set_as_default=False) as client:
                client.wait_for_workers(1, timeout=60)  # a cluster without a worker is refused
            monkeypatch.setenv("LEANRAG_DASK", address)
            command = [sys.executable, "-P", "-m", "leanrag_mcp", "ingest", str(notes), "--no-build"]
            assert "2 added" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
        finally:
            worker.kill()  # one that is told to end while it starts may not
            scheduler.kill()
    watched = read_watched(tmp_path)
    for started in ("ingest", "worker", "scheduler"):
        assert any(started in each["started"] for each in watched), started
    expect_data_alone(home)
