"""How healthy a built collection is, told without any judge: where entities meet, how its clusters are
shaped, whether they would come out again, and how much its contexts repeat themselves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from leanrag_engine.adapters.wiring import Adapters, compose
from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import NotReady
from leanrag_engine.core.model import Chunk, Entity, Generation, Graph, Relation, Vectors
from leanrag_engine.core.ports import Progress, ProgressReport
from leanrag_engine.core.text.citation import CITATION_PATTERN
from leanrag_engine.core.text.language.names import fold_case
from leanrag_engine.core.text.language.sentences import PieceKind, pieces, sentences
from leanrag_engine.core.text.language.words import word_count, words
from leanrag_engine.engine import LeanRAG
from leanrag_engine.hierarchy.clustering.balancing import SizeChoice
from leanrag_engine.hierarchy.clustering.links import EdgeList
from leanrag_engine.hierarchy.clustering.methods import ClusteringMethod, ClusteringOptions, partition
from leanrag_engine.retrieval.graph.subgraph import chain_of
from leanrag_engine.retrieval.query import QueryResult
from leanrag_engine.retrieval.request import Mode, Query

from .metrics import mean

PAIRS = 2_000
"""Pairs of entities that are drawn for each kind of seed set."""

QUERIES = 40
TOKEN_BUDGET = 2_000

GRAM = 5
"""Words in a row that count as said again."""

SHORTEST = 5
"""Words that a sentence has at least to serve as a query, or to count as said again."""

MOST_CLUSTERED = 20_000
"""Entities that are clustered anew at most, drawn at random: beyond, one look at stability would cost a minute."""

LEFT_OUT = 0.1
"""Share of the entities without which the clustering is tried."""

Labels = NDArray[np.intp]
Clusterer = Callable[[Labels, int], Labels]
"""Clusters the entities at some rows with a seed; gives a number for each."""


# --- what is told --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairMeetings:
    """Where the pairs of one kind of seed set have their LCA: the share below the root, and the mean layer."""

    pairs: int
    below_root: float
    mean_layer: float


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """The clusters of which layer ``layer`` is made: member counts, and how close members are to their centre.

    ``tightness`` is the mean cosine of members to their cluster's centroid; members without a vector do not count.
    """

    layer: int
    clusters: int
    smallest: int
    median: float
    mean: float
    largest: int
    tightness: float


@dataclass(frozen=True, slots=True)
class ClusteringStability:
    """How alike the clusters of G0 come out again the way they were made (adjusted Rand index, 1 = the same): with
    another seed, and without a tenth of the entities. ``entities`` says how many were clustered."""

    entities: int
    other_seed: float
    without_a_tenth: float


@dataclass(frozen=True, slots=True)
class ContextRedundancy:
    """Shares of the sentences and of the five-word phrases of a context that it had already said, as means."""

    contexts: int
    sentences: float
    phrases: float
    tokens: float


@dataclass(frozen=True, slots=True)
class CollectionHealth:
    """``meetings`` are by kind of seed set, ``redundancy`` by mode. Shares are from 0 to 1.

    ``build`` is the record that the build itself left (see :class:`leanrag_engine.hierarchy.health.HierarchyHealth`);
    empty if an older version built.
    """

    collection: str
    layers: tuple[int, ...]
    meetings: Mapping[str, PairMeetings]
    shapes: tuple[ClusterShape, ...]
    stability: ClusteringStability | None
    redundancy: Mapping[str, ContextRedundancy]
    build: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


# --- measures ------------------------------------------------------------------------------


def meeting_layers(chains: Mapping[str, Sequence[str]], pairs: Sequence[tuple[str, str]]) -> list[int]:
    """The layer of each pair's LCA. ``chains`` give for an entity its ids from itself up to the root, one a layer."""
    return [
        next(layer for layer, (a, b) in enumerate(zip(chains[one], chains[other], strict=True)) if a == b)
        for one, other in pairs
    ]


def meetings(chains: Mapping[str, Sequence[str]], pairs: Sequence[tuple[str, str]]) -> PairMeetings:
    """Raises ``ValueError`` for chains of different lengths: every entity has the same root."""
    layers = meeting_layers(chains, pairs)
    root = len(next(iter(chains.values()))) - 1
    return PairMeetings(len(pairs), mean([layer < root for layer in layers]), mean(layers))


def shape(layer: int, members: Sequence[Vectors]) -> ClusterShape:
    """The shape of clusters given as their members' (m, d) unit rows; rows of zeros are members without a vector."""
    sizes = np.array([len(rows) for rows in members])
    cosines = np.concatenate([_to_centre(rows) for rows in members])
    return ClusterShape(
        layer,
        len(sizes),
        int(sizes.min()),
        float(np.median(sizes)),
        float(sizes.mean()),
        int(sizes.max()),
        float(cosines.mean()) if len(cosines) else 0.0,
    )


def _to_centre(rows: Vectors) -> NDArray[np.float64]:
    known = rows[np.any(rows, axis=1)].astype(np.float64)
    centre = known.sum(axis=0)
    length = np.linalg.norm(centre)
    cosines: NDArray[np.float64] = known @ (centre / length) if length > 0 else np.zeros(0)
    return cosines


def adjusted_rand_index(one: Labels, other: Labels) -> float:
    """How much two partitions of the same points agree beyond chance (Hubert and Arabie 1985); 1 = the same."""
    table = Counter(zip(one.tolist(), other.tolist(), strict=True))
    together = sum(_pairs(count) for count in table.values())
    rows = sum(_pairs(count) for count in Counter(one.tolist()).values())
    columns = sum(_pairs(count) for count in Counter(other.tolist()).values())
    expected = rows * columns / max(_pairs(len(one)), 1)
    most = (rows + columns) / 2
    return 1.0 if most == expected else (together - expected) / (most - expected)


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def stability(count: int, clusterer: Clusterer, *, seed: int = 0) -> ClusteringStability:
    """Cluster ``count`` entities three times: as they are, with another seed, and without a tenth of them."""
    rng = np.random.default_rng(seed)
    rows = np.arange(count)
    if count > MOST_CLUSTERED:
        rows = np.sort(rng.choice(count, MOST_CLUSTERED, replace=False))
    first = clusterer(rows, 0)
    kept = np.sort(rng.choice(len(rows), max(1, round((1 - LEFT_OUT) * len(rows))), replace=False))
    return ClusteringStability(
        entities=len(rows),
        other_seed=adjusted_rand_index(first, clusterer(rows, 1)),
        without_a_tenth=adjusted_rand_index(first[kept], clusterer(rows[kept], 0)),
    )


def repetition_share(items: Sequence[Hashable]) -> float:
    """Share of the items that came before."""
    return 1 - len(set(items)) / len(items) if items else 0.0


def redundancy(results: Sequence[QueryResult]) -> ContextRedundancy:
    texts = [spoken_text(result.context.text) for result in results]
    return ContextRedundancy(
        len(results),
        mean([repetition_share(sentences_of(text)) for text in texts]),
        mean([repetition_share(phrases_of(text)) for text in texts]),
        mean([result.context.tokens for result in results]),
    )


_LABEL = re.compile(rf"^\[{CITATION_PATTERN}\].*$|^## .*$|^`{{3,}}$", re.MULTILINE)
_CITATION = re.compile(rf"\[{CITATION_PATTERN}\]")


def spoken_text(context: str) -> str:
    """What a context says: without its first line, headings, labels, fences and citations."""
    _, _, body = context.partition("\n")
    return _CITATION.sub("", _LABEL.sub("", body))


def sentences_of(text: str) -> list[str]:
    """Sentences worth repeating, in one form."""
    found = (fold_case(text[start:end]) for start, end in sentences(text))
    return [sentence for sentence in found if word_count(sentence) >= SHORTEST]


def phrases_of(text: str) -> list[tuple[str, ...]]:
    found = words(text.casefold())
    return [tuple(found[start : start + GRAM]) for start in range(len(found) - GRAM + 1)]


# --- a collection --------------------------------------------------------------------------


async def collection_health(
    settings: Settings, collection: str, report: ProgressReport = lambda _: None
) -> CollectionHealth:
    """The health of a built collection; nothing is written.

    Raises ``NotReady`` if it was never built, ``NotFound`` if there is no such collection.
    """
    settings = settings.model_copy(update={"read_only": True})
    adapters = await compose(settings)
    async with LeanRAG(settings, adapters) as engine:
        held = (await engine.status(collection)).collection
        if held.generation is None:
            raise NotReady(f"Collection {collection!r} was never built.", "Build it first.", "build")
        built = await _read(adapters, held.generation)
        report(Progress("cluster anew"))
        steady = await anyio.to_thread.run_sync(partial(_stability, built, held.generation))
        chunks = await adapters.documents.all_chunks(collection)
        results = await _run_queries(engine, collection, chunks, report)
        return CollectionHealth(
            collection,
            tuple(len(layer) for layer in built.layers),
            _meetings(built, results[Mode.LCA]),
            _shapes(built),
            steady,
            {str(mode): redundancy(each) for mode, each in results.items()},
            held.generation.record.health,
        )


@dataclass(frozen=True, slots=True)
class _PublishedHierarchy:
    """A published hierarchy, its base relations, its vectors by entity id, and each base entity's chain up to the root."""

    layers: Sequence[Sequence[Entity]]
    relations: tuple[Relation, ...]
    vectors: Mapping[str, Vectors]
    dimension: int
    chains: Mapping[str, Sequence[str]]

    def rows(self, entities: Sequence[Entity]) -> Vectors:
        """(n, d); zeros for an entity without a vector."""
        blank = np.zeros(self.dimension, dtype=np.float32)
        return np.array([self.vectors.get(each.id, blank) for each in entities], dtype=np.float32)


async def _read(adapters: Adapters, generation: Generation) -> _PublishedHierarchy:
    spaces = generation.record.spaces
    layers = [await adapters.generations.layer(generation.number, each.layer) for each in generation.layers]
    above = [entity.id for layer in layers[1:] for entity in layer]
    vectors = await adapters.vectors.fetch(spaces.entities, [each.id for each in layers[0]])
    vectors |= await adapters.vectors.fetch(spaces.aggregates, above)
    nodes = {entity.id: entity for layer in layers for entity in layer}
    chains = {entity.id: chain_of(entity, nodes) for entity in layers[0]}
    relations = tuple(await adapters.generations.relations(generation.number, 0))
    return _PublishedHierarchy(layers, relations, vectors, generation.dimension, chains)


def _stability(built: _PublishedHierarchy, generation: Generation) -> ClusteringStability | None:
    """None where G0 is too small to be clustered at all. Clustered the way that the build was."""
    record = generation.record
    sizes = SizeChoice(record.cluster_size, record.cluster_cap)
    made = record.health
    clustering = (
        ClusteringOptions(ClusteringMethod(made["clustering"]), made["relation_weight"])
        if made
        else ClusteringOptions()
    )
    vectors, links = built.rows(built.layers[0]), EdgeList.of(Graph(tuple(built.layers[0]), built.relations))
    if len(vectors) <= sizes.mean:
        return None

    def clusterer(rows: Labels, seed: int) -> Labels:
        parts = np.full(len(vectors), -1, dtype=np.intp)
        parts[rows] = 0
        ((_, inner),) = links.within(parts)
        return partition(vectors[rows], inner, sizes, clustering, seed=seed, pulse=lambda: None).labels

    return stability(len(vectors), clusterer)


def _shapes(built: _PublishedHierarchy) -> tuple[ClusterShape, ...]:
    found = []
    for number, layer in enumerate(built.layers[:-1]):
        members: dict[str, list[Entity]] = {}
        for entity in layer:
            members.setdefault(entity.parent_id or "", []).append(entity)
        found.append(shape(number + 1, [built.rows(each) for each in members.values()]))
    return tuple(found)


def _meetings(built: _PublishedHierarchy, results: Sequence[QueryResult]) -> dict[str, PairMeetings]:
    """By kind of seed set: entities of one chunk, of two chunks, any two, and the seeds of one query."""
    in_chunk: dict[str, list[str]] = {}
    for entity in built.layers[0]:
        for chunk_id in entity.chunk_ids:
            in_chunk.setdefault(chunk_id, []).append(entity.id)
    seeds = [[seed.entity.id for seed in each.subgraph.seeds if seed.entity.layer == 0] for each in results]
    kinds = {
        "of the same chunk": _draw_pairs_within(list(in_chunk.values())),
        "of random chunks": _draw_pairs_across(list(in_chunk.values())),
        "random": _draw_pairs_across([[each.id] for each in built.layers[0]]),
        "seeds of one query": [pair for each in seeds for pair in combinations(each, 2)],
    }
    return {kind: meetings(built.chains, pairs) for kind, pairs in kinds.items() if pairs}


def _draw_pairs_within(groups: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Pairs of different ids, each of one group drawn at random among those that have two."""
    rng = np.random.default_rng(0)
    able = [group for group in groups if len(group) > 1]
    if not able:
        return []
    chosen = [able[place] for place in rng.integers(0, len(able), PAIRS)]
    drawn = [rng.choice(len(group), 2, replace=False) for group in chosen]
    return [(group[int(one)], group[int(other)]) for group, (one, other) in zip(chosen, drawn, strict=True)]


def _draw_pairs_across(groups: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Pairs of different ids, of two groups drawn at random."""
    rng = np.random.default_rng(0)
    pairs = []
    for one, other in rng.integers(0, len(groups), (PAIRS, 2)):
        first = groups[one][int(rng.integers(len(groups[one])))]
        second = groups[other][int(rng.integers(len(groups[other])))]
        if one != other and first != second:
            pairs.append((first, second))
    return pairs


async def _run_queries(
    engine: LeanRAG, collection: str, chunks: Sequence[Chunk], report: ProgressReport
) -> dict[Mode, list[QueryResult]]:
    """Sentences of the corpus itself, asked in modes ``lca`` and ``naive``."""
    texts = sample_queries(chunks)
    results: dict[Mode, list[QueryResult]] = {Mode.LCA: [], Mode.NAIVE: []}
    for number, text in enumerate(texts):
        report(Progress("ask", number, len(texts)))
        query = Query(text, token_budget=TOKEN_BUDGET)
        for mode, found in results.items():
            found.append(await engine.query(replace(query, mode=mode), collection=collection))
    report(Progress("ask", len(texts), len(texts)))
    return results


def sample_queries(chunks: Sequence[Chunk], count: int = QUERIES) -> list[str]:
    """The first whole sentence of each of ``count`` chunks drawn at random."""
    order = np.random.default_rng(0).permutation(len(chunks))
    found: dict[str, None] = {}
    for place in order:
        if len(found) == count:
            break
        for piece in pieces(chunks[place].text):
            text = " ".join(chunks[place].text[piece.start : piece.end].split())
            if piece.kind is PieceKind.PROSE and word_count(text) >= SHORTEST:
                found[text[:1000]] = None
                break
    return list(found)
