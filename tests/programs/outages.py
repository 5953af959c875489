"""Fill the disk, or take PostgreSQL, Chroma or Dask away, in the middle of work, over and over, and count what is lost.

    python tests/programs/outages.py disk|postgres|chroma|dask [--strikes 50] [--seed 0]

The steps are those of crashes.py: each begins in a process of its own, and is struck at one stage of its job. A disk (a tmpfs, which
needs root on Linux) has room for so many more kilobytes alone, from none to all that the step needs; a service is killed, or
stopped so that it takes requests and says nothing, and is back after a few seconds. Each step must end by itself, done or with a
message that says what to do; then it is done again in peace. What crashes.py checks is checked after each step and at the end. Prints
one JSON line; exit code 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import anyio
from crashes import Crashes, Step, begin, choose_step, fork, look, run, settings_of, settle

from leanrag_engine.adapters import wiring
from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import LeanRAGError, StoreUnreachable, StoreUnusable
from leanrag_engine.core.jobs import IngestResult
from leanrag_engine.engine import LeanRAG

LONGEST = 240
"""Seconds after which a step counts as hung."""
AWAY = (0.2, 1, 4, 12)
"""Seconds for which a service is away."""


class Strike(Protocol):
    def begin(self, chance: random.Random) -> str:
        """Take something away and return what was done."""

    def end(self) -> None: ...


class Disk:
    """A tmpfs, which holds the data folder."""

    stages = False  # it is full from the beginning

    def __init__(self, folder: Path, megabytes: int = 48) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"
        options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(folder)]
        subprocess.run(["mount", *options], check=True)  # noqa: S607 - a tool of the system

    def begin(self, chance: random.Random) -> str:
        room = int(4 ** chance.uniform(0, 4.5)) * 1024 if chance.random() < 0.9 else 0
        free = shutil.disk_usage(self.folder).free
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, free - room))
        return f"{4 ** len(str(room >> 10))} kB left at most" if room else "no room"

    def end(self) -> None:
        self._ballast.unlink()

    def close(self) -> None:
        subprocess.run(["umount", "-l", self.folder], check=True)  # noqa: S607 - as above


class Service:
    """Processes that serve at an address, with what they keep in a folder."""

    stages = True

    def __init__(
        self, commands: list[list[str]], folder: Path, port: int, ready: list[str] | None = None, **how: Any
    ) -> None:
        """``ready``: a command that says whether it answers; else an open port does."""
        self._ready = ready
        self._commands, self._folder, self._port, self._how = commands, folder, port, how
        self._running: list[subprocess.Popen[bytes]] = []
        self._stopped = False
        self.start()

    def start(self) -> None:
        for command in self._commands:
            with (self._folder / "log").open("ab") as log:
                self._running.append(
                    subprocess.Popen(
                        command, cwd=self._folder, stdout=log, stderr=log, start_new_session=True, **self._how
                    )
                )
            until = time.monotonic() + 60
            while not self._is_ready():
                assert time.monotonic() < until, (self._folder / "log").read_text()
                time.sleep(0.1)

    def _is_ready(self) -> bool:
        if self._ready:
            return not subprocess.run(self._ready, check=False, stdout=subprocess.DEVNULL).returncode
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True

    def begin(self, chance: random.Random) -> str:
        self._stopped = chance.random() < 0.25
        for each in self._running:
            os.killpg(each.pid, signal.SIGSTOP if self._stopped else signal.SIGKILL)
        if not self._stopped:
            self._reap()
        return "silent" if self._stopped else "killed"

    def end(self) -> None:
        if not self._stopped:
            return self.start()
        for each in self._running:
            os.killpg(each.pid, signal.SIGCONT)
        return None

    def _reap(self) -> None:
        while self._running:
            self._running.pop().wait()

    def close(self) -> None:
        for each in self._running:
            os.killpg(each.pid, signal.SIGKILL)
        self._reap()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve_postgres(folder: Path) -> tuple[Service, str]:
    found = shutil.which("initdb") or str(max(Path("/usr/lib/postgresql").glob("*/bin/initdb")))
    tools, port = Path(found).resolve().parent, free_port()
    how: dict[str, Any] = {}
    if not os.geteuid():  # it does not run as the superuser
        shutil.chown(folder, "postgres", "postgres")
        how = {"user": "postgres", "group": "postgres"}
    subprocess.run(
        [tools / "initdb", "-D", folder / "data", "-U", "leanrag", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8"],
        check=True, stdout=subprocess.DEVNULL, cwd=folder, **how,
    )  # fmt: skip
    command = [
        str(tools / "postgres"),
        "-D",
        str(folder / "data"),
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
        "-k",
        str(folder),
    ]
    ready = [str(tools / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    service = Service([command], folder, port, ready, **how)
    return service, f"postgresql://leanrag@127.0.0.1:{port}/postgres"


def serve_chroma(folder: Path) -> tuple[Service, str]:
    port = free_port()
    program = str(Path(sys.executable).with_name("chroma"))
    command = [program, "run", "--path", str(folder / "data"), "--host", "127.0.0.1", "--port", str(port)]
    return Service([command], folder, port), f"http://127.0.0.1:{port}"


def serve_dask(folder: Path) -> tuple[Service, str]:
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    dask = [sys.executable, "-P", "-m", "dask"]
    scheduler = [*dask, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    worker = [
        *dask,
        "worker",
        address,
        "--no-nanny",
        "--nthreads",
        "1",
        "--no-dashboard",
        "--local-directory",
        str(folder),
    ]
    return Service([scheduler, worker], folder, port), address


# --- a step --------------------------------------------------------------------------------


def do(settings: Settings, step: Step) -> Callable[[Callable[[Any], None]], Awaitable[None]]:
    """Return the work of a process that does a step and says at which stage it is, and how it ended."""

    async def work(say: Callable[[Any], None]) -> None:
        try:
            async with await LeanRAG.open(settings) as engine:
                say({"stage": "open"})
                job = await begin(engine, step, say)
                if job is not None:
                    await follow(engine, job.id, say)
                else:
                    say({"done": True})
        except LeanRAGError as problem:
            say({"refused": str(problem), "next": problem.next_step})

    return work


async def follow(engine: LeanRAG, job_id: str, say: Callable[[Any], None]) -> None:
    """Say the stages of a job and how it ended; while its row cannot be read, ask again."""
    stage = ""
    while True:
        try:
            state = await engine.job_state(job_id, 0.02)
            if state.stage != stage:
                stage = state.stage
                say({"stage": stage})
            if state.status.finished:
                job = await engine.job(job_id)
                break
        except (StoreUnusable, StoreUnreachable):
            await anyio.sleep(0.1)
    failed = isinstance(job.result, IngestResult) and [
        each.error for each in job.result.documents if each.status == "failed"
    ]
    say(
        {"done": True}
        if job.status.value == "done" and not failed
        else {"ended": job.status.value, "message": job.message or str(failed)}
    )


class Outages:
    def __init__(self, settings: Settings, seed: int, strike: Any) -> None:
        self.crashes = Crashes(settings, seed)
        self.settings, self.strike = settings, strike
        self.chance = self.crashes.chance
        self.counts, self.at, self.ends = Counter[str](), Counter[str](), Counter[str]()
        self.failures: list[str] = []

    def do_round(self, *, peaceful: bool) -> None:
        expected = self.crashes.expected
        self.counts["rounds"] += 1
        step = choose_step(self.chance, expected, version=self.counts["rounds"])
        asked_copy = expected.asked_copy
        expected.asked |= step.versions
        if step.kind in ("copy", "drop"):
            asked_copy = expected.asked_copy = dict(expected.stored) if step.kind == "copy" else None
        said = self.run_step(step, struck=not peaceful)
        for _ in range(3):
            # A copy may be whole although its end could not be written; what is in it is looked at.
            if any("done" in line or "'copy' already" in line.get("refused", "") for line in said):
                break
            self.look()
            said = self.run_step(step, struck=False)
        else:
            self.failures.append(f"{step.kind} failed in peace: {said[-1:]}")
        expected.stored |= expected.asked
        expected.copied = asked_copy
        self.look()

    def run_step(self, step: Step, *, struck: bool) -> list[Any]:
        """Run a step in a process, strike at a stage of it, and return what it said."""
        said: list[Any] = []
        wanted = self.chance.randint(1, 6) if struck else 0
        pause, delay = self.chance.choice(AWAY), self.chance.choice((0, 0, 0.1, 0.5))
        if struck and not self.strike.stages:
            self.at[self.strike.begin(self.chance)] += 1
        until = time.monotonic() + LONGEST
        is_away, back = False, 0.0
        with fork(do(self.settings, step)) as (child, reading):
            rest = b""
            while time.monotonic() < until:
                ready, _, _ = select.select([reading], [], [], 0.1)
                part = os.read(reading, 1 << 16) if ready else None
                if part == b"":
                    break
                *lines, rest = (rest + (part or b"")).split(b"\n")
                said += map(json.loads, lines)
                stages = [line["stage"] for line in said if "stage" in line]
                if struck and self.strike.stages and not back and len(stages) >= wanted:
                    time.sleep(delay)
                    self.at[f"{stages[wanted - 1]} of {step.kind}, {self.strike.begin(self.chance)}"] += 1
                    is_away, back = True, time.monotonic() + pause
                if is_away and time.monotonic() > back:
                    self.strike.end()
                    is_away = False
            else:
                self.failures.append(f"hung: {step.kind} after {said[-2:]}")
                os.kill(child, signal.SIGKILL)
        if is_away or (struck and not self.strike.stages):
            self.strike.end()
        if struck:
            self.note_end(step, said, was_struck=bool(back) or not self.strike.stages)
        expected = self.crashes.expected
        for line in said:
            expected.extracted |= {(number, version) for number, version in line.get("extracted", ())}
            expected.corrections |= {line["corrected"]} if "corrected" in line else set()
            expected.corrections -= {line.get("undoing", "")}
        return said

    def note_end(self, step: Step, said: list[Any], *, was_struck: bool) -> None:
        self.counts["strikes"] += was_struck
        last = said[-1] if said else {}
        if "done" in last:
            self.ends["done all the same"] += was_struck
        elif message := last.get("message", "") or last.get("refused", ""):
            self.ends[message[:90].partition("/")[0].partition("(")[0]] += 1
            if "Unexpected" in message or ("next" in last and not last["next"]):
                self.failures.append(f"unclear end of {step.kind}: {last}")
        else:
            self.failures.append(f"no end of {step.kind}: {said[-3:]}")

    def look(self) -> None:
        for line in run(look(self.settings, self.crashes.expected, self.chance)):
            self.counts["degraded replies"] += "degraded" in line
            self.failures += [json.dumps(line)] * ("degraded" not in line)

    def end(self) -> dict[str, Any]:
        manual = 0
        for line in run(settle(self.settings, self.crashes.expected)):
            manual += "manual" in line
            if line.get("resumed", "").startswith(
                "failed: "
            ):  # such as a rollback to data that are gone by now
                self.counts["resumed in vain"] += 1
            elif line not in ({"built": "done"}, {"resumed": "done"}):
                self.failures.append(json.dumps(line))
        hangs = sum(each.startswith("hung") for each in self.failures)
        first = [each[-400:] for each in dict.fromkeys(self.failures)][:8]
        return {
            **self.counts, "hangs": hangs, "manual steps": manual, "failures": len(self.failures),
            "struck at": dict(self.at.most_common()), "ends": dict(self.ends.most_common()), "first": first,
        }  # fmt: skip


@contextmanager
def opened(kind: str) -> Iterator[tuple[Settings, Any]]:
    """Yield settings with a new folder, and what is to be struck, which goes with the block."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, data = Path(scratch), Path(scratch) / "data"
        data.mkdir()
        folder.chmod(0o755)
        (folder / "service").mkdir()
        if kind == "disk":
            strike: Any = Disk(data)
            os.environ["CRASHES_SOURCES"] = str(folder)
            settings = settings_of(data / "store")
        else:
            serve = {"postgres": serve_postgres, "chroma": serve_chroma, "dask": serve_dask}[kind]
            strike, address = serve(folder / "service")
            name = {"postgres": "database_url", "chroma": "chroma_url", "dask": "dask"}[kind]
            settings = settings_of(data).model_copy(update={name: address})
        try:
            yield settings, strike
        finally:
            strike.close()


def main(kind: str, strikes: int, seed: int) -> dict[str, Any]:
    wiring.LEAST_BYTES = 0  # a cluster reads small documents too
    with opened(kind) as (settings, strike):
        outages = Outages(settings, seed, strike)
        for _ in range(3):
            outages.do_round(peaceful=True)
        while outages.counts["strikes"] < strikes and len(outages.failures) < 20:
            outages.do_round(peaceful=False)
        return {"taken away": kind, "seed": seed, **outages.end()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("disk", "postgres", "chroma", "dask"))
    parser.add_argument("--strikes", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    figures = main(given.kind, given.strikes, given.seed)
    print(json.dumps(figures))
    sys.exit(bool(figures["failures"]))
