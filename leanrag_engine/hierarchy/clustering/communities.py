"""Cluster the entities of a layer by their relations: Leiden (Traag, Waltman & van Eck 2019). The layers are
communities of G0 at falling resolutions, each within those of the next (course reader §5): a layer takes the
lowest that gives as many as there are clusters of the cap. What exceeds the cap is divided again; small
communities join the neighbour that they are most related to; vectors decide the rest."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
from graspologic_native import leiden_csr  # type: ignore[import-untyped] # it ships no types

from leanrag_engine.core.model import Vectors

from .balancing import ClusterSizes, Labels, cluster_means, place_lone_members, renumber
from .links import EdgeList, matrix_rows
from .mixture import cluster, split_above_cap

COARSEST, FINEST = 2.0**-6, 4.0**8  # The resolutions that are tried


def find_communities(
    vectors: Vectors, links: EdgeList, sizes: ClusterSizes, *, seed: int = 0, pulse: Callable[[], None]
) -> Labels:
    """Return labels (n,) of about n / ``sizes.mean`` clusters of 2 to ``sizes.cap`` members, numbered by their first
    ones. Vectors decide only what relations leave open. ``pulse`` may raise to stop."""
    if links.count <= sizes.cap and links.count <= sizes.mean:
        return np.zeros(links.count, dtype=np.intp)
    resolution, parts = find_level(links, sizes.cap, seed, pulse)
    labels = np.arange(links.count)
    for number, rows in enumerate(_divide(links, parts, resolution, sizes.cap, seed, pulse)):
        labels[rows] = links.count + number
    labels = renumber(labels)
    labels = split_above_cap(vectors, labels, sizes, pulse, seed)
    labels = join_small_communities(links, labels, sizes)
    pulse()
    labels = _cluster_runts(vectors, labels, sizes, seed, pulse)
    labels = pack_runts(vectors, labels, sizes)
    return renumber(place_lone_members(vectors.astype(np.float64), labels, sizes.cap))


def find_level(links: EdgeList, size: int, seed: int, pulse: Callable[[], None]) -> tuple[float, Labels]:
    """Return the lowest resolution, of a series that doubles, with a community for each ``size`` related entities, and
    the communities, (count,); the highest one if none has as many."""
    linked = np.unique(matrix_rows(links.neighbours()))
    wanted = -(-len(linked) // size)
    resolution = COARSEST
    while True:
        pulse()
        parts = leiden(links, resolution, seed)
        if len(np.unique(parts[linked])) >= wanted or resolution >= FINEST:
            return resolution, parts
        resolution *= 2


def _divide(
    links: EdgeList,
    parts: Labels,
    resolution: float,
    cap: int,
    seed: int,
    pulse: Callable[[], None],
    *,
    factor: float = 4.0,
) -> Iterator[Labels]:
    """Yield the rows of the communities ``parts``, those above the cap divided at ``factor`` times the resolution each time."""
    stack = [(np.arange(links.count), links, parts, resolution)]
    while stack:
        rows, part, parts, resolution = stack.pop()
        pulse()
        for places, inner in part.within(parts):
            if len(places) <= cap or (len(places) == len(rows) and resolution >= FINEST):
                yield rows[places]
            else:
                finer = resolution * factor
                stack.append((rows[places], inner, leiden(inner, finer, seed), finer))


def leiden(links: EdgeList, resolution: float, seed: int = 0) -> Labels:
    """Return the communities of a graph, (count,), numbered by their first members; each is connected."""
    if not links.neighbours().nnz:
        return np.arange(links.count)
    near = _move_inner_to_twins(links).neighbours()
    _, found = leiden_csr(
        near.indptr.astype(np.int64),
        near.indices.astype(np.int32),
        near.data,
        near.shape[0],
        resolution=resolution,
        iterations=2,
        seed=seed,
    )
    parts = np.arange(near.shape[0]) + len(found)
    parts[list(found.keys())] = list(found.values())
    return renumber(parts[: links.count])


def _move_inner_to_twins(links: EdgeList) -> EdgeList:
    """Return the graph in which entity i has its inner relations with a twin, count + i: graspologic-native
    1.3 counts a relation of a node with itself wrongly."""
    own = links.ends[:, 0] == links.ends[:, 1]
    if not own.any():
        return links
    ends = links.ends.copy()
    ends[own, 1] += links.count
    return EdgeList(2 * links.count, ends, links.weights)


class _CommunityMerger:
    """Communities that merge: sizes, volumes, and the weight of the relations between any two."""

    def __init__(self, links: EdgeList, labels: Labels) -> None:
        self.into = list(range(int(labels.max()) + 1))
        self.sizes: list[int] = np.bincount(labels).tolist()
        self._between: list[dict[int, float]] = [defaultdict(float) for _ in self.into]
        self._volumes = [0.0] * len(self.into)
        ends = labels[links.ends]
        for (first, second), weight in zip(ends.tolist(), links.weights.tolist(), strict=True):
            self._volumes[first] += weight
            self._volumes[second] += weight
            if first != second:
                self._between[first][second] += weight
                self._between[second][first] += weight

    def partner(self, community: int, cap: int) -> int | None:
        """Return the neighbour with room with the highest weight between the two relative to the volumes."""
        room = cap - self.sizes[community]
        fitting = (
            (weight / self._volumes[other], -other)
            for other, weight in self._between[community].items()
            if self.sizes[other] <= room
        )
        best = max(fitting, default=None)
        return None if best is None else -best[1]

    def merge(self, community: int, other: int) -> None:
        """Make ``community`` a part of ``other``."""
        self.into[community] = other
        self.sizes[other] += self.sizes[community]
        self._volumes[other] += self._volumes[community]
        for third, weight in self._between[community].items():
            del self._between[third][community]
            if third != other:
                self._between[other][third] += weight
                self._between[third][other] += weight
        self.sizes[community] = 0
        self._between[community] = {}

    def home(self, community: int) -> int:
        while self.into[community] != community:
            community = self.into[community]
        return community


def join_small_communities(links: EdgeList, labels: Labels, sizes: ClusterSizes) -> Labels:
    """Merge the smallest communities, but for entities without a relation, with neighbours until there are as
    few as wanted or none has room."""
    merging = _CommunityMerger(links, labels)
    heap = [(size, community) for community, size in enumerate(merging.sizes)]
    heapq.heapify(heap)
    linked = np.unique(matrix_rows(links.neighbours()))
    count, wanted = len(np.unique(labels[linked])), -(-len(linked) // sizes.mean)
    while heap and count > wanted:
        size, community = heapq.heappop(heap)
        if size != merging.sizes[community]:
            continue  # its size has changed since it was queued
        other = merging.partner(community, sizes.cap)
        if other is not None:
            merging.merge(community, other)
            heapq.heappush(heap, (merging.sizes[other], other))
            count -= 1
    homes = np.array([merging.home(community) for community in range(len(merging.into))], dtype=np.intp)
    return renumber(homes[labels])


def _cluster_runts(
    vectors: Vectors, labels: Labels, sizes: ClusterSizes, seed: int, pulse: Callable[[], None]
) -> Labels:
    """Cluster by vectors, each as a whole, the runts that no relation joins to a community with room."""
    counts = np.bincount(labels)
    rows = np.flatnonzero(counts[labels] < sizes.runt)
    if len(rows) < sizes.runt:
        return labels
    means = cluster_means(vectors.astype(np.float64), labels, len(counts))
    parts = cluster(means[labels[rows]].astype(np.float32), sizes, seed=seed, pulse=pulse).labels
    labels = labels.copy()
    labels[rows] = len(counts) + parts
    return renumber(labels)


def pack_runts(vectors: Vectors, labels: Labels, sizes: ClusterSizes) -> Labels:
    """Merge the last runts with similar clusters, and the smallest clusters too if the layer would hardly shrink."""
    counts = np.bincount(labels)
    most = 2 * len(labels) // sizes.mean  # a tenth where 20 is the mean
    means = cluster_means(vectors.astype(np.float64), labels, len(counts))
    for community in np.argsort(counts, kind="stable").tolist():
        small = 0 < counts[community] < sizes.runt
        if not small and np.count_nonzero(counts) <= max(most, 1):
            break
        room = (counts > 0) & (counts + counts[community] <= sizes.cap)
        room[community] = False
        fitting = np.flatnonzero(room)
        if not counts[community] or not len(fitting):
            continue
        target = int(fitting[np.argmax(means[fitting] @ means[community])])
        total = counts[target] + counts[community]
        means[target] = (means[target] * counts[target] + means[community] * counts[community]) / total
        counts[target], counts[community] = total, 0
        labels = np.where(labels == community, target, labels)
    return renumber(labels)
