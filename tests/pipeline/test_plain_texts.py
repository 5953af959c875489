"""Builds of texts in which nothing is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import JobStatus
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("小猫在睡觉。它很累。", "小猫"),
        ("the cat sleeps. it is tired.", "cat"),
        ("It is so. They were there.", "It is so."),
    ],
)
async def test_a_text_without_names_builds_and_is_named_by_its_words(
    tmp_path: Path, text: str, word: str
) -> None:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path, embedder="fitted")) as engine:
        job = await engine.submit_ingest([DocumentSource(text=text, title="1")])
        job = await engine.job(job.id, wait_seconds=60)
        assert job.status is JobStatus.DONE, job.message
        page = await engine.search_entities(word)
        assert any(word in seed.entity.name for seed in page.found)
