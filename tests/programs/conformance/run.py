"""Runs the official conformance suite and the MCP Inspector against this server, each in its own process on loopback.

Run: ``.ci/conformance``, which installs them first. By hand: ``python tests/programs/conformance/run.py FOLDER_WITH_NODE_MODULES``.
Ends with code 1 if anything failed; what a suite said of a failure stands in the output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REVISIONS = ("2025-11-25", "2026-07-28")
ERAS = ("legacy", "modern")
LATEST = "@modelcontextprotocol/conformance/dist/index.js"
ALPHA = "conformance-alpha/dist/index.js"
INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
LONGEST_RUN_S = 180

NOTE = {
    "id": "kaph",
    "title": "Kaph",
    "text": "Kaph is a lighthouse on Rosinante Reef. Ann Teak built Kaph in 1844. Kaph stands on granite.",
}
CALLS: dict[str, dict[str, Any]] = {
    "ingest_documents": {"documents": [NOTE], "wait_seconds": 40},
    "build_hierarchy": {"wait_seconds": 40},
    "query_lca_context": {"query": "Who built Kaph?"},
    "search_entities": {"query": "Kaph"},
    "get_entity_ancestors": {"entity": "Kaph"},
    "list_inter_cluster_relations": {},
    "search_text": {"text": "Kaph"},
    "get_outline": {"document": NOTE["id"]},
    "get_sources": {"entity": "Kaph"},
    "get_index_status": {},
    "list_collections": {},
    "get_history": {},
    "get_pending_work": {},
    "submit_extractions": {"items": []},
    "submit_summaries": {"items": []},
    "merge_entities": {"entities": ["Kaph", "Ann Teak"]},
    "split_entity": {"entity": "Kaph", "name": "Kaph (reef)", "places": ["kaph"]},
    "answer_question": {"question": "Who built Kaph?"},
}
"""A call of every tool, in an order that works. Four more need a name that an earlier reply gives: ``calls_of``."""

REFUSED = frozenset({"submit_extractions", "submit_summaries"})
"""Called with nothing to submit, these may answer that this is an error: any answer in words will do."""


@dataclass(frozen=True)
class Toolbox:
    """Node and the suites, in a folder of their own."""

    folder: Path

    def run(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a script of an installed package. Its home is the scratch folder: it leaves nothing behind."""
        modules = self.folder / "node_modules"
        return subprocess.run(
            [str(modules / ".bin" / "node"), str(modules / script), *arguments],
            cwd=self.folder,
            env={**os.environ, "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_RUN_S,
        )


@contextmanager
def serving(*command: str) -> Iterator[str]:
    """Start a server that says on standard error where it serves; give that address, and end it afterwards."""
    child = subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True)
    try:
        assert child.stderr
        greeting = child.stderr.readline()
        address = next((word for word in greeting.split() if word.startswith("http://")), None)
        if address is None:
            raise SystemExit(f"The server did not start: {greeting}{child.stderr.read()}")
        # A pipe that nobody reads fills up, and then the server waits for ever to log a line.
        threading.Thread(target=child.stderr.read, daemon=True).start()
        yield address
    finally:
        child.terminate()
        child.wait(timeout=30)


def plain(folder: str) -> tuple[str, ...]:
    return ("-P", "-m", "leanrag_mcp", "serve", "--data-dir", folder, "--http", "127.0.0.1:0")


# --- the conformance suite -----------------------------------------------------------------


def conformance(tools: Toolbox, title: str, address: str, *more: str) -> bool:
    """The latest release, and each revision's requirements in the alpha."""
    runs = [(LATEST, "latest", ())]
    runs += [(ALPHA, revision, ("--requirements", revision)) for revision in REVISIONS]
    passed = True
    for script, name, options in runs:
        ran = tools.run(script, "server", "--url", address, *options, *more)
        passed &= told(f"conformance {name}, {title}", ran, verdicts(ran.stdout))
    return passed


def verdicts(output: str) -> str:
    """The suite's own count of checks, and of the scenarios that no revision requires."""
    lines = [line for line in output.splitlines() if line.startswith(("Total:", "Not scored"))]
    return " ".join(lines) or "no count"


def told(what: str, ran: subprocess.CompletedProcess[str], result: str) -> bool:
    print(f"{'passed' if ran.returncode == 0 else 'FAILED'}: {what} ({result})", flush=True)
    if ran.returncode:
        print(ran.stdout[-6000:], ran.stderr[-3000:], sep="\n", flush=True)
    return ran.returncode == 0


# --- the Inspector -------------------------------------------------------------------------


def inspect(tools: Toolbox, era: str, *target: str) -> subprocess.CompletedProcess[str]:
    return tools.run(INSPECTOR, "--cli", "--protocol-era", era, "--format", "json", *target)


def inspected_list(tools: Toolbox, era: str, transport: str, *target: str) -> list[str]:
    """The names of all tools; none if one has a schema that some client cannot read (``--strict``)."""
    ran = inspect(tools, era, "--method", "tools/list", "--strict", *target)
    names = [] if ran.returncode else [tool["name"] for tool in json.loads(ran.stdout)["result"]["tools"]]
    told(f"inspector tools/list --strict, {era}, {transport}", ran, f"{len(names)} tools")
    return names


def inspected_call(tools: Toolbox, era: str, address: str, tool: str, arguments: dict[str, Any]) -> Any:
    """What a tool answers, as structured content; ``None`` if the Inspector finds fault with it."""
    ran = inspect(
        tools, era, *("--method", "tools/call", "--tool-name", tool),
        *("--tool-args-json", json.dumps(arguments), "--server-url", address, "--transport", "http"),
    )  # fmt: skip
    reply = json.loads(ran.stdout)["result"] if ran.stdout.startswith("{") else {}
    said = "".join(block.get("text", "") for block in reply.get("content", ()))
    if ran.returncode and not (tool in REFUSED and said and not said.startswith("Error executing")):
        told(f"inspector tools/call {tool}, {era}", ran, said[:200])
        return None
    return reply.get("structuredContent", {})


def inspector(tools: Toolbox, address: str, folder: str) -> bool:
    passed = True
    for era in ERAS:
        names = inspected_list(tools, era, "http", "--server-url", address, "--transport", "http")
        passed &= bool(names)
        passed &= inspected_list(tools, era, "stdio", sys.executable, *plain(folder)[:-2]) == names
        passed &= calls_of(tools, era, address, names)
    return passed


def calls_of(tools: Toolbox, era: str, address: str, names: list[str]) -> bool:
    """Call every tool once. Fails for a tool that has no call here, so that a new one is not forgotten."""
    replies = {
        name: inspected_call(tools, era, address, name, arguments)
        for name, arguments in CALLS.items()
        if name in names
    }
    path = (replies.get("get_entity_ancestors") or {}).get("path") or [{}]
    job = (replies.get("build_hierarchy") or {}).get("job_id", "")
    later = {
        "get_cluster": {"cluster": path[-1].get("ref", "")},
        "get_job": {"job_id": job},
        "cancel_job": {"job_id": job},
        # Corrections outlive the documents: what one era corrects, the next one could not correct again.
        "merge_entities": {**CALLS["merge_entities"], "undo": True},
        "split_entity": {**CALLS["split_entity"], "undo": True},
        "delete_documents": {"ids": [NOTE["id"]]},
    }
    for name, arguments in later.items():
        if name in names:
            replies[name] = inspected_call(tools, era, address, name, arguments)
    failed = [name for name, reply in replies.items() if reply is None]
    uncalled = sorted(set(names) - replies.keys())
    print(
        f"{'FAILED' if failed or uncalled else 'passed'}: inspector tools/call of {len(replies)} tools, {era}"
    )
    if uncalled:
        print(f"No call is written down in {Path(__file__).name} for: {', '.join(uncalled)}")
    return not failed and not uncalled


def main(folder: Path) -> int:
    tools = Toolbox(folder)
    passed = True
    with tempfile.TemporaryDirectory() as data:
        with serving(str(HERE / "fixtures.py"), f"{data}/fixtures") as address:
            passed &= conformance(tools, "with the suite's fixtures", address)
        with serving(*plain(f"{data}/plain")) as address:
            expected = str(HERE / "expected-failures.yml")
            passed &= conformance(tools, "plain server", address, "--expected-failures", expected)
            passed &= inspector(tools, address, f"{data}/plain")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
