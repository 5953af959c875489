"""Embedders that measure their own time, so that a query's latency can exclude its embedding."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from leanrag_engine.core.model import Vectors
from leanrag_engine.core.ports import Embedder, EmbedderSource, EmbedderWrapper, ProgressReport


@dataclass(slots=True)
class Stopwatch:
    """Sums the durations of several pieces of work."""

    seconds: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - started

    def take(self) -> float:
        """Return the seconds so far and reset them."""
        taken, self.seconds = self.seconds, 0.0
        return taken


class TimedEmbedder(EmbedderWrapper):
    """An embedder whose time ``watch`` sums."""

    def __init__(self, inner: Embedder, watch: Stopwatch) -> None:
        super().__init__(inner)
        self.watch = watch

    async def embed(self, texts: Sequence[str], report: ProgressReport | None = None) -> Vectors:
        with self.watch.running():
            return await self.inner.embed(texts, report)

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        with self.watch.running():
            return await self.inner.embed_queries(texts)


@dataclass(frozen=True, slots=True)
class TimedEmbedderSource:
    """A source whose embedders are all timed by one ``watch``."""

    inner: EmbedderSource
    watch: Stopwatch = field(default_factory=Stopwatch)

    @property
    def name(self) -> str:
        return self.inner.name

    async def fit(self, texts: Sequence[str], before: str = "") -> tuple[Embedder, bytes]:
        embedder, state = await self.inner.fit(texts, before)
        return TimedEmbedder(embedder, self.watch), state

    async def gave(self, identity: str) -> bool:
        return await self.inner.gave(identity)

    async def restore(self, identity: str, state: bytes) -> Embedder:
        return TimedEmbedder(await self.inner.restore(identity, state), self.watch)

    async def unknown_words(self, identity: str, state: bytes, texts: Sequence[str]) -> float | None:
        return await self.inner.unknown_words(identity, state, texts)

    async def restrict(self, identity: str, state: bytes, texts: Sequence[str]) -> tuple[str, bytes]:
        return await self.inner.restrict(identity, state, texts)
