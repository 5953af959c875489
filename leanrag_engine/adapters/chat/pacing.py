"""How fast calls of one service may follow each other: places for calls at once, and so much a minute.

Nothing here knows what a call is. The clock and the sleep come in as arguments, so that tests need none.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from types import TracebackType

import anyio

Sleep = Callable[[float], Awaitable[None]]
Clock = Callable[[], float]

GLANCE = 1.0
"""Seconds between two looks at whether what is given back lets the next one begin sooner."""


class Pace:
    """At most so many units a minute, evenly spread: what begins is paid off before the next may begin.

    Without bursts: services count by seconds, whatever their limit is called. 0 a minute is no limit.
    """

    def __init__(self, per_minute: int, *, clock: Clock = time.monotonic, sleep: Sleep = anyio.sleep) -> None:
        self._seconds = 60.0 / per_minute if per_minute else 0.0
        self._clock = clock
        self._sleep = sleep
        self._turn = anyio.Lock()
        self._free_at = clock()

    async def take(self, units: float) -> None:
        """Wait for the turn of so many units; in the order of coming."""
        if not self._seconds:
            return
        async with self._turn:
            while (wait := self._free_at - self._clock()) > 0:
                await self._sleep(min(wait, GLANCE))
            self._free_at = self._clock() + units * self._seconds

    def refund(self, units: float) -> None:
        """So many were taken too much; below 0, too little."""
        self._free_at -= units * self._seconds


class Places:
    """Places for calls at once. A service that says it is too much gets half as many, and one more after each
    full round of answers: no call waits for another's pause, but fewer begin meanwhile.

    ``async with places`` holds a place.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._allowed = float(most)
        self._limiter = anyio.CapacityLimiter(most)
        self._round = 0

    @property
    def allowed(self) -> int:
        return int(self._allowed)

    @property
    def round(self) -> int:
        """Grows with each time that it was too much."""
        return self._round

    def halve(self, began: int) -> None:
        """A call that began in round ``began`` was too much. Those under way together count once."""
        if began == self._round:
            self._round += 1
            self._allow(max(1.0, self._allowed / 2))

    def widen(self) -> None:
        if self._allowed < self._most:
            self._allow(min(float(self._most), self._allowed + 1 / self._allowed))

    def _allow(self, allowed: float) -> None:
        self._allowed = allowed
        self._limiter.total_tokens = int(allowed)

    async def __aenter__(self) -> None:
        await self._limiter.acquire()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._limiter.release()
