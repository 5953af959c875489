"""What growing by updates costs in quality against one rebuild: recall, reply coverage, drift by step, texts that would stay.

Run it as ``python tests/programs/benchmarks/growth.py QUESTIONS.json [--passages 400] [--steps 20] [--embedder minilm]``. The
corpus are the gold passages of as many questions as fit, in the order of a fixed seed. Half of it is built, the
rest comes in steps of one update each, and the same corpus is built from nothing. Prints one JSON line for each step (every
``--compare``-th with the agreement with a build from nothing, by adjusted Rand index of the clusters of layer 1), one with the
figures of both collections, and one for each overlap of clusters: the share of clusters of the first half that some cluster
of the last build shares so many base entities with, and how often the old summary is nearer to the summary of that cluster than to any other of
the layer.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import anyio
import numpy as np
from models import ended
from sklearn.metrics import adjusted_rand_score

from leanrag_engine.core.graphs.graph import Hierarchy
from leanrag_engine.core.jobs import AskedMode, BuildRequest, BuildResult
from leanrag_engine.core.model import DocumentSource, Generation
from leanrag_engine.engine import LeanRAG
from leanrag_engine.evaluation.datasets import QuestionSet, read_set
from leanrag_engine.evaluation.retrieval.run import ask_all, figures_of, strategy
from leanrag_engine.evaluation.scratch import ScratchCollection, Stopwatch, document_id, scratch_settings
from leanrag_engine.pipeline.index import read_hierarchy, restore_embedder

OVERLAPS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 1.01)
BUDGET = 1000


def choose_corpus(questions: QuestionSet, count: int) -> tuple[QuestionSet, list[int]]:
    """Return the questions whose gold passages fit into ``count``, and these passages, filled up, in a fixed random order."""
    chosen: dict[int, None] = {}
    asked = []
    for each in questions.questions:
        if len(chosen.keys() | set(each.gold)) <= count * 0.8:
            chosen |= dict.fromkeys(each.gold)
            asked.append(each)
    for place in range(len(questions.passages)):
        if len(chosen) < count:
            chosen.setdefault(place)
    places = np.random.default_rng(0).permutation(list(chosen)).tolist()
    return replace(questions, questions=tuple(asked)), places


class Growth:
    """A collection that grows, and others that are built from nothing to compare it with."""

    def __init__(self, engine: LeanRAG, questions: QuestionSet) -> None:
        self._engine = engine
        self._questions = questions

    async def build(self, collection: str, places: Sequence[int], mode: AskedMode) -> BuildResult:
        passages = self._questions.passages
        sources = [
            DocumentSource(text=passages[place].text, title=passages[place].title, id=document_id(place))
            for place in places
        ]
        engine = self._engine
        await ended(engine, await engine.submit_ingest(sources, collection=collection, build=False))
        order = BuildRequest(mode=mode)
        job = await ended(engine, await engine.submit_build(collection=collection, order=order))
        assert isinstance(job.result, BuildResult)
        return job.result

    async def generation(self, collection: str) -> Generation:
        generation = (await self._engine.status(collection)).collection.generation
        assert generation is not None
        return generation

    async def layers(self, collection: str) -> Hierarchy:
        return await read_hierarchy(self._engine._stores, await self.generation(collection))

    async def tightness(self, collection: str) -> float:
        health = (await self.generation(collection)).record.health
        assert health is not None
        return round(health.layers[0].tightness, 4)

    async def ask(self, collection: str) -> dict[str, object]:
        watch = Stopwatch()
        scratch = ScratchCollection(self._engine, collection, watch, 0.0, False, 0, (), ())
        figures = figures_of(await ask_all(scratch, self._questions, strategy(), (BUDGET,)), 0.0).as_json()
        return {
            key: figures[key] for key in ("recall@2", "recall@5", "recall@10", "mrr", "coverage", "tokens")
        }

    async def compare_summaries(self, old: Hierarchy, new: Hierarchy, collection: str) -> None:
        """Print for each band of overlap how many clusters of layer 1 have one, and whether the old summary fits."""
        stores = self._engine._stores
        embedder = await restore_embedder(stores, await self.generation(collection))
        before, after = members(old), members(new)
        texts = [
            [each.indexed_text for each in layers.layers[1].entities if each.id in found]
            for layers, found in ((old, before), (new, after))
        ]
        near = (await embedder.embed(texts[0])) @ (await embedder.embed(texts[1])).T
        shared = [
            [len(one & other) / len(one | other) for other in after.values()] for one in before.values()
        ]
        overlaps = np.array(shared)
        best = overlaps.argmax(axis=1)
        own = near[np.arange(len(best)), best]
        right = near.argmax(axis=1) == best
        for low, high in pairwise(OVERLAPS):
            rows = (overlaps.max(axis=1) >= low) & (overlaps.max(axis=1) < high)
            figures = {
                "overlap": f"{low}-{min(high, 1)}",
                "clusters": round(float(rows.mean()), 3),
                "nearest": round(float(right[rows].mean()), 3) if rows.any() else None,
                "cosine": round(float(own[rows].mean()), 3) if rows.any() else None,
                "cosine_of_others": round(float(near.mean()), 3),
            }
            print(json.dumps(figures), flush=True)


def members(hierarchy: Hierarchy) -> dict[str, frozenset[str]]:
    """Return the base entities of each cluster of layer 1, in the order of the layer."""
    found: dict[str, set[str]] = defaultdict(set)
    for each in hierarchy.layers[0].entities:
        found[each.parent_id or ""].add(each.id)
    return {each.id: frozenset(found[each.id]) for each in hierarchy.layers[1].entities}


def agreement(one: Hierarchy, other: Hierarchy) -> float:
    homes = [{each.id: each.parent_id for each in layers.layers[0].entities} for layers in (one, other)]
    common = sorted(homes[0].keys() & homes[1].keys())
    return round(float(adjusted_rand_score(*([home[id_] or "" for id_ in common] for home in homes))), 3)


async def measure(options: argparse.Namespace) -> None:
    questions, places = choose_corpus(read_set(options.questions), options.passages)
    half = len(places) // 2
    steps = np.array_split(places[half:], options.steps)
    with tempfile.TemporaryDirectory() as folder:
        async with await LeanRAG.open(scratch_settings(Path(folder), options.embedder)) as engine:
            growth = Growth(engine, questions)
            await growth.build("grown", places[:half], "auto")
            first = await growth.layers("grown")
            held = half
            for number, step in enumerate(steps, 1):
                result = await growth.build("grown", step.tolist(), options.mode)
                held += len(step)
                found: dict[str, object] = {
                    "step": number,
                    "documents": held,
                    "mode": result.mode,
                    "stale": result.stale,
                    "tightness": await growth.tightness("grown"),
                }
                if number % options.compare == 0:
                    anew = f"anew-{number}"
                    await growth.build(anew, places[:held], "rebuild")
                    found["tightness_anew"] = await growth.tightness(anew)
                    found["agreement"] = agreement(await growth.layers("grown"), await growth.layers(anew))
                print(json.dumps(found), flush=True)
            await growth.build("anew", places, "rebuild")
            for name in ("grown", "anew"):
                figures = {
                    "collection": name,
                    "questions": len(questions.questions),
                    **await growth.ask(name),
                }
                print(json.dumps(figures), flush=True)
            await growth.compare_summaries(first, await growth.layers("anew"), "anew")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", type=Path, help="a question set with passages")
    parser.add_argument("--passages", type=int, default=400)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--compare", type=int, default=10, help="steps between builds from nothing")
    parser.add_argument("--mode", choices=("auto", "update"), default="update")
    parser.add_argument("--embedder", default="minilm")
    anyio.run(measure, parser.parse_args())


if __name__ == "__main__":
    main()
