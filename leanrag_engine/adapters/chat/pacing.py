"""Limit the calls of one service: places for concurrent calls, and units a minute."""

import time
from collections.abc import Awaitable, Callable

import anyio

Sleep = Callable[[float], Awaitable[None]]
Clock = Callable[[], float]


class Pace:
    """At most ``per_minute`` units a minute (0: no limit), evenly spread: the units of a call delay the next one."""

    def __init__(self, per_minute: int, *, clock: Clock = time.monotonic, sleep: Sleep = anyio.sleep) -> None:
        self._seconds = 60.0 / per_minute if per_minute else 0.0
        self._clock = clock
        self._sleep = sleep
        self._turn = anyio.Lock()
        self._free_at = clock()

    async def take(self, units: float) -> None:
        """Wait for the turn of ``units`` units, in the order of arrival."""
        if not self._seconds:
            return
        async with self._turn:
            # In steps of a second: a refund may let the call begin sooner.
            while (wait := self._free_at - self._clock()) > 0:
                await self._sleep(min(wait, 1.0))
            self._free_at = self._clock() + units * self._seconds

    def refund(self, units: float) -> None:
        """Return units that were not needed; below 0: take further ones."""
        self._free_at -= units * self._seconds


class Places:
    """Places for concurrent calls, each for an ``async with`` of ``limiter``: halved when the service rejects the rate, one
    more after each full round of answers. No call waits for another's pause, but fewer begin meanwhile."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._allowed = float(most)
        self.limiter = anyio.CapacityLimiter(most)
        self.round = 0
        """How often the places were halved."""

    def halve(self, began: int) -> None:
        """Halve the places because a call of round ``began`` was rejected. Concurrent calls count once."""
        if began == self.round:
            self.round += 1
            self._allow(max(1.0, self._allowed / 2))

    def widen(self) -> None:
        if self._allowed < self._most:
            self._allow(min(float(self._most), self._allowed + 1 / self._allowed))

    def _allow(self, allowed: float) -> None:
        self._allowed = allowed
        self.limiter.total_tokens = int(allowed)
