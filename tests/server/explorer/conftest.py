"""A browser for the explorer's pages, where there is one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parents[2] / "programs" / "explorer"

Browse = Callable[..., Any]


def find_playwright() -> Path | None:
    """Return the folder in which npm installed playwright-core, if it did; LEANRAG_TESTS_PLAYWRIGHT names it."""
    if named := os.environ.get("LEANRAG_TESTS_PLAYWRIGHT"):
        return Path(named)
    if not shutil.which("npm"):
        return None
    found = subprocess.run(["npm", "root", "--global"], capture_output=True, text=True, check=False)  # noqa: S607
    for folder in (Path.cwd() / "node_modules", Path(found.stdout.strip() or "/nowhere")):
        if (folder / "playwright-core").is_dir():
            return folder.parent
    return None


@pytest.fixture(scope="session")
def browse() -> Browse:
    """Return what a program of ours saw in a browser, given its name and arguments."""
    chromium, playwright = shutil.which("chromium"), find_playwright()
    if not (chromium and shutil.which("node") and playwright):
        say = pytest.fail if "LEANRAG_TESTS_PLAYWRIGHT" in os.environ else pytest.skip
        say("needs node, chromium and playwright-core (npm)")

    def run(program: str, *arguments: str) -> Any:
        done = subprocess.run(
            ["node", str(PROGRAMS / program), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
            cwd=playwright,
            env={"PATH": "/usr/bin:/bin", "CHROMIUM": str(chromium)},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
