"""``leanrag eval answers`` as a shell sees it, with a scripted service in the place of the models."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from leanrag_tests_forks import run
from typer.testing import CliRunner

from leanrag_engine.pipeline.status import Status
from leanrag_mcp.cli.main import app

MEASURES = ("comprehensiveness", "diversity", "empowerment", "overall")

SET = {
    "passages": [
        {"title": "Skerryvore", "text": "Skerryvore is a lighthouse off Tiree. Alan Stevenson designed it."},
        {"title": "Bell Rock", "text": "Robert Stevenson built the Bell Rock lighthouse off Arbroath."},
    ],
    "queries": [
        {"id": "q1", "question": "Who designed Skerryvore?", "answer": "Alan Stevenson", "gold": [0]},
        {"id": "q2", "question": "Who built the Bell Rock?", "answer": "Robert Stevenson", "gold": [1]},
    ],
}


@dataclass(frozen=True)
class Ran:
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Ran]


def usual(request: Any) -> str:
    if "You grade the answer" in request.prompt:
        return verdicts("score", 8)
    if "You compare two answers" in request.prompt:
        return verdicts("winner", 1)
    return "Alan Stevenson designed it [d1:c1]."


def verdicts(key: str, value: int) -> str:
    return json.dumps({measure: {"reason": "well said", key: value} for measure in MEASURES})


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the scratch collection is built once and used again."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def leanrag(chat_server: Any, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the command in this process: its libraries take seconds to load."""
    chat_server.follows(usual)
    (tmp_path / "set.json").write_text(json.dumps(SET))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)

    def run(*arguments: str, folder: Path = data_folder) -> Ran:
        options = ("--answerer", "openai/tiny", "--api-base", chat_server.url, "--data-dir", str(folder))
        ran = CliRunner().invoke(app, ["eval", "answers", *arguments, *options])
        assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
        return Ran(ran.exit_code, ran.stdout, ran.stderr)

    return run


def test_the_figures_are_one_json_object_on_the_last_line(leanrag: Run, chat_server: Any) -> None:
    ran = leanrag("set.json", "--compare", "naive", "--votes", "2", "--json")
    assert ran.returncode == 0, ran.stderr
    (line,) = ran.stdout.splitlines()
    found = json.loads(line)
    assert (found["questions"], found["votes"], found["budget"]) == (2, 2, 4000)
    assert found["scores"]["lca"]["overall"] == {"mean": 8, "spread": 0, "votes": 4}
    assert list(found["scores"]["naive"]) == list(MEASURES)
    assert found["pairs"]["of"] == "lca"
    against = found["pairs"]["against"]["naive"]["overall"]
    assert (against["share"], against["flips"], against["first"]) == (50, 100, 100)
    assert found["overview"]["lca"]["found"] == 50
    assert found["lost"] == {"answer": 0, "score": 0, "comparison": 0}
    used = found["usage"]
    assert used["answering"]["calls"] + used["judging"]["calls"] == chat_server.calls
    assert chat_server.calls == found["forecast"]["calls"] == 4 + 8 + 8


def test_the_first_line_names_the_graph_and_its_model_as_it_is_written(
    leanrag: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = leanrag("set.json", "--votes", "1")
    assert "Heuristic graph: 2 questions" in ran.stdout
    monkeypatch.setattr(Status, "graph", "graph written by openai/GPT-X")
    ran = leanrag("set.json", "--votes", "1")
    assert "Graph written by openai/GPT-X: 2 questions" in ran.stdout


def test_a_model_may_use_what_it_knows_or_has_to_decline(leanrag: Run, chat_server: Any) -> None:
    options = ("set.json", "--votes", "1", "--json")

    def ask(request: Any) -> Any:
        if "use what you know" in request.prompt:
            return "It is Paris."
        if "INSUFFICIENT" in request.prompt:
            return "INSUFFICIENT. The evidence does not tell."
        return usual(request)

    chat_server.follows(ask)
    strict, free = (
        json.loads(leanrag(*options, mode).stdout.splitlines()[-1]) for mode in ("--reject", "--open")
    )
    assert (strict["mode"], free["mode"]) == ("reject", "open")
    assert strict["overview"]["lca"]["declined"] == 100
    assert strict["overview"]["lca"]["found"] == 0
    assert free["overview"]["lca"]["declined"] == 0


def test_a_person_sees_tables_that_fit_their_terminal(leanrag: Run) -> None:
    ran = leanrag("set.json", "--compare", "naive,paper,without-relations,without-chunks", "--votes", "2")
    assert ran.returncode == 0, ran.stderr
    assert max(map(len, ran.stdout.splitlines())) <= 80
    for said in ("8.00±0.00", "50.0", "100 %", "without-relations", "without-chunks", "openai/tiny"):
        assert said in ran.stdout
    assert "…" not in ran.stdout
    assert "2 questions, each by lca, naive, paper, without-relations, without-chunks" in ran.stderr


def test_a_dry_run_counts_and_calls_no_model(leanrag: Run, chat_server: Any) -> None:
    ran = leanrag("set.json", "--compare", "naive", "--dry-run", "--json")
    assert ran.returncode == 0, ran.stderr
    forecast = json.loads(ran.stdout)["forecast"]
    assert (forecast["answers"], forecast["scores"], forecast["comparisons"]) == (4, 20, 20)
    assert forecast["calls"] == 44
    assert chat_server.calls == 0


def test_every_reason_is_written_as_soon_as_it_arrives(leanrag: Run, tmp_path: Path) -> None:
    leanrag("set.json", "--compare", "naive", "--votes", "1", "--details", "all.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert sorted(row["question"]["id"] for row in rows) == ["q1", "q2"]
    assert rows[0]["answers"]["lca"]["text"].startswith("Alan Stevenson")
    assert rows[0]["scores"]["lca"][0]["overall"] == {"value": 8, "reason": "well said"}
    assert rows[0]["duels"]["naive"][0]["ahead"]["overall"] == {"winner": 1, "reason": "well said"}


def test_lost_votes_are_reported_with_their_reasons(leanrag: Run, chat_server: Any) -> None:
    chat_server.follows(
        lambda request: (
            "no idea"
            if "You grade the answer" in request.prompt and request.body["seed"] == 0
            else usual(request)
        )
    )
    ran = leanrag("set.json", "--votes", "2", "--json")
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["lost"]["score"] == 2
    assert "Lost: 2 scores" in ran.stderr
    assert '"no idea"' in ran.stderr


def test_when_no_verdict_can_be_read_it_fails(leanrag: Run, chat_server: Any) -> None:
    chat_server.says("no idea")
    ran = leanrag("set.json", "--votes", "1", "--json")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "No verdict was received" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.json",), "none.json"),
        (("set.json", "--compare", "magic"), "'magic'"),
        (("set.json", "--budget", "3"), "from 100 to 32,000"),
        (("set.json", "--no-scores"), "nothing to judge"),
        (("set.json", "--judge", "nonsense/x"), "nonsense/x"),
        (("set.json", "--collection", "missing"), "`leanrag setup FOLDER` adds them"),
        (("set.json", "--details", "no/such/folder.jsonl"), "no/such/folder.jsonl"),
    ],
)
def test_invalid_options_are_an_error_before_any_call(
    leanrag: Run, chat_server: Any, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    ran = leanrag(*arguments, folder=tmp_path / "data")
    assert ran.returncode == 1
    assert said in ran.stderr.replace("\n", " ")
    assert chat_server.calls == 0


def test_a_missing_key_is_named(leanrag: Run) -> None:
    missing = leanrag("set.json", "--judge", "anthropic/claude-sonnet-4-5")
    assert missing.returncode == 1
    assert "ANTHROPIC_API_KEY" in missing.stderr


def test_a_key_is_never_shown_even_if_the_service_repeats_it(
    chat_server: Any, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-planted-8f2c1d9e7b6a5f4e3d2c1b0a"
    chat_server.says(chat_server.failed(400, f"we saw {key}"))
    (tmp_path / "set.json").write_text(json.dumps(SET))
    monkeypatch.chdir(tmp_path)
    ran = run(
        *("eval", "answers", "set.json", "--limit", "1", "--answerer", "openai/tiny"),
        *("--api-base", chat_server.url, "--data-dir", data_folder),
        env={**os.environ, "OPENAI_API_KEY": key, "LITELLM_LOG": "DEBUG"},
    )
    assert chat_server.requests[0].headers["authorization"] == f"Bearer {key}"
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "we saw [OPENAI_API_KEY]" in ran.stderr
    assert key not in ran.stderr
