"""One version, wherever it is written."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import import_module
from importlib.metadata import metadata, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def declared() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def test_the_installed_package_is_of_the_declared_version() -> None:
    assert version("leanrag-mcp") == declared()


def test_the_bundles_manifest_is_of_the_declared_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "programs"))
    bundling = import_module("bundling")
    project = bundling.project_of(ROOT)
    assert bundling.manifest(project, bundling.ServerFeatures((), prompts=False))["version"] == declared()


def test_server_json_is_of_the_declared_version_and_so_is_each_package_that_it_names() -> None:
    server = json.loads((ROOT / "server" / "clients" / "server.json").read_text(encoding="utf-8"))
    assert {server["version"], *(package["version"] for package in server["packages"])} == {declared()}
    assert [package["identifier"] for package in server["packages"]] == [metadata("leanrag-mcp")["Name"]]


def test_the_changelogs_newest_entry_is_of_the_declared_version_or_not_released_yet() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    entries = re.findall(r"^## \[([^\]]+)\]", changelog, re.MULTILINE)
    assert entries, "CHANGELOG.md has no entry"
    # "Unreleased" gathers what the declared version will bring; entries below it are older ones.
    assert entries[0] in {"Unreleased", declared()}
    assert declared() not in entries[1:], f"{declared()} is out already: raise the version"
