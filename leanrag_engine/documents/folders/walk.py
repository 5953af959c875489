"""Walk through a folder tree: which files are to be read, and which are left out for which reason."""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec, RegexPattern
from pathspec.patterns.gitignore import GitIgnorePatternError

from leanrag_engine.core.errors import FormatUnsupported
from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.core.text.scripts import has_cjk
from leanrag_engine.core.text.shortening import one_line, shorten
from leanrag_engine.documents.formats import START_BYTES, SUPPORTED_SUFFIXES, format_of

from .no_prose import find_reason

NOTE = ".leanrag.md"
"""A file that says what its folder is. It is no document: replies give it with what is found in the folder."""

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

    def enter(self, folder: Path) -> "IgnoreRules":
        """Return the rules within ``folder``. Raises ``OSError`` if one of its ignore files cannot be read."""
        found = [
            _IgnoreFile(folder, name, _read_rules(folder / name))
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
    def above(cls, folder: Path, bounds: tuple[Path, ...]) -> "IgnoreRules":
        """Return the rules of the folders above ``folder``, up to the root of its git repository. Only folders beneath ``bounds``
        are read, if there are any. A folder that these rules leave out was named on purpose: they do not apply in it."""
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


_LARGEST = 1 << 18  # Bytes of an ignore file: each of its lines is compared with each path


def _read_rules(file: Path) -> GitIgnoreSpec:
    if file.stat().st_size > _LARGEST:
        raise OSError(errno.EFBIG, f"{file.name} in it has more than {_LARGEST:,} bytes")
    return _parse(file.read_bytes())


def _parse(data: bytes) -> GitIgnoreSpec:
    """Return the rules of an ignore file without the lines that are no pattern, as git does."""
    lines = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    spec = GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))
    for each in spec.patterns:
        if isinstance(each, RegexPattern) and each.regex:
            each.regex = re.compile(_match_first(each.regex.pattern))
    return spec


_ANY, _FOLDERS = "[^/]*", "(?:/.+)?"  # What `*` and `/**` become
_BETWEEN = re.compile(
    r"\[\^/\]\*((?:\\.|\[\^/\](?!\*)|\[(?!\^/\])(?:\\.|[^\]/\\])+\]|[^/\[(\\])+?)(?=\[\^/\]\*)"
)


def _match_first(regex: str) -> str:
    """Let what stands between two stars match only where it is first, which finds every match: a line of twelve
    bytes took minutes with one name, as all places were tried for all stars."""
    while _ANY * 2 in regex:
        regex = regex.replace(_ANY * 2, _ANY)
    first, *inner = _BETWEEN.sub(r"(?>[^/]*?\1)", regex).split(_FOLDERS)
    if not inner:
        return first
    *inner, last = inner
    return first + "".join(f"(?>(?:/.+?)??{each}(?=/))" for each in inner) + _FOLDERS + last


def _is_pattern(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except GitIgnorePatternError:
        return False
    return True


IsKnown = Callable[[Path, os.stat_result], bool]
"""Whether a file was read before and has not changed since."""


class Skipped(NamedTuple):
    """A path beneath a folder that is not read, with the reason. ``ignored``: a rule of the user's leaves it out."""

    path: Path
    reason: str
    ignored: bool = False


def accept_none(path: Path, status: os.stat_result) -> bool:
    """Know no file."""
    del path, status
    return False


def real_path(path: Path) -> Path:
    """Return the path with all links resolved."""
    # Not Path.resolve: before Python 3.13 that raises at a loop of links.
    return Path(os.path.realpath(path))


def is_beneath(path: Path, folders: Sequence[Path]) -> bool:
    """Return whether ``path`` is one of the folders or lies in one."""
    return any(path.is_relative_to(folder) for folder in folders)


class FolderWalk:
    """One walk through a folder tree that visits each real folder and file once."""

    def __init__(
        self, bounds: Sequence[Path], is_known: IsKnown = accept_none, avoided: Sequence[Path] = ()
    ) -> None:
        self.files: set[Path] = set()
        self.skipped: list[Skipped] = []
        self.notes: dict[Path, str] = {}
        self._bounds = bounds
        self._is_known = is_known
        self._seen = set(avoided)

    def walk(self, top: Path, search_above: tuple[Path, ...] = ()) -> None:
        """Add the files of ``top``, a real path, and of all folders beneath it. Ignore files above ``top`` apply too,
        only those beneath ``search_above`` if it is given. Raises ``OSError`` if ``top`` itself cannot be listed."""
        waiting = list(self._folders_of(top, IgnoreRules.above(top, search_above)))
        while waiting:
            folder, rules = waiting.pop()
            try:
                waiting += self._folders_of(folder, rules)
            except OSError as problem:
                self.skipped.append(Skipped(folder, f"cannot be listed: {problem.strerror}"))

    def _folders_of(self, folder: Path, rules: IgnoreRules) -> list[tuple[Path, IgnoreRules]]:
        """Add the files of one folder and return the folders in it, each with the rules that apply to it."""
        if folder in self._seen:
            return []
        self._seen.add(folder)
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        if any(entry.name == "pyvenv.cfg" for entry in entries):
            return []
        rules = rules.enter(folder)
        if any(entry.name == NOTE and entry.is_file(follow_symlinks=False) for entry in entries):
            note = one_line(clean(_read_start(folder / NOTE).decode("utf-8", "replace")))
            # Hardly more than 60 tokens.
            self.notes[folder] = shorten(note, 40 if has_cjk(note) else 200)
        return [
            (found, rules)
            for entry in entries
            if not _is_hidden(entry.name)
            for found in self._visit(entry, rules)
        ]

    def _visit(self, entry: os.DirEntry[str], rules: IgnoreRules) -> Iterator[Path]:
        """Add a file, or yield a folder."""
        path = Path(entry.path)
        real = real_path(path) if entry.is_symlink() else path
        if entry.is_symlink() and not is_beneath(real, self._bounds):
            self.skipped.append(Skipped(path, "a link that leads out of the allowed folders"))
            return
        try:
            status = entry.stat()
        except OSError as problem:
            self.skipped.append(Skipped(path, f"cannot be reached: {problem.strerror}"))
            return
        is_folder = stat.S_ISDIR(status.st_mode)
        if name := rules.match(path, is_folder=is_folder):
            self.skipped.append(Skipped(path, f"named by {name}", ignored=True))
        elif is_folder:
            yield real
        elif not self._is_known(real, status) and (reason := _reason_to_skip(real, status)):
            self.skipped.append(Skipped(real, reason))
        else:
            self.files.add(real)


_HIDDEN = frozenset({
    "node_modules", "bower_components", "__pycache__", "site-packages", "cvs", "thumbs.db", "desktop.ini",
    "$recycle.bin",
})  # fmt: skip


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "~$")) or name.endswith("~") or name.lower() in _HIDDEN


def _reason_to_skip(path: Path, status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    try:
        format_of(path.name, start=b"" if path.suffix.lower() in SUPPORTED_SUFFIXES else _read_start(path))
    except FormatUnsupported:
        return f"not supported yet: {f'{path.suffix.lower()} files' if path.suffix else 'a file without a suffix'}"
    return find_reason(path) if status.st_size else "empty"


def _read_start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(START_BYTES)
    except OSError:
        return b""
