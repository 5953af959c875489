"""``leanrag eval coverage`` on a set that can be counted by hand, and against the independent program."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest
from leanrag_tests_jobs import open_engine
from typer.testing import CliRunner

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.evaluation.replies.reply_set import NeededFact, ReplyQuestion
from leanrag_engine.evaluation.replies.run import ReplyResult, figures_of
from leanrag_engine.retrieval.request import Query
from leanrag_mcp.cli.evaluate.commands import app

TEA = "Darjeeling tea grows in West Bengal. It is picked in spring."
GLASS = "Murano is known for its glass. Glass is made of sand."


@pytest.fixture
def small_set(tmp_path: Path) -> Path:
    """Two documents that any reply of 1,000 tokens holds whole. Of the five facts they state four."""
    folder = tmp_path / "small"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "tea.md").write_text(TEA)
    (folder / "docs" / "glass.md").write_text(GLASS)
    facts = [["in West Bengal", "in spring"], ["made of\\s+sand", "known for its glass", "blown by hand"]]
    questions = [
        {"id": f"q{number}", "question": question, "facts": [{"any": [fact]} for fact in needed]}
        for number, (question, needed) in enumerate(
            zip(
                ["Where does Darjeeling tea grow and when is it picked?", "What of Murano's glass?"],
                facts,
                strict=True,
            )
        )
    ]
    unanswerable = {"id": "none", "question": "Who sells it?", "facts": []}
    (folder / "questions.json").write_text(json.dumps({"questions": [*questions, unanswerable]}))
    return folder


def test_the_command_counts_as_by_hand(small_set: Path) -> None:
    options = ["--budgets", "1000", "--json", "--misses"]
    ran = CliRunner().invoke(app, ["coverage", str(small_set), *options])
    assert ran.exit_code == 0, ran.stderr
    rows = json.loads(ran.stdout.splitlines()[-1])["sets"]["small"]
    # q0 has 2 of 2 facts, q1 has 2 of 3: the mean of 100 and 66.67, one of two with all of theirs.
    assert [(row["way"], row["facts"], row["all"], row["questions"]) for row in rows] == [
        ("lca", 83.33, 50.0, 2),
        ("naive", 83.33, 50.0, 2),
        ("flat", 83.33, 50.0, 2),
    ]
    assert [row.get("difference") for row in rows] == [None, 0.0, 0.0]
    flat = TiktokenTokenizer().count(f"{TEA}\n\n{GLASS}")
    assert rows[2]["tokens"] == flat
    assert "1 questions need no fact" in ran.stderr
    assert "fact 2 of q1" in ran.stderr
    assert "flat at 1,000: q1 has 2 of 3 facts" in ran.stderr


def test_the_table_fits_into_80_columns(small_set: Path) -> None:
    data = ["--data-dir", str(small_set.parent / "kept"), "--limit", "1"]
    ran = CliRunner().invoke(app, ["coverage", str(small_set), str(small_set), *data])
    assert ran.exit_code == 0, ran.stderr
    assert "all sets: 2 questions" in ran.stdout
    lines = ran.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "way" in next(line for line in lines if "minus lca [95 %]" in line)
    assert sum("flat" in line for line in lines) == 9


def test_differences_are_paired_with_the_first_way() -> None:
    def result(way: str, *found: bool) -> ReplyResult:
        question = ReplyQuestion("q", "?", (NeededFact(()),) * len(found))
        return ReplyResult(question, way, 500, found, 400)

    results = [
        result("lca", True, True),
        result("flat", True, False),
        result("lca", True, False),
        result("flat", False, False),
    ]
    lca, flat = figures_of(results)
    assert (lca.facts, lca.all_facts, lca.against) == (75.0, 50.0, None)
    assert (flat.facts, flat.all_facts) == (25.0, 0.0)
    assert flat.against
    assert (flat.against.difference, flat.against.low, flat.against.high) == (-50.0, -50.0, -50.0)


def test_the_tokens_in_which_the_first_way_states_as_many_facts_lie_between_its_budgets() -> None:
    def result(way: str, budget: int, found: int) -> ReplyResult:
        question = ReplyQuestion("q", "?", (NeededFact(()),) * 10)
        stated = tuple(at < found for at in range(10))
        return ReplyResult(question, way, budget, stated, budget - 100)

    pairs = [
        ("lca", 1000, 5),
        ("flat", 1000, 2),
        ("lca", 2000, 8),
        ("flat", 2000, 6),
        ("lca", 4000, 9),
        ("flat", 4000, 10),
    ]
    figures = figures_of([result(*each) for each in pairs])
    needs = {each.budget: each.first_needs for each in figures if each.way == "flat"}
    # A fifth of 10 is two fifths of the way to the half at 900 tokens; 6 is a third of the way from 5 to 8.
    assert needs == {1000: pytest.approx(360), 2000: pytest.approx(900 + 1000 / 3), 4000: None}
    assert [each.first_needs for each in figures if each.way == "lca"] == [None] * 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--compare", "magic"), "no 'magic' to compare"),
        (("--budgets", "10"), "cannot be 10. Give a whole number"),
        (("--budgets", "many"), "Budgets cannot be 'many'"),
    ],
)
def test_bad_options_are_refused_before_any_work(
    arguments: tuple[str, ...], said: str, small_set: Path
) -> None:
    ran = CliRunner().invoke(app, ["coverage", str(small_set), *arguments])
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert said in ran.stderr


def test_documents_that_cannot_be_read_are_named(small_set: Path) -> None:
    for path in (small_set / "docs").iterdir():
        path.unlink()
    (small_set / "docs" / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    ran = CliRunner().invoke(app, ["coverage", str(small_set)])
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "broken.pdf" in ran.stderr


def test_a_book_gets_the_figure_of_the_independent_program(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = shared_data.parent / "tools"
    if not (tools / "reply_coverage.py").is_file():
        pytest.skip(f"needs reply_coverage.py in {tools}")
    monkeypatch.setattr(sys, "path", [str(tools), *sys.path])
    program: Any = import_module("reply_coverage")
    stated: Any = import_module("loose").stated
    folder = shared_data / "reply_sets" / "christmas_carol"
    options = ["--compare", "naive", "--budgets", "1000", "--json", "--data-dir", str(tmp_path)]
    ran = CliRunner().invoke(app, ["coverage", str(folder), *options])
    assert ran.exit_code == 0, ran.stderr
    (row,) = json.loads(ran.stdout.splitlines()[-1])["sets"]["christmas_carol"]
    asked = [
        each for each in json.loads((folder / "questions.json").read_text())["questions"] if each["facts"]
    ]

    async def share_of_each() -> list[float]:
        shares = []
        async with open_engine(tmp_path) as engine:
            (collection,) = await engine.collections()
            for each in asked:
                query = Query(each["question"], mode="naive", token_budget=1000)
                text = (await engine.query(query, collection=collection.name)).context.text
                read = program.COUNT.decode(program.encoded(text)[:1000])
                shares.append(program.share({"hits": [stated(read, fact) for fact in each["facts"]]}))
        return shares

    shares = anyio.run(share_of_each)
    # The program counts tokens by another vocabulary, which may cut a reply a few words earlier.
    assert row["facts"] == pytest.approx(sum(shares) / len(shares), abs=1.5)
    assert row["questions"] == len(asked)
