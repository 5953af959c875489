"""Decide whether a build updates the previous one in place or clusters everything again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, get_args

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.graphs.graph import Graph, Hierarchy
from leanrag_engine.core.graphs.rows import decode_ids, find_missing, find_same
from leanrag_engine.core.jobs import AskedMode
from leanrag_engine.core.model import Chunk, ChunkHead, Collection, Generation
from leanrag_engine.core.ports import Embedder, EmbedderSource
from leanrag_engine.hierarchy.build import BuildMode, HierarchyOptions
from leanrag_engine.hierarchy.changes.carrying import PreviousBuild
from leanrag_engine.hierarchy.clustering.balancing import cap_for
from leanrag_engine.pipeline.index import Stores, texts_of_windows
from leanrag_engine.retrieval.graph.adjacency import Adjacency

# How much may change before an update no longer suffices.
MOVED = 0.5
"""Share of G0 that may be added or removed since the last rebuild before ``auto`` clusters everything again."""
LOOSER = 0.05
"""Share of the last rebuild's tightness that clusters may lose before ``auto`` clusters everything again."""
UNKNOWN = 0.1
"""Share of the collection's words that a fitted embedder may lack before it is fitted again. Keywords find them still."""


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """The mode of a build, the reason for it in words, and the number of entities that moved since the last rebuild."""

    mode: BuildMode
    reason: str
    moved: int = 0


def parse_mode(text: str) -> AskedMode:
    """Return the mode of this name. Raises ``InvalidInput`` if there is none."""
    if text not in (modes := get_args(AskedMode)):
        raise InvalidInput(f"There is no build mode {text!r}.", f"Choose one of {', '.join(modes)}.")
    return cast("AskedMode", text)


async def keep_embedder(
    stores: Stores,
    embedders: EmbedderSource,
    collection: Collection,
    pending: Sequence[Chunk],
    asked: AskedMode,
) -> tuple[Embedder, bytes, float] | None:
    """Return the embedder that was fitted for the published build, its state, and the share of the collection's words
    that it lacks; None if these are too many, with those of the ``pending`` chunks, and for pretrained ones."""
    before = collection.generation
    if before is None or asked == "rebuild" or not await embedders.gave(before.embedder):
        return None
    state = await stores.generations.embedder_state(before.number)
    texts = [text for _, text in texts_of_windows(pending)]
    unknown = await embedders.unknown_words(before.embedder, state, texts)
    if unknown is None:
        return None
    unknown = before.record.history.unknown + unknown * len(pending) / max(collection.chunks, 1)
    if unknown > UNKNOWN:
        return None
    return await embedders.restore(before.embedder, state), state, unknown


def find_previous(
    hierarchy: Hierarchy | None, chunks: Sequence[ChunkHead], before: Adjacency | None = None
) -> PreviousBuild | None:
    """Return what this build continues, None for nothing. ``before``, the adjacency of the layers, knows the chunks of their build."""
    if hierarchy is None or not hierarchy.layers[0].entities:
        return None
    ids = frozenset(chunk.id for chunk in chunks)
    whole = before is not None and ids.issuperset(decode_ids(before.chunk_ids))
    return PreviousBuild(hierarchy, ids, whole)


def choose_mode(
    asked: AskedMode,
    base: Graph,
    previous: PreviousBuild | None,
    generation: Generation | None,
    options: HierarchyOptions,
    embedder: str,
) -> ModeChoice:
    """Choose the mode of a build over the new ``base`` graph. An update needs a previous build with the same
    embedder and clustering; ``auto`` chooses it unless too much has changed."""
    if previous is None or generation is None:
        return ModeChoice("rebuild", "it is the first build")
    moved = generation.record.history.moved + _count_moved(base, previous.hierarchy)
    share = moved / max(len(base.entities), 1)
    obstacle = "a rebuild was asked for" if asked == "rebuild" else ""
    if not obstacle and generation.embedder != embedder:
        obstacle = "the embedder is another one, or was fitted again on new words"
    obstacle = obstacle or _compare_options(generation, options)
    if not obstacle and asked == "auto":
        obstacle = _measure_drift(generation, share)
    if obstacle:
        return ModeChoice("rebuild", obstacle)
    return ModeChoice("update", f"{share:.1%} of the entities came or went since the last rebuild", moved)


def _measure_drift(generation: Generation, moved: float) -> str:
    """Return why the clusters of a build should not be kept any longer, "" if they should."""
    if moved > MOVED:
        return f"{moved:.0%} of the entities came or went since the last rebuild"
    health, history = generation.record.health, generation.record.history
    if health and history.tightness and health.layers[0].tightness < (1 - LOOSER) * history.tightness:
        loss = 1 - health.layers[0].tightness / history.tightness
        return f"the clusters have become {loss:.0%} looser since the last rebuild"
    return ""


def _count_moved(base: Graph, before: Hierarchy) -> int:
    then = before.layers[0]
    same = find_same(then.entities, base.entities)
    gone = then.nodes.ids[find_missing(same, len(then.entities))]
    return len({*base.nodes.ids[same < 0].tolist()} ^ {*gone.tolist()})


def _compare_options(generation: Generation, options: HierarchyOptions) -> str:
    """Return which option of the clustering is another than at the previous build, "" if none is."""
    health = generation.record.health
    if health is None:
        return "nothing is known of the previous build's clusters"
    if health.clustering != options.clustering.method.value:
        return f"clustering is {options.clustering.method.value} now, {health.clustering} before"
    size, cap = options.cluster_size, options.cap or cap_for(options.cluster_size)
    if (size, cap) != (health.cluster_size, health.cluster_cap):
        return (
            f"clusters have {size} members on average and at most {cap} now,"
            f" {health.cluster_size} and {health.cluster_cap} before"
        )
    return ""
