"""Replacing a file: the old content or the new one, never half, and nothing left beside it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from leanrag_engine.core.runtime.replacement import replace_file


def test_a_new_file_has_the_content_and_is_private_only_if_it_is_to_be(tmp_path: Path) -> None:
    for name, private in (("open", False), ("closed", True)):
        replace_file(tmp_path / name, b"content", private=private)
        assert (tmp_path / name).read_bytes() == b"content"
    before = os.umask(0o022)
    try:
        replace_file(tmp_path / "usual", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "usual").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "closed").stat().st_mode) == 0o600


@pytest.mark.parametrize("private", [False, True])
def test_a_replaced_file_keeps_its_permissions_and_a_link_stays_a_link(tmp_path: Path, private: bool) -> None:
    (tmp_path / "elsewhere").mkdir()
    real = tmp_path / "elsewhere" / "file"
    real.write_bytes(b"old")
    real.chmod(0o640)
    (tmp_path / "link").symlink_to(real)
    replace_file(tmp_path / "link", b"new", private=private)
    assert (tmp_path / "link").is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert [each.name for each in real.parent.iterdir()] == ["file"]


def test_a_reader_that_has_opened_the_old_file_reads_it_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old" * 10_000)
    with file.open("rb", buffering=0) as reading:
        begun = reading.read(10)
        replace_file(file, b"new")
        assert begun + reading.read() == b"old" * 10_000
    assert file.read_bytes() == b"new"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_content_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), fail)
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(OSError, match="No space left"):
        replace_file(tmp_path / "file", b"new")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"file": b"old"}


def test_the_content_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[bool, bytes]] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        sync(descriptor)
        (file,) = tmp_path.iterdir()
        synced.append((file.name == "file", file.read_bytes()))

    monkeypatch.setattr(os, "fsync", note)
    replace_file(tmp_path / "file", b"content")
    # The content, then the name, which stands in the folder.
    assert synced == [(False, b"content"), (True, b"content")]


def test_a_folder_that_is_missing_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "nowhere" / "file", b"content")
