"""The vectors of new documents, written before the documents are stored: search by meaning finds what is acknowledged."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from leanrag_engine.core.errors import InvalidInput, ModelUnavailable, StoreUnusable
from leanrag_engine.core.graphs.graph import Digests
from leanrag_engine.core.graphs.texts import digest_all
from leanrag_engine.core.model import Chunk, Generation, PackedTokens, ReadDocument, Vectors, window_id
from leanrag_engine.core.ports import Embedder, ProgressReport

from .index import Stores, VectorRows, announce_vector_change, restore_embedder, texts_of_windows, upsert
from .token_vectors import embed_with_tokens


@dataclass(slots=True)
class PendingIndex:
    """Writes windows to the space of the published build. Before the first build it does nothing: keywords alone answer.
    ``ids`` are those written so far, ``vectors`` their vectors with the digests of their texts: the build that follows need
    not embed them again. ``trouble`` is why no more are written, if so: the documents are stored all the same."""

    stores: Stores
    generation: Generation | None
    embedder: Embedder | None = None
    ids: set[str] = field(default_factory=set)
    vectors: list[tuple[Digests, Vectors]] = field(default_factory=list)
    trouble: str = ""

    @classmethod
    async def open(cls, stores: Stores, collection: str) -> "PendingIndex":
        found = await stores.documents.collection(collection)
        return cls(stores, found.generation if found else None)

    async def put_all(self, collection: str, read: Sequence[ReadDocument], report: ProgressReport) -> None:
        """Store documents as :meth:`DocumentStore.put_all`, their new chunks found by meaning from then on."""
        documents = self.stores.documents
        # The rows of those that stay are searched already; they must not get another title before their documents.
        ids = [each.document.id for each in read]
        held = {*await documents.chunk_ids(collection, ids)} if self.generation else set()
        new = [
            replace(chunk, title=each.document.title)
            for each in read
            for chunk in each.chunks
            if chunk.id not in held
        ]
        tokens = await self.add(new, report)
        await documents.put_all(collection, read)
        if self.embedder is not None and tokens:
            await documents.put_token_vectors(collection, self.embedder.identity, tokens)

    async def add_missing(self, collection: str, report: ProgressReport) -> None:
        """Write the windows of pending chunks that an earlier job could not write."""
        if self.generation is None or self.trouble:
            return
        chunks = await self.stores.documents.pending_chunks(collection)
        earlier = {id_: each for each in chunks if (id_ := window_id(each.id, 0)) not in self.ids}
        if earlier:
            try:
                held = await self.stores.vectors.fetch(self.generation.record.spaces.windows, [*earlier])
            except StoreUnusable as problem:
                self.trouble = str(problem)
            else:
                await self.add([each for id_, each in earlier.items() if id_ not in held], report)

    async def add(self, chunks: Sequence[Chunk], report: ProgressReport) -> dict[str, list[PackedTokens]]:
        """Write the windows of these chunks; return their tokens, which can be stored after their chunks alone."""
        tokens: dict[str, list[PackedTokens]] = {}
        if self.generation is None or self.trouble or not chunks:
            return tokens
        texts = texts_of_windows(chunks)
        try:
            self.embedder = self.embedder or await restore_embedder(self.stores, self.generation)
            vectors, tokens = await embed_with_tokens(self.embedder, texts, report)
            rows = VectorRows([id_ for id_, _ in texts], vectors)
            async with announce_vector_change(self.stores):
                await upsert(self.stores, self.generation.record.spaces.windows, rows, report)
        except (StoreUnusable, ModelUnavailable, InvalidInput) as problem:
            self.trouble = str(problem)
        else:
            self.vectors.append((digest_all([text for _, text in texts]), rows.vectors))
            self.ids |= {*rows.ids}
        return tokens
