"""``leanrag config``: which value holds, where it comes from, and a file that keeps everything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from leanrag_engine.core.config import load_settings
from leanrag_mcp.cli.main import app


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of settings, which does not exist yet; no variable of the environment goes before it."""
    monkeypatch.delenv("LEANRAG_EMBEDDER", raising=False)
    path = tmp_path / "user" / "config.toml"
    monkeypatch.setenv("LEANRAG_CONFIG", str(path))
    return path


def leanrag(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["config", *arguments])


def listed() -> dict[str, Any]:
    rows = json.loads(leanrag("list", "--json").stdout)["settings"]
    return {each["name"]: (each["value"], each["origin"]) for each in rows}


def test_an_option_goes_before_the_environment_that_before_the_file_that_before_the_default(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listed()["embedder"] == ("auto", "default")
    assert leanrag("set", "embedder", "fitted").exit_code == 0
    assert listed()["embedder"] == ("fitted", "file")
    assert load_settings().embedder == "fitted"
    monkeypatch.setenv("LEANRAG_EMBEDDER", "minilm")
    assert listed()["embedder"] == ("minilm", "environment")
    assert load_settings(embedder="auto").embedder == "auto"
    monkeypatch.delenv("LEANRAG_EMBEDDER")
    assert leanrag("unset", "embedder").exit_code == 0
    assert listed()["embedder"] == ("auto", "default")
    assert file.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_cost", "2.5"),
        ("embedder", "all-MiniLM-L6-v2"),
        ("embedder", "BAAI/bge-m3"),
        ("read_only", "true"),
        ("tau", "auto"),
        ("toolsets", "read,agent"),
        ("allow_dirs", "/a:/b c"),
    ],
)
def test_every_kind_of_value_comes_back_from_the_file(file: Path, name: str, value: str) -> None:
    assert leanrag("set", name, value).exit_code == 0, file
    assert leanrag("get", name).stdout.strip() == value


def test_a_folder_is_kept_with_its_whole_path(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent.parent)
    for name in ("allow_dirs", "data_dir"):
        assert leanrag("set", name, "notes").exit_code == 0
    kept = load_settings()
    assert kept.allow_dirs == (file.parent.parent / "notes",)
    assert kept.data_dir == file.parent.parent / "notes"


def test_the_other_lines_of_the_file_stay(file: Path) -> None:
    file.parent.mkdir()
    file.write_text(
        "# my own\nmax_calls = 7  # a few\nllm_batch = 2\ntoolsets = [\n  'read',  # no more\n]\n"
    )
    assert leanrag("set", "max_calls", "9").exit_code == 0
    assert leanrag("unset", "llm_batch").exit_code == 0
    assert file.read_text() == "# my own\nmax_calls = 9  # a few\ntoolsets = [\n  'read',  # no more\n]\n"
    assert leanrag("set", "toolsets", "agent").exit_code == 0
    assert (load_settings().max_calls, load_settings().toolsets) == (9, ("agent",))


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        ("", ["set", "embeder", "x"], "Did you mean embedder"),
        ("", ["set", "llm_batch", "99"], "llm_batch cannot be '99'"),
        ("", ["set", "embedder", "foo"], "should be 'auto', 'minilm', 'e5', 'fitted', 'litellm/MODEL'"),
        ("", ["set", "embedder", "fited"], "Did you mean fitted?"),
        ("", ["set", "embedder", "mini-lm"], "Did you mean minilm?"),
        ("", ["set", "clustering", "leidn"], "Did you mean leiden?"),
        ("embeder = 1", ["list"], "Did you mean embedder"),
        ("clustering = 'dual'", ["list"], "`leanrag config set clustering VALUE`"),
        ("relation_weight = 0.4", ["list"], "take it out"),
        ("no toml", ["list"], "is no TOML file"),
    ],
)
def test_what_is_wrong_is_named_and_the_file_is_left_as_it_is(
    file: Path, content: str, arguments: list[str], said: str
) -> None:
    file.parent.mkdir()
    file.write_text(content)
    ran = leanrag(*arguments)
    assert ran.exit_code == 1
    assert said in ran.stderr
    assert file.read_text() == content


def test_the_list_shows_no_password(file: Path) -> None:
    assert leanrag("set", "llm_api_base", "http://me:secret@rag.example/v1").exit_code == 0
    assert "secret" in file.read_text()
    assert listed()["llm_api_base"] == ("http://...@rag.example/v1", "file")
    assert leanrag("set", "llm_api_base", "http://me:sec@re/t@rag.example/v1").exit_code == 0
    assert listed()["llm_api_base"] == ("http://...@rag.example/v1", "file")
