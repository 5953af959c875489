"""Run work in this process: the choice for small work, which a process of its own would only delay."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread

from leanrag_engine.core.ports import Say

T = TypeVar("T")
R = TypeVar("R")


class InProcess:
    """A :class:`leanrag_engine.core.ports.Workers` that uses a thread, one at a time. Used on one event loop."""

    width = 1

    def __init__(self) -> None:
        self._free = anyio.CapacityLimiter(1)

    async def run(self, work: Callable[[T, Say], R], value: T, say: Say) -> R:
        async with self._free:
            return await anyio.to_thread.run_sync(partial(work, value, say))

    async def close(self) -> None:
        pass
