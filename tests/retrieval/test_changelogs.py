"""Changelogs: the newest release stands first where it is asked for, whatever other entries share with the question."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from leanrag_tests_jobs import finish, open_engine

from leanrag_engine.core.model import DocumentSource
from leanrag_engine.engine import LeanRAG
from leanrag_engine.retrieval.request import Query

pytestmark = pytest.mark.anyio

THINGS = ("wick", "pump", "lens", "mast", "bell", "stair", "rope", "door")


def tell_release(number: str, place: int) -> str:
    """An entry that says nothing but of itself, those in the middle also the words of the questions."""
    said = f"The {THINGS[place % 8]} of the release is checked {place + 2} times."
    talk = "The latest changes of the release: what changed is told in the newest version." * (4 < place < 20)
    return f"## {number}\n\n{said} {talk}\n\n" + f"Keeper {place} wrote {place} letters about it. " * 12


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LeanRAG]:
    folder = tmp_path_factory.mktemp("logs")
    for product, newest in (("lamp", 30), ("boat", 10)):
        (folder / product).mkdir()
        entries = [tell_release(f"{newest - place}.10.0 (2024-01-07)", place) for place in range(newest)]
        entries.append(tell_release(f"{newest - 1}.9.1", newest))
        (folder / product / "history.md").write_text("# Changes\n\n" + "\n\n".join(entries))
    for number in ("3000.9", "3008.3", "3008.10"):
        text = (
            f"# Anchor {number} release notes\n\n## Fixed\n\nThe chain no longer rusts, see CVE-2020-25592.\n"
        )
        (folder / f"{number}.md").write_text(text)
    (folder / "manual.md").write_text("# Anchor\n\nA chain may rust.\n\n## 4.2 Care\n\nThe chain is oiled.\n")
    today = "".join(
        f"\n## Part {n}\n\nHow the wick changes with the weather, part {n}: {'the wick is dry. ' * 20}\n"
        for n in range(9)
    )
    (folder / "wick.md").write_text(f"# The wick of the lamp\n{today}")
    async with open_engine(tmp_path_factory.mktemp("data"), embedder="minilm") as held:
        await finish(held, await held.submit_ingest([DocumentSource(path=str(folder))], allowed=None))
        yield held


@pytest.mark.parametrize(
    "question", ["What is new?", "What is the latest version?", "What changed recently?"]
)
async def test_words_that_ask_for_the_newest_release_are_not_said_to_stand_nowhere(
    question: str, tmp_path: Path
) -> None:
    log = "# Lamp\n\n## 3.2.0 (2026-05-11)\n\n- Oil lasts longer.\n\n## 3.1.0 (2026-02-02)\n\n- Parcels may weigh more.\n"
    (tmp_path / "CHANGELOG.md").write_text(log)
    async with open_engine(tmp_path / "data", embedder="minilm") as held:
        await finish(
            held,
            await held.submit_ingest([DocumentSource(path=str(tmp_path / "CHANGELOG.md"))], allowed=None),
        )
        reply = await held.query(Query(question))
    assert not reply.warnings
    assert "Oil lasts longer" in reply.context.lines[0].text


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("What changed in the latest release of lamp?", "30.10.0 (2024-01-07)"),
        ("What is the newest version of boat?", "10.10.0 (2024-01-07)"),
        ("What is new in the current version of lamp?", "30.10.0 (2024-01-07)"),
    ],
)
async def test_the_newest_release_stands_first_where_it_is_asked_for(
    engine: LeanRAG, question: str, first: str
) -> None:
    text = (await engine.query(Query(question))).context.text
    assert re.findall(r"§ (.+)", text)[0] == first
    assert ", older\n" not in text


async def test_of_releases_that_have_a_file_each_the_highest_number_is_the_newest(engine: LeanRAG) -> None:
    text = (await engine.query(Query("What is the latest anchor release?"))).context.text
    assert re.findall(r"^### .*?([\d.]+\d)", text, re.MULTILINE)[0] == "3008.10"


async def test_what_each_release_fixed_is_told_of_each_although_in_the_same_words(engine: LeanRAG) -> None:
    text = (await engine.query(Query("In which anchor versions was CVE-2020-25592 fixed?"))).context.text
    for number in ("3000.9", "3008.3", "3008.10"):
        assert re.search(rf"{re.escape(number)}.*\n(?:(?!###).*\n)*.*CVE-2020-25592", text), number


async def test_how_something_changed_is_told_by_the_releases_that_name_it(engine: LeanRAG) -> None:
    text = (await engine.query(Query("How did the wick of the lamp change over time?"))).context.text
    told = {int(each) for each in re.findall(r"§ (\d+)\.10\.0", text)}
    assert {30, 22, 14, 6} <= told
