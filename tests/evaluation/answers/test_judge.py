"""Judging answers: the real engine, the real litellm, and a scripted service on loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leanrag_engine.core.config import Settings, load_settings
from leanrag_engine.core.errors import InvalidInput, LeanRAGError, ModelUnavailable, NotReady, ReplyUnusable
from leanrag_engine.evaluation.answers.figures import JudgedQuestion
from leanrag_engine.evaluation.answers.judge import (
    FAILURES,
    Judgement,
    JudgingPlan,
    first_alike,
    judge_set,
    read_questions,
    strategies,
)
from leanrag_engine.evaluation.answers.rubric import MEASURES
from leanrag_engine.evaluation.datasets import CorpusPassage, Question, QuestionSet
from leanrag_engine.retrieval.request import DEFAULT_RELEVANCE

pytestmark = [
    pytest.mark.anyio,
    # litellm prepares each call in a thread; one that is cancelled meanwhile leaves a coroutine that is never awaited.
    pytest.mark.filterwarnings("ignore:coroutine .*acompletion' was never awaited:RuntimeWarning"),
]

TOWERS = QuestionSet(
    "towers",
    (
        CorpusPassage(
            "Skerryvore",
            "Skerryvore is a lighthouse off Tiree. Alan Stevenson designed it. It was lit in 1844.",
        ),
        CorpusPassage(
            "Alan Stevenson", "Alan Stevenson was the son of Robert Stevenson. He worked in Edinburgh."
        ),
        CorpusPassage("Robert Stevenson", "Robert Stevenson built the Bell Rock lighthouse off Arbroath."),
        CorpusPassage("Bell Rock", "The Bell Rock was lit in 1811. John Rennie advised on the Bell Rock."),
    ),
    (
        Question("q1", "When was the lighthouse of Alan Stevenson lit?", ("1844",)),
        Question("q2", "What did the father of Alan Stevenson build?", ("Bell Rock",)),
    ),
)

# Where the walk is trusted the hierarchy leads to this passage; plain search does not show it for either question.
ONLY_LCA = "John Rennie advised"

ANSWER, GRADE, COMPARE = "Answer a question", "You grade the answer", "You compare two answers"


def verdict(key: str, value: Any) -> str:
    return json.dumps({measure: {"reason": "because", key: value} for measure in MEASURES})


def usual(request: Any) -> str:
    """Every answer cites, every grade is 7, the first side always wins."""
    if GRADE in request.prompt:
        return verdict("score", 7)
    if COMPARE in request.prompt:
        return verdict("winner", 1)
    return "It was lit in 1844 [d1:c1], some say [d99:c1]."


def kinds(server: Any) -> dict[str, int]:
    return {
        kind: sum(kind in request.body["messages"][0]["content"] for request in server.requests)
        for kind in (ANSWER, GRADE, COMPARE)
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by the first test, used again by the others."""
    return tmp_path_factory.mktemp("towers")


@pytest.fixture
def settings(folder: Path, chat_server: Any, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    chat_server.follows(usual)
    return load_settings(data_dir=folder, llm_model="openai/tiny", llm_api_base=chat_server.url)


Judge = Callable[..., Awaitable[Judgement]]


@pytest.fixture
def judge(settings: Settings) -> Judge:
    async def run_judge(
        compare: str = "naive", *, plan: JudgingPlan | None = None, **options: Any
    ) -> Judgement:
        return await judge_set(settings, TOWERS, plan or plan_of(compare, **options), lambda _: None)

    return run_judge


def plan_of(compare: str = "naive", **options: Any) -> JudgingPlan:
    ways = strategies(compare.split(","))
    trusting = replace(DEFAULT_RELEVANCE, graph_from=-1.0, graph_full=0.0)
    ways = [replace(each, query=replace(each.query, relevance_options=trusting)) for each in ways]
    return JudgingPlan(TOWERS.questions, ways, **{"votes": 3, **options})


async def test_every_way_is_answered_graded_and_compared_as_planned(chat_server: Any, judge: Judge) -> None:
    found = await judge("naive", votes=5)
    plan = found.plan
    assert kinds(chat_server) == {ANSWER: plan.answers, GRADE: plan.scores, COMPARE: plan.comparisons}
    assert (plan.answers, plan.scores, plan.comparisons) == (4, 20, 20)
    assert found.answering.calls + found.judging.calls == plan.calls == chat_server.calls
    assert found.answering.prompt_tokens == 100 * plan.answers
    assert not found.losses
    for grade in found.grades["lca"].values():
        assert (grade.mean, grade.spread, grade.votes) == (7, 0, 10)


async def test_a_judge_that_always_prefers_the_first_side_decides_nothing(judge: Judge) -> None:
    for each in (await judge()).wins["naive"].values():
        assert (each.share, each.flips, each.first) == (50, 100, 100)


async def test_a_judge_that_knows_what_it_likes_is_heard_whatever_the_order(
    chat_server: Any, judge: Judge
) -> None:
    def script(request: Any) -> str:
        if ANSWER in request.prompt:
            return "short" if ONLY_LCA in request.prompt else "naive and long"
        first = request.prompt.split("Answer 1:")[-1].split("Answer 2:")[0]
        return (
            verdict("winner", 1 if "short" in first else 2) if COMPARE in request.prompt else usual(request)
        )

    chat_server.follows(script)
    for each in (await judge()).wins["naive"].values():
        assert (each.share, each.flips, each.first) == (100, 0, 50)


async def test_scores_follow_the_votes(chat_server: Any, judge: Judge) -> None:
    chat_server.follows(
        lambda request: (
            verdict("score", 6 + request.body["seed"]) if GRADE in request.prompt else usual(request)
        )
    )
    grade = (await judge()).grades["lca"]["overall"]
    assert (grade.mean, grade.spread) == (7, 1)  # votes 6, 7, 8 on every question


async def test_every_answer_is_written_from_its_own_context(chat_server: Any, judge: Judge) -> None:
    found = await judge("naive,without-relations,without-chunks")
    prompts = [request.prompt for request in chat_server.requests if ANSWER in request.prompt]
    assert found.names == ("lca", "naive", "without-relations", "without-chunks")
    titles = [f"\n### {each.title}\n" for each in TOWERS.passages]
    without = [prompt for prompt in prompts if not any(title in prompt for title in titles)]
    assert len(without) == 2  # without-chunks, for two questions
    assert all(re.search(r"\[d[1-4]:c1\] ?\w", prompt) or prompt in without for prompt in prompts)
    assert all(re.search(r"\[d[1-4]:c1\]", prompt) for prompt in without)


async def test_citations_are_checked_against_the_context(judge: Judge) -> None:
    found = (await judge()).overviews["lca"]
    assert (found.cited, found.unfounded, found.found) == (100, 50, 50)


async def test_equal_contexts_are_answered_and_graded_once(chat_server: Any, judge: Judge) -> None:
    (lca,) = strategies([])
    twins = JudgingPlan(TOWERS.questions, (lca, replace(lca, name="twin")), votes=3)
    found = await judge(plan=twins)
    assert kinds(chat_server) == {ANSWER: 2, GRADE: 6, COMPARE: 0}
    assert "twin" not in found.wins
    assert found.equal == {"twin": len(TOWERS.questions)}
    assert found.graph == "heuristic graph"
    assert found.grades["twin"] == found.grades["lca"]


async def test_when_all_contexts_are_the_same_no_verdict_is_made_up(judge: Judge) -> None:
    (lca,) = strategies([])
    with pytest.raises(InvalidInput, match="nothing to compare"):
        await judge(plan=JudgingPlan(TOWERS.questions, (lca, replace(lca, name="twin")), grades=False))


def test_equal_texts_share_the_first_name() -> None:
    assert first_alike({"a": "x", "b": "y", "c": "x"}) == {"a": "a", "b": "b", "c": "a"}


# --- bad replies ---------------------------------------------------------------------------


async def test_a_malformed_reply_is_requested_once_more_with_its_error(
    chat_server: Any, judge: Judge
) -> None:
    def script(request: Any) -> str:
        first = len(request.body["messages"]) == 1
        return "I liked it, 8/10!" if GRADE in request.prompt and first else usual(request)

    chat_server.follows(script)
    found = await judge(votes=2)
    second = [each for each in chat_server.requests if len(each.body["messages"]) > 1]
    assert len(second) == found.plan.scores
    assert second[0].body["messages"][1] == {"role": "assistant", "content": "I liked it, 8/10!"}
    assert "holds no JSON object" in second[0].last
    assert found.grades["lca"]["overall"].votes == 4
    assert not found.losses


async def test_a_vote_that_fails_twice_is_dropped_counted_and_never_invented(
    chat_server: Any, judge: Judge
) -> None:
    def script(request: Any) -> str:
        bad = GRADE in request.prompt and request.body["seed"] == 1
        return verdict("score", 12) if bad else usual(request)

    chat_server.follows(script)
    found = await judge()
    assert found.count_lost("score") == 4  # one vote of three, on two questions, for two ways
    assert {each.reason for each in found.losses} == {
        'The score of "comprehensiveness" is "12"; expected a number from 1 to 10.'
    }
    assert {grade.votes for grade in found.grades["lca"].values()} == {4}
    assert {grade.mean for grade in found.grades["lca"].values()} == {7}
    assert found.judging.calls == found.plan.scores + found.plan.comparisons + 4


@pytest.mark.parametrize("kind", ["cut_off", "refused", "empty"])
async def test_a_reply_that_is_not_whole_costs_its_vote_alone(
    chat_server: Any, judge: Judge, kind: str
) -> None:
    bad = {
        "cut_off": chat_server.cut_off(verdict("score", 9)[:60]),
        "refused": chat_server.refused(),
        "empty": "",
    }[kind]

    def script(request: Any) -> Any:
        return bad if GRADE in request.prompt and request.body["seed"] == 0 else usual(request)

    chat_server.follows(script)
    found = await judge(votes=2)
    assert found.count_lost("score") == 4
    assert found.grades["naive"]["overall"].votes == 2
    room = [
        each.body["max_tokens"]
        for each in chat_server.requests
        if GRADE in each.prompt and each.body["seed"] == 0
    ]
    assert max(room) == (2 if kind == "cut_off" else 1) * min(room)


async def test_a_lost_answer_is_not_judged_and_not_compared(chat_server: Any, judge: Judge) -> None:
    def script(request: Any) -> str:
        return "" if ANSWER in request.prompt and ONLY_LCA not in request.prompt else usual(request)

    chat_server.follows(script)
    found = await judge()
    assert found.count_lost("answer") == 2
    assert set(found.grades) == {"lca"}
    assert found.wins == {}
    assert found.overviews["naive"].answers == 0
    assert kinds(chat_server)[COMPARE] == 0


async def test_when_all_replies_are_bad_it_says_so(chat_server: Any, judge: Judge) -> None:
    chat_server.follows(lambda request: usual(request) if ANSWER in request.prompt else "Lovely.")
    with pytest.raises(ReplyUnusable, match=r"No verdict was received.*Lovely"):
        await judge(votes=1)


async def test_a_request_that_the_service_rejects_costs_its_vote_alone(
    chat_server: Any, judge: Judge
) -> None:
    def script(request: Any) -> Any:
        filtered = COMPARE in request.prompt and request.body["seed"] == 0
        return chat_server.failed(400, "content policy") if filtered else usual(request)

    chat_server.follows(script)
    found = await judge()
    assert found.count_lost("comparison") == 4
    assert {each.votes for each in found.wins["naive"].values()} == {4}


async def test_a_refused_key_ends_it_at_once(chat_server: Any, judge: Judge) -> None:
    chat_server.follows(lambda _: chat_server.failed(401))
    with pytest.raises(InvalidInput, match="refused the key"):
        await judge()
    assert chat_server.calls <= 8  # those that were under way


async def test_a_service_that_is_gone_ends_it_before_all_is_tried(
    chat_server: Any, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leanrag_engine.adapters.chat import model as litellm_model  # noqa: PLC0415 - its pauses are cut short

    monkeypatch.setattr(litellm_model, "pause", lambda _: 0)
    chat_server.follows(
        lambda request: usual(request) if ANSWER in request.prompt else chat_server.failed(503)
    )
    with pytest.raises(ModelUnavailable, match="does not answer"):
        await judge(votes=20)
    # Those that failed, and those that were on their way meanwhile.
    assert kinds(chat_server)[GRADE] <= (FAILURES + 16) * litellm_model._ATTEMPTS < 200


# --- plans ---------------------------------------------------------------------------------


def test_each_strategy_is_listed_once_and_lca_first() -> None:
    found = strategies(["paper", " naive", "lca", "naive", "spread", "without-relations", "without-chunks"])
    assert [each.name for each in found] == ["lca", "paper", "naive", "without-relations", "without-chunks"]
    queries = {each.name: each.query for each in found}
    assert queries["paper"].ranking == "paper"
    assert queries["naive"].mode == "naive"
    assert not queries["without-relations"].include_relations
    assert not queries["without-chunks"].include_sources


def test_the_error_for_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"'magic'.*naive.*paper.*without-chunks"):
        strategies(["magic"])


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (plan_of(votes=0), "0 votes"),
        (plan_of(budget=5), "token_budget"),
        (JudgingPlan((), strategies([])), "no question"),
        (JudgingPlan((Question("q", "why " * 5000),), strategies([])), "20,000|19,999"),
        (plan_of("", grades=False), "nothing to judge"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(plan: JudgingPlan, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        plan.check()


async def test_scores_and_pairs_can_each_be_left_out(chat_server: Any, judge: Judge) -> None:
    found = await judge(duels=False)
    assert kinds(chat_server)[COMPARE] == 0
    assert (found.wins, set(found.grades)) == ({}, {"lca", "naive"})
    found = await judge(grades=False)
    assert found.grades == {}
    assert set(found.wins) == {"naive"}


async def test_the_forecast_of_tokens_is_of_the_right_size(chat_server: Any, judge: Judge) -> None:
    from leanrag_engine.adapters.tokenizer import TiktokenTokenizer  # noqa: PLC0415 - the oracle

    chat_server.follows(lambda request: " word" * 400 if ANSWER in request.prompt else usual(request))
    found = await judge(votes=1)
    sent = sum(TiktokenTokenizer().count_many([request.prompt for request in chat_server.requests]))
    contexts = sum(tokens for each in found.results for tokens in each.tokens.values())
    forecast = found.plan.input_tokens - found.plan.answers * found.plan.budget + contexts
    assert abs(forecast - sent) < 0.2 * sent


async def test_progress_ends_at_the_planned_number_of_calls(settings: Settings, chat_server: Any) -> None:
    seen: list[tuple[int, int]] = []
    plan = plan_of("naive", votes=1)
    chat_server.follows(
        lambda request: "" if ANSWER in request.prompt and ONLY_LCA not in request.prompt else usual(request)
    )
    await judge_set(
        settings,
        TOWERS,
        plan,
        lambda step: seen.append((step.done, step.total)) if step.stage == "judge" else None,
    )
    assert seen[-1] == (plan.calls, plan.calls)
    assert seen == sorted(seen)


async def test_each_question_is_noted_when_it_is_done(settings: Settings) -> None:
    notes: list[JudgedQuestion] = []
    found = await judge_set(settings, TOWERS, plan_of(), lambda _: None, note=notes.append)
    assert sorted(each.question.id for each in notes) == ["q1", "q2"]
    assert [each.question.id for each in found.results] == ["q1", "q2"]


# --- models, questions, collections --------------------------------------------------------


async def test_two_models_share_the_work_and_the_address_of_one_provider(
    chat_server: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    chat_server.follows(usual)
    settings = load_settings(
        data_dir=folder, llm_model="openai/tiny", llm_api_base=chat_server.url, judge_model="openai/wise"
    )
    await judge_set(settings, TOWERS, plan_of(votes=1), lambda _: None)
    for request in chat_server.requests:
        assert request.body["model"] == ("tiny" if ANSWER in request.prompt else "wise")


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ({"llm_model": ""}, "No model is set"),
        ({"llm_model": "nonsense/x"}, "nonsense/x"),
        ({"judge_model": "anthropic/claude-sonnet-4-5"}, "ANTHROPIC_API_KEY"),
    ],
)
async def test_a_model_that_cannot_be_called_is_reported_before_anything_is_built(
    settings: Settings, tmp_path: Path, models: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    changed = settings.model_copy(update={"data_dir": tmp_path / "none", **models})
    with pytest.raises(InvalidInput, match=said):
        await judge_set(changed, TOWERS, plan_of(), lambda _: None)
    assert not (tmp_path / "none").exists()


async def test_the_users_own_questions_are_asked_of_an_existing_collection(
    settings: Settings, tmp_path: Path, judge: Judge
) -> None:
    await judge(votes=1)  # so that there is a collection
    from leanrag_engine.engine import LeanRAG  # noqa: PLC0415 - heavy

    async with await LeanRAG.open(settings) as engine:
        (name,) = (await engine.status()).collections
    asked = tmp_path / "asked.txt"
    asked.write_text("# about towers\n\nWho designed Skerryvore?\n  Who advised on the Bell Rock?  \n")
    questions = read_questions(asked)
    assert [each.text for each in questions] == ["Who designed Skerryvore?", "Who advised on the Bell Rock?"]
    reading = settings.model_copy(update={"collection": name, "read_only": True})
    plan = JudgingPlan(questions, strategies(["naive"]), votes=1)
    found = await judge_set(reading, None, plan, lambda _: None)
    assert found.overviews["lca"].answers == 2
    assert found.overviews["lca"].found is None


async def test_a_collection_that_was_never_built_is_refused(settings: Settings, tmp_path: Path) -> None:
    empty = settings.model_copy(update={"data_dir": tmp_path / "empty"})
    with pytest.raises((NotReady, LeanRAGError)):
        await judge_set(empty, None, plan_of(), lambda _: None)


@pytest.mark.parametrize(
    ("text", "said"),
    [(b"", "holds no question"), (b"# only\n\n", "holds no question"), (b"\xff\xfe", "not UTF-8")],
)
def test_a_file_without_questions_is_refused(tmp_path: Path, text: bytes, said: str) -> None:
    (tmp_path / "asked.txt").write_bytes(text)
    with pytest.raises(InvalidInput, match=said):
        read_questions(tmp_path / "asked.txt")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_questions(tmp_path / "none.txt")


async def test_ultradomain_s_lines_are_judged_too(
    settings: Settings, tmp_path: Path, chat_server: Any
) -> None:
    from leanrag_engine.evaluation.datasets import read_set  # noqa: PLC0415 - only here

    rows = [
        {
            "input": question.text,
            "context": TOWERS.passages[0].text,
            "answers": ["1844"],
            "_id": question.id,
            "dataset": "mix",
        }
        for question in TOWERS.questions
    ]
    path = tmp_path / "mix.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    held = read_set(path)
    plan = JudgingPlan(held.questions, strategies([]), votes=1)
    found = await judge_set(
        settings.model_copy(update={"data_dir": tmp_path / "d"}), held, plan, lambda _: None
    )
    assert found.overviews["lca"].found == 100
    assert re.search(r"Skerryvore", chat_server.requests[0].prompt)
