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
from leanrag_engine.core.text.scripts import CJK_CHARACTER, has_cjk
from leanrag_engine.core.text.shortening import one_line, shorten
from leanrag_engine.core.text.word_lists import read_pattern, read_words
from leanrag_engine.documents.formats import START_BYTES, SUPPORTED_SUFFIXES, format_of
from leanrag_engine.documents.readers.chats import SLACK_LISTS, may_be_export, read_chat

# Where prose ends. Set by reading source trees, logs and data files; not tuned.
_BYTES = 1 << 16  # Read from the top of a file
_FEWEST = 1_000  # Characters; a shorter text says too little about its kind
_LONG_LINE = 500  # Characters from which on a line counts as machine-made, unless it is a paragraph
_SPACES = 0.1  # Least share of white space in long lines: prose has 0.15, minified code 0.02
_LETTERS = 0.45  # Least share of letters among the other signs: prose has 0.9, source code 0.7
_LETTERS_OF_TABLE = 0.2  # The same for tables, which people do ask about
_LONG_WORD = 32
_LONG_WORDS = 0.35  # Most of the text that words of `long_word` signs take: hashes and encoded data
_STAMPED = 0.6  # Least share of lines of a log that begin with a time or level of severity

_LOCKS = read_words("files", "locks")
_MINIFIED = re.compile(r"[.-]min\.(?:js|mjs|cjs|css)$|\.(?:bundle|chunk)\.(?:js|css)$")
_TEXT_SUFFIXES = read_words("files", "text_suffixes")
_TABLE_SUFFIXES = frozenset({".csv", ".tsv"})
_SOURCE_SUFFIXES = frozenset({".py", ".rb", ".php", ".go", ".java", ".ts", ".tsx", ".jsx", ".sql"})
"""Names of modules are long words, and tests hold figures: of these only what is minified or generated is left out."""
_PROSE_SUFFIXES = frozenset({".txt", ".text", ".log"}) | _TABLE_SUFFIXES
"""In others, words may have no spaces between them."""
_CODE_SUFFIXES = _TEXT_SUFFIXES - _PROSE_SUFFIXES
_GENERATED = read_pattern("phrases", "generated")
_SLACK_LIST = re.compile(
    rb'\s{0,99}\[\s{0,99}\{\s{0,99}"id"\s?:\s?"[CUW][A-Z0-9]{5,20}"[^{}]{0,2000}"(?:team_id|creator)"'
)
_SEPARATOR = re.compile(r"[,;|\t]")
_STAMP = re.compile(
    r"\W{0,2}(?:\d{4}[-/.]\d{2}[-/.]\d{2}[T ,]+\d{1,2}:\d{2}|\d{1,2}[-/.]\w{2,3}[-/.]\d{2,4}[T :]+\d{1,2}:\d{2}"
    r"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* +\d{1,2} (?:\d{4} )?\d{2}:\d{2}:\d{2}"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d{1,2} \d{2}:\d{2}:\d{2}|\d{1,2}:\d{2}:\d{2}[.,]\d{3}|\d{10}(?:\.\d+|\d{3})?\s"
    r"|\[\s*\d+\.\d{3,6}\]|@?(?:timestamp|ts|time|level|severity)\"\s?:)"
)
_LEVEL = re.compile(
    r"^\W{0,2}(?:\S+ ){0,4}?\W?(?:INFO|WARN(?:ING)?|ERROR|DEBUG|TRACE|FATAL|CRITICAL|NOTICE|SEVERE|VERBOSE)\b"
)
_ACCESS = re.compile(r"\S+ \S+ \S+ \[\d{2}/\w{3}/\d{4}:\d{2}:\d{2}:\d{2}")  # A line of a web server's log


def _kind(path: Path) -> str:
    """Return what a file of a folder is that is not worth reading; "" if it is."""
    name, suffix = path.name.lower(), path.suffix.lower()
    if name in _LOCKS:
        return "a lock file"
    if _MINIFIED.search(name):
        return "minified code"
    if suffix in SUPPORTED_SUFFIXES and suffix not in _TEXT_SUFFIXES:
        return ""
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES)
    except OSError:
        return ""  # loading it says why
    if name in SLACK_LISTS and _SLACK_LIST.match(data):
        return "names in an export of Slack"
    return _kind_of_text(data.decode("utf-8", "replace"), suffix)


def _kind_of_text(text: str, suffix: str) -> str:
    """Return what the beginning of a text is if it is no prose."""
    if suffix in _CODE_SUFFIXES and _GENERATED.search(text[:2_000]):
        return "generated code or data"
    lines = [line for line in text.split("\n") if line.strip()]
    if suffix not in _TABLE_SUFFIXES and _is_log(lines) and read_chat(text) is None:
        return "a log"
    if len(text) < _FEWEST or "\ufffd" in text[:-4] or (suffix == ".json" and may_be_export(text)):
        return ""
    letters = sum(map(str.isalpha, text))
    if len(CJK_CHARACTER.findall(text)) * 5 > letters:
        return ""
    if suffix in _TABLE_SUFFIXES:
        text = _SEPARATOR.sub(" ", text)
    plain = suffix not in _SOURCE_SUFFIXES
    spaces = sum(map(str.isspace, text))
    long = sum(len(line) for line in lines if len(line) > _LONG_LINE)
    words = re.split(r"\s+" if suffix in _PROSE_SUFFIXES else r"\W+", text)
    codes = sum(len(word) for word in words if len(word) >= _LONG_WORD)
    least = _LETTERS_OF_TABLE if suffix in _TABLE_SUFFIXES else _LETTERS
    # Of a large one, the rows would crowd out all else; a small one with names of columns is asked about.
    is_small_table = suffix in _TABLE_SUFFIXES and len(text) < _BYTES and _names_columns("".join(lines[:1]))
    measured = {
        "minified code or data": 2 * long > len(text) and spaces < _SPACES * len(text),
        "encoded data or checksums": plain and codes > _LONG_WORDS * len(text),
        "data of numbers": plain and not is_small_table and letters < least * (len(text) - spaces),
    }
    return next((kind for kind, found in measured.items() if found), "")


def _names_columns(line: str) -> bool:
    cells: list[str] = _SEPARATOR.split(line)
    return 2 * sum(each.strip("\"' ")[:1].isalpha() for each in cells) >= len(cells)


def _is_log(lines: list[str], fewest: int = 10) -> bool:
    marked = sum(1 for line in lines if _STAMP.match(line) or _LEVEL.match(line[:120]) or _ACCESS.match(line))
    return len(lines) >= fewest and marked >= _STAMPED * len(lines)


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


def accept_none(_: Path, __: os.stat_result) -> bool:
    """Know no file."""
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


_HIDDEN = read_words("files", "hidden")


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "~$")) or name.endswith("~") or name.lower() in _HIDDEN


def _reason_to_skip(path: Path, status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    try:
        format_of(path.name, start=b"" if path.suffix.lower() in SUPPORTED_SUFFIXES else _read_start(path))
    except FormatUnsupported:
        return f"not supported yet: {f'{path.suffix.lower()} files' if path.suffix else 'a file without a suffix'}"
    if not status.st_size:
        return "empty"
    kind = _kind(path)
    return f"{kind}, no prose; to read it all the same, ingest it by its own path" if kind else ""


def _read_start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(START_BYTES)
    except OSError:
        return b""
