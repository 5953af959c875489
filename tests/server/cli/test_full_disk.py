"""What a command cannot write: it ends with one line that names it, and every file is as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from leanrag_tests_forks import Fork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on files, and /dev/full")

LIMITED = """
import resource, sys
from leanrag_mcp.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
sys.argv = ["leanrag", *sys.argv[1:]]
main()
"""
"""A program that runs a command which can write to no file."""


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def run_in(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run a command; return its exit code and what it says on standard error."""
    environment = {**os.environ, "LEANRAG_CONFIG": str(folder / "settings.toml"), "COLUMNS": "200"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Fork(arguments, stdin=subprocess.DEVNULL, env=environment, **pipes) as ran:
        assert ran.stderr
        said = ran.stderr.read()
        return ran.wait(60), said


@pytest.mark.parametrize(
    "words",
    [
        ("config", "set", "embedder", "fitted"),
        ("config", "unset", "workers"),
        ("install", "cursor", "--config", "FOLDER/mcp.json"),
        ("uninstall", "zed", "--config", "FOLDER/zed.json"),
        ("install", "claude-code", "--plugin", "FOLDER/plugin"),
    ],
    ids=" ".join,
)
def test_a_file_that_cannot_be_written_is_named_and_every_file_is_as_it_was(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "settings.toml").write_text("workers = 1\n# a remark\n")
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"files": {"command": "files"}}}')
    servers = '{"leanrag": {"command": "leanrag-mcp", "args": []}, "files": {"command": "files"}}'
    (tmp_path / "zed.json").write_text(f'{{"context_servers": {servers}}}')
    passages = '[{"title": "Oban", "text": "Ewan Reid sailed to Oban."}]'
    queries = (
        '[{"id": "q", "question": "Where to did Ewan Reid sail?", "answer": "Oban", "type": "", "gold": [0]}]'
    )
    (tmp_path / "set.json").write_text(f'{{"passages": {passages}, "queries": {queries}}}')
    before = contents(tmp_path)
    arguments = [each.replace("FOLDER", str(tmp_path)) for each in words]
    code, said = run_in(tmp_path, "-c", LIMITED, *arguments)
    assert (code, said.count("Error: "), "Traceback" in said) == (1, 1, False), said
    assert "cannot be written: File too large" in said
    assert contents(tmp_path) == before
    code, said = run_in(tmp_path, *arguments)
    assert code == 0, said
    assert contents(tmp_path) != before


def test_output_that_cannot_be_written_ends_a_command_with_one_line() -> None:
    with (
        Path("/dev/full").open("w") as full,
        Fork(["config", "list"], stdout=full, stderr=subprocess.PIPE) as ran,
    ):
        assert ran.stderr
        said = ran.stderr.read()
        assert ran.wait(60) == 1
    assert said.startswith("Error: The output cannot be written: No space left on device. Make room")
    assert said.count("\n") == 1
