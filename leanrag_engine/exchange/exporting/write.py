"""Write an export whole or not at all."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import mkdtemp

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.exchange.formats import ExportFormat

from .graph import ExportedGraph
from .network import write_graphml, write_json
from .tables import write_tables
from .vault import write_vault

_WRITERS: Mapping[ExportFormat, Callable[[ExportedGraph, Path], None]] = {
    ExportFormat.GRAPHML: write_graphml,
    ExportFormat.JSON: write_json,
    ExportFormat.VAULT: write_vault,
    ExportFormat.PARQUET: write_tables,
}


def write_graph(graph: ExportedGraph, format_: ExportFormat, path: Path) -> None:
    """Write ``graph`` to ``path``, all or nothing. Raises :class:`InvalidInput` if something is there, or it cannot be written."""
    path = path.expanduser().absolute()
    if path.exists():
        raise InvalidInput(
            f"{path} exists already, and an export replaces nothing.", "Give another path, or remove it."
        )
    try:
        beside = Path(mkdtemp(prefix=".leanrag-export-", dir=path.parent))
    except OSError as problem:
        raise InvalidInput(
            f"{path.parent} cannot be written to ({problem.strerror}).", "Give a path in a folder of yours."
        ) from problem
    try:
        made = beside / path.name
        _WRITERS[format_](graph, made)
        made.rename(path)
    except OSError as problem:
        raise InvalidInput(
            f"{path} cannot be written: {problem.strerror or problem}.", "Make room, or give another path."
        ) from problem
    finally:
        shutil.rmtree(beside, ignore_errors=True)
