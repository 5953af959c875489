"""Measure a built collection without a judge model: where entities meet, how its clusters are shaped, how stable the
clustering is, and how much its contexts repeat."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations, pairwise

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from leanrag_engine.adapters.wiring import Adapters, compose
from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import NotReady
from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.graphs.layers import find_parents
from leanrag_engine.core.model import Chunk, Entity, Generation, HierarchyHealth, Relation, Vectors
from leanrag_engine.core.ports import Progress, ProgressReport
from leanrag_engine.core.text.citation import CITATION_PATTERN
from leanrag_engine.core.text.language.names import fold_case
from leanrag_engine.core.text.language.sentences import PieceKind, pieces, sentences
from leanrag_engine.core.text.language.words import word_count, words
from leanrag_engine.engine import LeanRAG
from leanrag_engine.hierarchy.clustering.balancing import ClusterSizes
from leanrag_engine.hierarchy.clustering.links import EdgeList
from leanrag_engine.hierarchy.clustering.methods import ClusteringMethod, ClusteringOptions, partition
from leanrag_engine.hierarchy.health import ClusterShape, find_ancestors, measure_shape, meeting_layers
from leanrag_engine.retrieval.query import QueryResult
from leanrag_engine.retrieval.request import Mode, Query

from .metrics import mean

SHORTEST = 5
"""Words of the shortest sentence that serves as a query or counts as repeated."""

Labels = NDArray[np.intp]
Clusterer = Callable[[Labels, int], Labels]
"""Clusters the entities at some rows with a seed; returns a label for each."""


# --- records -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairMeetings:
    """Where pairs of entities have their LCA: the share below the root, and the mean layer."""

    pairs: int
    below_root: float
    mean_layer: float


@dataclass(frozen=True, slots=True)
class ClusteringStability:
    """Agreement of the clusters of ``entities`` of G0 with a second clustering (adjusted Rand index): with another
    seed, and without a tenth; ``kept``: clusters that stay the same when a hundredth of the entities goes."""

    entities: int
    other_seed: float
    without_a_tenth: float
    kept: float


@dataclass(frozen=True, slots=True)
class ContextRedundancy:
    """Mean shares of the sentences and five-word phrases of a context that repeat earlier ones."""

    contexts: int
    sentences: float
    phrases: float
    tokens: float


@dataclass(frozen=True, slots=True)
class CollectionHealth:
    """The figures of one collection: ``meetings`` by kind of seed set, ``redundancy`` by mode, ``build`` as
    it was stored."""

    collection: str
    layers: tuple[int, ...]
    meetings: Mapping[str, PairMeetings]
    shapes: tuple[ClusterShape, ...]
    stability: ClusteringStability | None
    redundancy: Mapping[str, ContextRedundancy]
    build: HierarchyHealth | None

    def as_json(self) -> dict[str, object]:
        return asdict(self)


# --- measures ------------------------------------------------------------------------------


def measure_meetings(ancestors: Sequence[Labels], pairs: Sequence[tuple[int, int]]) -> PairMeetings:
    """Return where ``pairs`` of base entities (by place) meet; ``ancestors`` are the places of theirs in each layer."""
    layers = meeting_layers(ancestors, np.array(pairs, dtype=np.intp)).tolist()
    root = len(ancestors) - 1
    return PairMeetings(len(pairs), mean([layer < root for layer in layers]), mean(layers))


def adjusted_rand_index(one: Labels, other: Labels) -> float:
    """Return the agreement of two partitions of the same points beyond chance (Hubert and Arabie 1985); 1 = equal."""
    table = Counter(zip(one.tolist(), other.tolist(), strict=True))
    together = sum(_pairs(count) for count in table.values())
    rows = sum(_pairs(count) for count in Counter(one.tolist()).values())
    columns = sum(_pairs(count) for count in Counter(other.tolist()).values())
    expected = rows * columns / max(_pairs(len(one)), 1)
    most = (rows + columns) / 2
    return 1.0 if most == expected else (together - expected) / (most - expected)


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def stability(count: int, clusterer: Clusterer, *, seed: int = 0, most: int = 20_000) -> ClusteringStability:
    """Cluster ``count`` entities, of more than ``most`` a sample, as they are, with another seed, without a
    tenth and without a hundredth."""
    rng = np.random.default_rng(seed)
    rows = np.arange(count)
    if count > most:
        rows = np.sort(rng.choice(count, most, replace=False))
    first = clusterer(rows, 0)
    most_rows, nearly_all = (
        np.sort(rng.choice(len(rows), max(1, round(share * len(rows))), replace=False))
        for share in (0.9, 0.99)
    )
    return ClusteringStability(
        entities=len(rows),
        other_seed=adjusted_rand_index(first, clusterer(rows, 1)),
        without_a_tenth=adjusted_rand_index(first[most_rows], clusterer(rows[most_rows], 0)),
        kept=measure_kept_share(first[nearly_all], clusterer(rows[nearly_all], 0)),
    )


def measure_kept_share(before: Labels, after: Labels) -> float:
    """Return the share of the clusters of ``before`` that have the same members in ``after``."""
    olds, news = _members_by_cluster(before), _members_by_cluster(after)
    return len(olds & news) / len(olds)


def _members_by_cluster(labels: Labels) -> set[frozenset[int]]:
    members: dict[int, list[int]] = {}
    for row, label in enumerate(labels.tolist()):
        members.setdefault(label, []).append(row)
    return {frozenset(each) for each in members.values()}


def repetition_share(items: Sequence[Hashable]) -> float:
    """Return the share of the items that occurred before."""
    return 1 - len(set(items)) / len(items) if items else 0.0


def redundancy(results: Sequence[QueryResult]) -> ContextRedundancy:
    texts = [context_body(result.context.text) for result in results]
    return ContextRedundancy(
        len(results),
        mean([repetition_share(sentences_of(text)) for text in texts]),
        mean([repetition_share(phrases_of(text)) for text in texts]),
        mean([result.context.tokens for result in results]),
    )


_LABEL = re.compile(rf"^\[{CITATION_PATTERN}\].*$|^## .*$|^`{{3,}}$", re.MULTILINE)
_CITATION = re.compile(rf"\[{CITATION_PATTERN}\]")


def context_body(context: str) -> str:
    """Return the text of a context without its first line, headings, labels, fences and citations."""
    _, _, body = context.partition("\n")
    return _CITATION.sub("", _LABEL.sub("", body))


def sentences_of(text: str) -> list[str]:
    """Return the sentences that count as repeatable, case-folded."""
    found = (fold_case(text[start:end]) for start, end in sentences(text))
    return [sentence for sentence in found if word_count(sentence) >= SHORTEST]


def phrases_of(text: str) -> list[tuple[str, ...]]:
    found = words(text.casefold())
    size = 5  # consecutive words
    return [tuple(found[start : start + size]) for start in range(len(found) - size + 1)]


# --- a collection --------------------------------------------------------------------------


async def collection_health(
    settings: Settings, collection: str, report: ProgressReport = lambda _: None
) -> CollectionHealth:
    """Return the health of a built collection; nothing is written. Raises ``NotReady`` and ``NotFound``."""
    settings = settings.model_copy(update={"read_only": True})
    adapters = await compose(settings)
    async with LeanRAG(settings, adapters) as engine:
        state = (await engine.status(collection)).collection
        if state.generation is None:
            raise NotReady(f"Collection {collection!r} was never built.", "Build it first.", "build")
        built = await _read(adapters, state.generation)
        report(Progress("cluster anew"))
        steady = await anyio.to_thread.run_sync(partial(_stability, built, state.generation))
        chunks = await adapters.documents.all_chunks(collection)
        results = await _run_queries(engine, collection, chunks, report)
        return CollectionHealth(
            collection,
            tuple(len(layer) for layer in built.layers),
            _collect_meetings(built, results[Mode.LCA]),
            _shapes(built),
            steady,
            {str(mode): redundancy(each) for mode, each in results.items()},
            state.generation.record.health,
        )


@dataclass(frozen=True, slots=True)
class _PublishedHierarchy:
    """A published hierarchy, its base relations, and its vectors by entity id."""

    layers: Sequence[Sequence[Entity]]
    relations: tuple[Relation, ...]
    vectors: Mapping[str, Vectors]
    dimension: int

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
    relations = tuple(await adapters.generations.relations(generation.number, 0))
    return _PublishedHierarchy(layers, relations, vectors, generation.dimension)


def _stability(built: _PublishedHierarchy, generation: Generation) -> ClusteringStability | None:
    """Cluster G0 again with the options of the build; None if it recorded none or G0 is too small to be clustered."""
    made = generation.record.health
    if made is None:
        return None
    sizes = ClusterSizes(made.cluster_size, made.cluster_cap)
    clustering = ClusteringOptions(ClusteringMethod(made.clustering))
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
    shapes = []
    for number, (lower, upper) in enumerate(pairwise(built.layers), 1):
        vectors = built.rows(lower)
        known = np.any(vectors, axis=1)
        parents = find_parents(*(Graph(tuple(each), ()) for each in (lower, upper)))
        shapes.append(measure_shape(number, parents, vectors, known=known))
    return tuple(shapes)


def _collect_meetings(built: _PublishedHierarchy, results: Sequence[QueryResult]) -> dict[str, PairMeetings]:
    """Return the meetings by kind of seed set: entities of one chunk, of two chunks, any two, seeds of one query."""
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
    place = {entity.id: number for number, entity in enumerate(built.layers[0])}
    ancestors = find_ancestors([Graph(tuple(each), ()) for each in built.layers])
    return {
        kind: measure_meetings(ancestors, [(place[one], place[other]) for one, other in pairs])
        for kind, pairs in kinds.items()
        if pairs
    }


def _draw_pairs_within(groups: Sequence[Sequence[str]], count: int = 2_000) -> list[tuple[str, str]]:
    """Draw ``count`` pairs of different ids, each from one random group of at least two."""
    rng = np.random.default_rng(0)
    able = [group for group in groups if len(group) > 1]
    if not able:
        return []
    chosen = [able[place] for place in rng.integers(0, len(able), count)]
    drawn = [rng.choice(len(group), 2, replace=False) for group in chosen]
    return [(group[int(one)], group[int(other)]) for group, (one, other) in zip(chosen, drawn, strict=True)]


def _draw_pairs_across(groups: Sequence[Sequence[str]], count: int = 2_000) -> list[tuple[str, str]]:
    """Draw at most ``count`` pairs of different ids from two random groups."""
    rng = np.random.default_rng(0)
    pairs = []
    for one, other in rng.integers(0, len(groups), (count, 2)):
        first = groups[one][int(rng.integers(len(groups[one])))]
        second = groups[other][int(rng.integers(len(groups[other])))]
        if one != other and first != second:
            pairs.append((first, second))
    return pairs


async def _run_queries(
    engine: LeanRAG, collection: str, chunks: Sequence[Chunk], report: ProgressReport
) -> dict[Mode, list[QueryResult]]:
    """Run sentences of the corpus as queries in modes ``lca`` and ``naive``."""
    texts = sample_queries(chunks)
    results: dict[Mode, list[QueryResult]] = {Mode.LCA: [], Mode.NAIVE: []}
    for number, text in enumerate(texts):
        report(Progress("ask", number, len(texts)))
        query = Query(text, token_budget=2_000)
        for mode, found in results.items():
            found.append(await engine.query(replace(query, mode=mode), collection=collection))
    report(Progress("ask", len(texts), len(texts)))
    return results


def sample_queries(chunks: Sequence[Chunk], count: int = 40) -> list[str]:
    """Return the first whole sentence of each of ``count`` chunks drawn at random."""
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
