"""What is installed is what lies in the folders, under the right names."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import leanrag_engine
import leanrag_mcp

ROOT = Path(__file__).parents[2]
INSTALLED_AS = {"leanrag_engine": "leanrag_engine", "server": "leanrag_mcp", "prompts": "leanrag_prompts"}
CARRIED = {".py", ".md", ".txt", ".typed", ".onnx", ".yaml", ".html", ".css", ".js"}
CARRIED_NAMES = {"py.typed", "tokenizer.json", "definitions.json", "clients.toml", "LICENSE", "LICENSE-d3"}


def expected_files() -> set[str]:
    return {
        str(Path(package) / path.relative_to(ROOT / folder))
        for folder, package in INSTALLED_AS.items()
        for path in (ROOT / folder).rglob("*")
        if (path.suffix in CARRIED or path.name in CARRIED_NAMES) and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: a stale build folder in the checkout must neither help nor harm."""
    copy = tmp_path_factory.mktemp("checkout")
    names = ["pyproject.toml", "README.md", "LICENSE", *INSTALLED_AS]
    subprocess.run(["cp", "-r", *(str(ROOT / name) for name in names), str(copy)], check=True)  # noqa: S607
    out = copy / "dist"
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)],
        check=True,
        capture_output=True,
    )
    return next(out.glob("*.whl"))


def test_the_wheel_holds_every_file_of_the_folders_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == expected_files()


def test_the_wheel_installs_no_module_called_server(wheel: Path) -> None:
    tops = {name.split("/", maxsplit=1)[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(INSTALLED_AS.values())


def test_both_packages_come_from_the_same_root() -> None:
    engine, server = Path(leanrag_engine.__file__).parent, Path(leanrag_mcp.__file__).parent
    assert engine.parent == server.parent


def test_every_package_says_that_it_is_typed() -> None:
    for package in (leanrag_engine, leanrag_mcp):
        assert (Path(package.__file__).parent / "py.typed").exists()
