"""The demo is the README's first command: it must work, answer, and stay within its budgets.

That it finds more than flat search holds with the default embedder, which takes half a minute: ``.ci/run`` runs it so.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from leanrag_tests_forks import run as run_process

from leanrag_mcp.cli.demo.run import FACTS, TOPICS, choose_topics


@dataclass(frozen=True)
class DemoRun:
    """What the demo prints for a person, and its figures."""

    printed: str
    figures: dict[str, Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., DemoRun]:
    """Run the demo; all runs share one data folder."""
    folder = tmp_path_factory.mktemp("demo")

    def run(columns: int, anew: bool = True) -> DemoRun:
        environment = {
            "PATH": "",
            "HOME": "/nonexistent",
            "COLUMNS": str(columns),
            "LEANRAG_DATA_DIR": str(folder),
            "LEANRAG_EMBEDDER": "minilm",
            "http_proxy": "http://127.0.0.1:9",
        }
        # The first run is that of a new interpreter, as a shell starts it.
        command = [sys.executable, "-P", "-m", "leanrag_mcp", "demo", "--json"]
        ran = (
            subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            if anew
            else run_process("demo", "--json", env=environment)
        )
        assert ran.returncode == 0, ran.stderr[-2000:]
        return DemoRun(ran.stderr, json.loads(ran.stdout.splitlines()[-1]))

    return run


@pytest.fixture(scope="module")
def first(run: Callable[..., DemoRun]) -> DemoRun:
    return run(80)


def test_the_demo_is_one_screen_with_the_answer_its_place_the_tree_and_what_to_type_next(
    first: DemoRun,
) -> None:
    # A slow machine shows progress in lines of its own.
    lines = [line.rstrip() for line in first.printed.splitlines() if not re.search(r"step \d+ of \d+", line)]
    assert len(lines) <= 40
    # A command to copy may be longer: it is not broken.
    assert all(len(line) <= 80 for line in lines if "leanrag query" not in line and "Kept in" not in line)
    screen = "\n".join(lines)
    for part in ("├── ", "lowest common ancestor", "leanrag setup FOLDER"):
        assert part in screen
    assert "indexed in" in screen
    figures = first.figures
    of_facts = len(figures["facts"])
    assert (
        f"{sum(figures['facts'])} of {of_facts} facts, flat search {sum(figures['flat_facts'])} of {of_facts}"
        in screen
    )
    assert all(figures["facts"])
    assert not all(figures["flat_facts"])
    # Each fact that is in the reply stands on the screen, whole.
    whole = " ".join(screen.split())
    for fact, found in zip(FACTS, figures["facts"], strict=True):
        assert (f"✗ {fact}: " in whole) is not found
        assert fact in whole
    assert 0 < figures["context_tokens"] <= 1200
    tokens = f"{figures['context_tokens']:,} tokens of a reply instead of {figures['document_tokens']:,} of the documents"
    assert lines[-1] == tokens


def test_the_collection_is_kept_and_not_indexed_again(run: Callable[..., DemoRun], first: DemoRun) -> None:
    again = run(200, anew=False)
    assert "indexed before" in again.printed
    assert again.figures["layers"] == first.figures["layers"]


def test_the_demo_indexes_each_chosen_topic_and_ends_in_one_root(first: DemoRun) -> None:
    figures = first.figures
    assert figures["documents"] == len(choose_topics()) == len(TOPICS.pattern.split("|"))
    assert figures["layers"][-1] == 1
    assert all(below > above for below, above in zip(figures["layers"], figures["layers"][1:], strict=False))
