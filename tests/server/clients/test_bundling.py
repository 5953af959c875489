"""The bundle: what it carries, what its form asks for, and how what a host fills in reaches the server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest
import typer

from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import InvalidInput
from leanrag_mcp.bundle_entry import VARIABLES, arguments_of, find_unfilled

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "tests" / "programs"
SERVER_JSON: dict[str, Any] = json.loads(
    (ROOT / "server" / "clients" / "server.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def bundling() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PROGRAMS))
        yield import_module("bundling")


@pytest.fixture(scope="module")
def bundle(bundling: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bundle") / "leanrag.mcpb"
    bundling.write_bundle(ROOT, out, anyio.run(bundling.read_features))
    return out


@pytest.fixture(scope="module")
def manifest(bundle: Path) -> dict[str, Any]:
    read = json.loads(zipfile.ZipFile(bundle).read("manifest.json"))
    assert isinstance(read, dict)
    return read


def test_the_bundle_carries_every_source_and_nothing_that_was_made_from_them(bundle: Path) -> None:
    names = set(zipfile.ZipFile(bundle).namelist())
    written = {
        path.relative_to(ROOT).as_posix()
        for folder in ("server", "leanrag_engine", "prompts")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert written <= names
    assert {"manifest.json", "pyproject.toml", "README.md", "LICENSE"} <= names
    assert [name for name in names if re.search(r"__pycache__|\.pyc|^\.|egg-info|^tests", name)] == []


def test_the_same_sources_give_the_same_bytes(bundling: Any, bundle: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.mcpb"
    bundling.write_bundle(ROOT, again, anyio.run(bundling.read_features))
    assert again.read_bytes() == bundle.read_bytes()


def test_the_manifest_is_for_uv_and_starts_a_file_that_is_there(
    bundle: Path, manifest: dict[str, Any]
) -> None:
    assert manifest["manifest_version"] == "0.4"
    assert manifest["server"]["type"] == "uv"
    assert manifest["server"]["entry_point"] in zipfile.ZipFile(bundle).namelist()


def test_documents_are_picked_as_folders_and_keys_are_secrets(manifest: dict[str, Any]) -> None:
    form = manifest["user_config"]
    assert (form["documents"]["type"], form["documents"]["multiple"]) == ("directory", True)
    secret = {key for key, field in form.items() if field.get("sensitive")}
    assert secret == {key for key in form if key.endswith("_key")}
    assert secret
    assert not any("default" in form[key] for key in secret)


def test_every_placeholder_names_a_field_and_keys_are_no_arguments(manifest: dict[str, Any]) -> None:
    launch = manifest["server"]["mcp_config"]
    used = re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(launch))
    assert sorted(used) == sorted(manifest["user_config"])
    assert [word for word in launch["args"] if "user_config" in word] == ["${user_config.documents}"]


def test_every_variable_of_the_form_is_a_setting_or_a_key(bundling: Any) -> None:
    assert tuple(field.variable for field in bundling.FIELDS if field.variable) == VARIABLES
    settings = {f"LEANRAG_{name.upper()}" for name in Settings.model_fields}
    for field in bundling.FIELDS:
        assert not field.variable or (field.variable in settings) != field.secret


def test_an_unchanged_form_gives_the_default_settings(
    bundling: Any, manifest: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    untouched = Settings()
    for field in bundling.FIELDS:
        default = manifest["user_config"][field.key].get("default")
        if field.variable and default is not None:
            monkeypatch.setenv(field.variable, str(default).lower() if default is False else str(default))
    assert Settings() == untouched


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        (["/a b", "/c"], ["--allow-dir", "/a b", "--allow-dir", "/c"]),
        (["${user_config.documents}"], []),
        (["", "/c"], ["--allow-dir", "/c"]),
        ([], []),
    ],
)
def test_chosen_folders_become_options_and_an_empty_form_none(given: list[str], arguments: list[str]) -> None:
    assert arguments_of(given) == arguments


def test_variables_that_were_not_filled_in_are_removed() -> None:
    environ = {
        "OPENAI_API_KEY": "${user_config.openai_api_key}",
        "LEANRAG_LLM_MODEL": "",
        "LEANRAG_COLLECTION": "notes",
        "PATH": "",
    }
    assert find_unfilled(environ, VARIABLES) == ["LEANRAG_LLM_MODEL", "OPENAI_API_KEY"]


@pytest.mark.parametrize("way", [["-m", "leanrag_mcp.bundle_entry"], [str(ROOT / "server/bundle_entry.py")]])
def test_the_entry_serves_as_a_module_and_as_a_script(way: list[str], tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, *way, str(tmp_path), "${user_config.documents}"],
        input="",
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=60,
        env={"LEANRAG_LLM_MODEL": "${user_config.llm_model}", "HOME": str(tmp_path), "PATH": ""},
    )
    assert (ran.returncode, ran.stderr, ran.stdout) == (0, "", "")


def test_a_folder_that_is_no_checkout_is_reported(bundling: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"is not a checkout of leanrag-mcp.*--source"):
        bundling.write_bundle(tmp_path, tmp_path / "x.mcpb", bundling.ServerFeatures((), prompts=False))


def test_the_command_says_what_it_wrote_or_why_not(
    bundling: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-P", str(PROGRAMS / "bundling.py")]
    ran = subprocess.run(
        [*command, str(tmp_path / "x.mcpb"), "--source", str(ROOT)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Wrote " in ran.stdout
    with pytest.raises(typer.Exit):
        bundling.bundle(tmp_path / "no" / "x.mcpb", ROOT)
    assert "cannot be written" in capsys.readouterr().err


# --- server.json ---------------------------------------------------------------------------
# Checked against the registry's own schema where the packages can be fetched (.ci/clients); here
# offline, against what the registry's documentation asks for.


def test_server_json_is_what_the_registry_requires() -> None:
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", SERVER_JSON["name"])
    assert 1 <= len(SERVER_JSON["description"]) <= 100
    (package,) = SERVER_JSON["packages"]
    assert (package["registryType"], package["transport"]) == ("pypi", {"type": "stdio"})


def test_server_json_names_settings_that_exist_in_their_own_words_and_marks_keys_as_secret(
    bundling: Any,
) -> None:
    (package,) = SERVER_JSON["packages"]
    meaning = {f"LEANRAG_{name.upper()}": said for name, said in bundling.read_meanings(Settings).items()}
    meaning |= {field.variable: field.description for field in bundling.FIELDS if field.secret}
    named = {each["name"]: each for each in package["environmentVariables"]}
    assert {name: each["description"] for name, each in named.items()} == {
        name: meaning[name] for name in named
    }
    assert {name for name, each in named.items() if each.get("isSecret")} == {
        field.variable for field in bundling.FIELDS if field.secret
    }
    assert [argument["name"] for argument in package["packageArguments"]] == ["--allow-dir"]
