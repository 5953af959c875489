"""Read a graph in any of the formats."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.jobs import LeftOut
from leanrag_engine.core.ports import Tokenizer
from leanrag_engine.exchange.formats import ImportFormat

from .assembling import Assembled, assemble
from .graph import ForeignCluster, ForeignGraph, Remarks
from .readers.graphrag import read_graphrag
from .readers.network import read_graphml, read_lightrag
from .readers.openie import assemble_openie
from .readers.tables import read_csv, read_jsonl, read_leanrag
from .readers.vault import assemble_vault

_READERS: Mapping[ImportFormat, Callable[[Path], ForeignGraph]] = {
    ImportFormat.LIGHTRAG: read_lightrag,
    ImportFormat.LEANRAG: read_leanrag,
    ImportFormat.GRAPHML: read_graphml,
    ImportFormat.CSV: read_csv,
    ImportFormat.JSONL: read_jsonl,
}

_ASSEMBLERS: Mapping[ImportFormat, Callable[[Path, Tokenizer, int, Remarks], Assembled]] = {
    ImportFormat.OPENIE: assemble_openie,
    ImportFormat.VAULT: assemble_vault,
}
"""Formats with whole texts, which are cut into passages as other documents are."""


@dataclass(frozen=True, slots=True)
class ForeignRead:
    """What is to be stored, the clusters that lie over it, if any, and what was left out or changed."""

    assembled: Assembled
    clusters: tuple[ForeignCluster, ...]
    remarks: tuple[LeftOut, ...]


def read_foreign(
    format_: ImportFormat, path: Path, tokenizer: Tokenizer, max_tokens: int, *, communities: bool
) -> ForeignRead:
    """Read the files at ``path``, GraphRAG's ``communities`` only on request. Raises ``InvalidInput`` if they
    are damaged, of another format, or hold nothing."""
    if not (path.is_file() or path.is_dir()):
        raise InvalidInput(f"There is no file or folder {path}.", "Check the path's spelling.")
    if format_ in _ASSEMBLERS:
        remarks = Remarks()
        clusters: tuple[ForeignCluster, ...] = ()
        found = _ASSEMBLERS[format_](path, tokenizer, max_tokens, remarks)
    else:
        read_graph = _READERS.get(format_) or partial(read_graphrag, communities=communities)
        graph = read_graph(path)
        remarks, clusters = graph.remarks, tuple(graph.clusters)
        found = assemble(graph, str(format_), tokenizer, max_tokens)
    if not found.taken.entities:
        reasons = "; ".join(f"{each.count} {each.reason}" for each in remarks.list_all())
        raise InvalidInput(
            f"{path} holds no entity that can be taken{f' ({reasons})' if reasons else ''}.",
            "Check that the format is right and that the program that made it has finished.",
        )
    return ForeignRead(found, clusters, remarks.list_all())
