"""Run work on a Dask cluster, whose workers have this package installed."""

from collections.abc import Callable
from typing import Any, Self, TypeVar

import anyio

from leanrag_engine.core.errors import InvalidInput, WorkerLost
from leanrag_engine.core.ports import Say

from .child import ignore_message

T = TypeVar("T")
R = TypeVar("R")

CONNECT_SECONDS = 10
SILENCE_SECONDS = 30
"""How long a task may take before the scheduler is asked whether it is still there, for which the client would wait for ever."""


class DaskCluster:
    """A :class:`leanrag_engine.core.ports.Workers` on a Dask scheduler. Used on one event loop."""

    def __init__(self, client: Any, address: str, width: int) -> None:
        self._client = client
        self._address = address
        self.width = width

    @classmethod
    async def connect(cls, address: str) -> Self:
        """Connect to the scheduler at ``address``. Raises ``InvalidInput`` without the extra, an answer, or a worker."""
        try:
            from distributed import Client  # noqa: PLC0415 - only those pay who use it
        except ImportError as problem:
            raise InvalidInput(
                "The setting dask needs the package distributed, which is not installed.",
                'Install it with `pip install "leanrag-mcp[dask]"`, or set LEANRAG_DASK to nothing.',
            ) from problem
        try:
            # Workers may run a task again elsewhere: all of ours can be.
            client = await Client(
                address, asynchronous=True, timeout=CONNECT_SECONDS, set_as_default=False, name="leanrag"
            )
        except (OSError, TimeoutError, ValueError) as problem:
            raise InvalidInput(
                f"The Dask scheduler at {address!r} cannot be reached ({problem or type(problem).__name__}).",
                "Start it, correct LEANRAG_DASK, or set it to nothing.",
            ) from problem
        threads = await client.nthreads()
        if not threads:
            await client.close()
            raise InvalidInput(
                f"The Dask scheduler at {address!r} has no worker.", f"Start one: dask worker {address}."
            )
        return cls(client, address, sum(threads.values()))

    async def run(self, work: Callable[[T, Say], R], value: T, _: Say) -> R:
        """Do as :meth:`.pool.ProcessPool.run`; a cancelled task that has begun goes on. Dask gives the work of a dead worker to another three times."""
        from distributed import KilledWorker  # noqa: PLC0415 - see `connect`
        from distributed.client import FutureCancelledError  # noqa: PLC0415

        # Not `pure`: equal values would be one task, also after its result was forgotten.
        task = self._client.submit(work, value, ignore_message, pure=False, retries=0)
        try:
            result: R = await self._wait(task)
        except ModuleNotFoundError as problem:
            raise WorkerLost(
                f"A worker of the Dask cluster at {self._address} cannot do the work ({problem}).",
                "Install this version of leanrag-mcp where the workers run.",
            ) from problem
        except (KilledWorker, FutureCancelledError, OSError, TimeoutError) as problem:
            raise WorkerLost(
                f"The Dask cluster at {self._address} lost the work ({type(problem).__name__}).",
                "See whether its workers run and have enough memory, then try again.",
            ) from problem
        finally:
            task.release()
        return result

    async def _wait(self, task: Any) -> Any:
        while True:
            with anyio.move_on_after(SILENCE_SECONDS):
                return await task
            with anyio.fail_after(CONNECT_SECONDS):
                await self._client.scheduler.identity()

    async def aclose(self) -> None:
        await self._client.close()
