"""How a build gets out: all extracts become G0, layers are stacked on it, and the whole is published at once.

Everything here runs inside a job, under the writer lock. A reader sees the build before, or this one.
"""

from __future__ import annotations

import anyio
import anyio.to_thread

from .config import Settings
from .errors import NotReady
from .graph.merging import merge
from .hierarchy.building import Plan, build
from .hierarchy.ways import Clustering, Manner
from .indexing import (
    Spaces,
    Workshop,
    embedded_texts,
    rows_of,
    rows_of_layers,
    sweep,
    vectors_changing,
    windows_of,
    write_whole,
)
from .model import Generation
from .ports import Progress, ProgressReport


async def build_generation(workshop: Workshop, collection: str, report: ProgressReport) -> Generation:
    """Merge all extracts into G0, build the layers, write their vectors, publish (design: publish).

    Raises ``NotReady`` if the collection holds no document.
    """
    held = await workshop.graph.collection(collection)
    if held is None or not held.documents:
        raise NotReady(f"Collection {collection!r} holds no document.", "Ingest documents first, then build.")
    settings = workshop.settings
    report(Progress("merge", 0, held.chunks))
    extracts = await workshop.graph.extracts(collection)
    base = await anyio.to_thread.run_sync(merge, extracts)
    chunks = await workshop.graph.all_chunks(collection)
    report(Progress("fit", 0, len(chunks)))
    embedder, state = await workshop.embedders.fit([each.indexed_text for each in chunks])
    built = await build(base, embedder, plan_of(settings), progress=report)
    hierarchy, layers = built.hierarchy, built.vectors
    texts = embedded_texts(chunks, hierarchy.layers)
    spaces = Spaces.of(held, embedder, texts)
    report(Progress("embed", 0, len(chunks)))
    rows = {
        spaces.chunks: await windows_of(embedder, texts["chunks"], report),
        spaces.facts: await rows_of(embedder, texts["facts"], report),
        **rows_of_layers(spaces, hierarchy, layers),
    }
    async with vectors_changing(workshop):
        for space, held_rows in rows.items():
            await write_whole(workshop, space, held_rows, report)
    report(Progress("publish"))
    generation = await workshop.graph.publish(
        collection,
        held.revision,
        hierarchy,
        embedder=embedder.identity,
        dimension=embedder.dimension,
        embedder_state=state,
        settings={
            "embedder": workshop.embedders.name,
            "spaces": spaces.as_settings(),
            "vectors": {kind: len(rows[space].ids) for kind, space in spaces.as_settings().items()},
            "cluster_size": built.health.cluster_size,
            "cluster_cap": built.health.cluster_cap,
            "health": built.health.as_settings(),
            "tau": settings.tau,
        },
    )
    await workshop.adjacencies.keep(generation, hierarchy.layers, chunks)
    await sweep(workshop, held)
    return generation


def plan_of(settings: Settings) -> Plan:
    """How the settings ask for hierarchies to be built."""
    return Plan(
        cluster_size=None if settings.cluster_size == "auto" else settings.cluster_size,
        cap=settings.cluster_cap or None,
        tau=settings.tau,
        manner=Manner(Clustering(settings.clustering), settings.relation_weight),
    )
