"""Copy a database file as it is at one moment, while other processes read and write it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from leanrag_engine.core.errors import StoreUnusable

from .failures import make_damage_error
from .opening import BUSY_SECONDS, FILE


def copy_file(folder: Path, target: Path, report: Callable[[int, int], None]) -> None:
    """Copy the database of ``folder`` into ``target``; ``report`` gets the bytes done and all. Raises ``StoreUnusable``."""
    path = folder / FILE
    address = f"file:{quote(str(path))}?mode=ro"
    try:
        with (
            closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as source,
            closing(sqlite3.connect(target / FILE, isolation_level=None)) as copy,
        ):
            # One transaction from beginning to end: without it a writer would make the copying begin again.
            source.execute("BEGIN")
            (size,) = source.execute("PRAGMA page_size").fetchone()
            if source.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
                raise StoreUnusable(f"{path} is empty.", "`leanrag doctor` says what is wrong.")
            # 4,096 pages, 16 MB, are copied between two reports.
            source.backup(
                copy, pages=4096, progress=lambda _, left, all_: report((all_ - left) * size, all_ * size)
            )
            (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as problem:
        is_full = problem.sqlite_errorcode == sqlite3.SQLITE_FULL
        raise StoreUnusable(
            f"{path} cannot be copied to {target}: {problem}.",
            "Make room, or name another place." if is_full else "`leanrag doctor` says what is wrong.",
        ) from problem
    if verdict != "ok":
        raise make_damage_error(path, verdict)
