"""Take over the graph of another program: all documents in one transaction, then the build that any ingest has."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.jobs import ImportRequest, ImportResult
from leanrag_engine.core.model import Collection, DocumentSource
from leanrag_engine.core.ports import Progress, ProgressReport
from leanrag_engine.documents.loading import identify
from leanrag_engine.exchange.formats import ImportFormat
from leanrag_engine.exchange.importing.graph import ForeignCluster
from leanrag_engine.exchange.importing.layers import lay_clusters
from leanrag_engine.exchange.importing.read import ForeignRead, read_foreign
from leanrag_engine.hierarchy.changes.removal import HIDDEN
from leanrag_engine.hierarchy.texts.attribution import cite_summaries
from leanrag_engine.pipeline.index import Stores
from leanrag_engine.pipeline.pending import PendingIndex

if TYPE_CHECKING:
    # Clustering takes a second to import, which an import that finds nothing new need not wait for.
    from leanrag_engine.pipeline.building.generation import GivenLayers


async def import_graph(
    stores: Stores,
    collection: Collection,
    request: ImportRequest,
    report: ProgressReport,
    index: PendingIndex,
) -> tuple[ImportResult, GivenLayers | None]:
    """Read the files and store what has changed of their documents, all or none; return what was done, and the layers that
    the build should keep, if any. No chat model is called.
    Raises ``PathRefused``, and ``InvalidInput`` for files that cannot be taken."""
    report(Progress("import", message=f"Reading {request.format}"))
    allowed = None if request.allowed is None else [Path(folder) for folder in request.allowed]
    _, path = identify(DocumentSource(path=request.path), allowed=allowed)
    read = partial(
        read_foreign,
        ImportFormat(request.format),
        path,
        stores.tokenizer,
        stores.settings.chunk_tokens,
        communities=request.hierarchy,
    )
    found: ForeignRead = await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
    documents = found.assembled.read
    held = {each.id: each.file_digest for each in await stores.documents.find_all(collection.name)}
    changed = [each for each in documents if held.get(each.document.id) != each.document.file_digest]
    if request.hierarchy:
        check_clusters(found.clusters, collection, changed=bool(changed), path=request.path)
    report(Progress("import", 0, len(changed), "Storing the graph"))
    if changed:
        await index.put_all(collection.name, changed, report)
    assembled = found.assembled
    result = ImportResult(request.format, assembled.found, assembled.taken, len(changed), found.remarks)

    def lay_layers(base: Graph) -> Hierarchy | None:
        layers = lay_clusters(found.clusters, base, HIDDEN)
        return cite_summaries(layers) if layers else None

    return result, lay_layers if request.hierarchy else None


def check_clusters(
    clusters: tuple[ForeignCluster, ...], collection: Collection, *, changed: bool, path: str
) -> None:
    """Raise ``InvalidInput`` if there are no clusters to keep, or the collection has clusters of its own already."""
    if not clusters:
        raise InvalidInput(f"{path} holds no communities.", "Import it without --communities.")
    if collection.generation is not None and changed:
        raise InvalidInput(
            f"Collection {collection.name!r} has a hierarchy already, and communities can only be its first one.",
            "Import it without --communities, or into a collection of its own (--collection NAME).",
        )
