"""The server's hold on the engine: opened on the first call that needs it, never before ``tools/list``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from leanrag_engine.core.config import Settings

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG


class EngineHandle:
    """Opens one engine for the life of the server, and takes up interrupted jobs when it does."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._engine: LeanRAG | None = None
        self._opening = anyio.Lock()

    async def get(self) -> LeanRAG:
        """The open engine. Raises ``StoreUnusable`` if the data folder cannot be used."""
        async with self._opening:
            if self._engine is None:
                # Not at the top, and in a thread: this brings numpy, sklearn, SQLAlchemy and Chroma.
                module = await anyio.to_thread.run_sync(import_module, "leanrag_engine.engine")
                engine: LeanRAG = await module.LeanRAG.open(self.settings)
                if not self.settings.read_only:
                    await engine.resume_jobs()
                self._engine = engine
            return self._engine

    @property
    def fixed(self) -> bool:
        """Whether the server was started for one collection: then it serves no other."""
        return "collection" in self.settings.model_fields_set

    def collection(self, named: str) -> str:
        """The collection that a call means: without a fixed one, the one it names."""
        return self.settings.collection if self.fixed else named

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.close()
            self._engine = None
