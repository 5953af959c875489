"""τ by a number of calls: against trying every τ."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import anyio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Method
from leanrag_engine.core.ports import Embedder
from leanrag_engine.hierarchy.build import BuiltHierarchy, HierarchyOptions, build
from leanrag_engine.hierarchy.relations import fit_threshold

Maker = Callable[..., tuple[Graph, Embedder]]


@given(strengths=st.lists(st.integers(1, 12), max_size=60), calls=st.integers(0, 8), batch=st.integers(1, 5))
def test_tau_is_the_smallest_whose_relations_fit_into_the_calls(
    strengths: list[int], calls: int, batch: int
) -> None:
    found = fit_threshold(np.array(strengths, dtype=np.int64), calls, batch)

    def needed(tau: int) -> int:
        return ceil(sum(strength > tau for strength in strengths) / batch)

    assert found == next(tau for tau in range(13) if needed(tau) <= calls)


def build_case(case: tuple[Graph, Embedder], plan: HierarchyOptions) -> BuiltHierarchy:
    async def run() -> BuiltHierarchy:
        return await build(*case, plan, progress=lambda _: None)

    return anyio.run(run)


@pytest.mark.parametrize("calls", [0, 3, 1000])
def test_auto_chooses_for_each_layer(random_case: Maker, calls: int) -> None:
    case = random_case(150, density=3.0, seed=3)
    found = build_case(case, HierarchyOptions(5, 8, tau="auto", relation_calls=calls, batch=4))
    assert found.health.layers[0].tau is None
    for layer, health in zip(found.hierarchy.layers[1:], found.health.layers[1:], strict=True):
        own = [one for one in layer.relations if one.method is Method.HEURISTIC]
        assert health.tau is not None
        assert {one.id for one in own} == {one.id for one in layer.relations if one.strength > health.tau}
        assert len(own) <= 4 * calls


def test_a_set_threshold_holds_for_every_layer(random_case: Maker) -> None:
    found = build_case(random_case(150, density=3.0, seed=3), HierarchyOptions(5, 8, tau=2))
    assert {layer.tau for layer in found.health.layers[1:]} == {2}
