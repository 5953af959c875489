"""The vectors of single tokens, which late interaction compares with those of a question: made with the vectors of windows."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from leanrag_engine.core.graphs.graph import Digests
from leanrag_engine.core.graphs.rows import decode_ids
from leanrag_engine.core.graphs.texts import EmbeddedTexts
from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import PackedTokens, Vectors, parse_window_id
from leanrag_engine.core.ports import Embedder, Progress, ProgressReport, find_token_embedder

if TYPE_CHECKING:
    from leanrag_engine.adapters.sql.stores import SqlDocumentStore

PORTION = 2_000  # Windows that are embedded between two writes: about 10 MB of packed tokens


async def embed_with_tokens(
    embedder: Embedder, windows: Sequence[tuple[str, str]], report: ProgressReport
) -> tuple[Vectors, dict[str, list[PackedTokens]]]:
    """Return the rows of windows, given with their ids in reading order, and by chunk the packed tokens of each of its windows;
    none if the embedder has none."""
    texts = [text for _, text in windows]
    by_token = find_token_embedder(embedder)
    if by_token is None:
        return await embedder.embed(texts, report), {}
    rows, packed = await by_token.embed_with_tokens(texts, report)
    ids = (parse_window_id(id_)[0] for id_, _ in windows)
    return rows, group(zip(ids, packed, strict=True))


async def embed_and_keep(
    documents: "SqlDocumentStore",
    collection: str,
    embedder: Embedder,
    windows: EmbeddedTexts,
    report: ProgressReport,
) -> Vectors:
    """Embed windows and keep their tokens, if the embedder has any; return the rows."""
    vectors, tokens = await embed_with_tokens(embedder, windows.pairs(), report)
    if tokens:
        await documents.put_token_vectors(collection, embedder.identity, tokens)
    return vectors


async def embed_lacking(
    documents: "SqlDocumentStore",
    collection: str,
    embedder: Embedder,
    windows: EmbeddedTexts,
    report: ProgressReport,
) -> list[tuple[Digests, Vectors]]:
    """Embed the windows of the chunks of which no tokens are kept, and keep these; return the rows with the digests of their texts."""
    if find_token_embedder(embedder) is None:
        return []
    lacking = {*await documents.chunks_without_tokens(collection, embedder.identity)}
    return [
        (part.digests, await embed_and_keep(documents, collection, embedder, part, beside))
        for part, beside in (cut_between_chunks(windows, report, lacking) if lacking else ())
    ]


def cut_between_chunks(
    windows: EmbeddedTexts, report: ProgressReport, wanted: Collection[str] | None = None
) -> Iterator[tuple[EmbeddedTexts, ProgressReport]]:
    """Yield the windows, of the ``wanted`` chunks alone if these are given, in portions, each with all windows of its chunks, and a
    report that counts what was done before, and all of it."""
    owners = [parse_window_id(id_)[0] for id_ in decode_ids(windows.ids)]
    places = [place for place, owner in enumerate(owners) if wanted is None or owner in wanted]
    start = 0
    while start < len(places):
        end = start + PORTION
        while end < len(places) and owners[places[end]] == owners[places[end - 1]]:
            end += 1
        portion = windows.choose(np.array(places[start:end], dtype=np.intp))
        yield portion, partial(report_among, report, start, end - start, len(places))
        start = end


def report_among(report: ProgressReport, known: int, part: int, texts: int, step: Progress) -> None:
    """Report a step on a ``part`` of the ``texts``, of which an embedder counts windows or sentences, as one on all of them."""
    report(replace(step, done=known + part * step.done // max(step.total, 1), total=texts))
