"""The demo is the README's first command: it must work, answer, and stay within its budgets."""

from __future__ import annotations

import json
import subprocess
import sys
from pydoc_data.topics import topics

import pytest


@pytest.fixture(scope="module")
def demo_output() -> tuple[str, dict[str, list[int]]]:
    """Return what the demo prints for a person, and its figures."""
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "leanrag_mcp", "demo", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": "",
            "HOME": "/nonexistent",
            "COLUMNS": "200",
            "http_proxy": "http://127.0.0.1:9",
            # The default embeds for minutes where other tests run beside it.
            "LEANRAG_EMBEDDER": "fitted",
        },
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stderr, json.loads(ran.stdout.splitlines()[-1])


def test_the_demo_indexes_every_topic_and_ends_in_one_root(
    demo_output: tuple[str, dict[str, list[int]]],
) -> None:
    figures = demo_output[1]
    assert figures["documents"] == len(topics)
    assert figures["layers"][-1] == 1
    assert all(below > above for below, above in zip(figures["layers"], figures["layers"][1:], strict=False))


def test_each_context_of_the_demo_answers_its_question(demo_output: tuple[str, dict[str, list[int]]]) -> None:
    # Sentences of the language reference without which no answer is complete, by question.
    needed = (
        ["If the return value was true, the exception is suppressed"],
        [
            'Functions defined with "async def" syntax are always coroutine functions',
            "cause that definition to create a generator function",
        ],
        ["always override a redefinition in an instance dictionary"],
    )
    _, *answers = demo_output[0].split("query_lca_context: ")
    for sentences, answer in zip(needed, answers, strict=True):
        context = " ".join(answer.split(" tokens of ")[0].split())
        for sentence in sentences:
            assert sentence in context


def test_each_context_keeps_to_its_budget(demo_output: tuple[str, dict[str, list[int]]]) -> None:
    assert len(demo_output[1]["context_tokens"]) == 3
    assert all(0 < tokens <= 1200 for tokens in demo_output[1]["context_tokens"])


@pytest.mark.parametrize("client", ["claude-desktop", "claude-code", "vscode", "cursor"])
def test_the_demo_ends_with_the_command_for_each_client(
    demo_output: tuple[str, dict[str, list[int]]], client: str
) -> None:
    assert f"leanrag install {client}" in demo_output[0]
