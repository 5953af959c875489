"""Cluster the entities of a layer by dual perception: structure and meaning in one score (Youtu-GraphRAG, section 2).

1. *Encodings* (:func:`encode_neighbourhoods`): an entity is the mean of its triples' vectors.
2. *Partition*: k-means on the encodings of E entities into k = min(max(2, ⌊E/β⌋), η) communities.
3. *Score*: φ(e, C) = S_r(e, C) + λ·S_s(e, C). S_r is the Jaccard similarity of the one-hop neighbourhood of e and the mean one
   of C, S_s the cosine of the encoding of e to the mean one of C; e itself does not count in C. Each entity moves to the
   community of its highest score, until none moves or eight times. Scores are divided by 1 + λ, as in the published code, so that ε does not
   depend on λ: ``share`` of S_r and the rest of S_s.
4. *Merging*: the representative e* of a community is its member of the highest score. Two communities merge if their
   representatives, in the mean, score less than ε higher with their own community than with the other one.

Youtu-GraphRAG's communities have any size; its code makes no merge above 100 members and divides the first communities once more.
Readers of our layers rely on a cap: a community above it is divided again by the same steps, and no merge exceeds
it. β is half of the mean size (10, as in the published code, for 20), so that merging leads up to the mean size. Afterwards
communities too small for a summary join the most similar ones, and the largest are split if a layer has too few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from leanrag_engine.core.model import Vectors
from leanrag_engine.core.vectors import one_thread, unit_rows

from .balancing import TINY, ClusterSizes, Labels, Points, place_lone_members, renumber
from .communities import pack_runts
from .links import EdgeList, Matrix, sum_members
from .mixture import assign_nearest_means, cluster

_BLOCK = 4096


def find_dual_communities(
    encodings: Vectors,
    links: EdgeList,
    sizes: ClusterSizes,
    *,
    share: float,
    seed: int = 0,
    pulse: Callable[[], None],
) -> Labels:
    """Return labels (n,) of clusters of 2 to ``sizes.cap`` members, numbered by their first ones. ``encodings`` (n,
    d) are unit rows, ``share`` is 1 / (1 + λ). ``pulse`` may raise to stop. A level takes O(n·η·d) and O(m·η)."""
    labels = np.zeros(len(encodings), dtype=np.intp)
    perceived = Perception.of(encodings, links, share)
    with one_thread():
        for number, rows in enumerate(_divide(perceived, sizes, seed, pulse)):
            labels[rows] = number
    labels = pack_runts(encodings, renumber(labels), sizes)
    return renumber(place_lone_members(encodings.astype(np.float64), labels, sizes.cap))


def _divide(
    perceived: Perception, sizes: ClusterSizes, seed: int, pulse: Callable[[], None], *, most: float = 0.75
) -> Iterator[Labels]:
    """Yield the rows of communities of at most the cap; one with more than the share ``most`` is cut by
    meaning."""
    stack = [np.arange(len(perceived.encodings))]
    while stack:
        rows = stack.pop()
        if len(rows) <= sizes.cap:
            yield rows
            continue
        pulse()
        parts = detect(perceived.select(rows), sizes, seed=seed, pulse=pulse)
        for part in range(int(parts.max()) + 1):
            members = rows[parts == part]
            if len(members) > max(sizes.cap, most * len(rows)):
                cut = cluster(perceived.encodings[members], mean_size=sizes.mean, cap=sizes.cap, pulse=pulse)
                stack.extend(members[cut.labels == number] for number in range(cut.count))
            else:
                stack.append(members)


def detect(perceived: Perception, sizes: ClusterSizes, *, seed: int = 0, pulse: Callable[[], None]) -> Labels:
    """Return the communities (n,) of one partition: k-means, the best scores, merging."""
    count = partition_count(len(perceived.encodings), max(1, sizes.mean // 2))
    labels = assign_nearest_means(perceived.encodings, count, seed)
    labels = _settle(perceived, labels, pulse)
    return merge_communities(perceived, labels, sizes, pulse=pulse)


def partition_count(entities: int, beta: int) -> int:
    """Return k = min(max(2, ⌊E/β⌋), η)."""
    # At most η = 200 communities of one partition (Youtu-GraphRAG).
    return min(max(2, entities // beta), 200)


@dataclass(frozen=True, slots=True)
class Perception:
    """Entities as the score sees them: ``encodings`` (n, d) unit rows, and ``near`` (n, all), each row a one-hop
    neighbourhood: 1 for the entity itself, and for its neighbours the weights relative to its strongest relation."""

    encodings: Vectors
    near: Matrix
    share: float

    @classmethod
    def of(cls, encodings: Vectors, links: EdgeList, share: float) -> Perception:
        """Return the entities with their relations; in G0, where all relations weigh 1, neighbourhoods are plain sets."""
        return cls(encodings, links.neighbourhoods(), share)

    def select(self, rows: Labels) -> Perception:
        """Return the entities ``rows``; their neighbourhoods stay whole."""
        return Perception(self.encodings[rows], self.near[rows], self.share)

    def score(self, rows: Labels, labels: Labels) -> Points:
        """Return φ / (1 + λ) of ``rows`` and each community of ``labels`` (n,), without oneself; 0 where that
        leaves none."""
        return _Communities.of(self, labels).score(rows)


@dataclass(frozen=True, slots=True)
class _Communities:
    """The sums of the encodings and of the neighbourhoods of each community's members."""

    perceived: Perception
    labels: Labels
    sizes: Labels
    encodings: Points
    near: Matrix

    @classmethod
    def of(cls, perceived: Perception, labels: Labels) -> _Communities:
        sizes = np.bincount(labels)
        encodings = sum_members(perceived.encodings.astype(np.float64), labels)
        return cls(perceived, labels, sizes, encodings, sum_members(perceived.near, labels))

    def score(self, rows: Labels) -> Points:
        everyone, own = np.arange(len(rows)), self.labels[rows]
        others = np.tile(self.sizes.astype(np.float64), (len(rows), 1))
        others[everyone, own] -= 1.0
        meaning = self._meaning(rows, everyone, own)
        structure = self._structure(rows, everyone, own, others)
        share = self.perceived.share
        return np.where(others > 0, share * structure + (1.0 - share) * meaning, 0.0)

    def _meaning(self, rows: Labels, everyone: Labels, own: Labels) -> Points:
        """Return S_s: the cosines of the encodings to the communities' sums."""
        vectors = self.perceived.encodings[rows].astype(np.float64)
        products = vectors @ self.encodings.T
        squares = np.tile(np.einsum("ij,ij->i", self.encodings, self.encodings), (len(rows), 1))
        lengths = np.einsum("ij,ij->i", vectors, vectors)
        squares[everyone, own] += lengths - 2.0 * products[everyone, own]
        products[everyone, own] -= lengths
        return np.asarray(products / np.sqrt(np.maximum(squares, TINY)))

    def _structure(self, rows: Labels, everyone: Labels, own: Labels, others: Points) -> Points:
        """Return S_r: the Jaccard (Tanimoto) similarities x / (|a|² + |b|² - x) of neighbourhoods a and mean
        ones b, x = a·b."""
        near = self.perceived.near[rows]
        common = (near @ self.near.T).toarray()
        ours = np.asarray(near.multiply(near).sum(axis=1))
        theirs = np.tile(np.asarray(self.near.multiply(self.near).sum(axis=1)), (len(rows), 1))
        theirs[everyone, own] += ours - 2.0 * common[everyone, own]
        common[everyone, own] -= ours
        members = np.maximum(others, 1.0)
        common /= members
        return np.asarray(common / np.maximum(ours[:, None] + theirs / members**2 - common, TINY))


def _settle(perceived: Perception, labels: Labels, pulse: Callable[[], None], *, passes: int = 8) -> Labels:
    """Return the labels after each entity has moved to its best community, until none moves, or after ``passes``."""
    for _ in range(passes):
        pulse()
        communities = _Communities.of(perceived, labels)
        moved = labels.copy()
        for start in range(0, len(labels), _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, len(labels)))
            scores = communities.score(rows)
            best = scores.argmax(axis=1)
            own = scores[np.arange(len(rows)), labels[rows]]
            better = scores[np.arange(len(rows)), best] > own + TINY
            moved[rows[better]] = best[better]
        if np.array_equal(moved, labels):
            break
        labels = renumber(moved)
    return labels


def merge_communities(
    perceived: Perception,
    labels: Labels,
    sizes: ClusterSizes,
    *,
    epsilon: float = 0.5,  # as in Youtu-GraphRAG's code
    pulse: Callable[[], None],
) -> Labels:
    """Return the labels after communities that differ by less than ``epsilon`` have merged, the most similar
    first, with at most ``sizes.cap`` members and no fewer than one for each ``sizes.mean`` entities."""
    fewest = -(-len(labels) // sizes.mean)
    while (spare := int(labels.max()) + 1 - fewest) > 0:
        pulse()
        losses = representative_losses(perceived, labels)
        counts = np.bincount(labels)
        first, second = np.triu_indices(len(counts), 1)
        fit = (counts[first] + counts[second] <= sizes.cap) & (losses[first, second] < epsilon)
        first, second = first[fit], second[fit]
        into = np.arange(len(counts))
        used = np.zeros(len(counts), dtype=bool)
        for pair in np.argsort(losses[first, second], kind="stable").tolist():
            one, other = first[pair], second[pair]
            if spare and not used[one] and not used[other]:
                spare -= 1
                used[[one, other]] = True
                into[other] = one
        if not used.any():
            break
        labels = renumber(into[labels])
    return labels


def representative_losses(perceived: Perception, labels: Labels) -> Points:
    """Return by how much the representatives of any two communities, in the mean, score higher with their own, (k, k)."""
    count = int(labels.max()) + 1
    communities = _Communities.of(perceived, labels)
    own = np.empty(len(labels))
    for start in range(0, len(labels), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(labels)))
        own[rows] = communities.score(rows)[np.arange(len(rows)), labels[rows]]
    order = np.lexsort((np.arange(len(labels)), -own, labels))
    representatives = order[np.searchsorted(labels[order], np.arange(count))]
    losses = own[representatives][:, None] - communities.score(representatives)
    return np.asarray((losses + losses.T) / 2.0)


def encode_neighbourhoods(vectors: Vectors, links: EdgeList, *, block: int = _BLOCK) -> Vectors:
    """Return (n, d) unit rows, one part the entity's own vector and one part the weighted mean of its
    neighbours': in place of the mean of Youtu-GraphRAG's encoded triples, without further embedding."""
    if not len(links.ends):
        return vectors
    near = links.neighbours()
    sums = np.zeros(vectors.shape, dtype=np.float32)
    filled = np.flatnonzero(np.diff(near.indptr))
    for start in range(0, len(filled), block):
        rows = filled[start : start + block]
        part = slice(near.indptr[rows[0]], near.indptr[rows[-1] + 1])
        entries = vectors[near.indices[part]] * near.data[part, None].astype(np.float32)
        sums[rows] = np.add.reduceat(entries, near.indptr[rows] - near.indptr[rows[0]], axis=0)
    mixed = vectors + unit_rows(sums)
    return np.where((sums != 0).any(axis=1)[:, None], unit_rows(mixed), vectors).astype(np.float32)
