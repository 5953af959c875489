"""The Dockerfile, which no engine has built here: it copies what is there, and installs as the page says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / ".docker" / "Dockerfile").read_text(encoding="utf-8")
IGNORED = (ROOT / ".docker" / "Dockerfile.dockerignore").read_text(encoding="utf-8")


def copy_arguments() -> set[str]:
    return {
        name for line in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE) for name in line.split()
    }


def test_what_is_copied_is_all_that_an_install_needs_and_reaches_the_builder() -> None:
    assert copy_arguments() == {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "leanrag_engine",
        "prompts",
        "server",
    }
    assert all((ROOT / name).exists() for name in copy_arguments())
    assert {line[1:] for line in IGNORED.splitlines() if line.startswith("!")} == copy_arguments()


def test_it_installs_as_the_page_on_servers_says() -> None:
    page = (ROOT / ".docs" / "server-for-a-team.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^RUN (pip install .*)$", DOCKERFILE, re.MULTILINE)
    assert f"`{command.replace(' --no-cache-dir', '')}`" in page


def test_it_serves_as_its_own_user_with_a_folder_for_data() -> None:
    assert re.search(r"^USER (?!root)", DOCKERFILE, re.MULTILINE)
    assert "ENV LEANRAG_DATA_DIR=/data" in DOCKERFILE
    assert 'ENTRYPOINT ["leanrag-mcp"]' in DOCKERFILE
