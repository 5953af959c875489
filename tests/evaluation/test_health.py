"""Health without a judge: each measure against an oracle, and the whole on a small corpus."""

from __future__ import annotations

import json
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import NotReady
from leanrag_engine.core.model import Chunk, DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.evaluation.health import (
    adjusted_rand_index,
    collection_health,
    context_body,
    measure_meetings,
    phrases_of,
    repetition_share,
    sample_queries,
    sentences_of,
    stability,
)

ANCESTORS = [np.array(places) for places in ((0, 1, 2, 3), (0, 0, 1, 1), (0, 0, 0, 0))]


def test_pairs_meet_where_their_ancestors_first_agree() -> None:
    found = measure_meetings(ANCESTORS, [(0, 1), (0, 2), (2, 3), (1, 3)])
    assert (found.pairs, found.below_root, found.mean_layer) == (4, 0.5, 1.5)


@pytest.mark.parametrize("seed", range(5))
def test_the_adjusted_rand_index_is_scikit_learns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, 6, 80), rng.integers(0, 9, 80)
    assert adjusted_rand_index(one, other) == pytest.approx(adjusted_rand_score(one, other))
    assert adjusted_rand_index(one, 8 - one) == 1.0
    assert adjusted_rand_index(np.zeros(5, dtype=np.intp), np.zeros(5, dtype=np.intp)) == 1.0


def test_stability_is_one_unless_the_clusters_depend_on_the_seed() -> None:
    points = np.random.default_rng(0).standard_normal((200, 4))

    def steady(rows: np.ndarray, _seed: int) -> np.ndarray:
        return (points[rows, 0] > 0).astype(np.intp)

    def seeded(rows: np.ndarray, seed: int) -> np.ndarray:
        return (points[rows, seed] > 0).astype(np.intp)

    found = stability(200, steady)
    assert (found.other_seed, found.without_a_tenth, found.kept) == (1.0, 1.0, 1.0)
    assert stability(200, seeded).other_seed < 0.2


def test_only_the_body_of_a_context_counts_for_repetition() -> None:
    context = (
        "Quoted from documents: evidence.\n\n## Passages\n\n[d1:c1] A title of five words here\n```\n"
        "Tea grows in the hills. Tea grows on high hills.\n```\n\n## Relations\n```\n"
        "- Tea — hills: Tea grows in the hills. [d1:c1]\n```"
    )
    text = context_body(context)
    assert "title" not in text
    assert "d1" not in text
    assert repetition_share(["x", "y", "x", "x"]) == 0.5
    assert (
        repetition_share(sentences_of("Tea grows in the hills. It rains. Tea grows in the hills. It rains."))
        == 0.5
    )
    assert len(phrases_of("one two three four five six")) == 2
    assert repetition_share([]) == 0.0


def test_queries_are_whole_sentences_of_the_corpus_and_the_same_each_time() -> None:
    texts = [f"# Heading {n}\n\nShort one. The sentence number {n} has enough words." for n in range(9)]
    chunks = [Chunk(str(n), "d", n, text, 0, len(text), 9) for n, text in enumerate(texts)]
    found = sample_queries(chunks, 4)
    assert len(found) == 4
    assert all(each.startswith("The sentence number") for each in found)
    assert found == sample_queries(chunks, 4)


@pytest.mark.anyio
async def test_measuring_the_health_of_a_collection_does_not_change_it(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path)
    async with await LeanRAG.open(settings) as engine:
        sources = [DocumentSource(text=topics[name], id=name) for name in sorted(topics)[:8]]
        job = await engine.submit_ingest(sources, build=False)
        await engine.job(job.id, wait_seconds=60)
        with pytest.raises(NotReady, match="never built"):
            await collection_health(settings, "default")
        await engine.job((await engine.submit_build()).id, wait_seconds=60)
        before = await engine.status()
        found = await collection_health(settings, "default")
        assert (await engine.status()).collection == before.collection
    assert found.layers[-1] == 1
    assert found.build
    assert [each.entities for each in found.build.layers] == list(found.layers)
    assert [each.clusters for each in found.shapes] == list(found.layers[1:])
    assert sum(each.mean * each.clusters for each in found.shapes[:1]) == pytest.approx(found.layers[0])
    near, far = found.meetings["of the same chunk"], found.meetings["random"]
    assert near.below_root > far.below_root
    assert set(found.redundancy) == {"lca", "naive"}
    assert all(0 <= each.sentences < 0.5 for each in found.redundancy.values())
    assert json.loads(json.dumps(found.as_json()))["layers"] == list(found.layers)
