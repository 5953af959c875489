"""Replace a file, so that every reader and a killed process find the old content or the new one, whole."""

import errno
import os
import shutil
import uuid
from pathlib import Path
from typing import IO, Any

from leanrag_engine.core.errors import InvalidInput

NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})
"""The errors of a full disk, of a quota, and of a limit on the size of files."""


def replace_file(file: Path, content: bytes, *, private: bool = False) -> None:
    """Write ``content`` beside ``file``, to the disk itself, and give it the name of ``file``. An existing file keeps
    its permissions, a symbolic link stays a link; a new file is readable by its owner alone if it is ``private``. Raises
    ``OSError`` with the name of the file if this is not possible; the old content then stays, and nothing beside it."""
    file = Path(os.path.realpath(file))
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        with open(
            draft, "xb", opener=(lambda path, flags: os.open(path, flags, 0o600)) if private else None
        ) as stream:
            stream.write(content)
            sync(stream)
        if file.exists():
            shutil.copymode(file, draft)
        draft.replace(file)
        sync_folder(file.parent)
    except OSError as problem:  # a full disk is reported without a name
        raise OSError(problem.errno, problem.strerror or str(problem), str(file)) from problem
    finally:
        draft.unlink(missing_ok=True)


def write_output(file: Path, content: bytes) -> None:
    """Do as :func:`replace_file` does with a file that the user has named. Raises ``InvalidInput`` if it is not possible."""
    try:
        replace_file(file, content)
    except OSError as problem:
        raise InvalidInput(
            f"{file} cannot be written: {problem.strerror}.",
            "Make room, or give a file in a folder that exists and that you may write to.",
        ) from problem


def sync(stream: IO[Any]) -> None:
    """Write what a file holds to the disk itself."""
    stream.flush()
    os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Write the names of a folder's files to the disk, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
