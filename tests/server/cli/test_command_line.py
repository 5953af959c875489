"""The command line, as a shell sees it: exit codes, standard output, standard error."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from leanrag_tests_forks import Fork
from typer.testing import CliRunner

from leanrag_mcp.cli.main import app


def leanrag(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in this process: a process of its own spends seconds on its imports."""
    ran = CliRunner().invoke(app, arguments)
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return subprocess.CompletedProcess(arguments, ran.exit_code, ran.stdout, ran.stderr)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data folder with one document, to copy."""
    folder = tmp_path_factory.mktemp("indexed")
    (folder / "note.txt").write_text(
        "Darjeeling tea grows in West Bengal. Assam tea grows along the Brahmaputra."
    )
    ran = leanrag("ingest", str(folder / "note.txt"), "--data-dir", str(folder / "data"))
    assert ran.returncode == 0, ran.stderr
    return folder / "data"


@pytest.fixture(scope="module")
def vectors_indexed(indexed: Path) -> object:
    """Return the number of vectors in that folder, as ``status`` counts them."""
    return json.loads(leanrag("status", "--data-dir", str(indexed), "--json").stdout)["vectors"]


@pytest.mark.parametrize(
    "command",
    [
        *("serve", "ingest", "sync", "build", "query", "status", "reindex", "demo"),
        *("merge", "split", "corrections", "history", "rollback"),
    ],
)
def test_every_command_explains_itself(command: str) -> None:
    ran = leanrag(command, "--help")
    assert ran.returncode == 0
    assert "--data-dir" in ran.stdout
    assert "--collection" in ran.stdout


def test_ingest_build_query_status_and_reindex_speak_json(tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text("# Tea\n\nDarjeeling tea grows in West Bengal. Assam tea grows along the Brahmaputra.")
    data = ("--data-dir", str(tmp_path / "data"), "--json")
    ingested = json.loads(leanrag("ingest", str(note), "--no-build", *data).stdout)
    assert [each["status"] for each in ingested["documents"]] == ["added"]
    assert json.loads(leanrag("build", *data).stdout)["status"] == "done"
    # The real command once: nothing that a library prints may stand beside the JSON.
    command = [sys.executable, "-P", "-m", "leanrag_mcp", "query", "Where does Assam tea grow?", *data]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert "Brahmaputra" in answer["context"]
    assert json.loads(leanrag("reindex", *data).stdout)["status"] == "done"
    for arguments, said in (((" ",), "query is empty"), (("x", "--mode", "magic"), "'magic'")):
        refused = leanrag("query", *arguments, *data)
        assert refused.returncode == 1
        assert said in refused.stderr
    status = json.loads(leanrag("status", *data).stdout)
    assert status["documents"] == 1
    assert not status["stale"]


def test_the_index_is_restored_after_its_folder_was_lost(
    tmp_path: Path, indexed: Path, vectors_indexed: object
) -> None:
    shutil.copytree(indexed, tmp_path / "data")
    data = ("--data-dir", str(tmp_path / "data"), "--json")
    shutil.rmtree(tmp_path / "data" / "vectors")
    lost = json.loads(leanrag("status", *data).stdout)
    assert any("eindex" in warning for warning in lost["warnings"])
    assert leanrag("query", "Assam", *data).returncode == 0
    leanrag("reindex", *data)
    assert json.loads(leanrag("status", *data).stdout)["vectors"] == vectors_indexed


def test_a_damaged_vector_index_leaves_keyword_search_and_says_how_to_mend_it(
    tmp_path: Path, indexed: Path, vectors_indexed: object
) -> None:
    shutil.copytree(indexed, tmp_path / "data")
    data = ("--data-dir", str(tmp_path / "data"), "--json")
    (tmp_path / "data" / "vectors" / "chroma.sqlite3").write_bytes(b"this is no database" * 100)
    answer = json.loads(leanrag("query", "Where does Assam tea grow?", *data).stdout)
    assert "Brahmaputra" in answer["context"]
    assert any("vector index" in warning for warning in answer["warnings"])
    status = json.loads(leanrag("status", *data).stdout)
    assert any("vector index" in warning for warning in status["warnings"])
    assert json.loads(leanrag("reindex", *data).stdout)["status"] == "done"
    assert json.loads(leanrag("status", *data).stdout)["vectors"] == vectors_indexed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("query", "x"), "`leanrag setup FOLDER` adds them"),
        (("status", "--collection", "../up"), "../up"),
        (("ingest", "/does/not/exist"), "/does/not/exist"),
        (("build",), "`leanrag setup FOLDER` adds them"),
    ],
)
def test_an_error_goes_to_standard_error_with_exit_code_one(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    ran = leanrag(*arguments, "--data-dir", str(tmp_path))
    assert ran.returncode == 1
    assert said in ran.stderr + ran.stdout
    assert "Traceback" not in ran.stderr


def test_what_succeeds_only_in_part_ends_with_exit_code_three(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("Assam tea grows along the Brahmaputra.")
    (tmp_path / "empty.txt").write_text("")
    data = ("--data-dir", str(tmp_path / "data"))
    files = [str(tmp_path / name) for name in ("note.txt", "empty.txt")]
    ingested = leanrag("ingest", *files, "--no-build", *data)
    assert (ingested.returncode, "failed" in ingested.stdout) == (3, True)
    forgotten = leanrag("forget", files[0], "d9", *data)
    assert (forgotten.returncode, "unknown" in forgotten.stdout) == (3, True)
    assert leanrag("forget", "d9", *data).returncode == 1


def test_an_empty_variable_counts_as_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in (("LEANRAG_DATA_DIR", ""), ("LEANRAG_TAU", ""), ("HOME", str(tmp_path / "home"))):
        monkeypatch.setenv(name, value)
    assert "`leanrag setup FOLDER` adds them" in leanrag("status").stderr
    assert list(tmp_path.iterdir()) == []


# --- sync ----------------------------------------------------------------------------------


def test_a_sync_lists_what_it_would_do_then_does_it_and_groups_what_it_leaves_out(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for name in ("a.md", "b.md", "private.md"):
        (notes / name).write_text(f"Assam tea, says {name}, grows along the Brahmaputra.")
    for number in range(5):
        (notes / f"{number}.png").write_bytes(b"x")
    (notes / ".gitignore").write_text("private.md\n")
    data = ("--data-dir", str(tmp_path / "data"), "--no-build")
    assert "2 added" in leanrag("sync", str(notes), *data).stdout
    (notes / "b.md").unlink()
    (notes / "a.md").write_text("Darjeeling tea grows in West Bengal.")
    for more, removed in ((["--dry-run"], 0), ([], 1)):
        said = leanrag("sync", str(notes), *more, *data).stdout
        assert f"removed    {(notes / 'b.md').resolve()}: its file is gone" in said
        assert "1 replaced, 1 removed" in said
        assert ("nothing was changed" in said) is bool(more)
        assert "- left out: 1 named by .gitignore (private.md)" in said
        assert "- left out: 5 not supported yet: .png files (0.png, 1.png, 2.png and 2 more)" in said
        status = json.loads(leanrag("status", "--data-dir", str(tmp_path / "data"), "--json").stdout)
        assert status["documents"] == 2 - removed
    for number in range(30):
        (notes / f"{number}.txt").write_text(f"Garden {number} of Assam grows tea.")
    assert "\nadded " not in leanrag("sync", str(notes), *data).stdout
    (notes / "7.txt").rename(notes / "seven.txt")
    for more in (["--dry-run"], []):
        said = leanrag("sync", str(notes), *more, *data).stdout.splitlines()
        assert f"removed    {notes.resolve()}/7.txt: moved to {notes.resolve()}/seven.txt" in said
        (added,) = (line for line in said if line.startswith("added"))
        assert "seven" in added
    assert "left out   4.png" in leanrag("sync", str(notes), "--details", *data).stdout
    reply = json.loads(leanrag("sync", str(notes), "--json", *data).stdout)
    assert (reply["counts"], reply["skipped"][0]["count"]) == ({"unchanged": 31}, 5)
    (tmp_path / "empty").mkdir()
    for more in ([], ["--dry-run"]):
        empty = leanrag("sync", str(tmp_path / "empty"), *more, *data)
        assert (empty.returncode, empty.stdout.startswith("Documents")) == (1, False)
        said = empty.stdout + empty.stderr
        assert f"'{tmp_path / 'empty'}' holds no document that can be read." in said
    gone = leanrag("sync", str(tmp_path / "gone"), *data)
    assert gone.returncode == 1
    assert str(tmp_path / "gone") in gone.stderr


@pytest.mark.parametrize(("folder", "said"), [("empty", "holds no document"), ("gone", "There is no file")])
def test_a_folder_without_documents_makes_no_collection(tmp_path: Path, folder: str, said: str) -> None:
    (tmp_path / "empty").mkdir()
    data = ("--data-dir", str(tmp_path / "data"))
    refused = leanrag("sync", str(tmp_path / folder), "--collection", "new", *data)
    assert (refused.returncode, said in refused.stderr) == (1, True)
    assert leanrag("collections", *data).stdout == "There is no collection yet.\n"


def test_an_option_before_the_command_is_told_to_follow_it(tmp_path: Path) -> None:
    for option in ("--data-dir", f"--data-dir={tmp_path}"):
        refused = leanrag(option, "ls")
        assert refused.returncode == 2
        assert "leanrag query QUESTION --data-dir" in refused.stderr
    assert leanrag("--version").returncode == 0


def test_an_unknown_collection_is_reported_with_all_that_are_there_and_the_nearest(
    tmp_path: Path, indexed: Path
) -> None:
    shutil.copytree(indexed, tmp_path / "data")
    data = ("--data-dir", str(tmp_path / "data"))
    assert leanrag("collections", "copy", "default", "zebra", *data).returncode == 0
    said = leanrag("query", "tea", "--collection", "defualt", *data).stderr
    assert "There is no collection 'defualt'. Did you mean 'default'?" in said
    assert said.splitlines()[1:] == ["- default", "- zebra"]


def test_a_data_folder_that_may_not_be_looked_into_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed" / "data"
    look = os.stat

    def refuse(path: object, *rest: object, **more: object) -> os.stat_result:
        # An administrator, as whom tests may run, may look into every folder.
        if os.fspath(path).startswith(os.fspath(closed)):  # type: ignore[call-overload]
            raise PermissionError(13, "Permission denied", os.fspath(closed))
        return look(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", refuse)
    for command in (["status"], ["ingest", str(tmp_path)], ["doctor"]):
        ran = leanrag(*command, "--data-dir", str(closed))
        assert ran.returncode == 1
        assert (
            f"The data folder {closed} cannot be looked into: Permission denied." in ran.stdout + ran.stderr
        )


@pytest.mark.skipif(
    not hasattr(signal, "SIGINT") or sys.platform == "win32", reason="Ctrl-C is a signal here"
)
def test_a_watching_sync_follows_the_folder_until_ctrl_c(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("Assam tea grows along the Brahmaputra.")
    ran = Fork(
        # The data folder lies in the watched one: what it writes there must not set it off again.
        ["sync", notes, "--watch", "--json", "--no-build", "--data-dir", notes / "data"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert ran.stdout
    assert ran.stderr
    assert json.loads(ran.stdout.readline())["counts"] == {"added": 1}
    (notes / "b.md").write_text("Darjeeling tea grows in West Bengal.")
    assert json.loads(ran.stdout.readline())["counts"] == {"added": 1, "unchanged": 1}
    (notes / "a.md").unlink()
    assert json.loads(ran.stdout.readline())["counts"] == {"unchanged": 1, "removed": 1}
    ran.send_signal(signal.SIGINT)
    with ran:
        rest, said = ran.stdout.read(), ran.stderr.read()
    assert rest == ""
    assert ran.returncode == 0
    assert "Stopped." in said
    assert "Traceback" not in said


def test_entities_are_merged_and_split_and_corrections_listed_and_taken_back(
    tmp_path: Path, indexed: Path
) -> None:
    shutil.copytree(indexed, tmp_path / "data")
    data = ("--data-dir", str(tmp_path / "data"))
    assert leanrag("corrections", *data).stdout == "There are no corrections.\n"
    merged = leanrag("merge", "Brahmaputra", "West Bengal", "--name", "India", *data)
    assert merged.stdout.splitlines() == [
        "merge-1: Brahmaputra = West Bengal, called India",
        "It takes effect at the next build: leanrag build.",
    ]
    split = json.loads(leanrag("split", "Brahmaputra", "Assam", "--in", "d1:c1", *data, "--json").stdout)
    assert split["correction"] == "split-2: Brahmaputra is Assam in 1 passage"
    # No text was removed: what is pending is said.
    for command in (["query", "Where does Assam tea grow?"], ["status"]):
        said = leanrag(*command, *data).stdout.lower()
        assert "removed text" not in said
        assert "correction" in said
    unknown = leanrag("merge", "West Bengal", "Brahmaputa", *data)
    assert unknown.returncode == 1
    assert "Brahmaputra" in unknown.stderr
    built = json.loads(leanrag("build", *data, "--json").stdout)
    assert built["result"]["corrections"] == {"applied": ["merge-1", "split-2"], "without_effect": []}
    assert "(applied)" in leanrag("corrections", *data).stdout
    assert leanrag("corrections", "--undo", "merge-1", *data).stdout.startswith("Taken back: merge-1")
    held = json.loads(leanrag("corrections", *data, "--json").stdout)["corrections"]
    assert [each.partition(":")[0] for each in held] == ["split-2"]
