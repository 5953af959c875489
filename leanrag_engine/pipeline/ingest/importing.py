"""Take over the graph of another program: all documents in one transaction, then the build that any ingest has."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio.to_thread

from leanrag_engine.core.jobs import ImportRequest, ImportResult
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.core.ports import Progress, ProgressReport
from leanrag_engine.documents.loading import identify
from leanrag_engine.exchange.importing.formats import ImportFormat
from leanrag_engine.exchange.importing.read import ForeignRead, read_foreign
from leanrag_engine.pipeline.index import Stores

__all__ = ["import_graph"]


async def import_graph(
    stores: Stores, collection: str, request: ImportRequest, report: ProgressReport
) -> ImportResult:
    """Read the files and store what has changed of their documents, all or none. No model is called.

    Raises ``PathRefused``, and ``InvalidInput`` for files that cannot be taken.
    """
    report(Progress("import", message=f"Reading {request.format}"))
    allowed = None if request.allowed is None else [Path(folder) for folder in request.allowed]
    _, path = identify(DocumentSource(path=request.path), allowed=allowed)
    read = partial(
        read_foreign, ImportFormat(request.format), path, stores.tokenizer, stores.settings.chunk_tokens
    )
    found: ForeignRead = await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
    documents = found.assembled.read
    held = {each.id: each.file_digest for each in await stores.documents.find_all(collection)}
    changed = [each for each in documents if held.get(each.document.id) != each.document.file_digest]
    report(Progress("import", 0, len(changed), "Storing the graph"))
    if changed:
        await stores.documents.put_all(collection, changed)
    return ImportResult(
        request.format, found.assembled.found, found.assembled.taken, len(changed), found.remarks
    )
