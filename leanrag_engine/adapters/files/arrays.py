"""Store arrays as memory-mapped files: one folder for each key, one ``.npy`` file for each array, and their checksums."""

import json
import logging
import shutil
import threading
import uuid
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.runtime.replacement import sync, sync_folder
from leanrag_engine.core.runtime.threads import run_blocking

logger = logging.getLogger(__name__)

_UNFINISHED = ".unfinished"
_CHECKSUMS = "checksums.json"
_CHECKED = 1 << 26  # Bytes of a larger file are not checked when it is opened: that would read all of it
_PARSING = threading.Lock()
"""numpy parses headers as Python: in Python 3.11, two threads that parse at once can break each other with a SystemError."""
_UNREADABLE = (OSError, ValueError, AttributeError, OverflowError, SyntaxError, TokenError, TypeError)
"""What numpy raises for a file that is cut or overwritten, as its header is evaluated as Python, and JSON of another form."""


class ArrayFiles:
    """A :class:`leanrag_engine.core.ports.ArrayStore` in ``folder``. A folder gets its key by one rename when
    all its files are written; the next drop removes the remains of a killed writer."""

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        self._folder = folder
        self._read_only = read_only

    async def load(self, key: str) -> dict[str, NDArray[Any]] | None:
        return await run_blocking(self._load, key)

    async def save(self, key: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        if not self._read_only:
            await run_blocking(self._save, key, arrays)

    async def drop_all_but(self, prefix: str, keys: Collection[str]) -> None:
        if not self._read_only:
            await run_blocking(self._drop, prefix, keys)

    async def examine(self, prefix: str) -> dict[str, bool]:
        def examine() -> dict[str, bool]:
            keys = [each.name for each in self._folder.glob(f"{prefix}*") if _UNFINISHED not in each.name]
            return {key: self._load(key, whole=True) is not None for key in keys}

        return await run_blocking(examine)

    def _load(self, key: str, *, whole: bool = False) -> dict[str, NDArray[Any]] | None:
        """Return the arrays of a key; ``whole``: after reading all of them."""
        folder = self._folder / key
        if not folder.exists():
            return None
        try:
            sums = json.loads((folder / _CHECKSUMS).read_bytes())
            files = {name: folder / f"{name}.npy" for name in sums}
            for name, file in files.items():
                if (whole or file.stat().st_size <= _CHECKED) and _sum(key, file) != sums[name]:
                    raise ValueError(f"{file.name} is not what was stored")
            return {name: _open_array(file) for name, file in files.items()}
        except _UNREADABLE as problem:
            logger.warning("The arrays in %s cannot be read and are computed again: %s", key, problem)
            return None

    def _save(self, key: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        unfinished = self._folder / f"{key}{_UNFINISHED}-{uuid.uuid4().hex}"
        try:
            unfinished.mkdir(parents=True)
            for name, array in arrays.items():
                with (unfinished / f"{name}.npy").open("wb") as file:
                    np.save(file, array, allow_pickle=False)
                    sync(file)
            sums = {name: _sum(key, unfinished / f"{name}.npy") for name in arrays}
            with (unfinished / _CHECKSUMS).open("w", encoding="utf-8") as text:
                json.dump(sums, text)
                sync(text)
            sync_folder(unfinished)
            self._place(unfinished, self._folder / key)
            sync_folder(self._folder)
        except OSError as problem:
            # The disk is full; the arrays in memory remain usable.
            logger.warning("The arrays of %s were not stored: %s", key, problem)
            shutil.rmtree(unfinished, ignore_errors=True)

    def _place(self, unfinished: Path, folder: Path) -> None:
        """Rename ``unfinished`` to ``folder``, unless another process has stored the same arrays meanwhile."""
        try:
            if folder.exists() and self._load(folder.name) is None:
                shutil.rmtree(folder, ignore_errors=True)
            unfinished.rename(folder)
        except OSError:
            if not folder.exists():
                raise
            shutil.rmtree(unfinished, ignore_errors=True)

    def _drop(self, prefix: str, keys: Collection[str]) -> None:
        for folder in self._folder.glob(f"{prefix}*"):
            if folder.name not in keys:
                # Processes that have the files mapped keep them until they close them.
                shutil.rmtree(folder, ignore_errors=True)


def _sum(key: str, file: Path) -> int:
    """Return a checksum of a file and its place: one in the place of another is damaged too."""
    return zlib.crc32(np.memmap(file, np.uint8, "r").data, zlib.crc32(f"{key}/{file.name}".encode()))


def _open_array(file: Path) -> NDArray[Any]:
    """Map an array, or read it if it is small."""
    # Unlike numpy.load it reads no other format, and allots nothing by what a damaged header says.
    with _PARSING:
        mapped = np.lib.format.open_memmap(file, mode="r")
    # A plain view: a memmap object makes every slice of itself one too, which costs more than the slice.
    return np.array(mapped) if mapped.nbytes < 1 << 16 else np.asarray(mapped)
