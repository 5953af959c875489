"""``leanrag eval`` as a shell sees it: one JSON line last on standard output, all else on standard error."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from leanrag_tests_forks import run
from typer.testing import CliRunner

from leanrag_mcp.cli.evaluate.commands import app

KEYS = [
    *("recall@2", "recall@5", "recall@10", "all@5", "mrr", "coverage", "tokens"),
    *("latency_ms_p50", "latency_ms_p95", "build_s"),
]


def leanrag(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run("eval", *arguments)


def test_json_ends_with_one_line_under_the_agreed_keys(tiny_path: Path, tmp_path: Path) -> None:
    graph = tmp_path / "openie.json"
    triples = [["Assam tea", "grows along", "the Brahmaputra"], ["Assam tea", "grows"]]
    graph.write_text(
        json.dumps(
            {
                "docs": [
                    {
                        "passage": "Assam tea\nAssam tea grows along the Brahmaputra. It is strong and dark.",
                        "extracted_entities": ["Assam tea"],
                        "extracted_triples": triples,
                    }
                ]
            }
        )
    )
    ran = leanrag("retrieval", str(tiny_path), "--graph", str(graph), "--json")
    assert ran.returncode == 0, ran.stderr
    *before, last = ran.stdout.splitlines()
    found = json.loads(last)
    assert before == []
    assert list(found) == KEYS
    assert list(found["coverage"]) == list(found["tokens"]) == ["500", "1000", "2000", "4000"]
    assert found["recall@10"] == 100.0
    assert "1 malformed triples were left out" in ran.stderr
    assert "4 passages have no entry" in ran.stderr


def test_ways_are_compared_side_by_side(tiny_path: Path, tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "kept"))
    options = ("--compare", "lca,naive,paper", "--budgets", "300,800")
    ran = CliRunner().invoke(app, ["retrieval", str(tiny_path), *options, *data])
    assert ran.exit_code == 0, ran.stderr
    for said in ("5 passages, 3 questions", "lca", "naive", "paper", "coverage at 800"):
        assert said in ran.stdout
    again = CliRunner().invoke(app, ["retrieval", str(tiny_path), "--limit", "1", *data])
    assert "The collection existed already" in again.stderr
    assert "5 passages, 1 questions" in again.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--mode", "magic"), "no mode 'magic'"),
        (("--ranking", "magic"), "no ranking 'magic'"),
        (("--compare", "naive,magic"), "no 'magic' to compare"),
        (("--compare", "naive,lca", "--json"), "--compare asks for several"),
        (("--budgets", "many"), "Budgets cannot be 'many'"),
        (("--budgets", "10"), "cannot be 10. Give a whole number"),
        (("--graph", "none.json"), "OpenIE file none.json cannot be read"),
    ],
    ids=lambda each: each[-1] if isinstance(each, tuple) else "",
)
def test_what_cannot_be_is_one_line_on_standard_error(
    arguments: tuple[str, ...], said: str, tiny_path: Path
) -> None:
    ran = CliRunner().invoke(app, ["retrieval", str(tiny_path), *arguments])
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_every_part_explains_itself() -> None:
    for command in ("retrieval", "coverage", "answers"):
        ran = CliRunner().invoke(app, [command, "--help"])
        assert ran.exit_code == 0
        assert "Example" in ran.stdout
