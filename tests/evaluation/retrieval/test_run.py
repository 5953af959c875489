"""A whole evaluation on a tiny set, through the real engine; and what its figures are made of."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leanrag_engine.core.errors import InvalidInput, LeanRAGError
from leanrag_engine.core.model import Chunk, Context, RankedChunk, Subgraph
from leanrag_engine.core.ports import Progress
from leanrag_engine.evaluation.datasets import CorpusPassage, Question, QuestionSet, read_set
from leanrag_engine.evaluation.retrieval.run import (
    QuestionResult,
    ask_all,
    evaluate,
    figures_of,
    parse_strategies,
    ranking_of,
    strategy,
)
from leanrag_engine.evaluation.scratch import (
    GivenGraph,
    ScratchCollection,
    document_id,
    open_scratch,
    scratch_settings,
)
from leanrag_engine.extraction.openie import Entry, OpenIE, Triple
from leanrag_engine.retrieval.index import BuildState
from leanrag_engine.retrieval.query import QueryResult
from leanrag_engine.retrieval.request import Query

pytestmark = pytest.mark.anyio

BUDGETS = (200, 4000)


def make_result(ranked: tuple[int, ...], gold: tuple[int, ...], kind: str, **more: Any) -> QuestionResult:
    question = Question("q", "?", gold=gold, type=kind)
    return QuestionResult(question, ranked, more["coverage"], more["tokens"], more["seconds"])


HAND = [
    make_result(
        (1, 2, 3, 4, 5, 6),
        (2, 6),
        "a",
        coverage={500: 0.5, 1000: 1.0},
        tokens={500: 400, 1000: 800},
        seconds=0.01,
    ),
    make_result(
        (9, 8), (7,), "b", coverage={500: 0.0, 1000: 0.0}, tokens={500: 300, 1000: 301}, seconds=0.03
    ),
]


async def test_figures_are_means_over_questions_under_the_agreed_keys() -> None:
    found = figures_of(HAND, build_s=12.345).as_json()
    assert found == {
        "recall@2": 25.0,
        "recall@5": 25.0,
        "recall@10": 50.0,
        "all@5": 0.0,
        "mrr": 0.25,
        "coverage": {"500": 25.0, "1000": 50.0},
        "tokens": {"500": 350.0, "1000": 550.5},
        "latency_ms_p50": 20.0,
        "latency_ms_p95": 29.0,
        "build_s": 12.35 if round(12.345, 2) == 12.35 else 12.34,
    }
    assert list(found) == [
        *("recall@2", "recall@5", "recall@10", "all@5", "mrr", "coverage", "tokens"),
        *("latency_ms_p50", "latency_ms_p95", "build_s"),
    ]


async def test_a_ranking_is_by_score_whatever_the_context_shows() -> None:
    def source(place: int, number: int, score: float) -> RankedChunk:
        return RankedChunk(Chunk(f"k{place}{number}", document_id(place), number, "x", 0, 1, 1), score)

    # The context cites passages 4 and 2; of equal scores the order stays; a passage counts once.
    sources = (source(4, 1, 0.2), source(2, 1, 0.9), source(7, 1, 0.5), source(2, 2, 0.5), source(1, 1, 0.5))
    nothing = Subgraph((), (), None, (), (), ())
    result = QueryResult(
        Query("?"), Context("", 0, truncated=False, cited=()), nothing, sources, (), BuildState.READY
    )
    assert ranking_of(result) == (2, 7, 1, 4)


async def test_strategies_are_named_after_modes_and_rankings() -> None:
    found = parse_strategies(["naive", " paper", "naive", ""])
    assert [(each.name, each.query.mode, each.query.ranking) for each in found] == [
        ("naive", "naive", "spread"),
        ("paper", "lca", "paper"),
    ]
    with pytest.raises(InvalidInput, match="'magic' to compare"):
        parse_strategies(["magic"])
    with pytest.raises(InvalidInput, match="nothing to compare"):
        parse_strategies([" "])
    with pytest.raises(InvalidInput, match="no ranking 'papr'"):
        strategy(ranking="papr")


# --- through the engine --------------------------------------------------------------------


async def test_a_tiny_set_is_answered_and_the_evidence_found(tiny_path: Path, tmp_path: Path) -> None:
    stages: dict[str, None] = {}
    found = await evaluate(
        scratch_settings(tmp_path / "data"),
        read_set(tiny_path),
        None,
        parse_strategies(["lca", "naive"]),
        BUDGETS,
        lambda step: stages.update({step.stage: None}),
    )
    assert {"ask lca", "ask naive"} <= set(stages)
    assert found.figures["lca"].coverage[4000] == 100.0
    assert found.figures["naive"].coverage[4000] == 100.0, "there is room for all that is near"
    for each in found.figures.values():
        assert each.questions == 3
        assert each.recall[10] == 100.0
        assert 0 < each.tokens[200] <= 200
        assert each.latency_ms_p50 > 0
    assert found.scratch.layers[-1] == 1
    assert (found.scratch.split, found.scratch.failed, found.scratch.reused) == (0, (), False)


async def test_the_ranking_does_not_depend_on_the_budgets(tiny_path: Path, tmp_path: Path) -> None:
    questions = read_set(tiny_path)
    async with open_scratch(scratch_settings(tmp_path), questions, None, lambda _: None) as held:
        ways = [strategy(ranking=ranking) for ranking in ("spread", "paper")]
        for way in ways:
            narrow = await ask_all(held, questions, way, (100,))
            wide = await ask_all(held, questions, way, (3000,))
            assert [each.ranked for each in narrow] == [each.ranked for each in wide]


async def test_the_time_of_embedding_is_no_part_of_the_latency(tiny_path: Path, tmp_path: Path) -> None:
    questions = read_set(tiny_path)
    async with open_scratch(scratch_settings(tmp_path), questions, None, lambda _: None) as held:
        assert held.watch.take() > 0, "the build was timed"
        slow = ScratchCollection(_Slow(held.engine, held), *list(_fields(held))[1:])  # type: ignore[arg-type]
        found = await ask_all(slow, questions, strategy(), (200,))
    assert all(each.seconds < 50 for each in found), "100 s of embedding were pretended"


class _Slow:
    """An engine whose every query says that its embedding took 100 s."""

    def __init__(self, engine: Any, held: ScratchCollection) -> None:
        self._engine, self._held = engine, held

    async def query(self, query: Query, *, collection: str) -> QueryResult:
        result: QueryResult = await self._engine.query(query, collection=collection)
        self._held.watch.seconds += 100
        return result


def _fields(held: ScratchCollection) -> list[Any]:
    return [getattr(held, name) for name in ScratchCollection.__dataclass_fields__]


async def test_a_scratch_collection_is_reused_and_another_graph_has_its_own(
    tiny_path: Path, tmp_path: Path
) -> None:
    settings, questions = scratch_settings(tmp_path / "data"), read_set(tiny_path)
    text = f"{questions.passages[3].title}\n{questions.passages[3].text}"
    graph = OpenIE(
        (Entry(text, ("Assam tea",), (Triple("Assam tea", "grows along", "Brahmaputra"),)),), {}, ()
    )
    given = GivenGraph.of(graph, questions)
    assert given.unmatched == 4
    seen = []
    for use in (None, None, given):
        async with open_scratch(settings, questions, use, lambda _: None) as held:
            methods = (await held.engine.status(held.collection)).extracts
            seen.append((held.reused, methods))
    assert seen == [
        (False, {"heuristic": 5}),
        (True, {"heuristic": 5}),
        (False, {"heuristic": 4, "imported": 1}),
    ]


async def test_a_passage_that_is_too_long_is_split_and_still_counts_as_one(tmp_path: Path) -> None:
    long = " ".join(f"Sentence number {number} tells of the tea of Assam." for number in range(1200))
    passages = (CorpusPassage("Assam", long), CorpusPassage("Glass", "Glass is made of sand in Murano."))
    questions = QuestionSet(
        "long", passages, (Question("q", "What tells of the tea of Assam?", (), "", (0,)),)
    )
    async with open_scratch(scratch_settings(tmp_path), questions, None, lambda _: None) as held:
        assert held.split == 1
        (found,) = await ask_all(held, questions, strategy("naive"), (4000,))
    assert found.ranked[0] == 0
    assert len(set(found.ranked)) == len(found.ranked)


async def test_invalid_questions_are_refused_before_any_work(tiny_path: Path, tmp_path: Path) -> None:
    questions, folder = read_set(tiny_path), tmp_path / "data"
    unasked = replace(questions, questions=(replace(questions.questions[0], text="x" * 10_001),))
    for bad, budgets, said in (
        (unasked, (500,), "Question 'q1' cannot be asked"),
        (questions, (5,), "token_budget"),
    ):
        with pytest.raises(InvalidInput, match=said):
            await evaluate(scratch_settings(folder), bad, None, [strategy()], budgets)
    with pytest.raises(InvalidInput, match="no question"):
        await evaluate(scratch_settings(folder), questions.first(0), None, [strategy()])
    assert not folder.exists()


async def test_progress_can_stop_the_work(tiny_path: Path, tmp_path: Path) -> None:
    def stop(step: Progress) -> None:
        if step.stage.startswith("ask"):
            raise LeanRAGError("stopped")

    with pytest.raises(LeanRAGError, match="stopped"):
        await evaluate(scratch_settings(tmp_path), read_set(tiny_path), None, [strategy()], BUDGETS, stop)


async def test_on_a_real_set_spreading_beats_plain_search(shared_data: Path, tmp_path: Path) -> None:
    held = json.loads((shared_data / "hotpot_train100.json").read_text(encoding="utf-8"))
    asked = held["queries"][:12]
    kept = sorted({place for each in asked for place in each["gold"]} | set(range(150)))
    moved = {place: number for number, place in enumerate(kept)}
    small = {
        "passages": [held["passages"][place] for place in kept],
        "queries": [{**each, "gold": [moved[place] for place in each["gold"]]} for each in asked],
    }
    path = tmp_path / "small.json"
    path.write_text(json.dumps(small), encoding="utf-8")
    found = await evaluate(
        scratch_settings(tmp_path / "data"), read_set(path), None, parse_strategies(["lca", "naive"]), (1000,)
    )
    lca, naive = found.figures["lca"], found.figures["naive"]
    assert lca.recall[5] >= 85
    assert lca.recall[10] >= naive.recall[10]
    assert lca.coverage[1000] >= naive.coverage[1000] - 5
