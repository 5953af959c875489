"""Read and write what is published: one generation at a time, checked against deletions and other processes' writes meanwhile."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from leanrag_engine.core.errors import (
    Candidate,
    LeanRAGError,
    ModelUnavailable,
    StoreUnusable,
    UnknownCollection,
    never_built,
    no_documents,
)
from leanrag_engine.core.jobs import describe_done
from leanrag_engine.core.model import Collection, Entity, Generation
from leanrag_engine.core.ports import Embedder
from leanrag_engine.core.runtime.threads import load_apart, run_chain
from leanrag_engine.core.text.nearest import find_nearest
from leanrag_engine.retrieval.index import IndexSnapshot

from .index import Stores, restore_embedder
from .job_runner import find_running

T = TypeVar("T")


class Snapshots:
    """The published generations of a data folder, for the readers and writers of one process. ``explain`` tells why a search
    by meaning failed, and may begin to mend it."""

    def __init__(self, stores: Stores, explain: Callable[[LeanRAGError], str]) -> None:
        self._stores = stores
        self._explain = explain
        self._embedders: dict[int, Embedder] = {}
        self._vector_version = -1
        self._own_vector_version = -1
        """The version after the last job of this process, if the vector store's client has seen all that was written."""
        self._whole: dict[int, int] = {}
        """The version at which all vector spaces of a generation were there."""
        self._is_writing = False
        """Whether a job of this process holds the writer lock: then no other process changes the vector store."""

    async def collection(self, name: str) -> Collection:
        """Return a collection. Raises ``UnknownCollection``, and ``NotReady`` for the default one if there is none at all."""
        held = await self._stores.documents.collection(name)
        if held is not None:
            return held
        known = [each.name for each in await self._stores.documents.collections()]
        if name == self._stores.settings.collection and not known:
            raise no_documents(name)
        (near, *_) = [*find_nearest(name, known), ""]
        guess = f"Did you mean {near!r}? " if near else ""
        raise UnknownCollection(
            f"There is no collection {name!r}.",
            f"{guess}These are there:" if known else "Ingest documents into it first.",
            tuple(Candidate("", each) for each in known),
        )

    async def read(
        self, collection: str, read: Callable[[IndexSnapshot], Awaitable[T]], *, built: bool = False
    ) -> T:
        """Return what ``read`` finds in one published generation; after a deletion meanwhile, in the new one. Raises
        ``NotReady`` if ``built`` and there is no build."""
        while True:  # each repetition needs another deletion within the time of one reading
            index = await run_chain(self.open(collection))
            if built and index.collection.generation is None:
                raise never_built(collection, building=index.building)
            try:
                result = await read(index)
            except LeanRAGError:
                if await self._is_valid(index):
                    raise
            else:
                if await self._is_valid(index):
                    return result

    async def read_entity(
        self, collection: str, entity: str, read: Callable[[IndexSnapshot, Entity], Awaitable[T]]
    ) -> T:
        """Return what ``read`` finds on an entity (name or ref) of the published generation."""
        from leanrag_engine.retrieval.browse.entities import resolve  # noqa: PLC0415 - only browsing by name needs it

        async def find(index: IndexSnapshot) -> T:
            return await read(index, await resolve(index, entity))

        return await self.read(collection, find, built=True)

    async def search(
        self,
        collection: str,
        find: Callable[..., Awaitable[T]],
        *,
        by_meaning: bool = True,
        built: bool = False,
    ) -> T:
        """Return as :meth:`read` what ``find`` finds, ``by_meaning`` as :meth:`find_by_meaning`."""
        return await self.read(
            collection, partial(self.find_by_meaning, find) if by_meaning else find, built=built
        )

    async def find_by_meaning(self, find: Callable[..., Awaitable[T]], index: IndexSnapshot) -> T:
        """Return what ``find`` finds with the embedder of the generation; if that fails, by keywords alone with the warning."""
        try:
            return await find(await self.add_embedder(index))
        except (StoreUnusable, ModelUnavailable) as problem:
            # If the database is what fails, this raises its error.
            return await find(index, self._explain(problem))

    async def open(self, collection: str) -> IndexSnapshot:
        """Return the published generation and the stores, checked against writes of other processes. Browsing needs
        no embedder; ``add_embedder`` adds it to what searches by meaning."""
        found = await self.collection(collection)
        building = "" if found.generation else await self._describe_build(collection)
        if not found.documents:
            raise never_built(collection, building=building) if building else no_documents(collection)
        return IndexSnapshot(
            documents=self._stores.documents,
            generations=self._stores.generations,
            vectors=self._stores.vectors,
            embedder=None,
            tokenizer=self._stores.tokenizer,
            collection=found,
            spaces=found.generation.record.spaces if found.generation else None,
            version=await self.see_other_writers(),
            building=building,
        )

    async def _describe_build(self, collection: str) -> str:
        """Say which job builds the collection for the first time, and how far it is; "" if none does."""
        job = await find_running(self._stores.jobs, collection)
        if job is None or job.dry_run or not getattr(job.request, "build", job.kind == "build"):
            return ""
        done = f", {describe_done(job)}" if job.total else ""
        return f"Its first build is {job.status.value} ({job.id}, stage {job.stage}{done})."

    async def _is_valid(self, index: IndexSnapshot) -> bool:
        """Return whether no document was deleted since ``index`` was opened, so that results from it may be shown.
        Without a build only passages were read, and any write counts: a deletion increases the version."""
        generation = index.collection.generation
        if generation is None:
            return await self._stores.generations.vector_version() == index.version
        return await self._stores.generations.exists(generation.number)

    async def add_adjacency(self, index: IndexSnapshot) -> IndexSnapshot:
        """Return ``index`` with the graph that a walk needs, if there is a build."""
        if generation := index.collection.generation:
            index = replace(index, adjacency=await load_apart(self._stores.adjacencies.of(generation)))
        return index

    async def add_embedder(self, index: IndexSnapshot) -> IndexSnapshot:
        """Return ``index`` with the embedder of its generation, if there is one. Raises as ``restore_embedder``, and
        ``StoreUnusable`` if a vector space is missing: the others would find less, without a warning."""
        generation = index.collection.generation
        if generation is None:
            return index
        if self._whole.get(generation.number) != index.version:
            if lost := _filled_spaces(generation).difference(await self._stores.vectors.spaces()):
                raise StoreUnusable(
                    f"{len(lost)} vector spaces are missing.",
                    "Rebuild the vector index from the graph store; no data is lost.",
                )
            self._whole[generation.number] = index.version
        if generation.number not in self._embedders:
            # Only one is kept: the embedder of a replaced generation is not needed again.
            self._embedders = {generation.number: await restore_embedder(self._stores, generation)}
        return replace(index, embedder=self._embedders[generation.number])

    async def see_other_writers(self) -> int:
        """Reopen the vector store if it changed since the last read, and return the version of the store."""
        version = await self._stores.generations.vector_version()
        if version != self._vector_version and not self._is_writing:
            if version != self._own_vector_version:
                await self._stores.vectors.refresh()
            self._vector_version = version
        return version

    @asynccontextmanager
    async def write(self, collection: str, *, anew: bool) -> AsyncIterator[None]:
        """Open the vectors as they are now, and let a job write; ``anew``: it writes spaces of the published build again."""
        if await self._stores.generations.vector_version() != self._own_vector_version:
            # Another process has written. It may have been killed before it changed the version for the second time.
            await self._stores.vectors.refresh()
        self._own_vector_version = -1
        before = await self._list_spaces(collection)
        self._is_writing = True
        try:
            yield
        finally:
            self._is_writing = False
        if before and not anew and before == await self._list_spaces(collection):
            # The spaces were changed in place through the client that is open: it need not read them again, which takes
            # a second for 100,000 rows. Of new ones it would keep the old ones in memory.
            self._own_vector_version = await self._stores.generations.vector_version()

    async def _list_spaces(self, collection: str) -> set[str]:
        held = await self._stores.documents.collection(collection)
        return _filled_spaces(held.generation) if held and held.generation else set()


def _filled_spaces(generation: Generation) -> set[str]:
    """Return the vector spaces of a build that have rows."""
    counts = generation.record.vectors
    return {space for kind, space in generation.record.spaces.by_kind().items() if counts.get(kind)}
