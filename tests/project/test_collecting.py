"""Every test file runs: pytest passes over folders of some names (``build``, ``dist``), without a word."""

from __future__ import annotations

import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_every_test_file_in_git_is_collected(pytestconfig: pytest.Config) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", ":(glob)**/test_*.py", ":(glob)**/*_test.py"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("needs a git checkout")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert Path(__file__) in files
    starts = {ROOT / each for each in pytestconfig.getini("testpaths")}

    def is_collected(path: Path) -> bool:
        """Ask the hook that decides on each folder and file that pytest comes to."""
        named = any(fnmatch(path.name, each) for each in pytestconfig.getini("python_files"))
        above = [
            path,
            *(each for each in path.parents if any(each.is_relative_to(start) for start in starts)),
        ]
        ignores = pytestconfig.hook.pytest_ignore_collect
        return (
            named
            and len(above) > 1
            and not any(ignores(collection_path=each, config=pytestconfig) for each in above)
        )

    assert [str(path.relative_to(ROOT)) for path in files if path.exists() and not is_collected(path)] == []
