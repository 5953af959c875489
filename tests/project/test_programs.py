"""The programs of tests/programs keep up with the code: each can be imported, which runs none of it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "programs"

NEEDED = {
    "fastmcp_client": "fastmcp",
    "langchain_adapters": "langchain_mcp_adapters",
    "e5": "onnx",
    "minilm": "onnx",
    "openai_agents": "agents",
    "pydantic_ai_toolset": "pydantic_ai",
    "registry_schema": "jsonschema",
}
"""Packages of other people's clients, which only `.ci/clients` installs, and of the export."""


def test_each_mutation_finds_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROGRAMS))
    mutants = import_module("mutants")
    assert [fault for each in mutants.read_table() if (fault := each.find_fault())] == []
    assert len(set(mutants.read_table())) >= 60


@pytest.mark.parametrize("path", sorted(PROGRAMS.rglob("*.py")), ids=lambda path: path.stem)
def test_a_program_can_be_imported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = NEEDED.get(path.stem)
    if needed and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    if path.stem == "python_sdk_1" and not version("mcp").startswith("1."):
        pytest.skip("needs version 1 of the MCP SDK")
    # As when it is started: files beside it are found first, and under their own names.
    monkeypatch.syspath_prepend(str(path.parent))
    for beside in path.parent.glob("*.py"):
        monkeypatch.delitem(sys.modules, beside.stem, raising=False)
    modules = set(sys.modules)
    spec = spec_from_file_location(f"leanrag_program_{path.stem}", path)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # a dataclass looks its module up
    spec.loader.exec_module(module)
    for beside in path.parent.glob("*.py"):
        if beside.stem not in modules:
            sys.modules.pop(beside.stem, None)
