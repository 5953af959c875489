"""Take over the graph of another program: all documents in one transaction, then the build that any ingest has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.jobs import ImportRequest, ImportResult
from leanrag_engine.core.model import Collection, DocumentSource, Entity, Method, content_id
from leanrag_engine.core.ports import Progress, ProgressReport
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.documents.loading import identify
from leanrag_engine.exchange.formats import ImportFormat
from leanrag_engine.exchange.importing.graph import ForeignCluster
from leanrag_engine.exchange.importing.read import read_foreign
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
    assembled, clusters, remarks = await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
    held = {each.id: each.file_digest for each in await stores.documents.find_all(collection.name)}
    changed = [each for each in assembled.read if held.get(each.document.id) != each.document.file_digest]
    if request.hierarchy:
        check_clusters(clusters, collection, changed=bool(changed), path=request.path)
    report(Progress("import", 0, len(changed), "Storing the graph"))
    if changed:
        await index.put_all(collection.name, changed, report)
    result = ImportResult(request.format, assembled.found, assembled.taken, len(changed), remarks)
    return result, partial(lay_clusters, clusters) if request.hierarchy else None


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


def lay_clusters(clusters: Sequence[ForeignCluster], base: Graph) -> Hierarchy | None:
    """Return a hierarchy over those entities of ``base`` that the clusters hold, which the first build keeps as it would that of
    a build before; None for none. A root that they lack is called ``HIDDEN``, for a build to replace."""
    homes = {name_key(name): each.id for each in clusters if each.layer == 1 for name in each.members}
    parents = {each.id: home for each in base.entities if (home := _find_home(each, homes))}
    layers = [
        Graph(
            tuple(
                replace(each, parent_id=_id(parents[each.id])) for each in base.entities if each.id in parents
            ),
            base.relations,
        )
    ]
    for number in count(1):
        sizes = Counter(each.parent_id for each in layers[-1].entities)
        held = [each for each in clusters if each.layer == number and sizes[_id(each.id)]]
        if not held:
            break
        layers.append(Graph(tuple(_make_entity(each, sizes[_id(each.id)]) for each in held), ()))
    if len(layers) == 1:
        return None
    top = layers[-1]
    if len(top.entities) > 1:
        root = Entity(
            _id("root of an import"), "", layer=len(layers), description=HIDDEN, members=len(top.entities)
        )
        layers[-1] = Graph(tuple(replace(each, parent_id=root.id) for each in top.entities), ())
        layers.append(Graph((root,), ()))
    return cite_summaries(Hierarchy(tuple(layers)))


def _find_home(entity: Entity, homes: Mapping[str, str]) -> str:
    return next(filter(None, (homes.get(name_key(name)) for name in (entity.name, *entity.aliases))), "")


def _make_entity(cluster: ForeignCluster, members: int) -> Entity:
    return Entity(
        _id(cluster.id),
        cluster.name,
        layer=cluster.layer,
        description=cluster.description,
        method=cluster.method if cluster.description else Method.HEURISTIC,
        members=members,
        parent_id=_id(cluster.parent) if cluster.parent else None,
        findings=cluster.findings,
    )


def _id(foreign: str) -> str:
    return content_id("c", "import", foreign)
