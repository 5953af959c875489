"""Prompts of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.llm.prompts import BUILT_IN, Prompts


def test_a_prompt_in_the_users_folder_takes_the_place_of_ours_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "ask_again.md").write_text("Nochmal: $problem für 5 $$", encoding="utf-8")
    prompts = Prompts.open(tmp_path)
    assert prompts.fill("ask_again", problem="leer") == "Nochmal: leer für 5 $"
    assert prompts.fill("server_instructions") == BUILT_IN.fill("server_instructions")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("ask_agian.md", "$problem", "No prompt is called ask_agian"),
        ("ask_again.md", "Again!", "$problem"),
        ("ask_again.md", "$problem $extra", "$problem"),
        ("ask_again.md", "$problem costs 5 $", "$problem"),
    ],
)
def test_a_prompt_that_cannot_work_is_refused_with_its_path(
    tmp_path: Path, name: str, text: str, told: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as refused:
        Prompts.open(tmp_path)
    assert told in str(refused.value)
    assert str(tmp_path / name) in str(refused.value)
    assert "Your last reply" in BUILT_IN.fill("ask_again", problem="x")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        Prompts.open(tmp_path / "none")


@pytest.mark.anyio
async def test_two_engines_in_one_process_use_the_prompts_of_their_own_folders(tmp_path: Path) -> None:
    engines = []
    for language, text in (
        ("german", "Auf Deutsch: $instructions"),
        ("english", "In English: $instructions"),
    ):
        folder = tmp_path / language
        folder.mkdir()
        (folder / "agent_work.md").write_text(text, encoding="utf-8")
        settings = load_settings(data_dir=folder / "data", prompts_dir=folder)
        engines.append(await LeanRAG.open(settings))
    german, english = engines
    async with german, english:
        for engine in (german, english):
            job = await engine.submit_ingest([DocumentSource(text="Scrooge is a miser.")], build=False)
            await engine.job(job.id, wait_seconds=60)
        assert (await german.pending_work("extraction")).instructions.startswith("Auf Deutsch: ")
        assert (await english.pending_work("extraction")).instructions.startswith("In English: ")
