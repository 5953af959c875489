"""A sync makes the collection equal to a folder, reads only what changed, and never takes a broken folder for an empty one."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.jobs import IngestOutcome, Job
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.documents import guarding, loading
from leanrag_engine.engine import LeanRAG
from leanrag_engine.pipeline.ingest import run as ingestion
from leanrag_engine.pipeline.ingest import sync

pytestmark = pytest.mark.anyio

TEXTS = {
    "a.md": "# Skerryvore\n\nAlan Stevenson built Skerryvore in Scotland.",
    "b.md": "# Bell Rock\n\nRobert Stevenson built the Bell Rock.",
    "deep/c.txt": "Augustin Fresnel designed a lens in Paris.",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of three files that were written long ago."""
    root = tmp_path / "notes"
    for name, text in TEXTS.items():
        write(root / name, text)
    return root


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[LeanRAG]:
    async with await LeanRAG.open(load_settings(data_dir=tmp_path / "data")) as opened:
        yield opened


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are parsed."""
    names: list[str] = []
    parse = loading.parse_file

    def note(source: DocumentSource, file: Any) -> Any:
        names.append(file.path.name)
        return parse(source, file)

    monkeypatch.setattr(guarding, "parse_file", note)
    return names


def write(path: Path, text: str, *, age: float = 1000) -> None:
    """Write a file that looks as if it was written ``age`` seconds ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    then = path.stat().st_mtime - age
    os.utime(path, (then, then))


async def run(engine: LeanRAG, folder: Path, **options: Any) -> Job:
    options = {"build": False, "sync": True, "allowed": None, **options}
    job = await engine.submit_ingest([DocumentSource(path=str(folder))], **options)
    return await engine.job(job.id, wait_seconds=60)


async def outcomes(engine: LeanRAG, folder: Path, **options: Any) -> dict[str, str]:
    """What became of each file, by its name."""
    job = await run(engine, folder, **options)
    assert job.status.value == "done", job.message
    return {Path(each.id).name: each.status for each in job.documents}


async def held(engine: LeanRAG) -> list[str]:
    return sorted(Path(each.id).name for each in await engine.documents())


async def test_a_sync_adds_updates_and_removes_and_leaves_texts_and_other_folders_alone(
    engine: LeanRAG, folder: Path, tmp_path: Path
) -> None:
    write(tmp_path / "elsewhere" / "d.md", "Thomas Smith lit the first lamps.")
    other = [
        DocumentSource(path=str(tmp_path / "elsewhere" / "d.md")),
        DocumentSource(text="A text.", id="text"),
    ]
    await engine.job((await engine.submit_ingest(other, build=False, allowed=None)).id, wait_seconds=60)
    assert await outcomes(engine, folder) == {"a.md": "added", "b.md": "added", "c.txt": "added"}
    (folder / "b.md").unlink()
    write(folder / "a.md", TEXTS["a.md"] + " It is tall.", age=500)
    write(folder / "e.md", "David Stevenson built Muckle Flugga.")
    wanted = {"a.md": "replaced", "b.md": "removed", "c.txt": "unchanged", "e.md": "added"}
    assert await outcomes(engine, folder, dry_run=True) == wanted
    assert await held(engine) == ["a.md", "b.md", "c.txt", "d.md", "text"]
    job = await run(engine, folder, build=True)
    assert {Path(each.id).name: each.status for each in job.documents} == wanted
    assert await held(engine) == ["a.md", "c.txt", "d.md", "e.md", "text"]
    assert not (await engine.status()).collection.stale
    assert "Bell Rock" not in " ".join(each.text for each in (await engine.sources(document="a.md")).chunks)
    assert (await engine.search_text("Bell Rock")).total == 0


async def test_an_unchanged_file_is_neither_read_nor_parsed_and_a_touched_one_not_parsed(
    engine: LeanRAG, folder: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(engine, folder)
    assert sorted(parsed) == ["a.md", "b.md", "c.txt"]
    parsed.clear()
    reads: list[str] = []
    read = loading.read_file

    def note(source: DocumentSource, **options: Any) -> Any:
        reads.append(Path(source.path).name)
        return read(source, **options)

    monkeypatch.setattr(ingestion, "read_file", note)
    assert set((await outcomes(engine, folder)).values()) == {"unchanged"}
    assert reads == []
    os.utime(folder / "a.md", (1e9, 1e9))
    for seen in (["a.md"], []):
        assert set((await outcomes(engine, folder)).values()) == {"unchanged"}
        assert (reads, parsed) == (seen, [])
        reads.clear()
    # An ingest of the folder knows it too.
    assert set((await outcomes(engine, folder, sync=False)).values()) == {"unchanged"}
    assert (reads, parsed) == ([], [])


async def test_a_file_that_changed_a_moment_ago_is_compared_by_its_content(
    engine: LeanRAG, folder: Path
) -> None:
    """The clock of a file system has steps: a second change within one leaves size and time as they are."""
    write(folder / "a.md", "# Skerryvore\n\nIt was lit in 1844.", age=0)
    status = (folder / "a.md").stat()
    await run(engine, folder)
    (folder / "a.md").write_text("# Skerryvore\n\nIt was lit in 1845.")
    os.utime(folder / "a.md", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (await outcomes(engine, folder))["a.md"] == "replaced"


async def test_a_given_title_counts_although_the_file_is_unchanged(engine: LeanRAG, folder: Path) -> None:
    await run(engine, folder)
    source = DocumentSource(path=str(folder / "a.md"), title="The tall one")
    job = await engine.submit_ingest([source], build=False, allowed=None)
    assert [each.status for each in (await engine.job(job.id, wait_seconds=60)).documents] == ["replaced"]
    job = await engine.submit_ingest([source], build=False, allowed=None)
    assert [each.status for each in (await engine.job(job.id, wait_seconds=60)).documents] == ["unchanged"]


async def test_a_document_under_an_id_of_its_own_is_updated_under_it(engine: LeanRAG, folder: Path) -> None:
    source = DocumentSource(
        path=str(folder / "a.md"), id="mine", title="My own title", metadata={"kind": "x"}
    )
    await engine.job((await engine.submit_ingest([source], build=False, allowed=None)).id, wait_seconds=60)
    assert (await outcomes(engine, folder))["mine"] == "unchanged"
    write(folder / "a.md", "Changed words about Skerryvore.", age=500)
    assert (await outcomes(engine, folder))["mine"] == "replaced"
    [mine] = [each for each in await engine.documents() if each.id == "mine"]
    assert (mine.title, mine.metadata["kind"]) == ("My own title", "x")
    assert len(await engine.documents()) == 3
    (folder / "a.md").unlink()
    assert (await outcomes(engine, folder))["mine"] == "removed"


async def test_what_an_ignore_file_names_is_removed_and_what_was_read_on_purpose_stays(
    engine: LeanRAG, folder: Path
) -> None:
    write(folder / "package-lock.json", "{}" + "x " * 20)
    write(folder / ".hidden" / "h.md", "Hidden words.")
    named = [DocumentSource(path=str(folder / name)) for name in ("package-lock.json", ".hidden/h.md")]
    await run(engine, folder)
    job = await engine.job((await engine.submit_ingest(named, build=False, allowed=None)).id, wait_seconds=60)
    added = [Path(each.id).name for each in job.documents if each.status == "added"]
    (folder / ".leanragignore").write_text("deep/\n")
    job = await run(engine, folder)
    assert {Path(each.id).name: (each.status, each.error) for each in job.documents} == {
        "a.md": ("unchanged", ""),
        "b.md": ("unchanged", ""),
        **dict.fromkeys(added, ("unchanged", "")),
        "c.txt": ("removed", "named by .leanragignore"),
    }
    assert "h.md" in added
    assert [(each.reason, each.count, each.examples) for each in job.skipped][-1:] == [
        ("named by .leanragignore", 1, ("deep",))
    ]


async def test_files_whose_names_are_not_utf8_stay_as_long_as_they_are_there(
    engine: LeanRAG, folder: Path
) -> None:
    names = [os.fsdecode(each) for each in (b"bad\xff.md", b"gone\xff.md", b"kept\xff.md")]
    for name in names:
        try:
            write(folder / name, f"A text about {name!a}.")
        except OSError:
            pytest.skip("this file system takes UTF-8 names alone")
    write(folder / r"bad\xff.md", "A text under a name that reads the same.")
    first = await run(engine, folder)
    (failed,) = (each for each in first.documents if each.status == "failed")
    assert r"bad\xff.md' cannot be read" in failed.error
    assert {each.title for each in await engine.documents()} >= {r"bad\xff", r"gone\xff", r"kept\xff"}
    (folder / r"bad\xff.md").unlink()
    (folder / names[0]).write_text("")
    (folder / names[1]).unlink()
    (folder / ".leanragignore").write_bytes(b"/kept?.md\n")
    became = {Path(each.id).name: (each.status, each.error) for each in (await run(engine, folder)).documents}
    assert became[r"bad\xff.md"] == ("removed", "its file is empty")
    assert became[r"gone\xff.md"] == ("removed", "its file is gone")
    assert became[r"kept\xff.md"] == ("removed", "named by .leanragignore")


async def test_what_is_no_file_of_its_own_any_more_is_removed(
    engine: LeanRAG, folder: Path, tmp_path: Path
) -> None:
    names = ("emptied", "folder", "dangling", "elsewhere", "other")
    for name in names:
        write(folder / f"{name}.md", f"A text about {name}.")
    write(tmp_path / "outside" / "secret.md", "A secret.")
    await run(engine, folder)
    for name in names:
        (folder / f"{name}.md").unlink()
    (folder / "emptied.md").touch()
    write(folder / "folder.md" / "inside.md", "Inside.")
    (folder / "dangling.md").symlink_to(tmp_path / "nothing")
    (folder / "elsewhere.md").symlink_to(tmp_path / "outside" / "secret.md")
    (folder / "other.md").symlink_to(folder / "folder.md" / "inside.md")
    became = {Path(each.id).name: (each.status, each.error) for each in (await run(engine, folder)).documents}
    assert became == became | {
        "emptied.md": ("removed", "its file is empty"),
        "folder.md": ("removed", "its path is no file any more"),
        "dangling.md": ("removed", "its path is a link now"),
        "elsewhere.md": ("removed", "its path is a link now"),
        "other.md": ("removed", "its path is a link now"),
        "inside.md": ("added", ""),
    }
    assert not any("secret" in each.id for each in await engine.documents())


async def test_two_files_of_one_size_and_time_that_are_swapped_are_read_again(
    engine: LeanRAG, folder: Path
) -> None:
    for name in ("one", "two"):
        write(folder / f"{name}.md", f"A word: {name}.")
        os.utime(folder / f"{name}.md", (1_600_000_000, 1_600_000_000))
    await run(engine, folder)
    (folder / "one.md").rename(folder / "new.md")
    (folder / "two.md").rename(folder / "one.md")
    (folder / "new.md").rename(folder / "two.md")
    became = {Path(each.id).name: each.status for each in (await run(engine, folder)).documents}
    assert (became["one.md"], became["two.md"]) == ("replaced", "replaced")


async def test_a_note_on_a_folder_goes_with_the_last_document_in_it(engine: LeanRAG, folder: Path) -> None:
    for inner in (folder, folder / "deep"):
        write(inner / ".leanrag.md", f"A private note on {inner.name}.")
    await run(engine, folder)
    assert sorted((await engine.status()).collection.notes.values()) == [
        "A private note on deep.",
        "A private note on notes.",
    ]
    job, _ = await engine.submit_delete([str(folder.resolve() / "deep" / "c.txt")])
    assert job is not None
    await engine.job(job.id, wait_seconds=60)
    assert list((await engine.status()).collection.notes.values()) == ["A private note on notes."]


# --- broken folders ------------------------------------------------------------------------


@pytest.mark.parametrize("fate", ["missing", "empty", "all ignored", "file"])
async def test_a_folder_that_is_gone_or_empty_removes_nothing(
    engine: LeanRAG, folder: Path, fate: str
) -> None:
    await run(engine, folder)
    match fate:
        case "missing":
            folder.rename(folder.with_name("moved"))
        case "empty":
            shutil.rmtree(folder)
            folder.mkdir()
        case "all ignored":
            (folder / ".gitignore").write_text("*\n")
        case "file":
            shutil.rmtree(folder)
            folder.write_text("x")
    job = await run(engine, folder)
    assert job.status.value == "failed"
    assert str(folder) in job.message
    assert len(await engine.documents()) == 3


async def test_an_empty_folder_removes_its_documents_if_that_is_allowed(
    engine: LeanRAG, folder: Path
) -> None:
    await run(engine, folder)
    shutil.rmtree(folder)
    folder.mkdir()
    assert "--allow-empty" in (await run(engine, folder)).message
    assert set((await outcomes(engine, folder, allow_empty=True, build=True)).values()) == {"removed"}
    assert await engine.documents() == []


@pytest.mark.parametrize("fate", ["gone", "replaced"])
async def test_a_folder_that_vanishes_in_the_middle_removes_nothing(
    engine: LeanRAG, folder: Path, monkeypatch: pytest.MonkeyPatch, fate: str
) -> None:
    await run(engine, folder)
    (folder / "b.md").unlink()
    confirm = sync.confirm_missing

    def vanish_first(plan: Any) -> Any:
        folder.rename(folder.with_name("moved"))
        if fate == "replaced":
            folder.mkdir()
        return confirm(plan)

    monkeypatch.setattr(sync, "confirm_missing", vanish_first)
    job = await run(engine, folder)
    assert job.status.value == "failed"
    assert "nothing was removed" in job.message
    assert len(await engine.documents()) == 3


async def test_a_file_that_cannot_be_read_fails_alone_and_is_not_removed(
    engine: LeanRAG, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests may run as a user who may read everything: the system's answer is replaced."""
    await run(engine, folder)
    write(folder / "a.md", "Other words.", age=500)
    write(folder / "b.md", "Other words too.", age=500)
    opened = Path.open

    def refuse(path: Path, *args: Any, **options: Any) -> Any:
        if path.name == "a.md":
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **options)

    monkeypatch.setattr(Path, "open", refuse)
    job = await run(engine, folder)
    assert job.status.value == "done"
    assert {Path(each.id).name: each.status for each in job.documents} == {
        "a.md": "failed",
        "b.md": "replaced",
        "c.txt": "unchanged",
    }
    assert len(await engine.documents()) == 3


async def test_documents_of_a_subfolder_that_cannot_be_listed_stay(
    engine: LeanRAG, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(engine, folder)
    deep = folder.resolve() / "deep"
    listing, status = os.scandir, os.lstat

    def refuse(path: Any) -> Any:
        if path == deep:
            raise PermissionError(13, "Permission denied")
        return listing(path)

    def refuse_status(path: Any, **options: Any) -> Any:
        if str(path).startswith(str(deep)) and str(path) != str(deep):
            raise PermissionError(13, "Permission denied")
        return status(path, **options)

    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "lstat", refuse_status)
    job = await run(engine, folder)
    assert "removed" not in {each.status for each in job.documents}
    assert any("cannot be listed" in each.reason for each in job.skipped)
    assert len(await engine.documents()) == 3


@pytest.mark.parametrize("times", [1, 9])
async def test_a_file_that_changes_while_it_is_read_is_read_once_more_and_then_fails(
    engine: LeanRAG, folder: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    left = times
    limited = loading._read_limited

    def write_meanwhile(file: Any, given: str, most: int) -> bytes:
        nonlocal left
        data = limited(file, given, most)
        if given.endswith("a.md") and left:
            left -= 1
            write(Path(given), f"Version {left} of it.", age=100 * left)
        return data

    monkeypatch.setattr(loading, "_read_limited", write_meanwhile)
    job = await run(engine, folder)
    found = {Path(each.id).name: each for each in job.documents}
    assert found["b.md"].status == "added"
    if times == 1:
        assert found["a.md"].status == "added"
        assert (await engine.search_text("Version 0 of it")).total == 1
    else:
        assert found["a.md"].status == "failed"
        assert "changes while it is read" in found["a.md"].error


async def test_two_syncs_at_once_run_one_after_the_other(engine: LeanRAG, folder: Path) -> None:
    async def one() -> None:
        found.append(await run(engine, folder))

    found: list[Job] = []
    async with anyio.create_task_group() as group:
        group.start_soon(one)
        group.start_soon(one)
    statuses = sorted(sorted({each.status for each in job.documents}) for job in found)
    assert statuses == [["added"], ["unchanged"]]


@pytest.mark.parametrize("source", [DocumentSource(text="words"), DocumentSource(path="notes/a.md")])
async def test_only_folders_can_be_synced(
    engine: LeanRAG, folder: Path, monkeypatch: pytest.MonkeyPatch, source: DocumentSource
) -> None:
    monkeypatch.chdir(folder.parent)
    job = await engine.submit_ingest([source], sync=True, allowed=None)
    ended = await engine.job(job.id, wait_seconds=60)
    assert ended.status.value == "failed"
    assert "Only folders can be synced" in ended.message


async def test_an_outcome_counts_as_failed_only_where_nothing_else_came_in(
    engine: LeanRAG, tmp_path: Path
) -> None:
    write(tmp_path / "bad" / "x.pdf", "no PDF")
    job = await run(engine, tmp_path / "bad")
    assert job.status.value == "failed"
    assert [IngestOutcome(each.id, each.title, each.status).status for each in job.documents] == ["failed"]
