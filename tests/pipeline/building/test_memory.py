"""What a build does to the process that it runs in."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from leanrag_tests_jobs import ingest, open_engine

from leanrag_engine.core.model import DocumentSource
from leanrag_engine.core.ports import Progress
from leanrag_engine.pipeline.building import memory
from leanrag_engine.pipeline.building.generation import build_generation

pytestmark = pytest.mark.anyio

NOTE = DocumentSource(
    text="Ewan Reid keeps the lighthouse of Skerry. Moira Kerr wrote to Ewan Reid.", id="n1"
)


class _StopError(Exception):
    """What the test's report raises."""


async def test_builds_search_cycles_rarely_and_leave_the_thresholds_as_they_were(tmp_path: Path) -> None:
    usual = gc.get_threshold()
    seen: set[tuple[int, int, int]] = set()

    def report(_: Progress) -> None:
        seen.add(gc.get_threshold())

    def stop(_: Progress) -> None:
        raise _StopError

    async with open_engine(tmp_path, embedder="fitted") as engine:
        await ingest(engine, [NOTE])
        await build_generation(engine._stores, "default", report)
        assert min(seen, default=usual) > usual
        with pytest.raises(_StopError):
            await build_generation(engine._stores, "default", stop)
    assert gc.get_threshold() == usual


async def test_an_update_holds_the_search_until_it_ends_or_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searching: list[bool] = []

    def report(_: Progress) -> None:
        searching.append(gc.isenabled())

    def stop(_: Progress) -> None:
        raise _StopError

    async with open_engine(tmp_path, embedder="fitted") as engine:
        await ingest(engine, [NOTE])
        await build_generation(engine._stores, "default", report, mode="rebuild")
        assert all(searching)
        searching.clear()
        await build_generation(engine._stores, "default", report)
        assert searching
        assert not any(searching)
        assert gc.isenabled()
        with pytest.raises(_StopError):
            await build_generation(engine._stores, "default", stop)
        assert gc.isenabled()
        monkeypatch.setattr(memory, "LONGEST_HOLD", 0.0)
        searching.clear()
        await build_generation(engine._stores, "default", report)
        assert all(searching)
