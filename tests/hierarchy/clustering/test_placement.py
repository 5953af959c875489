"""Placing new entities in the clusters of the previous build: who stays, who joins, what is split or vanishes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from leanrag_engine.core.vectors import unit_rows
from leanrag_engine.hierarchy.clustering.balancing import ClusterSizes
from leanrag_engine.hierarchy.clustering.links import EdgeList
from leanrag_engine.hierarchy.clustering.methods import ClusteringMethod, ClusteringOptions
from leanrag_engine.hierarchy.clustering.placement import Memberships, Placement, place

SIZES = ClusterSizes(6, 9)
NEW = -1


def around(centres: NDArray[np.intp], seed: int = 0) -> NDArray[np.float32]:
    """Unit vectors near the axes of these numbers."""
    points = np.eye(16)[centres] + 0.05 * np.random.default_rng(seed).standard_normal((len(centres), 16))
    return unit_rows(points.astype(np.float32))


def placed(
    centres: list[int],
    homes: list[int],
    relations: Sequence[tuple[int, int]] = (),
    method: ClusteringMethod = ClusteringMethod.GMM,
) -> Placement:
    links = EdgeList(len(centres), np.array(relations, dtype=np.intp).reshape(-1, 2), np.ones(len(relations)))
    return place(
        around(np.array(centres)),
        links,
        memberships(homes),
        SIZES,
        ClusteringOptions(method),
        pulse=lambda: None,
    )


def memberships(homes: list[int]) -> Memberships:
    """Of entities that belong to nothing but their cluster."""
    count = len(homes)
    return Memberships(
        np.array(homes),
        np.full(count, NEW),
        np.ones(count),
        np.zeros(count),
        np.array(homes) == NEW,
        np.bincount(np.array([each for each in homes if each != NEW])),
    )


@pytest.mark.parametrize("method", list(ClusteringMethod))
def test_a_new_entity_joins_the_cluster_that_it_is_like_and_everybody_else_stays(
    method: ClusteringMethod,
) -> None:
    found = placed([0] * 5 + [1] * 5 + [1], [7] * 5 + [3] * 5 + [NEW], method=method)
    assert found.clusters.labels.tolist() == [0] * 5 + [1] * 6
    assert found.origins.tolist() == [7, 3]


def test_a_new_entity_between_two_clusters_joins_the_one_that_it_is_related_to() -> None:
    centres, homes = [0] * 5 + [1] * 5 + [2], [0] * 5 + [1] * 5 + [NEW]
    for cluster, relations in ((0, [(10, 0), (10, 1)]), (1, [(10, 5), (10, 6)])):
        assert placed(centres, homes, relations).clusters.labels[10] == cluster


def test_a_full_cluster_takes_no_more_while_another_one_has_room() -> None:
    found = placed([0] * 9 + [1] * 2 + [0], [0] * 9 + [1] * 2 + [NEW])
    assert found.clusters.labels.tolist() == [0] * 9 + [1] * 3


def test_a_cluster_past_the_cap_is_split_and_its_old_members_go_on_under_its_number() -> None:
    found = placed([0] * 6 + [5] * 6 + [1] * 4, [0] * 6 + [NEW] * 6 + [1] * 4)
    sizes = np.bincount(found.clusters.labels)
    assert sizes.max() <= SIZES.cap
    assert len(set(found.clusters.labels[:6].tolist())) == 1
    assert found.origins[found.clusters.labels[0]] == 0
    assert sorted(found.origins.tolist()) == [NEW, 0, 1]


def test_an_empty_cluster_vanishes_and_a_lone_member_joins_another() -> None:
    found = placed([0] * 5 + [1], [2] * 5 + [9])
    assert found.clusters.labels.tolist() == [0] * 6
    assert found.origins.tolist() == [2]


def test_without_news_nothing_moves() -> None:
    homes = [4] * 5 + [2] * 3 + [0] * 7
    found = placed([1] * 5 + [2] * 3 + [3] * 7, homes)
    assert [found.origins[label] for label in found.clusters.labels] == homes
