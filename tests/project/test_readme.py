"""The README and the pages of .docs say what is so: code runs, commands exist, links lead somewhere, tables are made from the code."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from leanrag_engine import DocumentSource, LeanRAG, Query
from leanrag_engine.core.config import Settings
from leanrag_mcp.app import create_server
from leanrag_mcp.cli.main import app
from leanrag_mcp.http.settings import HttpSettings

if TYPE_CHECKING:
    from typer._click import Command

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / ".docs").glob("*.md"))]
SETTINGS = {**Settings.model_fields, **HttpSettings.model_fields}


def blocks(text: str, *languages: str) -> list[str]:
    """Return the code blocks in one of these languages."""
    return [
        code
        for language, code in re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        if language in languages
    ]


def prose(text: str) -> str:
    return re.sub(r"^(`{3,}).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)


def commands(shell: str) -> Iterator[list[str]]:
    """Yield the words of each call of ``leanrag`` in lines of a shell."""
    for line in shell.splitlines():
        for part in re.split(r"&&|\|", line):
            words = shlex.split(part, comments=True)
            if "leanrag" in words[:4] and words[0] in {"leanrag", "uvx"}:
                yield words[words.index("leanrag") + 1 :]


def find_command(words: list[str]) -> tuple[Command, list[str]]:
    """Return the command that these words call, and its arguments."""
    command: Command = get_command(app)
    while isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        found = command.get_command(
            command.make_context("leanrag", [*words, "--help"], resilient_parsing=True), words[0]
        )
        assert found, f"no command {words[0]!r}"
        command, words = found, words[1:]
    return command, words


def anchors(page: Path) -> set[str]:
    """Return the names by which links reach the headings of a page, made as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def settings_table() -> str:
    rows = ["| variable | default | meaning |", "|---|---|---|"]
    read_meanings = run_path(str(ROOT / "tests" / "programs" / "bundling.py"))["read_meanings"]
    meanings = read_meanings(Settings) | read_meanings(HttpSettings)
    for name, field in SETTINGS.items():
        default = "the platform's own" if field.default_factory else field.default
        match default:
            case () | None:
                shown = "none"
            case bool():
                shown = str(default).lower()
            case tuple():
                shown = ",".join(default)
            case _:
                shown = default
        rows.append(f"| `LEANRAG_{name.upper()}` | {shown} | {meanings[name]} |")
    return "\n".join(rows)


def test_the_readme_is_at_most_12_kilobytes_and_leads_to_every_page() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.encode()) <= 12_000
    assert [page.name for page in PAGES[1:] if f"(.docs/{page.name}" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", prose(page.read_text(encoding="utf-8")))
    for path, anchor in links:
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_exists_and_takes_what_it_is_given(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for words in (each for shell in blocks(text, "sh") for each in commands(shell)):
        command, given = find_command(words)
        command.make_context("leanrag", given)  # an argument that it does not take raises
    for shown in re.findall(r"`(leanrag [^`]+)`", prose(text)):
        command, given = find_command(shlex.split(shown)[1:])
        known = {"--help", "--install-completion"}.union(*(each.opts for each in command.params))
        assert {word for word in given if word.startswith("-")} <= known, shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_setting_file_and_piece_of_configuration_of_a_page_is_sound(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert {name.lower() for name in re.findall(r"\bLEANRAG_([A-Z_]*[A-Z])\b", text)} <= SETTINGS.keys()
    for path in re.findall(r"`((?:tests|\.ci|\.docker|\.docs)/[\w./-]+|[\w/]+\.py)`", prose(text)):
        assert any((folder / path).exists() for folder in (ROOT, ROOT / "leanrag_engine")), path
    for code in blocks(text, "json"):
        json.loads(code)
    for code in blocks(text, "toml"):
        tomllib.loads(code)
    for code in blocks(text, "py", "python"):
        compile(code, page.name, "exec")


def test_the_repository_that_uv_installs_from_is_the_declared_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert re.findall(r"git\+(\S+)", README.read_text(encoding="utf-8")) == [project["urls"]["Source"]]


def test_the_settings_table_is_made_from_the_code() -> None:
    page = (ROOT / ".docs" / "settings.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- settings:[^\n]*-->\n\n(.*?)\n\n<!-- /settings -->", page, re.DOTALL)
    assert block, "settings.md lost its table"
    assert block[1] == settings_table()


@pytest.mark.parametrize(
    ("page", "heading"), [("README.md", "## Tools\n"), (".docs/tools.md", "# What does each tool give?\n")]
)
def test_a_table_of_tools_names_every_tool_and_no_other(page: str, heading: str) -> None:
    section = (ROOT / page).read_text(encoding="utf-8").split(heading)[1].split("\n## ")[0]
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", section))
    offered = {tool.name for tool in create_server(Settings())._tool_manager.list_tools()}
    assert named == offered


@pytest.mark.anyio
async def test_the_reply_in_the_readme_is_the_one_that_its_two_notes_give(tmp_path: Path) -> None:
    section = README.read_text(encoding="utf-8").split("## What the model gets\n")[1]
    question = re.search(r'"(.+?)"', section)
    shown = re.search(r"````text\n(.*?)\n````", section, re.DOTALL)
    assert question
    assert shown
    people, bells = re.findall(r"^```\n\[.+?\] (.*?)\n```", shown[1], re.MULTILINE | re.DOTALL)
    notes = {
        "notes/budget.md": f"# Bell tower\n\n{bells}\n",
        "notes/team/people.md": f"# People\n\n{people}\n",
    }
    for name, text in notes.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    async with await LeanRAG.open(Settings(data_dir=tmp_path / "data", embedder="minilm")) as engine:
        job = await engine.submit_ingest(
            [DocumentSource(path=str(tmp_path / name)) for name in notes], allowed=None
        )
        await engine.job(job.id, wait_seconds=60)
        assert (await engine.query(Query(question[1]))).context.text == shown[1]


def test_the_python_example_runs_and_finds_the_answer(tmp_path: Path) -> None:
    (code,) = blocks((ROOT / ".docs" / "python.md").read_text(encoding="utf-8"), "python")
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "Charles Babbage" in ran.stdout
    assert "[d1:c1]" in ran.stdout
