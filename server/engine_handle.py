"""The server's handle on the engine: over standard input opened on the first call that needs it, never before ``tools/list``; over HTTP at
the start."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

import anyio
import anyio.to_thread

from leanrag_engine.core.config import Settings
from leanrag_engine.core.errors import Candidate, LeanRAGError, NotFound, UnknownCollection
from leanrag_engine.core.runtime.threads import limit_time

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG


Right = Literal["read", "write", "admin"]

RIGHTS: tuple[Right, ...] = ("read", "write", "admin")
"""Each includes those before it. write: ingest new texts, build, correct, submit work. admin: also delete or replace documents and
ingest the server's own files, which may belong to collections that a caller does not see."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a caller may do. By default everything, as over standard input and output."""

    right: Right = "admin"
    collections: tuple[str, ...] = ()  # The collections that the caller sees; empty: all
    holder: str = ""  # Whose token it is; "" for a caller without one of several

    def may(self, right: Right) -> bool:
        return RIGHTS.index(right) <= RIGHTS.index(self.right)

    def sees(self, collection: str) -> bool:
        return not self.collections or collection in self.collections


class EngineHandle:
    """Opens one engine for the life of the server, resumes its jobs, and decides which collections a call
    sees: those that the server serves and the caller has rights to."""

    def __init__(self, settings: Settings, find_rights: Callable[[], Rights] = Rights) -> None:
        """``find_rights`` returns the rights of the caller of the running request."""
        self.settings = settings
        self._find_rights = find_rights
        self._engine: LeanRAG | None = None
        self._opening = anyio.Lock()
        self._turns = anyio.Condition()
        self._running = Counter[str]()
        self._called: dict[str, float] = {}

    @asynccontextmanager
    async def take_turn(self) -> AsyncIterator[None]:
        """Enclose work of the processor: of one holder of several at most two calls at once, and one while others call too, so that
        these do not wait for all of it. Raises ``OutOfTime`` if the work, without its wait for a turn, takes longer than a call may."""
        holder = self.holder
        self._called[holder] = time.monotonic()
        async with self._turns:
            while holder and self._running[holder] >= (1 if self._others_call(holder) else 2):
                await self._turns.wait()
            self._running[holder] += 1
        try:
            # The call that opens the store takes as long as that does.
            with limit_time(self.settings.max_call_seconds if self._engine else float("inf")):
                yield
        finally:
            self._running[holder] -= 1
            with anyio.CancelScope(shield=True):
                async with self._turns:
                    self._turns.notify_all()

    def _others_call(self, holder: str) -> bool:
        recent = time.monotonic() - 5
        return any(last > recent for other, last in self._called.items() if other != holder)

    @property
    def holder(self) -> str:
        """Whose token the caller has, where there are several."""
        return self._find_rights().holder

    async def get(self) -> LeanRAG:
        """Return the open engine. Raises ``StoreUnusable`` if the data folder cannot be used."""
        async with self._opening:
            if self._engine is None:
                # Here and in a thread: this loads numpy, sklearn, SQLAlchemy and Chroma.
                module = await anyio.to_thread.run_sync(import_module, "leanrag_engine.engine")
                engine: LeanRAG = await module.LeanRAG.open(self.settings)
                if not self.settings.read_only:
                    await engine.resume_jobs(serves=True)
                    engine.watch_vectors()
                self._engine = engine
            return self._engine

    @property
    def fixed(self) -> bool:
        """Whether the server was started for one collection and serves no other."""
        return "collection" in self.settings.model_fields_set

    def may(self, right: Right) -> bool:
        """Return whether the caller has a right."""
        return self._find_rights().may(right)

    def sees(self, collection: str) -> bool:
        """Return whether the server serves a collection to the caller."""
        served = not self.fixed or collection == self.settings.collection
        return served and self._find_rights().sees(collection)

    @property
    def sees_several_others(self) -> bool:
        """Whether the caller sees several collections, but not the default one."""
        return len(self._find_rights().collections) > 1 and not self.sees(self.settings.collection)

    def collection(self, name: str) -> str:
        """Return the collection of a call that names ``name``: the fixed one, or the only one. Raises
        ``NotFound`` for one that the caller does not see."""
        named = self.settings.collection if self.fixed else name
        seen = self._find_rights().collections
        if self.sees(named):
            return named
        if named == self.settings.collection and len(seen) == 1 and self.sees(seen[0]):
            return seen[0]
        raise NotFound(
            f"There is no collection {named!r}.",
            "Choose one of these.",
            tuple(Candidate("", each) for each in seen if self.sees(each)),
        )

    def hide_collections(self, problem: LeanRAGError) -> LeanRAGError:
        """Return the error without the names of collections that the caller does not see."""
        if not isinstance(problem, UnknownCollection):
            return problem
        seen = tuple(each for each in problem.candidates if self.sees(each.name))
        return UnknownCollection(problem.message, problem.next_step if seen else "", seen)

    async def collection_of_job(self, job_id: str, name: str) -> str | None:
        """Return the collection in which a job must be, None for any, for a call without a name. Raises
        ``NotFound`` as :meth:`collection`."""
        if self.fixed or name != self.settings.collection:
            return self.collection(name)
        if not self._find_rights().collections:
            return None
        with suppress(NotFound):
            if self.sees((await (await self.get()).job_state(job_id)).collection):
                return None
        raise NotFound(f"There is no job {job_id!r}.", "Give the job_id of a reply.")

    async def choose(self, name: str, *, strict: bool = True) -> str:
        """Return the collection that a call reads: as :meth:`collection`, and instead of an empty default the
        only full one; of several, ``NotFound`` names them if ``strict``."""
        if self.fixed or self._find_rights().collections:
            return self.collection(name)
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
