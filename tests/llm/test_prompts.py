"""Prompts of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.llm.prompts import prompt, use_folder


@pytest.fixture(autouse=True)
def ours_afterwards() -> Iterator[None]:
    yield
    use_folder(None)


def test_a_prompt_in_the_users_folder_takes_the_place_of_ours_and_others_stay(tmp_path: Path) -> None:
    before = prompt("server_instructions")
    (tmp_path / "ask_again.md").write_text("Nochmal: $problem für 5 $$", encoding="utf-8")
    use_folder(tmp_path)
    assert prompt("ask_again", problem="leer") == "Nochmal: leer für 5 $"
    assert prompt("server_instructions") == before


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("ask_agian.md", "$problem", "no prompt that"),
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
        use_folder(tmp_path)
    assert told in str(refused.value)
    assert str(tmp_path / name) in str(refused.value)
    assert "Your last reply" in prompt("ask_again", problem="x")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        use_folder(tmp_path / "none")
