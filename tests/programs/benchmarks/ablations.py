"""What each part of retrieval is worth: the figures with it and without it, on the same questions.

Run it as ``python tests/programs/benchmarks/ablations.py [--sets SET ...] [--embedder NAME] [--limit N]
[--graph OPENIE.json] [--keep FOLDER]``.
A set is a file of passages with questions (recall and all@5 of the gold passages, and their share in a context of 1,000
tokens), or a folder with ``docs`` and ``questions.json`` (the share of the facts that an answer needs in contexts of
1,000, 2,000 and 4,000 tokens). Beside each figure stands the difference from the default's with the 95 % interval of the
paired bootstrap over questions (10,000 resamples, one seed); * where zero lies outside: any other shows nothing. It
prints tables and, last, one JSON line.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import JobStatus
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.core.ports import Progress
from leanrag_engine.engine import LeanRAG
from leanrag_engine.evaluation.datasets import read_set
from leanrag_engine.evaluation.metrics import all_at, bootstrap_difference, mean, recall_at
from leanrag_engine.evaluation.retrieval.run import Strategy, ask_all
from leanrag_engine.evaluation.scratch import GivenGraph, open_scratch, scratch_settings
from leanrag_engine.extraction.openie import read_openie
from leanrag_engine.retrieval.request import (
    DEFAULT_CONTEXT,
    DEFAULT_RANKING,
    DEFAULT_RELEVANCE,
    DEFAULT_SEARCH,
    Query,
)

DATA = Path(__file__).parents[3].parent / "shared" / "data"
SETS = (
    "musique_train100.json",
    "hotpot_train100.json",
    "reply_sets/uv_docs",
    "reply_sets/christmas_carol",
    "reply_sets/python_reference",
)
BUDGETS = (1000, 2000, 4000)
Figures = Mapping[str, Sequence[float]]
"""Points of each question, by figure."""


def ranking(**options: float | bool) -> Query:
    return Query("any", ranking_options=replace(DEFAULT_RANKING, **options))


def relevance(**options: float) -> Query:
    return Query("any", relevance_options=replace(DEFAULT_RELEVANCE, **options))


# A name, and a query that lacks one part of the default's.
VARIANTS = (
    Strategy("default", Query("any")),
    Strategy("naive: no graph at all", Query("any", mode="naive")),
    Strategy("ranking without spreading", relevance(graph=0.0)),
    Strategy("the paper's ranking", Query("any", ranking="paper")),
    Strategy("no relations in the walk", ranking(relation=0.0)),
    Strategy("no gain for what the first passages name", ranking(hop=0.0)),
    Strategy("no gain by the graph", relevance(graph=0.0)),
    Strategy("the walk counts as much in long documents", relevance(graph_alone=1e9)),
    Strategy("no seats for rare words", relevance(exact=0.0)),
    Strategy("no gain by the first places of dense search", relevance(first=0.0)),
    Strategy("no gain by neighbours", relevance(neighbour=0.0)),
    Strategy("no gain by sections", relevance(section=0.0)),
    Strategy("no keyword scores in windows", relevance(keyword=0.0, keyword_peak=0.0)),
    Strategy("no passages kept for the graph", relevance(graph_kept=0)),
    Strategy("repetitions are shown", Query("any", context_options=replace(DEFAULT_CONTEXT, near_copy=2.0))),
    Strategy(
        "no search for parts of a question",
        Query("any", search_options=replace(DEFAULT_SEARCH, asked_part=0.0)),
    ),
    Strategy("names count nothing", Query("any", search_options=replace(DEFAULT_SEARCH, name_weight=0.0))),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What to measure, from the command line."""

    embedder: str | None
    limit: int | None
    folder: Path
    only: tuple[str, ...] = ()
    graph: Path | None = None
    """What a model extracted from the passages, in HippoRAG's format; None: the heuristic graph."""

    @property
    def ways(self) -> list[Strategy]:
        return [each for each in VARIANTS if not self.only or each.name in ("default", *self.only)]


async def measure_passages(path: Path, asked: Asked, tell: Callable[[str, Figures], None]) -> None:
    questions = read_set(path).first(asked.limit)
    settings = scratch_settings(asked.folder / path.stem, asked.embedder)
    given = GivenGraph.of(read_openie(asked.graph), questions) if asked.graph else None
    async with open_scratch(settings, questions, given, report) as scratch:
        for way in asked.ways:
            answers = await ask_all(scratch, questions, way, BUDGETS[:1], report)
            tell(
                way.name,
                {
                    "recall@5": [100 * recall_at(each.ranked, each.question.gold, 5) for each in answers],
                    "recall@10": [100 * recall_at(each.ranked, each.question.gold, 10) for each in answers],
                    "all@5": [100 * all_at(each.ranked, each.question.gold, 5) for each in answers],
                    "coverage@1000": [100 * each.coverage[BUDGETS[0]] for each in answers],
                },
            )


async def measure_replies(path: Path, asked: Asked, tell: Callable[[str, Figures], None]) -> None:
    questions = [
        each for each in json.loads((path / "questions.json").read_text())["questions"] if each["facts"]
    ]
    settings = load_settings(data_dir=asked.folder / path.name, embedder=asked.embedder, read_only=False)
    async with await LeanRAG.open(settings) as engine:
        job = await engine.submit_ingest([DocumentSource(path=str(path / "docs"))], allowed=None)
        while not job.status.finished:
            job = await engine.job(job.id, 30)
        if job.status is not JobStatus.DONE:
            raise SystemExit(f"{path}: {job.message}")
        for way in asked.ways:
            found: dict[str, list[float]] = {f"facts@{budget}": [] for budget in BUDGETS}
            for question in questions[: asked.limit]:
                for budget in BUDGETS:
                    result = await engine.query(
                        replace(way.query, text=question["question"], token_budget=budget)
                    )
                    found[f"facts@{budget}"].append(share_of_facts(result.context.text, question["facts"]))
            tell(way.name, found)


def share_of_facts(text: str, facts: Sequence[Mapping[str, Sequence[str]]]) -> float:
    """Return the percentage of facts of which one pattern matches; a line break is a space."""
    joined = " ".join(text.split())
    hits = [any(re.search(each, joined, re.IGNORECASE | re.DOTALL) for each in fact["any"]) for fact in facts]
    return 100 * sum(hits) / len(hits)


def format_row(name: str, figures: Figures, base: Figures) -> str:
    cells = []
    for key, values in figures.items():
        change = bootstrap_difference(values, base[key])
        told = f"{change.difference:+.1f}, {change.low:+.1f} to {change.high:+.1f}"
        cells.append(
            f"{key} {mean(values):.1f}"
            + ("" if base is figures else f" ({told}){'*' if change.low > 0 or change.high < 0 else ''}")
        )
    return f"  {name:44}{'; '.join(cells)}"


def report(step: Progress) -> None:
    if step.done == step.total:
        print(f"  … {step.stage}", file=sys.stderr)


async def run(arguments: argparse.Namespace) -> None:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="leanrag-ablations-") as folder:
        asked = Asked(
            arguments.embedder,
            arguments.limit,
            arguments.keep or Path(folder),
            tuple(arguments.only or ()),
            arguments.graph,
        )
        for name in arguments.sets:
            path = DATA / name
            base: dict[str, Figures] = {}

            def tell(way: str, figures: Figures, name: str = name, base: dict[str, Figures] = base) -> None:
                base.setdefault("default", figures)
                print(format_row(way, figures, base["default"]), flush=True)
                differences = {k: bootstrap_difference(v, base["default"][k]) for k, v in figures.items()}
                found.setdefault(name, {})[way] = {
                    key: {"mean": mean(values), **asdict(differences[key])} for key, values in figures.items()
                }

            print(f"\n{name}", flush=True)
            await (measure_replies if path.is_dir() else measure_passages)(path, asked, tell)
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--embedder", help="as the setting of that name")
    parser.add_argument("--limit", type=int, help="so many questions of each set only")
    parser.add_argument("--keep", type=Path, help="keep the scratch collections in this folder")
    parser.add_argument("--sets", nargs="+", default=SETS, help="other sets, as paths from the data folder")
    parser.add_argument("--graph", type=Path, help="what a model extracted from the passages, as OpenIE JSON")
    parser.add_argument("--only", nargs="+", help="names of the variants to compare with the default")
    anyio.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
