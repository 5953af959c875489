"""Which files of a folder are read: ignore files as git understands them, nested and above the folder too."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from pathspec import GitIgnoreSpec

from leanrag_engine.core.errors import DocumentUnreadable
from leanrag_engine.documents.folders import walk
from leanrag_engine.documents.loading import expand

RULES = {
    ".gitignore": "# a comment\n*.log\n!keep.log\nbuild/\n/top.md\ndocs/**/draft.md\n!\n\\#literal.md\nspace \\ .md\n**/deep.md\n"
    "crlf.md\r\nno\x0b*.md\nno\x1c*.md\nno\x85*.md\nno\u2028*.md\nno\r*.md\n",
    "sub/.gitignore": "!debug.log\n*.tmp.md\nonly/\n!only/in.md\n",
    "sub/more/.gitignore": "*\n!*.md\n!.gitignore\n",
}
FILES = [
    "a.md",
    "top.md",
    "x.log",
    "keep.log",
    "build/out.md",
    "sub/build/out.md",
    "sub/top.md",
    "sub/debug.log",
    "sub/a.tmp.md",
    "sub/only/in.md",
    "docs/draft.md",
    "docs/a/b/draft.md",
    "docs/a/b/final.md",
    "#literal.md",
    "sub/more/code.py",
    "sub/more/note.md",
    "sub/more/inner/x.md",
    "sub/more/inner/code.py",
    "a/b/c/deep.md",
    "build.md",
    "crlf.md",
    "odd\u2028.md",
]


def write_all(root: Path, names: list[str]) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("Some words of prose.\n")


def list_read(root: Path, folder: Path | None = None) -> list[str]:
    found = expand(str(folder or root), allowed=None)
    return [each.relative_to(root.resolve()).as_posix() for each in found.files]


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git itself")
def test_gitignore_leaves_out_what_git_leaves_out(tmp_path: Path) -> None:
    write_all(tmp_path, FILES)
    for name, rules in RULES.items():
        (tmp_path / name).write_text(rules)
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-standard"], check=True, capture_output=True, text=True
    ).stdout.split("\0")
    wanted = sorted(name for name in listed if name and not name.endswith(".gitignore"))
    assert "keep.log" in wanted
    assert "sub/only/in.md" not in wanted
    assert sorted(list_read(tmp_path)) == wanted
    inner = [name for name in wanted if name.startswith("docs/")]
    assert list_read(tmp_path, tmp_path / "docs") == inner


def test_what_was_left_out_is_told_with_the_file_that_says_so(tmp_path: Path) -> None:
    write_all(tmp_path, ["a.md", "private/diary.md", "old.md"])
    (tmp_path / ".gitignore").write_text("old.md\n")
    (tmp_path / ".leanragignore").write_text("private/\n")
    found = expand(str(tmp_path), allowed=[tmp_path])
    assert [each.name for each in found.files] == ["a.md"]
    assert [(each.path.name, each.reason, each.ignored) for each in found.skipped] == [
        ("old.md", "named by .gitignore", True),
        ("private", "named by .leanragignore", True),
    ]


def test_leanragignore_may_take_back_what_gitignore_leaves_out(tmp_path: Path) -> None:
    write_all(tmp_path, ["a.md", "notes/b.md"])
    (tmp_path / ".gitignore").write_text("*.md\n")
    (tmp_path / ".leanragignore").write_text("!*.md\n")
    assert list_read(tmp_path) == ["a.md", "notes/b.md"]


def test_a_folder_that_git_ignores_is_read_if_it_is_named(tmp_path: Path) -> None:
    write_all(tmp_path, ["a.md", "out/b.md", "out/c.md"])
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("out/\n")
    assert list_read(tmp_path) == ["a.md"]
    assert list_read(tmp_path, tmp_path / "out") == ["out/b.md", "out/c.md"]


def test_without_a_repository_and_beyond_what_is_allowed_no_rule_above_the_folder_counts(
    tmp_path: Path,
) -> None:
    write_all(tmp_path, ["in/a.md", "in/b.md"])
    (tmp_path / ".gitignore").write_text("a.md\n")
    inner = tmp_path / "in"
    assert list_read(tmp_path, inner) == ["in/a.md", "in/b.md"]
    (tmp_path / ".git").mkdir()
    assert list_read(tmp_path, inner) == ["in/b.md"]
    assert len(expand(str(inner), allowed=[inner]).files) == 2


def test_a_file_named_by_itself_is_read_whatever_the_rules_say(tmp_path: Path) -> None:
    write_all(tmp_path, ["a.md"])
    (tmp_path / ".gitignore").write_text("*\n")
    assert expand(str(tmp_path / "a.md"), allowed=None).files == ((tmp_path / "a.md").resolve(),)


def test_a_linked_folder_obeys_the_rules_of_where_it_lies(tmp_path: Path) -> None:
    write_all(tmp_path, ["real/a.md", "real/b.md"])
    (tmp_path / "real" / ".gitignore").write_text("b.md\n")
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    assert list_read(tmp_path) == ["real/a.md"]


def test_a_folder_that_cannot_be_listed_is_an_error_at_the_top_and_a_reason_beneath(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests may run as a user who may read everything: the system's answer is replaced."""
    import os  # noqa: PLC0415 - the real one

    write_all(tmp_path, ["a.md", "shut/b.md"])
    listing = os.scandir
    shut = {tmp_path.resolve() / "shut"}

    def refuse(folder: Path) -> object:
        if folder in shut:
            raise PermissionError(13, "Permission denied")
        return listing(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    found = expand(str(tmp_path), allowed=None)
    assert [(each.path.name, each.reason) for each in found.skipped] == [
        ("shut", "cannot be listed: Permission denied")
    ]
    shut.add(tmp_path.resolve())
    with pytest.raises(DocumentUnreadable, match="no permission"):
        expand(str(tmp_path), allowed=None)


def test_the_data_folder_within_a_folder_is_left_out(tmp_path: Path) -> None:
    write_all(tmp_path, ["a.md", "data/b.md"])
    found = expand(str(tmp_path), allowed=None, data_dir=tmp_path / "data")
    assert [each.name for each in found.files] == ["a.md"]


def test_many_stars_in_an_ignore_file_match_as_few_do_and_cost_little(tmp_path: Path) -> None:
    """With five stars the second file took minutes, with eight years."""
    (tmp_path / ".gitignore").write_text(f"{'*a' * 30}b\n{'**/a/' * 30}b.md\n")
    deep = tmp_path / "/".join("a" * 60)
    deep.mkdir(parents=True)
    for file in (tmp_path / f"{'a' * 200}b", tmp_path / f"{'a' * 200}.md", deep / "b.md", deep / "c.md"):
        file.write_text("Something to read.")
    found = expand(str(tmp_path), allowed=None)
    assert {each.name for each in found.files} == {f"{'a' * 200}.md", "c.md"}


def test_stars_match_as_pathspec_has_them() -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    parts = ["*", "*", "a", "b", "?", "[ab]", ".", "\\*", "/", "/**/", "**/", "/**"]
    paths = ["".join(chance.choices("aab.*/", k=chance.randint(1, 12))).strip("/") or "a" for _ in range(300)]
    paths = [re.sub("/+", "/", each) for each in paths]
    for _ in range(1500):
        line = "".join(chance.choices(parts, k=chance.randint(1, 9))).encode()
        ours, theirs = (
            walk._parse(line),
            GitIgnoreSpec.from_lines([line.decode()] if walk._is_pattern(line.decode()) else []),
        )
        for path in chance.sample(paths, 40):
            assert ours.check_file(path).include == theirs.check_file(path).include, (line, path)


def test_an_ignore_file_of_megabytes_leaves_its_folder_out_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / ".gitignore").write_text("x\n" * (1 << 18))
    (tmp_path / "in" / "a.md").write_text("Something to read.")
    (tmp_path / "b.md").write_text("Something to read.")
    found = expand(str(tmp_path), allowed=None)
    assert [each.name for each in found.files] == ["b.md"]
    assert [each.reason for each in found.skipped] == [
        "cannot be listed: .gitignore in it has more than 262,144 bytes"
    ]
