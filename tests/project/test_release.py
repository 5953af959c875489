"""The owner's command refuses what does not agree, and asks for programs, before it builds or uploads. `.ci/clients` builds twice and compares."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = [
    ".ci/release",
    ".docker",
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "leanrag_engine",
    "prompts",
]
PARTS += ["server", "tests/programs/dated_sdist.py", "tests/programs/bundling.py", ".gitignore"]


def git(checkout: Path, *words: str) -> None:
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *names, *words], cwd=checkout, check=True, capture_output=True)  # noqa: S607


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as a repository of one commit, its weights cut short: packing them takes seconds."""
    folder = tmp_path_factory.mktemp("release") / "checkout"
    for part in PARTS:
        source, target = ROOT / part, folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for weights in folder.rglob("*.onnx"):
        weights.write_bytes(b"weights")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "All")
    git(folder, "tag", "start")
    return folder


@pytest.fixture
def checkout(repository: Path) -> Path:
    """The repository as it was."""
    git(repository, "reset", "-q", "--hard", "start")
    return repository


def release(checkout: Path, *words: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{path}"
    return subprocess.run(
        ["bash", ".ci/release", *words],  # noqa: S607
        cwd=checkout,
        env={**os.environ, "PATH": path, "HOME": str(checkout.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("server/clients/server.json", '      "version": "', '      "version": "9', "server.json says 9"),
        ("CHANGELOG.md", "## [", "## [9", 'CHANGELOG.md begins with "## [9'),
        ("README.md", "mcp-name: io", "mcp-name: oi", "README.md says mcp-name: oi"),
        ("README.md", "leanrag-mcp indexes", "leanrag-mcp reads", "not committed"),
    ],
)
def test_what_does_not_agree_or_is_not_committed_is_refused_before_anything_is_built(
    checkout: Path, file: str, old: str, new: str, said: str
) -> None:
    change(checkout / file, old, new)
    done = release(checkout)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert not (checkout / "dist").exists()


def test_publishing_asks_for_a_date_and_then_for_each_program_before_anything_is_built(
    checkout: Path,
) -> None:
    change(checkout / "CHANGELOG.md", "not released yet", "2030-01-01")
    git(checkout, "commit", "-qam", "A date")
    programs = checkout.parent / "programs"
    programs.mkdir()
    for name in ("bash", "dirname", "sed", "grep", "git"):
        (programs / name).symlink_to(shutil.which(name) or name)
    (programs / "twine").symlink_to("/bin/true")
    done = subprocess.run(
        [str(programs / "bash"), ".ci/release", "--publish"],
        cwd=checkout,
        env={"PATH": str(programs), "HOME": str(checkout.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: docker is not installed")
    assert not (checkout / "dist").exists()
