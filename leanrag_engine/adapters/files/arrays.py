"""Store arrays as memory-mapped files: one folder for each key, one ``.npy`` file for each array."""

from __future__ import annotations

import logging
import shutil
import uuid
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
_UNREADABLE = (OSError, ValueError, OverflowError, SyntaxError, TokenError, TypeError)
"""What numpy raises for a file that is cut or overwritten: its header is evaluated as Python."""


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

    def _load(self, key: str) -> dict[str, NDArray[Any]] | None:
        try:
            files = sorted((self._folder / key).glob("*.npy"))
            return {file.stem: _open_array(file) for file in files} or None
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


def _open_array(file: Path) -> NDArray[Any]:
    """Map an array, or read it if it is small."""
    # Unlike numpy.load it reads no other format, and allots nothing by what a damaged header says.
    mapped = np.lib.format.open_memmap(file, mode="r")
    # A plain view: a memmap object makes every slice of itself one too, which costs more than the slice.
    return np.array(mapped) if mapped.nbytes < 1 << 16 else np.asarray(mapped)
