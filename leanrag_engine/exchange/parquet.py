"""Read and write Parquet tables with pyarrow, which the extra ``parquet`` installs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leanrag_engine.core.errors import InvalidInput

Row = Mapping[str, Any]


def _open_pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # noqa: ICN001, PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise InvalidInput(
            "Parquet files need the package pyarrow, which is not installed.",
            "Install it: pip install 'leanrag-mcp[parquet]'.",
        ) from None
    return pyarrow, parquet


def read_parquet_rows(path: Path, *, most_bytes: int = 1 << 30) -> list[Row]:
    """Return the rows of a table. Raises ``InvalidInput`` if it is damaged, or unpacks to more than ``most_bytes``."""
    _, parquet = _open_pyarrow()
    too_large = InvalidInput(
        f"{path} unpacks to more than {most_bytes:,} bytes.",
        "Check where it comes from, or split it into parts.",
    )
    rows: list[Row] = []
    size = 0
    try:
        with parquet.ParquetFile(path) as file:
            groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
            if sum(each.total_byte_size for each in groups) > most_bytes:
                raise too_large
            # Few rows at once: a column may be tiny in the file and hold the same long text in each row.
            for batch in file.iter_batches(batch_size=256, use_threads=False):
                size += batch.nbytes
                if size > most_bytes:
                    raise too_large
                rows += batch.to_pylist()
    except (OSError, ValueError, TypeError, LookupError, NotImplementedError) as problem:
        # pyarrow's own errors are kinds of these.
        raise InvalidInput(
            f"{path} is no Parquet file, or is damaged or cut off: {problem}.",
            "Copy it again from where it was made.",
        ) from problem
    return rows


def write_parquet_rows(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns of equal length as a table. Raises ``InvalidInput`` without pyarrow."""
    pyarrow, parquet = _open_pyarrow()
    parquet.write_table(pyarrow.table(dict(columns)), path)
