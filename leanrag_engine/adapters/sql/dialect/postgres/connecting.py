"""Connect to a server of PostgreSQL, and notice when it has frozen: its system still answers, so that no timeout of the network sees it."""

import time
from collections.abc import Generator
from typing import Any, cast

import psycopg
from psycopg.abc import RV, PQGen
from sqlalchemy import URL, Engine, create_engine, event

CONNECTION: dict[str, Any] = {
    "application_name": "leanrag",
    "connect_timeout": 10,
    "client_encoding": "UTF8",
    # A connection that a network has dropped silently is noticed within a minute.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
SILENCE_SECONDS = 30
"""How long a statement may be without a word of the server before a new connection is tried."""


def open_engine(url: URL, **options: Any) -> Engine:
    """Return an engine, with ``options`` of SQLAlchemy's, whose statements fail when the server has frozen."""
    engine = create_engine(url, connect_args=CONNECTION | dict(url.query), **options)
    event.listen(engine, "do_connect", lambda _, __, given, named: _Watched.connect(*given, **named))
    return engine


class _Watched(psycopg.Connection[Any]):  # type: ignore[misc] # mypy skips the package, which may not be installed
    def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        return cast(RV, super().wait(self._watch(gen), *args, **kwargs))

    def _watch(self, waiting: PQGen[RV]) -> Generator[Any, Any, RV]:
        """Pass on for what ``waiting`` waits. It gets 0 ten times a second until that is there."""
        ready: Any = None
        heard = time.monotonic()
        while True:
            try:
                wanted = waiting.send(ready)
            except StopIteration as end:
                return cast(RV, end.value)
            ready = yield wanted
            if ready:
                heard = time.monotonic()
            elif time.monotonic() - heard > SILENCE_SECONDS:
                self._expect_answer()
                heard = time.monotonic()

    def _expect_answer(self) -> None:
        given = CONNECTION | {"password": self.info.password}
        try:
            psycopg.connect(self.info.dsn, **given).close()
        except psycopg.errors.ConnectionTimeout as problem:
            self.pgconn.finish()
            raise psycopg.OperationalError("the server does not answer") from problem
        except psycopg.OperationalError:
            pass  # It refuses, so it is there; the system notices a lost connection.
