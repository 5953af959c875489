"""Apply ``.gitignore`` and ``.leanragignore``: the rules of git, nested files included."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore import GitIgnorePatternError

_NAMES = (".gitignore", ".leanragignore")
"""In one folder the later file decides: it may take back what the earlier one leaves out."""


@dataclass(frozen=True, slots=True)
class _IgnoreFile:
    """The rules of one file, which apply beneath its folder."""

    folder: Path
    name: str
    spec: GitIgnoreSpec


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The ignore files that apply in a folder, those of outer folders first: the last rule that matches decides."""

    files: tuple[_IgnoreFile, ...] = ()

    def enter(self, folder: Path) -> IgnoreRules:
        """Return the rules within ``folder``. Raises ``OSError`` if one of its ignore files cannot be read."""
        found = [
            _IgnoreFile(folder, name, _parse((folder / name).read_bytes()))
            for name in _NAMES
            if (folder / name).is_file()
        ]
        return IgnoreRules((*self.files, *found)) if found else self

    def match(self, path: Path, *, is_folder: bool) -> str:
        """Return the name of the ignore file that leaves out ``path``; "" if none does."""
        for each in reversed(self.files):
            if not path.is_relative_to(each.folder):
                continue  # a link has led elsewhere
            place = path.relative_to(each.folder).as_posix() + ("/" if is_folder else "")
            included = each.spec.check_file(place).include
            if included is not None:
                return each.name if included else ""
        return ""

    @classmethod
    def above(cls, folder: Path, bounds: tuple[Path, ...]) -> IgnoreRules:
        """Return the rules of the folders above ``folder``, up to the root of its git repository.

        Only folders beneath ``bounds`` are read, if there are any. A folder that these rules leave out was named on
        purpose: they do not apply in it.
        """
        outer: list[Path] = []
        for parent in (folder, *folder.parents):
            if bounds and not any(parent.is_relative_to(bound) for bound in bounds):
                return NO_RULES
            if parent != folder:
                outer.append(parent)
            if (parent / ".git").exists():
                break
        else:
            return NO_RULES
        rules = NO_RULES
        for parent in reversed(outer):
            rules = rules.enter(parent)
            inner = folder.relative_to(parent).parts[0]
            if rules.match(parent / inner, is_folder=True):
                return NO_RULES
        return rules


NO_RULES = IgnoreRules()


def _parse(data: bytes) -> GitIgnoreSpec:
    """Return the rules of an ignore file without the lines that are no pattern, as git does."""
    lines = data.decode("utf-8", "replace").removeprefix("\ufeff").splitlines()
    return GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))


def _is_pattern(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except GitIgnorePatternError:
        return False
    return True
