"""The clustering methods beside each other: recall, coverage of facts, and stability, with 95 % bounds of the differences.

    python tests/programs/benchmarks/methods.py --folder SCRATCH [--set QUESTIONS.json] [--replies FOLDER ...] [--limit N]

Each corpus is ingested once, and its hierarchy is rebuilt by each method. Recall of gold passages (``--set``) and the share of
needed facts in a reply (``--replies``) are compared with those of the first method by paired bootstrap over the questions.
Stability is the agreement of the clusters of G0 with those by another seed, without a tenth and without a hundredth of the
entities (of at most 20,000). Prints one JSON line for each corpus and method.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from sklearn.metrics import adjusted_rand_score

from leanrag_engine.adapters.wiring import compose
from leanrag_engine.core.config import Settings
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.jobs import BuildRequest
from leanrag_engine.engine import LeanRAG
from leanrag_engine.evaluation.datasets import QuestionSet, read_set
from leanrag_engine.evaluation.metrics import bootstrap_difference, mean, recall_at
from leanrag_engine.evaluation.replies.reply_set import ReplySet, read_reply_set
from leanrag_engine.evaluation.retrieval.run import Strategy, ask_all
from leanrag_engine.evaluation.scratch import (
    ScratchCollection,
    open_folder_scratch,
    open_scratch,
    scratch_settings,
)
from leanrag_engine.hierarchy.clustering.balancing import ClusterSizes, Labels
from leanrag_engine.hierarchy.clustering.links import EdgeList
from leanrag_engine.hierarchy.clustering.methods import ClusteringMethod, ClusteringOptions, partition
from leanrag_engine.retrieval.query import Query

LCA = Strategy("lca", Query("any"))
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
    shares = {
        f"recall@{depth}": [100 * recall_at(each.ranked, each.question.gold, depth) for each in answered]
        for depth in (5, 10)
    }
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


async def measure_clusters(settings: Settings, collection: str) -> dict[str, Any]:
    """What the build recorded of the clusters, and their stability."""
    adapters = await compose(settings.model_copy(update={"read_only": True}))
    async with LeanRAG(settings, adapters) as engine:
        generation = (await engine.status(collection)).collection.generation
        assert generation
        health = generation.record.health
        assert health
        base = await adapters.generations.layer(generation.number, 0)
        relations = await adapters.generations.relations(generation.number, 0)
        found = await adapters.vectors.fetch(generation.record.spaces.entities, [each.id for each in base])
    links = EdgeList.of(Graph(tuple(base), tuple(relations)))
    sizes = ClusterSizes(health.cluster_size, health.cluster_cap)
    options = ClusteringOptions(ClusteringMethod(health.clustering))
    vectors = np.array([found[each.id] for each in base])

    def cluster(rows: Labels, seed: int = 0) -> Labels:
        parts = np.full(len(vectors), -1, dtype=np.intp)
        parts[rows] = 0
        ((_, inner),) = links.within(parts)
        return partition(vectors[rows], inner, sizes, options, seed=seed, pulse=lambda: None).labels

    return {
        "stability": measure_stability(len(vectors), cluster),
        "layers": [each.entities for each in generation.layers],
        **{
            figure: [getattr(each, figure) for each in health.layers[:-1]]
            for figure in ("tightness", "inside", "modularity")
        },
    }


def measure_stability(count: int, cluster: Callable[..., Labels], *, most: int = 20_000) -> dict[str, float]:
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(count, most, replace=False)) if count > most else np.arange(count)
    most_rows, nearly_all = (
        np.sort(rng.choice(len(rows), round(share * len(rows)), replace=False)) for share in (0.9, 0.99)
    )
    first, fewer = cluster(rows), cluster(rows[nearly_all])
    return {
        "other_seed": adjusted_rand_score(first, cluster(rows, 1)),
        "without_a_tenth": adjusted_rand_score(first[most_rows], cluster(rows[most_rows])),
        "kept": len(list_members(first[nearly_all]) & list_members(fewer)) / len(set(first[nearly_all])),
    }


def list_members(labels: Labels) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)}


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
        row |= await measure_clusters(settings, collection)
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
