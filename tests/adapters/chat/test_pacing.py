"""How fast calls may follow each other, on a clock that only sleeping moves."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.adapters.chat.pacing import Pace, Places

pytestmark = pytest.mark.anyio


class Time:
    """Sleeping moves it, and nothing else."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def begun(per_minute: int, units: list[int]) -> list[float]:
    """When calls that take so many units begin, if all come at once."""
    time, moments = Time(), []

    async def main() -> None:
        pace = Pace(per_minute, clock=time, sleep=time.sleep)
        for each in units:
            await pace.take(each)
            moments.append(time.now)

    anyio.run(main)
    return moments


@given(st.integers(1, 600), st.lists(st.integers(1, 50), min_size=1, max_size=40))
def test_in_no_minute_more_units_begin_than_the_limit_and_the_one_that_reaches_it(
    per_minute: int, units: list[int]
) -> None:
    moments = begun(per_minute, units)
    for first in range(len(units)):
        within = [
            each
            for each, moment in zip(units[first:], moments[first:], strict=True)
            if moment < moments[first] + 60 - 1e-6
        ]
        assert sum(within[:-1]) <= per_minute


def test_the_limit_is_used_up() -> None:
    assert begun(120, [1] * 5) == pytest.approx([1000, 1000.5, 1001, 1001.5, 1002])


def test_no_limit_never_waits() -> None:
    assert begun(0, [10**9] * 3) == [1000.0] * 3


async def test_what_is_given_back_lets_the_next_begin_sooner() -> None:
    time = Time()
    pace = Pace(60, clock=time, sleep=time.sleep)
    await pace.take(100)
    pace.refund(98)
    await pace.take(1)
    assert time.now == 1002


async def test_turns_come_in_the_order_of_asking() -> None:
    time, order = Time(), []
    pace = Pace(60, clock=time, sleep=time.sleep)

    async def one(number: int) -> None:
        await pace.take(1)
        order.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(one, number)
    assert order == sorted(order)


# --- places --------------------------------------------------------------------------------


async def test_too_much_halves_the_places_once_for_all_that_were_under_way() -> None:
    places = Places(8)
    for _ in range(8):
        places.halve(0)
    assert places.limiter.total_tokens == 4
    places.halve(places.round)
    assert places.limiter.total_tokens == 2
    for _ in range(9):
        places.halve(places.round)
    assert places.limiter.total_tokens == 1


async def test_answers_bring_the_places_back() -> None:
    places = Places(4)
    places.halve(0)
    rounds = 0
    while places.limiter.total_tokens < 4:
        places.widen()
        rounds += 1
    assert rounds == 2 + 3 + 1  # a place after each full round, a little more for the fractions


async def test_fewer_places_let_fewer_in() -> None:
    places, inside, most = Places(8), 0, 0
    places.halve(0)

    async def one() -> None:
        nonlocal inside, most
        async with places.limiter:
            inside += 1
            most = max(most, inside)
            await anyio.lowlevel.checkpoint()
            inside -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(one)
    assert most == 4
