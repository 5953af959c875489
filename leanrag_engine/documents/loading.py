"""Load documents from paths within the allowed folders or from text: checks, ids and titles."""

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote_from_bytes, unquote_to_bytes, urlsplit

from leanrag_engine.core.errors import DocumentUnreadable, InvalidInput, PathRefused
from leanrag_engine.core.model import DocumentSource, LoadedDocument, content_id, is_code
from leanrag_engine.core.text.cleaning import clean, clean_line
from leanrag_engine.core.text.language.segmentation import require_japanese
from leanrag_engine.core.text.nearest import find_nearest
from leanrag_engine.core.text.paths import read_path

from .dates import date_document
from .folders.walk import FolderWalk, IsKnown, Skipped, accept_none, is_beneath, real_path
from .formats import PLAIN, START_BYTES, format_of, read_front_matter, read_markdown_chat
from .readers.chats import CHAT_MEDIA_TYPE, SLACK_LISTS, name_chat, name_slack_ids
from .readers.reading import Reading

_LONGEST_TITLE = 200
_SLACK_DAY = re.compile(r"\d{4}-\d\d-\d\d\.json")
_READING = "reading-17"
"""Changed when readers make another text of the same file: a file is then read again though it has not changed."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """The files that a path stands for, and those left out with a reason, both sorted by path. ``root`` is
    the real path of a folder, ``None`` for a file; ``notes`` are those on it and the folders beneath."""

    files: tuple[Path, ...]
    skipped: tuple[Skipped, ...] = ()
    root: Path | None = None
    notes: Mapping[str, str] = field(default_factory=dict)


def load(source: DocumentSource, *, allowed: Sequence[Path] | None, max_bytes: int) -> LoadedDocument:
    """Read one document. ``allowed`` are the folders beneath which the real path (symlinks followed) must lie;
    ``None`` allows any path, an empty sequence none. ``max_bytes`` limits a file, and inline text in UTF-8. Raises
    :class:`PathRefused`; :class:`FormatUnsupported`; :class:`DocumentUnreadable` for a file that is missing, locked,
    damaged, binary, too big or empty; :class:`InvalidInput` for a contradictory source."""
    if (source.text is None) == (not source.path):
        given = "both a path and a text" if source.path else "neither a path nor a text"
        raise InvalidInput(
            f"A document needs exactly one of path and text; this one has {given}.", "Give one of them."
        )
    if source.text is not None:
        return _load_text(source, source.text, max_bytes)
    return parse_file(source, read_file(source, allowed=allowed, max_bytes=max_bytes))


@dataclass(frozen=True, slots=True)
class FileContent:
    """The bytes of a file, and what tells later whether it has changed (see :class:`LoadedDocument`)."""

    path: Path
    data: bytes
    stamp: str
    digest: str
    modified: float


def identify(source: DocumentSource, *, allowed: Sequence[Path] | None) -> tuple[str, Path]:
    """Return the id that the document of a path will have, and its real path. Raises :class:`PathRefused`, and
    :class:`DocumentUnreadable` if the path of another file reads the same."""
    path = _resolve(source.path, allowed)
    where = printable_path(path)
    if read_path(where) != path:
        what = "a backslash in it would stand for a byte that is not UTF-8"
        raise DocumentUnreadable(f"'{where}' cannot be read: {what}.", "Rename it.")
    return _id(source.id) or where, path


def make_stamp(source: DocumentSource, status: os.stat_result) -> str:
    """Return size and times of a file and a digest of what the caller says about it: equal stamps, equal documents."""
    # The second time changes with each rename and each write, whatever time is set.
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {_READING} {_digest_labels(source)}".rstrip()


def _digest_labels(source: DocumentSource) -> str:
    if not source.title and not source.metadata:
        return ""
    return content_id("", source.title, *(f"{key}={value}" for key, value in sorted(source.metadata.items())))


def read_file(source: DocumentSource, *, allowed: Sequence[Path] | None, max_bytes: int) -> FileContent:
    """Read the bytes of a file. Raises as :func:`load`, and :class:`DocumentUnreadable` if it changes meanwhile, twice."""
    path = _resolve(source.path, allowed)
    for _ in range(2):
        if found := _read_unchanged(source, path, allowed, max_bytes):
            return found
    raise DocumentUnreadable(
        f"{source.path!r} changes while it is read.",
        "Ingest it again when the program that writes it has finished.",
    )


def expand(
    path: str,
    *,
    allowed: Sequence[Path] | None,
    is_known: IsKnown = accept_none,
    data_dir: Path | None = None,
) -> Expansion:
    """Return the files that ``path`` stands for: itself, or all supported files beneath a folder, sorted by path.

    Hidden files, version control, installed packages, caches and ``data_dir`` are left out silently. Left out with a reason are what a
    ``.gitignore`` or ``.leanragignore`` names, files without a reader, files that are no prose (lock files, minified code,
    logs, generated data), empty or unreachable ones, and links that lead out of the allowed folders (out of the folder
    itself if any path is allowed). A file reached by several links is returned once. A file that ``is_known`` is not opened.

    Raises :class:`PathRefused`, and :class:`DocumentUnreadable` if there is nothing at ``path`` or a folder that cannot be
    listed.
    """
    root = _resolve(path, allowed)
    if not stat.S_ISDIR(_status(root, path, allowed).st_mode):
        return Expansion((root,))
    bounds = [root] if allowed is None else [real_path(folder) for folder in allowed]
    walk = FolderWalk(bounds, is_known, () if data_dir is None else (real_path(data_dir.expanduser()),))
    try:
        walk.walk(root, search_above=() if allowed is None else tuple(bounds))
    except OSError as problem:
        raise _unreachable(path, problem) from problem
    return Expansion(
        tuple(sorted(walk.files, key=_count_up)),
        tuple(sorted(walk.skipped, key=lambda skipped: skipped.path)),
        root,
        {f"{printable_path(folder)}{os.sep}": note for folder, note in walk.notes.items() if note},
    )


def _count_up(path: Path) -> list[tuple[str, int]]:
    """Return the key by which v2 stands before v10."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", str(path))]


# --- paths ---------------------------------------------------------------------------------


def _resolve(given: str, allowed: Sequence[Path] | None) -> Path:
    """Return the real path of ``given``, which may be relative to the working directory or to an allowed folder."""
    path = Path(os.path.expanduser(_without_scheme(given)))  # noqa: PTH111 - Path.expanduser fails for unknown users
    if allowed is None:
        return real_path(path)
    folders = [real_path(folder) for folder in allowed]
    # normpath first: a path that leaves the folders and returns must not reveal what exists outside.
    candidates = [real_path(Path(os.path.normpath(base / path))) for base in (Path.cwd(), *folders)]
    within = [candidate for candidate in candidates if is_beneath(candidate, folders)]
    if not within:
        raise _refusal(given, folders)
    return next((candidate for candidate in within if os.path.exists(candidate)), within[0])  # noqa: PTH110 - Path.exists raises where a folder is closed


def _without_scheme(given: str) -> str:
    if "\0" in given:
        raise InvalidInput(f"Path {given!r} holds a NUL character.", "Give the path of a file or folder.")
    scheme, separator, _ = given.partition("://")
    if not separator or "/" in scheme:
        return given
    if scheme.lower() != "file":
        raise InvalidInput(
            f"{given!r} is an address, and a path was expected: nothing is fetched from the network.",
            "Give the path of a file or folder, or the document's text itself.",
        )
    return os.fsdecode(unquote_to_bytes(urlsplit(given).path))


def as_storable_path(path: str) -> str:
    """Return a path that any store can keep: as it is, or as a ``file://`` address if it is absolute and not UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        if os.path.isabs(path):  # noqa: PTH117 - a text
            return f"file://{quote_from_bytes(os.fsencode(path))}"
        return path.encode("utf-8", "backslashreplace").decode()
    return path


def _refusal(given: str, folders: Sequence[Path]) -> PathRefused:
    """Build the same error for paths that exist and paths that do not."""
    setting = "the setting allow_dirs (--allow-dir or LEANRAG_ALLOW_DIRS)"
    if not folders:
        return PathRefused(
            f"Path {given!r} is refused: no folder is allowed.",
            f"Allow its folder with {setting}, or give the document's text itself.",
        )
    names = ", ".join(str(folder) for folder in folders)
    return PathRefused(
        f"Path {given!r} is refused: it lies outside the allowed folders ({names}), or a link in it leads out of them.",
        f"Give a path beneath one of them, add its folder to {setting}, or give the document's text itself.",
    )


def _status(path: Path, given: str, allowed: Sequence[Path] | None) -> os.stat_result:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError) as problem:
        raise DocumentUnreadable(
            f"There is no file or folder {given!r}{_similar(path, allowed)}.", "Check the path's spelling."
        ) from problem
    except OSError as problem:
        raise _unreachable(given, problem) from problem


def _similar(path: Path, allowed: Sequence[Path] | None) -> str:
    """Return a hint at similar names in the folder of a missing path."""
    if allowed is not None and not is_beneath(path.parent, [real_path(folder) for folder in allowed]):
        return ""
    try:
        names = find_nearest(path.name, sorted(os.listdir(path.parent)), 3)  # noqa: PTH208 - names alone
    except OSError:
        return ""
    return f"; its folder holds {', '.join(map(repr, names))}" if names else ""


def _unreachable(given: str, problem: OSError) -> DocumentUnreadable:
    if isinstance(problem, PermissionError):
        return DocumentUnreadable(
            f"{given!r} cannot be read: this user has no permission to.",
            "Grant read permission, or leave it out.",
        )
    return DocumentUnreadable(
        f"{given!r} cannot be read: {problem.strerror or problem}.",
        "Check the path and its disk, then try again.",
    )


# --- files ---------------------------------------------------------------------------------


def _read_unchanged(
    source: DocumentSource, path: Path, allowed: Sequence[Path] | None, max_bytes: int
) -> FileContent | None:
    """Return the content of a file, ``None`` if it changes meanwhile."""
    given = source.path
    before = _status(path, given, allowed)
    if stat.S_ISDIR(before.st_mode):
        raise InvalidInput(f"{given!r} is a folder; a file was expected.", "Name the files in it one by one.")
    if not stat.S_ISREG(before.st_mode):
        raise DocumentUnreadable(
            f"{given!r} is not a regular file but a device, pipe or socket.", "Give a file."
        )
    try:
        with open_beneath(path, allowed) as file:
            if not os.path.samestat(before, os.fstat(file.fileno())):
                return None
            # Before the rest is read: much of what has no reader is large.
            format_of(path.name, given, file.read(START_BYTES))
            if before.st_size > max_bytes:
                raise _too_big(given, before.st_size, max_bytes)
            file.seek(0)
            data = _read_limited(file, given, max_bytes)
            after = os.fstat(file.fileno())
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENOTDIR):
            # A link has taken the place of a part of the path since its links were resolved.
            raise _refusal(given, [real_path(folder) for folder in allowed or ()]) from problem
        raise _unreachable(given, problem) from problem
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        return None
    if _SLACK_DAY.fullmatch(path.name):
        lists = [_read_beside(path.parent.parent / name, allowed, max_bytes) for name in SLACK_LISTS]
        data = name_slack_ids(data, lists)
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    # A second change within the clock's step would leave size and time as they are.
    # File systems measure time in steps of up to two seconds.
    settled_after = 2.0
    settled = time.time() - after.st_mtime > settled_after
    return FileContent(
        path,
        data,
        make_stamp(source, after) if settled else "",
        f"{digest} {_READING} {_digest_labels(source)}".rstrip(),
        after.st_mtime,
    )


def _read_beside(path: Path, allowed: Sequence[Path] | None, max_bytes: int) -> bytes:
    """Return what tells more about a file that is read; "" if it cannot be read or lies outside the allowed folders."""
    try:
        return read_file(DocumentSource(path=str(path)), allowed=allowed, max_bytes=max_bytes).data
    except InvalidInput:
        return b""


def open_beneath(path: Path, allowed: Sequence[Path] | None) -> BinaryIO:
    """Open a real path for reading. Beneath an allowed folder no link is followed: none was there when it was
    checked. Raises ``OSError`` with ``ELOOP`` or ``ENOTDIR`` if there is one now. Where the system cannot
    open relative to a folder (Windows), the path is opened as it is."""
    roots = [root for root in map(real_path, allowed or ()) if path.is_relative_to(root) and path != root]
    if not roots or os.open not in os.supports_dir_fd:
        return path.open("rb")
    # O_PATH needs no right to list the folder.
    mode = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
    folder = os.open(roots[0], mode)
    try:
        *parts, name = path.relative_to(roots[0]).parts
        for part in parts:
            inner = os.open(part, mode | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        # Without O_NONBLOCK, opening a pipe that has taken the file's place would wait for its writer.
        return open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb")  # noqa: PTH123
    finally:
        os.close(folder)


def _read_limited(file: BinaryIO, given: str, max_bytes: int) -> bytes:
    data = file.read(max_bytes + 1)
    if len(data) > max_bytes:  # it has grown since its size was read
        raise _too_big(given, len(data), max_bytes)
    if not data:
        raise DocumentUnreadable(
            f"{given!r} is empty: it has 0 bytes.", "Give a file that holds text, or leave it out."
        )
    return data


def _too_big(name: str, size: int, max_bytes: int) -> DocumentUnreadable:
    return DocumentUnreadable(
        f"{name!r} has {size:,} bytes; at most {max_bytes:,} are read.",
        "Split it, or raise the setting max_document_mb (LEANRAG_MAX_DOCUMENT_MB).",
    )


def parse_file(source: DocumentSource, file: FileContent) -> LoadedDocument:
    """Return the document in a file. Raises as :func:`load`."""
    path, given = file.path, _read_metadata(source.metadata)
    kind = format_of(path.name, start=file.data)
    reading = kind.read(file.data, source.path)
    if not reading.text.strip():
        raise DocumentUnreadable(
            f"{source.path!r} holds no text, only white space or markup.", "Leave it out."
        )
    require_japanese(reading.text)
    where, stem = printable_path(path), printable_path(Path(path.stem))
    metadata = {**reading.metadata, **given}
    channel = printable_path(Path(path.parent.name)) if _SLACK_DAY.fullmatch(path.name) else stem
    media_type = reading.media_type or kind.media_type
    named = name_chat(reading.title, channel) if media_type == CHAT_MEDIA_TYPE else reading.title
    title = _title(source.title, named, stem)
    prose = "" if is_code(media_type) else reading.text  # the dates of comments are of a line, or of long ago
    dated = date_document(
        metadata, title, file_name=stem, text=prose, properties=reading.date, modified=file.modified
    )
    return LoadedDocument(
        id=_id(source.id) or where,
        title=title,
        text=reading.text,
        media_type=media_type,
        source=where,
        pages=reading.pages,
        metadata=metadata,
        date=dated.date,
        date_origin=dated.origin,
        file_stamp=file.stamp,
        file_digest=file.digest,
        first_line=reading.first_line,
    )


def printable_path(path: Path) -> str:
    """Return a path as text, with bytes escaped that are not UTF-8, so that any store can keep it."""
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


# --- inline text ---------------------------------------------------------------------------


def _load_text(source: DocumentSource, raw: str, max_bytes: int) -> LoadedDocument:
    given = _read_metadata(source.metadata)
    name = source.id or source.title or "the given text"
    size = len(raw) if len(raw) > max_bytes else len(raw.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise _too_big(name, size, max_bytes)
    text = clean(raw)
    reading = read_markdown_chat(text) or read_front_matter(Reading(text))
    if not reading.text.strip():
        what = "only white space" if raw else "empty"
        raise InvalidInput(f"The text of document {name!r} is {what}.", "Give a text with at least one word.")
    require_japanese(reading.text)
    title = _title(source.title, reading.title, _first_line(reading.text))
    metadata = {**reading.metadata, **given}
    dated = date_document(metadata, title, file_name=source.id, text=reading.text)
    return LoadedDocument(
        id=_id(source.id) or content_id("text-", reading.text),
        title=title,
        text=reading.text,
        media_type=reading.media_type or PLAIN.media_type,
        metadata=metadata,
        date=dated.date,
        date_origin=dated.origin,
    )


def _first_line(text: str) -> str:
    """Return the first line with a letter or digit, without heading signs."""
    for line in text.lstrip()[:10_000].split("\n"):
        if any(character.isalnum() for character in line):
            return line.strip().strip("#*=_ \t")
    return text.lstrip()[:_LONGEST_TITLE].split("\n", 1)[0]


# --- ids, titles, metadata -----------------------------------------------------------------


def _title(*choices: str) -> str:
    """Return the first choice that is not blank, on one line, cut at a word if it is long."""
    title = next((line for line in map(clean_line, choices) if line), "Untitled")
    if len(title) <= _LONGEST_TITLE:
        return title
    cut = title[:_LONGEST_TITLE].rsplit(" ", 1)[0]
    return f"{cut.rstrip(' ,;:.-')}…"


def _id(given: str) -> str:
    document_id = given.strip()
    most_characters = 2_000
    is_line = clean(document_id) == document_id and "\n" not in document_id
    if len(document_id) > most_characters or not is_line or re.fullmatch(r"[dD][0-9]+", document_id):
        raise InvalidInput(
            f"Document id {document_id[:80]!r} cannot be used: one line of at most {most_characters:,} visible characters "
            "was expected, and no number of a document such as d3.",
            "Give a shorter, plain id, or none.",
        )
    return document_id


def _read_metadata(metadata: Mapping[str, object]) -> dict[str, str]:
    """Return metadata as text: numbers and truth values are written out, other types are refused."""
    return {_key(key): _value(key, value) for key, value in metadata.items()}


def _key(key: object) -> str:
    if not isinstance(key, str) or not clean_line(key):
        raise InvalidInput(
            f"Metadata key {key!r} cannot be used: a text was expected.", "Name each value with a word."
        )
    return clean_line(key)


def _value(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return clean(str(value))
    raise InvalidInput(
        f"Metadata value {value!r} of {key!r} is a {type(value).__name__}: text, a number or true/false was expected.",
        "Give one plain value for each key.",
    )
