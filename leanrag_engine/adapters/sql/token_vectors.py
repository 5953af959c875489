"""Write and read the packed vectors of the tokens of chunks, which go with their chunk."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np
from sqlalchemy import Connection, delete, insert, select

from leanrag_engine.core.model import PackedTokens

from .dialect.statements import among, among_pairs
from .schema.tables import chunks, is_of_chunk, token_vectors

_OF_CHUNK = is_of_chunk(token_vectors)


def put(
    connection: Connection, collection: int, embedder: str, tokens: Mapping[str, Sequence[PackedTokens]]
) -> None:
    """Keep the tokens of each window of chunks, by chunk id, in place of earlier ones. Chunks that are gone are passed over."""
    wanted = select(chunks.c.id, chunks.c.document, chunks.c.label).where(
        chunks.c.collection == collection, among(chunks.c.id, [*tokens])
    )
    rows = [
        {
            "collection": collection,
            "document": document,
            "chunk": label,
            "embedder": embedder,
            "counts": [len(each) for each in tokens[id_]],
            "tokens": np.concatenate(tokens[id_]).tobytes(),
        }
        for id_, document, label in connection.execute(wanted).all()
    ]
    here = among_pairs(
        (token_vectors.c.document, token_vectors.c.chunk), [(row["document"], row["chunk"]) for row in rows]
    )
    connection.execute(delete(token_vectors).where(token_vectors.c.collection == collection, here))
    if rows:
        connection.execute(insert(token_vectors), rows)


def find(
    connection: Connection, collection: int, embedder: str, chunk_ids: Sequence[str]
) -> dict[str, list[PackedTokens]]:
    rows = connection.execute(
        select(chunks.c.id, *token_vectors.c["counts", "tokens"])
        .join(token_vectors, _OF_CHUNK)
        .where(
            chunks.c.collection == collection,
            among(chunks.c.id, chunk_ids),
            token_vectors.c.embedder == embedder,
        )
    )
    return {id_: _cut(tokens, counts) for id_, counts, tokens in rows}


def find_lacking(connection: Connection, collection: int, embedder: str) -> list[str]:
    """Return the ids of the chunks for which nothing of this embedder is kept."""
    held = select(token_vectors.c.chunk).where(_OF_CHUNK, token_vectors.c.embedder == embedder).exists()
    wanted = select(chunks.c.id).where(chunks.c.collection == collection, ~held)
    return [*connection.execute(wanted).scalars()]


def _cut(stored: bytes, counts: Sequence[int]) -> list[PackedTokens]:
    rows = np.frombuffer(stored, dtype=np.uint8).reshape(sum(counts), -1)
    return [rows[start:end] for start, end in pairwise(accumulate(counts, initial=0))]
