"""Compare ``lca`` with plain search on corpora of all kinds in one run; ends with 1 where ``lca`` is below it by more than a margin.

Run it as ``python tests/programs/benchmarks/kinds.py SET… [--data FOLDER] [--margin 1]``: a SET is a folder with docs/ and
questions.json (facts in 1,000 and 2,000 tokens) or a JSON file of passages and questions (recall@5 of what ``sources`` list).
Take at least one of each kind: encyclopedia, novel, documentation, chats by dialogue and by turn, notes, source code,
tables. ``--data`` keeps the collections for the next run. Prints one JSON line for each set.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import anyio

from leanrag_engine.core.config import Settings
from leanrag_engine.core.ports import ignore_progress
from leanrag_engine.evaluation.datasets import read_set
from leanrag_engine.evaluation.replies.reply_set import read_reply_set
from leanrag_engine.evaluation.replies.run import evaluate_replies
from leanrag_engine.evaluation.retrieval.run import evaluate, strategy
from leanrag_engine.evaluation.scratch import scratch_settings

LCA, NAIVE = strategy(mode="lca"), strategy(mode="naive")


async def compare_facts(settings: Settings, folder: Path) -> dict[str, tuple[float, float]]:
    """Return the share of facts of both ways by budget."""
    found = await evaluate_replies(
        settings, read_reply_set(folder), [LCA, NAIVE], (1000, 2000), ignore_progress
    )
    shares = {(each.budget, each.way): each.facts for each in found.figures}
    return {f"facts in {budget}": (shares[budget, "lca"], shares[budget, "naive"]) for budget in (1000, 2000)}


async def compare_recall(settings: Settings, path: Path) -> dict[str, tuple[float, float]]:
    """Return recall@5 of both ways."""
    found = await evaluate(settings, read_set(path), None, [LCA, NAIVE], ())
    recall = [found.figures[way.name].recall[5] for way in (LCA, NAIVE)]
    return {"recall@5": (recall[0], recall[1])}


async def measure(paths: list[Path], data: Path, margin: float) -> bool:
    """Print the figures of each set, and return whether ``lca`` holds its own on all of them."""
    holds = True
    for path in paths:
        folder = path.is_dir()
        settings = scratch_settings(data, whole_passages=not folder)
        figures = await (compare_facts if folder else compare_recall)(settings, path)
        worst = min(lca - naive for lca, naive in figures.values())
        holds = holds and worst >= -margin
        row = {
            name: {"lca": round(lca, 1), "naive": round(naive, 1)} for name, (lca, naive) in figures.items()
        }
        print(json.dumps({"set": path.stem, **row, "worst": round(worst, 1)}), flush=True)
    return holds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--margin", type=float, default=1.0, help="points that lca may be below plain search")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        held = anyio.run(measure, options.sets, options.data or Path(folder), options.margin)
    sys.exit(not held)


if __name__ == "__main__":
    main()
