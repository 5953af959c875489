"""Even out clusters: move members to their best cluster under a hard cap on cluster sizes. This is classification EM for
a mixture of Gaussians with one common variance (Celeux & Govaert 1992) whose components hold at most ``cap`` points, with
split-and-merge moves (Ueda et al. 2000) against poor local optima. Every pass costs O(n · min(count, SHORTLIST))."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
Coordinates = NDArray[np.float64] | NDArray[np.float32]  # single precision in a large layer
Labels = NDArray[np.intp]

SHORTLIST = 512
"""Most clusters that a point is scored against; with more clusters, those of its region. A limit on cost."""

SMALLEST = 2  # Members of the smallest cluster that is more than a lone member


@dataclass(frozen=True, slots=True)
class ClusterSizes:
    """Clusters have ``mean`` members on average, at most ``cap``."""

    mean: int
    cap: int

    @property
    def runt(self) -> int:
        """Return the size below which a cluster is not worth a summary of its own."""
        return max(SMALLEST, self.mean // 4)


def cap_for(mean: int) -> int:
    """Return the cap of a mean size: half as much again, 30 for 20."""
    return mean + mean // 2


@dataclass(frozen=True, slots=True)
class ClusterCandidates:
    """For each of n points its best clusters, best first, (n, q), and the score x · μ - ½ |μ|² of its ``own``, (n,)."""

    ids: Labels
    scores: Points
    own: Points


def balance(
    points: Coordinates, labels: Labels, sizes: ClusterSizes, pulse: Callable[[], None], *, rounds: int = 6
) -> Labels:
    """Even out ``labels`` (n,), numbered from 0 without gaps; n must not exceed clusters * cap. Returns as
    many clusters, unless too few points differ, of at most ``sizes.cap`` points; lone members and runts, of
    less than a quarter of the mean size, are avoided. ``pulse`` is called before each pass."""
    count = int(labels.max()) + 1
    for _ in range(rounds):
        labels = _settle(points, labels, count, sizes.cap, pulse)
        regrouped = _regroup(points, labels, count, sizes)
        if np.array_equal(regrouped, labels):
            break
        labels = regrouped
    labels = renumber(_settle(points, labels, count, sizes.cap, pulse))
    return renumber(place_lone_members(points, labels, sizes.cap))


def renumber(labels: Labels) -> Labels:
    """Return the same clusters numbered 0, 1, … in the order of their first members."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def cluster_means(points: NDArray[Any], labels: Labels, count: int) -> Points:
    """Return the (count, d) means of all clusters; a cluster without members has a zero row."""
    means = cluster_sums(points, labels, count)
    means /= np.maximum(np.bincount(labels, minlength=count), 1)[:, None]
    return means


def cluster_sums(points: NDArray[Any], labels: Labels, count: int) -> Points:
    """Return the (count, d) sums of all clusters; a cluster without members has a zero row."""
    sums = np.zeros((count, points.shape[1]))
    for cluster, rows in _members(labels, count):
        np.add.reduce(points[rows], axis=0, dtype=np.float64, out=sums[cluster])
    return sums


def find_candidates(
    points: Coordinates, labels: Labels, means: Points, *, most: int = 16
) -> ClusterCandidates:
    """Score each point against the clusters of its region and store the best ``most``, in case the best is full."""
    width = min(most, len(means))
    ids = np.empty((len(points), width), dtype=np.intp)
    scores = np.empty((len(points), width))
    own = np.empty(len(points))
    for rows, shortlist in _regions(labels, means):
        found = _scores(points[rows], means[shortlist])
        own[rows] = found[np.arange(len(rows)), np.searchsorted(shortlist, labels[rows])]
        best = _best_columns(found, width)
        ids[rows] = shortlist[best]
        scores[rows] = np.take_along_axis(found, best, axis=1)
    return ClusterCandidates(ids, scores, own)


def _members(labels: Labels, count: int) -> Iterator[tuple[int, Labels]]:
    """Yield each cluster that has members, with their rows in order."""
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=count))
    start = 0
    for cluster, end in enumerate(ends.tolist()):
        if end > start:
            yield cluster, order[start:end]
        start = end


def _best_columns(scores: Points, kept: int) -> Labels:
    """Return the ``kept`` highest columns of each row, best first, lower column first among equals."""
    columns = scores.shape[1]
    part = np.argpartition(scores, columns - kept, axis=1)[:, columns - kept :]
    part.sort(axis=1)
    order = np.argsort(-np.take_along_axis(scores, part, axis=1), axis=1, kind="stable")
    return np.take_along_axis(part, order, axis=1)


def _regions(
    labels: Labels, means: Points, *, step: int = 32, block: int = 4096
) -> Iterator[tuple[Labels, Labels]]:
    """Yield blocks of rows with the sorted clusters that they are scored against: what lies nearest to one of
    every ``step`` clusters, which come from a recursive split."""
    count = len(means)
    if count <= SHORTLIST:
        everything = np.arange(count)
        for start in range(0, len(labels), block):
            yield np.arange(start, min(start + block, len(labels))), everything
        return
    norms = np.einsum("ij,ij->i", means, means)
    pivots = means[::step]
    # In portions: all distances between the 50,000 clusters of a million entities and their pivots take 0.6 GB.
    parts = (means[first : first + block] for first in range(0, count, block))
    homes = np.concatenate([(norms[::step, None] - 2.0 * (pivots @ part.T)).argmin(axis=0) for part in parts])
    portion = -1
    for region, rows in _members(homes[labels], len(pivots)):
        if region // step != portion:
            portion = region // step
            distances = norms - 2.0 * (pivots[portion * step : (portion + 1) * step] @ means.T)
        near = np.argsort(distances[region % step], kind="stable")[:SHORTLIST]
        shortlist = np.union1d(near, np.flatnonzero(homes == region))
        for start in range(0, len(rows), block):
            yield rows[start : start + block], shortlist


def _settle(
    points: Coordinates, labels: Labels, count: int, cap: int, pulse: Callable[[], None], *, passes: int = 3
) -> Labels:
    """Alternate between means and best clusters until nothing moves, or for ``passes`` passes."""
    rough = points.astype(np.float32, copy=False)
    for _ in range(passes):
        pulse()
        means = cluster_means(points, labels, count)
        moved = _relieve(points, _best_clusters(rough, labels, means), means, cap)
        if np.array_equal(moved, labels):
            break
        labels = moved
    return labels


def _best_clusters(points: NDArray[np.float32], labels: Labels, means: Points) -> Labels:
    """Return the best cluster of each point, ignoring caps. Single precision suffices and is twice as fast."""
    rough_means = means.astype(np.float32)
    best = labels.copy()
    for rows, shortlist in _regions(labels, means):
        scores = _scores(points[rows], rough_means[shortlist])
        everyone = np.arange(len(rows))
        choice = scores.argmax(axis=1)
        own = scores[everyone, np.searchsorted(shortlist, labels[rows])]
        better = scores[everyone, choice] > own + 1e-6  # less is rounding in single precision
        best[rows[better]] = shortlist[choice[better]]
    return best


def _relieve(points: Coordinates, labels: Labels, means: Points, cap: int) -> Labels:
    """Bring every cluster under the cap; the members that lose least leave."""
    labels = labels.copy()
    sizes = np.bincount(labels, minlength=len(means))
    rows = np.flatnonzero(sizes[labels] > cap)
    if not len(rows):
        return labels
    candidates = find_candidates(points[rows], labels[rows], means)
    while sizes.max() > cap:
        targets, losses = _second_choices(points[rows], candidates, means, sizes < cap)
        for place in np.argsort(losses, kind="stable").tolist():
            source, target = labels[rows[place]], targets[place]
            if sizes[source] > cap and sizes[target] < cap:
                labels[rows[place]] = target
                sizes[source] -= 1
                sizes[target] += 1
    return labels


def _second_choices(
    points: Coordinates,
    candidates: ClusterCandidates,
    means: Points,
    room: NDArray[np.bool_],
    *,
    most_scores: int = 1 << 24,
) -> tuple[Labels, Points]:
    """Return the best cluster with room for each point, and the score that the point loses by moving."""
    scores = np.where(room[candidates.ids], candidates.scores, -np.inf)
    best = scores.argmax(axis=1)
    everyone = np.arange(len(points))
    targets, gained = candidates.ids[everyone, best], scores[everyone, best]
    stuck = np.flatnonzero(np.isneginf(gained))
    free = np.flatnonzero(room)
    block = max(1, most_scores // max(1, len(free)))  # 31,000 points were stuck at 100,000: 1.3 GB of scores
    for start in range(0, len(stuck), block):
        rows = stuck[start : start + block]
        found = _scores(points[rows], means[free])
        targets[rows] = free[found.argmax(axis=1)]
        gained[rows] = found.max(axis=1)
    return targets, candidates.own - gained


def _scores(points: NDArray[Any], means: NDArray[Any]) -> NDArray[Any]:
    scores = points @ means.T
    scores -= 0.5 * np.einsum("ij,ij->i", means, means)
    return np.asarray(scores)


# --- splitting and merging -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Split:
    """A cluster cut in two: ``gain`` is what the sum of squared distances falls by."""

    cluster: int
    gain: float
    leaving: Labels


def _regroup(points: Coordinates, labels: Labels, count: int, sizes: ClusterSizes) -> Labels:
    """Merge the cheapest pairs and split what gains most, while that pays. A runt is merged at any price."""
    splits = _possible_splits(points, labels, count, sizes.runt)
    regrouped = labels.copy()
    used = np.zeros(count, dtype=bool)
    position = 0
    for cost, kept, freed in _possible_merges(points, labels, count, runt=sizes.runt, cap=sizes.cap):
        if used[kept] or used[freed]:
            continue
        used[[kept, freed]] = True
        while position < len(splits) and used[splits[position].cluster]:
            position += 1
        # A difference below 1e-12 is rounding.
        if position == len(splits) or splits[position].gain <= cost + 1e-12:
            break
        split = splits[position]
        used[split.cluster] = True
        regrouped[labels == freed] = kept
        regrouped[split.leaving] = freed
    return regrouped


def _possible_splits(points: Coordinates, labels: Labels, count: int, runt: int) -> list[_Split]:
    """Return every cluster that can be cut into two of at least ``runt`` members, the largest gain first."""
    splits = []
    for cluster, rows in _members(labels, count):
        if len(rows) >= 2 * runt:
            gain, half = _halve(points[rows], runt)
            splits.append(_Split(cluster, gain, rows[half]))
    return sorted(splits, key=lambda split: (-split.gain, split.cluster))


def _possible_merges(
    points: Coordinates, labels: Labels, count: int, *, runt: int, cap: int
) -> list[tuple[float, int, int]]:
    """Return (Ward's cost, kept, freed) of neighbouring clusters that fit under the cap together, cheapest first."""
    means = cluster_means(points, labels, count)
    sizes = np.bincount(labels, minlength=count)
    near = find_candidates(means, np.arange(count), means).ids
    pairs = np.stack([np.repeat(np.arange(count), near.shape[1]), near.ravel()], axis=1)
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    pairs = pairs[sizes[pairs].sum(axis=1) <= cap]
    kept, freed = pairs[:, 0], pairs[:, 1]
    apart = means[kept] - means[freed]
    weights = sizes[kept] * sizes[freed] / np.maximum(1, sizes[kept] + sizes[freed])
    costs = weights * np.einsum("ij,ij->i", apart, apart)
    costs[sizes[pairs].min(axis=1, initial=cap) < runt] = -np.inf
    order = np.argsort(costs, kind="stable")
    return list(zip(costs[order].tolist(), kept[order].tolist(), freed[order].tolist(), strict=True))


def _halve(points: Coordinates, runt: int, *, passes: int = 3) -> tuple[float, NDArray[np.bool_]]:
    """Cut at least 2 * ``runt`` points along their first principal axis, then by 2-means; the gain and one half's mask."""
    centred = points - points.mean(axis=0)
    products = centred @ centred.T
    axis = np.linalg.eigh(products)[1][:, -1]
    order = np.argsort(axis, kind="stable")
    size = int(np.clip(np.count_nonzero(axis > 0), runt, len(points) - runt))
    half = np.zeros(len(points), dtype=bool)
    half[order[-size:]] = True
    for _ in range(passes):
        moved = _nearer_half(products, half)
        if moved.sum() < runt or (~moved).sum() < runt or np.array_equal(moved, half):
            break
        half = moved
    apart = centred[half].mean(axis=0) - centred[~half].mean(axis=0)
    share = half.sum() * (~half).sum() / len(points)
    return float(share * (apart @ apart)), half


def _nearer_half(products: Points, half: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which points lie nearer to the mean of ``half`` than to that of the others, from inner products."""
    ours = products[half][:, half].mean() - 2.0 * products[:, half].mean(axis=1)
    theirs = products[~half][:, ~half].mean() - 2.0 * products[:, ~half].mean(axis=1)
    return np.asarray(ours < theirs)


# --- lone members --------------------------------------------------------------------------


def place_lone_members(points: NDArray[Any], labels: Labels, cap: int) -> Labels:
    """Move each lone member to the best cluster with room; if all are full, move the nearest spare point to it."""
    labels = labels.copy()
    sizes = np.bincount(labels)
    lone = np.flatnonzero(sizes[labels] < SMALLEST).tolist()
    if not lone:
        return labels
    means = cluster_means(points, labels, len(sizes))
    for row in lone:
        if sizes[labels[row]] >= SMALLEST:
            continue  # a point moved in before
        moving, target = _find_company(points, labels, means, row, cap)
        sizes[labels[moving]] -= 1
        sizes[target] += 1
        labels[moving] = target
    return labels


def _find_company(points: NDArray[Any], labels: Labels, means: Points, row: int, cap: int) -> tuple[int, int]:
    """Return the row and the cluster of the move that gives ``row`` company; ``row`` and its own cluster if none can."""
    sizes = np.bincount(labels, minlength=len(means))
    with_room = (sizes > 0) & (sizes < cap)
    with_room[labels[row]] = False
    clusters = np.flatnonzero(with_room)
    if len(clusters):
        return row, int(clusters[_scores(points[row], means[clusters]).argmax()])
    spare = np.flatnonzero(sizes[labels] > SMALLEST)
    if len(spare):
        return int(spare[(points[spare] @ points[row]).argmax()]), int(labels[row])
    return row, int(labels[row])
