"""Late interaction against a computation word by word, and what it does in a reply."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import numpy as np
import pytest
from leanrag_tests_jobs import finish

from leanrag_engine.adapters.embedders.minilm.embedder import MINILM_SOURCE
from leanrag_engine.adapters.sql.dialect.sqlite.opening import FILE
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.model import DocumentSource, PackedTokens, QueryTokens
from leanrag_engine.core.ports import EmbedderWrapper, find_token_embedder
from leanrag_engine.core.vectors import unit_rows
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.request import Mode, Query
from leanrag_engine.retrieval.search.late_interaction import compare_tokens, spread_similarities


def packed(numbers: list[int], signs: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> PackedTokens:
    low = [[number % 256, number // 256] for number in numbers]
    return np.hstack((np.array(low, dtype=np.uint8), np.packbits(signs > 0, axis=1)))


def test_a_window_is_as_near_as_its_most_similar_words_weighted_by_how_few_windows_have_them() -> None:
    random = np.random.default_rng(7)
    contents = [(random.integers(1, 600, size), random.normal(size=(size, 16))) for size in (3, 1, 8, 5)]
    contents[1][0][0] = 300
    question = QueryTokens(
        np.array([300, 7], dtype=np.uint16), unit_rows(random.normal(size=(2, 16)).astype(np.float32))
    )
    expected = []
    for _, vectors in contents:
        total = weights = 0.0
        for number, vector in zip(question.numbers.tolist(), question.vectors, strict=True):
            having = sum(number in other for other, _ in contents)
            weight = math.log(1 + len(contents) / (1 + having))
            total += weight * max(float(np.sign(each) @ vector) / 4 for each in vectors)
            weights += weight
        expected.append(total / weights)
    near, _ = compare_tokens(question, [packed(numbers.tolist(), signs) for numbers, signs in contents])
    np.testing.assert_allclose(near, expected, rtol=1e-5)


def test_words_that_no_window_has_or_comes_near_are_strange() -> None:
    signs = np.ones((1, 16), dtype=np.float32)
    near_it, far, half = (
        signs,
        -signs,
        np.concatenate([signs[:, :10], -signs[:, 10:]], axis=1),
    )  # 10 - 6 of 16
    question = QueryTokens(
        np.array([1, 2, 3, 4], dtype=np.uint16), unit_rows(np.concatenate([near_it, far, far, half]))
    )
    windows = [packed([9], signs), packed([3], signs)]
    assert compare_tokens(question, windows)[1] == 0.5  # 2 and 4; 3 is far from its own window, which has it


def test_the_nearest_window_counts_one_the_middle_one_nothing() -> None:
    spread = spread_similarities(np.array([0.2, 0.3, 0.7, 0.1, 0.5], dtype=np.float32))
    np.testing.assert_allclose(spread, [-0.25, 0.0, 1.0, -0.5, 0.5], atol=1e-6)
    assert not spread_similarities(np.array([0.4, 0.4], dtype=np.float32)).any()


pytestmark = pytest.mark.anyio


def test_an_embedder_that_is_timed_or_reused_still_gives_the_vectors_of_tokens() -> None:
    embedder, _ = anyio.run(MINILM_SOURCE.fit, [])
    assert find_token_embedder(EmbedderWrapper(embedder)) is embedder
    assert find_token_embedder(None) is None


NOTES = [
    "The ferry to Mull leaves Oban at nine. Cars wait in lane four.",
    "A walker who crosses the glen before sunrise needs a torch and a map.",
    "Bread rises for two hours. Then it is baked on a hot stone.",
    "The council meets in the old town hall on the first Monday.",
]


async def test_words_are_compared_one_by_one_from_the_first_moment_until_the_document_goes(
    tmp_path: Path,
) -> None:
    settings = load_settings(data_dir=tmp_path, embedder="minilm")
    async with await LeanRAG.open(settings) as engine:

        async def gains(question: str, mode: Mode = Mode.LCA) -> dict[str, float]:
            result = await engine.query(Query(question, mode=mode))
            return {line.text: line.parts.tokens for line in result.context.lines}

        sources = [DocumentSource(text=text, id=str(place)) for place, text in enumerate(NOTES[:3])]
        await finish(engine, await engine.submit_ingest(sources))
        found = await gains("When does the boat to the island depart?")
        assert max(found, key=lambda text: found[text]) == NOTES[0]
        assert not any((await gains("When does the boat depart?", Mode.NAIVE)).values())
        late = [DocumentSource(text=NOTES[3], id="3")]
        await finish(engine, await engine.submit_ingest(late, build=False))
        found = await gains("Where do the town's politicians gather?")
        assert max(found, key=lambda text: found[text]) == NOTES[3]
        assert count_kept(tmp_path) == len(NOTES)
        job, _ = await engine.submit_delete(["3"])
        await finish(engine, job)
        assert count_kept(tmp_path) == len(NOTES) - 1


async def test_a_build_compares_words_where_a_version_before_could_not(tmp_path: Path) -> None:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path, embedder="minilm")) as engine:
        sources = [DocumentSource(text=text, id=str(place)) for place, text in enumerate(NOTES)]
        await finish(engine, await engine.submit_ingest(sources))
        with closing(sqlite3.connect(tmp_path / FILE)) as connection:
            connection.execute("DELETE FROM token_vectors WHERE document > 1")
            connection.commit()
        before = await engine.query(Query("When does the boat depart?"))
        assert before.context.text
        await finish(engine, await engine.submit_build())
        assert count_kept(tmp_path) == len(NOTES)


def count_kept(folder: Path) -> int:
    """Return the number of chunks whose words can be compared."""
    with closing(sqlite3.connect(folder / FILE)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM token_vectors").fetchone()
    return int(count)
