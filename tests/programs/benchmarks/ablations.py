"""What each part of retrieval is worth: recall with it and without it, on the same questions of both tuning sets.

Run it as ``python tests/programs/benchmarks/ablations.py [--embedder NAME] [--limit N] [--keep FOLDER]``. Each variant's recall
at 5 and at 10 stands beside the default's, with the 95 % interval of the paired bootstrap over questions (10,000
resamples, one seed). It prints tables and, last, one JSON line. A difference whose interval holds zero shows nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import anyio

from leanrag_engine.core.ports import Progress
from leanrag_engine.evaluation.datasets import QuestionSet, read_set
from leanrag_engine.evaluation.metrics import Interval, bootstrap_difference
from leanrag_engine.evaluation.retrieval.run import QuestionResult, Strategy, ask_all, figures_of
from leanrag_engine.evaluation.scratch import open_scratch, scratch_settings
from leanrag_engine.retrieval.request import DEFAULT_RANKING, Query

DATA = Path(__file__).parents[3].parent / "shared" / "data"
SETS = ("musique_train100.json", "hotpot_train100.json")
DEPTHS = (5, 10)
BUDGETS = (1000,)
"""Coverage at this budget is told beside: what a summary is worth shows in no ranking."""

BASE = Strategy("default", Query("?"))


def without(part: str, **options: float | bool) -> Strategy:
    """The default but for some of its ranking options."""
    return Strategy(f"without {part}", Query("?", ranking_options=replace(DEFAULT_RANKING, **options)))


# One line for each variant: a name, and a query that lacks one part of the default's.
VARIANTS = (
    Strategy("without spreading", Query("?", ranking="fused")),
    without("hierarchy edges", parent=0.0, inter_cluster=0.0),
    without("inter-cluster relations as edges", inter_cluster=0.0),
    without("relations as anchors", fact_mass=0.0),
    without("relations as edges", relation=0.0),
    without("keywords", keywords=False),
    Strategy("without summaries", Query("?", include_summaries=False)),
    Strategy("without relations in the context", Query("?", include_relations=False)),
    Strategy("without the graph (naive)", Query("?", mode="naive")),
    Strategy("the paper's ranking", Query("?", ranking="paper")),
)


def compared(one: Sequence[QuestionResult], other: Sequence[QuestionResult]) -> dict[str, Interval]:
    """How much higher recall and coverage of ``one`` are, in points."""
    found = {
        f"recall@{depth}": bootstrap_difference(
            [100 * each.recall(depth) for each in one], [100 * each.recall(depth) for each in other]
        )
        for depth in DEPTHS
    }
    for budget in BUDGETS:
        found[f"coverage@{budget}"] = bootstrap_difference(
            [100 * each.coverage[budget] for each in one], [100 * each.coverage[budget] for each in other]
        )
    return found


async def ablated(questions: QuestionSet, folder: Path, embedder: str | None) -> dict[str, Any]:
    """The default's figures, and each variant's with its differences from them."""
    async with open_scratch(scratch_settings(folder, embedder), questions, None, told) as held:
        base = await ask_all(held, questions, BASE, BUDGETS, told)
        found: dict[str, Any] = {BASE.name: figures_of(base, held.build_s).as_json()}
        show(f"\n{questions.name}, {len(base)} questions, {held.engine.settings.embedder}")
        show(row(BASE.name, found[BASE.name], {}))
        for way in VARIANTS:
            answered = await ask_all(held, questions, way, BUDGETS, told)
            figures, differences = figures_of(answered, held.build_s).as_json(), compared(answered, base)
            show(row(way.name, figures, differences))
            found[way.name] = {
                "figures": figures,
                "differences": {key: asdict(value) for key, value in differences.items()},
            }
    return found


def row(name: str, figures: dict[str, Any], differences: dict[str, Interval]) -> str:
    """Each figure, and behind it the difference from the default's with its bounds; * where zero lies outside."""
    values = {f"recall@{depth}": figures[f"recall@{depth}"] for depth in DEPTHS}
    values |= {f"coverage@{budget}": figures["coverage"][str(budget)] for budget in BUDGETS}
    cells = []
    for key, value in values.items():
        each = differences.get(key)
        change = (
            f" ({each.difference:+.1f}, {each.low:+.1f} to {each.high:+.1f}){'*' if each.clear else ''}"
            if each
            else ""
        )
        cells.append(f"{key} {value:.1f}{change}")
    return f"  {name:42}{'; '.join(cells)}"


def show(line: str) -> None:
    print(line, flush=True)


def told(step: Progress) -> None:
    if step.done == step.total:
        print(f"  … {step.stage}", file=sys.stderr)


async def run(asked: argparse.Namespace) -> None:
    found = {}
    with tempfile.TemporaryDirectory(prefix="leanrag-ablations-") as folder:
        for name in asked.sets:
            questions = read_set(DATA / name).first(asked.limit)
            found[questions.name] = await ablated(questions, asked.keep or Path(folder), asked.embedder)
    show(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--embedder", help="as the setting of that name")
    parser.add_argument("--limit", type=int, help="so many questions of each set only")
    parser.add_argument("--keep", type=Path, help="keep the scratch collections in this folder")
    parser.add_argument("--sets", nargs="+", default=SETS, help="other sets, as paths from the data folder")
    anyio.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
