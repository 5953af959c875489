"""Connections of the web server: how much of a request's head is kept, and for how long head and body are awaited."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_BYTES = 64 * 1024
"""Most bytes of a request line with its headers. httptools, which uvicorn prefers, keeps any number of them."""


def limit_connection(seconds: float) -> type[asyncio.Protocol]:
    """Return the class of a connection that is closed if the head of a request is not complete after ``seconds``, or no more
    of its body comes for as long."""

    class BoundedConnection(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            has_head = self.cycle is not None and not self.cycle.response_complete
            if has_head and not self.cycle.more_body:
                self._stop_waiting()
            elif has_head or self._deadline is None:
                # More of a body, or the first bytes of another request on a connection that is kept alive.
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._stop_waiting()
            self._deadline = self.loop.call_later(seconds, self._end_wait)

        def _end_wait(self) -> None:
            # What is not read does not come.
            self._wait() if self.flow.read_paused else self.transport.close()

        def _stop_waiting(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return BoundedConnection
