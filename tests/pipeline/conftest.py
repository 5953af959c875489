"""Data folders that several tests of a module copy."""

import shutil
from pathlib import Path

import anyio
import pytest
from leanrag_tests_jobs import ingest


@pytest.fixture(scope="module")
def noted_once(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder in which the module's ``NOTES`` are built, by the engine that it calls ``opened``."""

    async def fill(folder: Path) -> None:
        async with request.module.opened(folder) as engine:
            await ingest(engine, request.module.NOTES)

    folder = tmp_path_factory.mktemp("noted")
    anyio.run(fill, folder)
    return folder


@pytest.fixture
def noted(tmp_path: Path, noted_once: Path) -> Path:
    """A copy of the folder in which the notes are built."""
    shutil.copytree(noted_once, tmp_path, dirs_exist_ok=True)
    return tmp_path
