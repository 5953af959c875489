"""The clustering methods beside each other: recall, coverage of facts, and stability, with 95 % bounds of the differences.

    python tests/programs/benchmarks/methods.py --folder SCRATCH [--set QUESTIONS.json] [--replies FOLDER ...] [--limit N]

Each corpus is ingested once, and its hierarchy is rebuilt by each method. Recall of gold passages (``--set``) and the share of
needed facts in a reply (``--replies``) are compared with those of the first method by paired bootstrap over the questions.
Stability is that of ``leanrag eval health``. Prints one JSON line for each corpus and method.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from leanrag_engine.adapters.wiring import compose
from leanrag_engine.core.config import Settings
from leanrag_engine.core.jobs import BuildRequest
from leanrag_engine.evaluation.datasets import QuestionSet, read_set
from leanrag_engine.evaluation.health import collection_health
from leanrag_engine.evaluation.metrics import bootstrap_difference, mean
from leanrag_engine.evaluation.replies.reply_set import ReplySet, read_reply_set
from leanrag_engine.evaluation.retrieval.run import Strategy, ask_all
from leanrag_engine.evaluation.scratch import (
    ScratchCollection,
    open_folder_scratch,
    open_scratch,
    scratch_settings,
)
from leanrag_engine.hierarchy.clustering.methods import ClusteringMethod
from leanrag_engine.retrieval.query import Query

LCA = Strategy("lca", Query("?"))
BUDGETS = (1000, 4000)
SETTINGS = {method.value: {"clustering": method.value} for method in ClusteringMethod}

Shares = dict[str, list[float]]
"""The values of every question, in percent, by measure."""


async def rebuild(scratch: ScratchCollection) -> None:
    job = await scratch.engine.submit_build(collection=scratch.collection, order=BuildRequest(mode="rebuild"))
    while not (await scratch.engine.job_state(job.id, wait_seconds=5)).status.finished:
        pass
    if (found := await scratch.engine.job(job.id)).status != "done":
        raise RuntimeError(found.message)


async def measure_recall(settings: Settings, questions: QuestionSet) -> tuple[str, Shares]:
    """The collection, and recall and coverage of every question after a rebuild with ``settings``."""
    async with open_scratch(settings, questions, None, lambda _: None) as scratch:
        await rebuild(scratch)
        answered = await ask_all(scratch, questions, LCA, BUDGETS)
    shares = {f"recall@{depth}": [100 * each.recall(depth) for each in answered] for depth in (5, 10)}
    for budget in BUDGETS:
        shares[f"coverage@{budget}"] = [100 * each.coverage[budget] for each in answered]
    return scratch.collection, shares


async def measure_facts(settings: Settings, replies: ReplySet) -> tuple[str, Shares]:
    """The collection, and the share of each question's facts in a reply after a rebuild with ``settings``."""
    shares: Shares = {f"facts@{budget}": [] for budget in BUDGETS}
    adapters = await compose(settings)
    async with open_folder_scratch(settings, adapters, replies.documents, lambda _: None) as scratch:
        await rebuild(scratch)
        for question in replies.questions:
            for budget in BUDGETS:
                query = Query(question.text, token_budget=budget)
                text = (await scratch.engine.query(query, collection=scratch.collection)).context.text
                shares[f"facts@{budget}"].append(100 * mean([fact.is_in(text) for fact in question.facts]))
    return scratch.collection, shares


async def compare(
    folder: Path, corpus: QuestionSet | ReplySet, embedder: str | None, names: Sequence[str]
) -> None:
    """Print the figures of each method on one corpus."""
    first: Shares = {}
    for name in names:
        whole = isinstance(corpus, QuestionSet)
        settings = scratch_settings(folder, embedder, whole_passages=whole)
        settings = settings.model_copy(update=SETTINGS[name])
        if isinstance(corpus, QuestionSet):
            collection, shares = await measure_recall(settings, corpus)
        else:
            collection, shares = await measure_facts(settings, corpus)
        first = first or shares
        row: dict[str, Any] = {"corpus": corpus.name, "method": name, "questions": len(corpus.questions)}
        for key, values in shares.items():
            row[key] = round(mean(values), 1)
            if shares is not first:
                found = bootstrap_difference(values, first[key])
                row[f"{key} minus {names[0]}"] = [
                    round(each, 1) for each in (found.difference, found.low, found.high)
                ]
        health = (await collection_health(settings, collection)).as_json()
        row["stability"] = health["stability"]
        row["layers"] = health["layers"]
        for figure in ("tightness", "inside", "modularity"):
            row[figure] = [each[figure] for each in health["build"]["layers"][:-1]]
        print(json.dumps(row), flush=True)


async def run(asked: argparse.Namespace) -> None:
    names = asked.methods
    if asked.set:
        await compare(asked.folder, read_set(asked.set).first(asked.limit), asked.embedder, names)
    for each in asked.replies:
        await compare(asked.folder, read_reply_set(each).first(asked.limit), asked.embedder, names)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="where the scratch collections are kept")
    parser.add_argument("--set", type=Path, help="question set with gold passages")
    parser.add_argument("--replies", type=Path, nargs="*", default=[], help="reply sets")
    parser.add_argument("--limit", type=int, help="number of questions of each")
    parser.add_argument("--embedder", help="as the setting of that name")
    parser.add_argument("--methods", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    anyio.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
