"""The server's handle on the engine: opened on the first call that needs it, never before ``tools/list``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from leanrag_engine.core.config import Settings

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG


class EngineHandle:
    """Opens one engine for the life of the server and resumes interrupted jobs when it does."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._engine: LeanRAG | None = None
        self._opening = anyio.Lock()

    async def get(self) -> LeanRAG:
        """Return the open engine. Raises ``StoreUnusable`` if the data folder cannot be used."""
        async with self._opening:
            if self._engine is None:
                # Here and in a thread: this loads numpy, sklearn, SQLAlchemy and Chroma.
                module = await anyio.to_thread.run_sync(import_module, "leanrag_engine.engine")
                engine: LeanRAG = await module.LeanRAG.open(self.settings)
                if not self.settings.read_only:
                    await engine.resume_jobs()
                    engine.watch_vectors()
                self._engine = engine
            return self._engine

    @property
    def fixed(self) -> bool:
        """Whether the server was started for one collection and serves no other."""
        return "collection" in self.settings.model_fields_set

    def collection(self, name: str) -> str:
        """Return the collection of a call that names ``name``: the fixed one, if there is one."""
        return self.settings.collection if self.fixed else name

    def collection_of_job(self, name: str) -> str | None:
        """Return the collection in which a job must be; None, any, for a call that names none: ids of jobs are unique."""
        named = self.collection(name)
        return None if named == self.settings.collection and not self.fixed else named

    async def choose(self, name: str, *, strict: bool = True) -> str:
        """Return the collection that a call reads: as ``collection``, and instead of an empty default the only full one.

        If several are full, raises ``NotFound`` that names them, or returns ``name`` unless ``strict``.
        """
        if self.fixed:
            return self.settings.collection
        return await (await self.get()).choose_collection(name, strict=strict)

    def explain_choice(self, name: str, chosen: str) -> list[str]:
        """Return a note if :meth:`choose` gave another collection than a call named, else nothing."""
        if self.fixed or chosen == name:
            return []
        return [f"Read from collection {chosen!r}, the only one with documents; {name!r} is empty."]

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.close()
            self._engine = None
