"""Fill the disk during every kind of write that a command or a server makes, and look at how each ends and what is left.

    python tests/programs/full_disk.py [--only TEXT] [--part 1/1] [--seed 0]

Each command works in a folder on a tmpfs (which needs root on Linux): first with room, which tells how much it writes, then with
none, with a part of that, and with all but a little. It must end by itself: done, or with an exit code, no traceback, and a line
that says what could not be written and what to do. Each file outside the data folder is then the old one or the new one, byte for
byte, and nothing lies beside it; the data folder has the documents that it had or should have, doctor finds nothing, and with
room the same command does what it did in peace. Jobs are filled at their stages by outages.py. Prints one JSON line: kinds of
write, trials, clear ends; exit code 1 if one was not clear.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import anyio
from load import serve
from mcp.client import Client
from mcp_types import CallToolResult, TextContent

sys.path.insert(0, str(Path(__file__).parents[1]))
from forks import Fork

PASSING = ("tmp/", "home/.cache")
"""Where nothing is kept."""
LONGEST = 120
"""Seconds after which a command counts as hung."""
PEOPLE = ("Ewan Reid", "Moira Kerr", "Calum Boyd", "Isla Grant", "Rory Shaw", "Ailsa Munro", "Fergus Hay")
CLIENTS = (
    "claude-desktop", "claude-code", "vscode", "cursor", "codex", "gemini-cli", "windsurf", "zed", "cline",
    "opencode", "copilot-cli",
)  # fmt: skip
TABLES = {"vscode": "servers", "zed": "context_servers", "opencode": "mcp"}
"""What these clients call the table of their servers; the others ``mcpServers``."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of write: the command, whether it changes the data folder, and which folder alone is full.

    ``new``: names of what it makes whose content differs each time, such as a backup with its date.
    """

    name: str
    words: tuple[str, ...]
    store: bool = False
    full: str = ""
    new: str = "-"
    before: tuple[tuple[str, ...], ...] = ()


def list_kinds() -> Iterator[Kind]:
    """Yield the kinds; words are relative to the folder on the tmpfs."""

    def change(name: str, *words: str, **more: Any) -> Kind:
        return Kind(name, words, store=True, **more)

    document = "docs/n9.md"
    yield change("documents and their build", "ingest", document)
    yield change("documents alone", "ingest", document, "--no-build")
    yield change("the database alone, beside vectors that have room", "ingest", document, full="store")
    yield change("the vectors alone", "ingest", document, full="store/vectors")
    yield change("the arrays alone", "ingest", document, full="store/arrays")
    yield change("a build", "build")
    yield change("a folder in agreement", "sync", "docs")
    yield change("a deletion", "forget", "docs/n1.md")
    yield change("a deletion with its ignore file", "forget", "docs/n1.md", "--ignore")
    yield change("a merge", "merge", PEOPLE[0], PEOPLE[1])
    yield change("a split", "split", PEOPLE[2], "Calum Boyd the younger", "--in", "d3")
    yield change("a schema", "schema", "set", "people")
    yield change("a schema of one's own", "schema", "set", "schema.yaml")
    yield change("no schema", "schema", "remove", before=(("schema", "set", "people"),))
    yield change("an earlier build again", "rollback", "1")
    yield change("notes of a vault", "import", "obsidian", "vault")
    yield change("a table of another program", "import", "csv", "edges.csv")
    yield change("the vectors anew", "reindex")
    yield change("another name", "collections", "rename", "default", "notes")
    yield change("a copy", "collections", "copy", "default", "trial")
    yield change("a collection less", "collections", "delete", "other", "--yes")
    yield change("notes of a folder", "ingest", "noted")
    yield change("setting up", "setup", "docs", "--client", "cursor", new="home/")
    yield Kind("a backup", ("backup", "backup"), new="backup")
    yield Kind("a restored folder", ("restore", "kept", "--data-dir", "restored"), new="restored")
    for each in ("graphml", "json", "obsidian", "parquet"):
        yield Kind(f"an export as {each}", ("export", each, f"out.{each}"))
    yield Kind("a page of the explorer", ("explore", "--out", "page.html"))
    for each in ("html", "svg"):
        yield Kind(f"an answer as {each}", ("query", "Who built Skerry 3?", f"--{each}", f"answer.{each}"))
        yield Kind(
            f"an answer over another as {each}", ("query", "Who built Skerry 3?", f"--{each}", f"old.{each}")
        )
    yield Kind("a setting", ("config", "set", "embedder", "fitted"))
    yield Kind(
        "the first setting", ("config", "set", "embedder", "fitted"), before=(("rm", "settings.toml"),)
    )
    yield Kind("a setting less", ("config", "unset", "workers"))
    for each in CLIENTS:
        file = f"clients/{each}"
        yield Kind(f"an entry for {each}", ("install", each, "--config", file))
        yield Kind(f"no entry for {each}", ("uninstall", each, "--config", file), before=(
            ("install", each, "--config", file), ("change", file),
        ))  # fmt: skip
    yield Kind("the first file of a client", ("install", "cursor", "--config", "clients/new/mcp.json"))
    yield Kind("a plugin", ("install", "claude-code", "--plugin", "plugin"))
    yield Kind(
        "a plugin over another",
        ("install", "claude-code", "--plugin", "plugin", "--read-only"),
        before=(("install", "claude-code", "--plugin", "plugin"),),
    )
    yield Kind("a worksheet", ("eval", "questions", "set", "--worksheet", "sheet.json"))
    yield Kind("questions of a worksheet", ("eval", "questions", "set", "--filled", "filled.json"))
    yield Kind("an evaluation in a folder for the time", ("eval", "retrieval", "passages.json"), new="tmp/")


def say(
    folder: Path, *words: str, stdout: Path | None = None, stderr: Path | None = None
) -> CompletedProcess[str]:
    """Run a command in ``folder``. ``stdout`` and ``stderr``: files that they go to."""
    environment = {
        **os.environ, "LEANRAG_EMBEDDER": "fitted", "LEANRAG_CONFIG": str(folder / "settings.toml"), "COLUMNS": "200",
        "HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "LEANRAG_DATA_DIR": str(folder / "store"),
    }  # fmt: skip
    here = Path.cwd()
    with (
        tempfile.TemporaryFile("w+") as said,
        tempfile.TemporaryFile("w+") as complained,
        ExitStack() as opened,
    ):
        os.chdir(folder)
        try:
            fork = Fork(
                words,
                stdin=subprocess.DEVNULL,
                stdout=opened.enter_context(stdout.open("w")) if stdout else said,
                stderr=opened.enter_context(stderr.open("w")) if stderr else complained,
                env=environment,
            )
        finally:
            os.chdir(here)
        try:
            status = fork.wait(LONGEST)
        except TimeoutError:
            fork.kill()
            fork.wait()
            status = -1000
        for each in (said, complained):
            each.seek(0)
        return CompletedProcess(list(words), status, said.read(), complained.read())


def text_of(number: int) -> str:
    person, other = PEOPLE[number % 7], PEOPLE[(3 * number + 1) % 7]
    return (
        f"# Skerry {number}\n\n{person} built the lighthouse of Skerry {number}. {other} wrote to {person} about lamp "
        f"{number}. The keeper of Skerry {number} kept {number + 3} goats and a boat that {other} had sold.\n"
    )


def make_folder(folder: Path) -> None:
    """Make what the commands begin with."""
    for name in ("docs", "vault", "noted", "clients", "home/.cursor", "tmp", "set/docs"):
        (folder / name).mkdir(parents=True)
    (folder / "settings.toml").write_text("workers = 1\n# a remark\n")
    say(folder, "ingest", *(write(folder / f"docs/n{number}.md", text_of(number)) for number in range(5)))
    say(folder, "ingest", write(folder / "docs/n5.md", text_of(5)))
    say(folder, "ingest", folder.joinpath("docs/n0.md").as_posix(), "--collection", "other")
    for number in (9, 10):
        write(folder / f"docs/n{number}.md", text_of(number) * 40)
        write(folder / f"vault/v{number}.md", text_of(20 + number))
        write(folder / f"noted/f{number}.md", text_of(30 + number))
        write(folder / f"set/docs/s{number}.md", text_of(40 + number))
    write(folder / "noted/.leanrag.md", "Letters that Moira Kerr kept.\n")
    write(folder / "edges.csv", "source,target,description\nOban,Tiree,a ferry\nTiree,Skerry,a boat\n")
    write(folder / "schema.yaml", "entities:\n  person: a human being\n  lighthouse: a tower with a lamp\n")
    for name in ("old.html", "old.svg"):
        write(folder / name, "an older answer")
    for each in CLIENTS:
        own = '[mcp_servers.files]\ncommand = "files"\n' if each == "codex" else json.dumps(
            {TABLES.get(each, "mcpServers"): {"files": {"command": "files"}}, "theme": "dark"}, indent=2
        )  # fmt: skip
        write(folder / "clients" / each, own)
    passages = [{"id": f"p{number}", "text": text_of(50 + number)} for number in range(4)]
    queries = [
        {"id": "q1", "question": f"What did {PEOPLE[1]} build?", "answer": "a lighthouse", "gold": [0]}
    ]
    write(folder / "passages.json", json.dumps({"passages": passages, "queries": queries}))
    assert say(folder, "backup", "kept").returncode == 0


def write(file: Path, text: str) -> str:
    file.write_text(text, encoding="utf-8")
    return str(file)


def fill_worksheet(folder: Path) -> None:
    """Write the questions of a worksheet as an agent does."""
    content = json.loads((folder / "filled.json").read_text())
    for row in content["passages"]:
        words = re.findall(r"\d+ goats", row["text"])
        row["result"] = {
            "question": f"How many animals there, by {row['work_id']}?",
            "answer": words[0],
            "facts": words[:1],
        }
    write(folder / "filled.json", json.dumps(content))


def digests(folder: Path) -> dict[str, str]:
    """Return a digest of each file outside the data folder."""
    return {
        str(each.relative_to(folder)): sha256(each.read_bytes()).hexdigest()
        for each in folder.rglob("*")
        if each.is_file() and each.relative_to(folder).parts[0] not in ("store", "ballast")
    }


def documents(folder: Path) -> Any:
    """Return the documents of each collection with the number of their chunks, or what is said instead."""
    found = {}
    listed = say(folder, "collections", "--json")
    if listed.returncode:
        return listed.stderr
    for each in json.loads(listed.stdout)["collections"]:
        ran = say(folder, "ls", "--json", "--collection", each["name"])
        if ran.returncode:
            return ran.stderr
        found[each["name"]] = sorted(
            (row["id"], row["chunks"]) for row in json.loads(ran.stdout)["documents"]
        )
    return found


def damages(folder: Path) -> list[str]:
    ran = say(folder, "doctor", "--json")
    if not ran.stdout:
        return [ran.stderr]
    found = json.loads(ran.stdout)["findings"]
    return [f"{each['subject']}: {each['message']}" for each in found if each["state"] not in ("ok", "note")]


class FullDisk:
    """Trials in copies of a folder on a tmpfs."""

    def __init__(self, work: Path, seed: int) -> None:
        self.begun, self.folder = work / "begun", work / "disk"
        self.chance = random.Random(seed)  # noqa: S311 - no secret
        self.trials, self.ends, self.unclear = 0, Counter[str](), list[str]()
        self.clear_kinds = 0
        self.folder.mkdir()

    def begin(self) -> None:
        """Make what each trial begins with, at the place where that will be: documents have absolute paths."""
        make_folder(self.folder)
        ran = say(self.folder, "eval", "questions", "set", "--worksheet", "filled.json", "--number", "3")
        assert ran.returncode == 0, ran.stderr
        fill_worksheet(self.folder)
        shutil.copytree(self.folder, self.begun)

    @contextmanager
    def copied(self, kind: Kind) -> Iterator[Path]:
        """Yield the folder that is to be filled, in a new copy on a tmpfs; other folders of the data have their own."""
        with ExitStack() as mounted:
            places = {"": "", "store": "store/vectors store/arrays"}.get(kind.full, kind.full).split()
            for place in ["", *places]:
                target = self.folder / place
                subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "none", target], check=True)  # noqa: S607 - a tool of the system
                mounted.callback(subprocess.run, ["umount", "-l", target], check=True)
                shutil.copytree(self.begun / place, target, dirs_exist_ok=True)
            for words in kind.before:
                self.prepare(*words)
            yield self.folder / (kind.full if kind.full not in ("", "store") else "")

    def prepare(self, *words: str) -> None:
        if words[0] == "rm":
            (self.folder / words[1]).unlink()
        elif words[0] == "change":  # a user's own line since the install
            file = self.folder / words[1]
            text = file.read_text()
            file.write_text(f"# mine\n{text}" if "[" in text[:1] else text.replace('"dark"', '"light"'))
        else:
            ran = say(self.folder, *words)
            assert ran.returncode == 0, (words, ran.stderr)

    def try_kind(self, kind: Kind) -> None:
        with self.copied(kind) as place:
            before = shutil.disk_usage(place).used
            old, held = digests(self.folder), documents(self.folder) if kind.store else None
            ran = say(self.folder, *kind.words)
            if ran.returncode:
                self.unclear.append(f"{kind.name} failed in peace: {ran.stderr[-300:]}")
                return
            new, wanted = digests(self.folder), documents(self.folder) if kind.store else None
            written = max(shutil.disk_usage(place).used - before, 1 << 12)
        failures = []
        for room in (0, written * self.chance.uniform(0.05, 0.97)):
            with self.copied(kind) as place:
                failures += self.strike(kind, place, int(room), (old, new), (held, wanted))
        self.clear_kinds += not failures
        self.unclear += [f"{kind.name}: {each}" for each in failures]
        print(kind.name, written >> 10, "kB", *(each[:300] for each in failures), file=sys.stderr, flush=True)

    def strike(
        self,
        kind: Kind,
        place: Path,
        room: int,
        files: tuple[dict[str, str], dict[str, str]],
        stores: tuple[Any, Any],
    ) -> Iterator[str]:
        """Run the command with so little room and then with enough; yield what is not as it should be."""
        self.trials += 1
        _, new = files
        with self.filled(place, room):
            ran = say(self.folder, *kind.words)
        done = ran.returncode == 0
        self.ends["done all the same" if done else find_message(ran)[:70].partition("/")[0]] += 1
        at = f"{room >> 10} kB left, exit {ran.returncode}"
        if ran.returncode == -1000:
            yield f"{at}: hung: {ran.stderr[-300:]}"
        elif not done and not is_clear(ran):
            yield f"{at}: unclear: {ran.stdout[-200:]} {ran.stderr[-600:]}"
        yield from self._look_at_files(kind, at, done, files)
        if kind.store and not is_between(held := documents(self.folder), *stores):
            yield f"{at}: other documents: {held}"
        if not done:
            yield from self._do_again(kind, at, new, stores[1])

    def _look_at_files(
        self, kind: Kind, at: str, done: bool, files: tuple[dict[str, str], dict[str, str]]
    ) -> Iterator[str]:
        old, new = files
        found = {
            name: digest for name, digest in digests(self.folder).items() if not name.startswith(PASSING)
        }
        for name in sorted(found.keys() | old.keys()):
            allowed = {old.get(name), new.get(name)} | (
                {found.get(name)} if done and name.startswith(kind.new) else set()
            )
            if not name.startswith(PASSING) and found.get(name) not in allowed:
                yield f"{at}: {name} is neither old nor new"
        expected = {name: digest for name, digest in new.items() if not name.startswith((kind.new, *PASSING))}
        if done and any(found.get(name) != digest for name, digest in expected.items()):
            yield f"{at}: done, but not written"

    def _do_again(self, kind: Kind, at: str, new: dict[str, str], wanted: Any) -> Iterator[str]:
        """Run the command with room enough."""
        again = say(self.folder, *kind.words)
        if again.returncode and not has_happened(again):
            yield f"{at}: failed with room again: {again.stderr[-300:]}"
        if kind.store:
            if (held := documents(self.folder)) != wanted:
                yield f"{at}: other documents with room again: {held}, not {wanted}"
            if found := damages(self.folder):
                yield f"{at}: doctor afterwards: {found}"
        elif left := {name for name in digests(self.folder) if not name.startswith(PASSING)} - new.keys():
            yield f"{at}: left over: {left}"

    @contextmanager
    def filled(self, place: Path, room: int) -> Iterator[None]:
        """Leave so many bytes on the disk of ``place``."""
        ballast = place / "ballast"
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, shutil.disk_usage(place).free - room))
        try:
            yield
        finally:
            ballast.unlink()


def is_between(held: Any, old: Any, new: Any) -> bool:
    """Return whether each document is as it was or as it should be: each one is stored by itself."""
    if not isinstance(held, dict) or not held.keys() <= old.keys() | new.keys():
        return False
    return all(
        set(old.get(name, ())) & set(new.get(name, ()))
        <= set(each)
        <= set(old.get(name, ())) | set(new.get(name, ()))
        for name, each in held.items()
    )


def find_message(ran: CompletedProcess[str]) -> str:
    lines = [each for each in ran.stderr.splitlines() if each.startswith("Error: ")]
    return lines[-1] if lines else next(iter(ran.stderr.splitlines()[-1:]), "")


def is_clear(ran: CompletedProcess[str]) -> bool:
    """Return whether it says what could not be written and what to do, in one place."""
    said = ran.stderr + ran.stdout
    return "Traceback" not in said and "Unexpected" not in said and bool(
        re.search(r"(full|No space|written|write|room).*[.:)] \w.*(room|[Ff]ree|place|disk|permission|path|file|again|folder)", said, re.DOTALL)
    )  # fmt: skip


def has_happened(ran: CompletedProcess[str]) -> bool:
    """Return whether it is refused as it was done at last the first time."""
    said = ("exists already", " already. Choose", "no server called", "There is no collection", "No document")
    return any(each in ran.stderr for each in said)


# --- output ------------------------------------------------------------------------------


def try_outputs(disk: FullDisk) -> None:
    """Let standard output or standard error go to a full disk."""
    full = Path("/dev/full")
    for words in (("query", "Who built Skerry 3?"), ("query", "Who built Skerry 3?", "--json"), ("status",), ("ls", "--json"), ("tree",), ("doctor", "--json")):  # fmt: skip
        with disk.copied(Kind("", ())):
            ran = say(disk.folder, *words, stdout=full)
            note(
                disk,
                f"the output of {' '.join(words)}",
                ran.returncode not in (0, -1000) and is_clear(ran),
                ran,
            )
    with disk.copied(Kind("", ())):
        ran = say(disk.folder, "ingest", "docs/n9.md", stderr=full)
        # Nothing can be said then: the exit code tells it, and the documents are whole.
        is_held = str(disk.folder / "docs/n9.md") in str(documents(disk.folder))
        note(disk, "what an ingest says", is_held == (ran.returncode == 0), ran)
    for words in (("query", "Who built Skerry 3?"), ("grep", "lamp"), ("show", "d1:c1"), ("ls",), ("status",), ("tree",), ("history",), ("doctor",)):  # fmt: skip
        with disk.copied(Kind("", ())):
            peace = say(disk.folder, *words)
            with disk.filled(disk.folder, 0):
                ran = say(disk.folder, *words)
            same = ran.stdout == peace.stdout or words == ("doctor",)
            note(disk, f"reading: {words[0]}", (ran.returncode == 0 and same) or is_clear(ran), ran)


def note(disk: FullDisk, name: str, is_right: bool, ran: object) -> None:
    disk.trials += 1
    disk.clear_kinds += is_right
    if not is_right:
        disk.unclear.append(f"{name}: {ran}"[:900])
    print(name, is_right, file=sys.stderr, flush=True)


# --- a server ----------------------------------------------------------------------------

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("query_lca_context", {"query": "Who built Skerry 3?"}),
    ("ingest_documents", {"documents": [{"text": text_of(60), "title": "Sixty", "id": "t60"}]}),
    ("build_hierarchy", {}),
    ("merge_entities", {"entities": [PEOPLE[3], PEOPLE[4]]}),
    ("split_entity", {"entity": PEOPLE[5], "name": "Ailsa Munro the elder", "places": ["d6"]}),
    ("delete_documents", {"ids": ["t60"]}),
    ("get_index_status", {}),
)


def try_server(disk: FullDisk) -> None:
    """Fill the disk of a running server; each call must be answered, and again with room."""
    with disk.copied(Kind("", ())), serve(disk.folder / "store", "") as (_, address):
        for tool, arguments in CALLS:
            with disk.filled(disk.folder, 0):
                full = anyio.run(call, address, tool, arguments)
            roomy = anyio.run(call, address, tool, arguments)
            right = not roomy[0] and (not full[0] or bool(re.search("full|written|space", full[1])))
            note(disk, f"a server's {tool}", right, (full, roomy))


async def call(address: str, tool: str, arguments: dict[str, Any]) -> tuple[bool, str]:
    """Call a tool and wait for its job; return whether it failed, and what was said."""
    async with Client(address, read_timeout_seconds=LONGEST) as client:
        result = await client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        said = " ".join(each.text for each in result.content if isinstance(each, TextContent))
        failed = bool(result.is_error)
        for _ in range(30):
            job = (result.structured_content or {}).get("job_id")
            if failed or not job:
                break
            state = await client.call_tool("get_job", {"job_id": job, "wait_seconds": 5})
            assert isinstance(state, CallToolResult)
            words = " ".join(each.text for each in state.content if isinstance(each, TextContent))
            if (state.structured_content or {}).get("status") in ("done", "failed", "cancelled"):
                return (state.structured_content or {})["status"] != "done", words
        return failed, said


def main(only: str, part: str, seed: int, work: Path) -> dict[str, Any]:
    disk = FullDisk(work, seed)
    disk.begin()
    kinds = 0
    place, parts = map(int, part.split("/"))
    for number, kind in enumerate(list_kinds()):
        if only in kind.name and number % parts == place % parts:
            kinds += 1
            disk.try_kind(kind)
    others: tuple[tuple[str, Callable[[FullDisk], None]], ...] = (
        ("outputs", try_outputs),
        ("server", try_server),
    )
    before = disk.trials
    for name, trial in others:
        if only == name or (not only and place == parts):
            trial(disk)
    kinds += disk.trials - before
    return {
        "kinds of write": kinds, "clear ends": disk.clear_kinds, "trials": disk.trials, "seed": seed,
        "ends": dict(disk.ends.most_common()), "unclear": disk.unclear,
    }  # fmt: skip


def run(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="kinds with this text")
    parser.add_argument("--part", default="1/1", help="the first of four parts of the kinds: 1/4")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as scratch:
        figures = main(given.only, given.part, given.seed, Path(scratch))
    print(json.dumps(figures))
    return int(bool(figures["unclear"]))


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
