"""Show conversations as the turns that answer, which late interaction compares with the question one by one."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise

import numpy as np

from leanrag_engine.core.model import Chunk, PackedTokens
from leanrag_engine.core.ports import find_token_embedder
from leanrag_engine.retrieval.search.late_interaction import compare_tokens, spread_similarities
from leanrag_engine.retrieval.search.relevance import RankedWindow
from leanrag_engine.retrieval.search.turns import TurnNearness, choose_turns, cut_turns

from .run import QueryRun


async def show_turns(
    run: QueryRun, rankings: Sequence[Sequence[RankedWindow]], texts: Sequence[str]
) -> list[list[RankedWindow]]:
    """Return the windows found for each text, those of conversations with the turns that are shown of them, best first."""
    near = [
        await _compare_turns(run, text, [*{window.chunk.id: window.chunk for window in ranking}.values()])
        for text, ranking in zip(texts, rankings, strict=True)
    ]
    return choose_turns(rankings, texts, run.chunks.values(), near)


async def _compare_turns(run: QueryRun, text: str, chunks: Sequence[Chunk]) -> TurnNearness:
    """Return how near the turns of conversations are to a text; nothing without tokens of either."""
    question, embedder = run.index.tokens.get(text), find_token_embedder(run.index.embedder)
    talks = [chunk for chunk in chunks if cut_turns(chunk.text)]
    if question is None or embedder is None or not talks:
        return {}
    ids = [chunk.id for chunk in talks]
    kept = await run.index.documents.token_vectors(run.index.collection.name, embedder.identity, ids)
    windows = [
        (chunk, packed, [*_cut_window(chunk, number)])
        for chunk in talks
        for number, packed in enumerate(kept.get(chunk.id, ())[: len(chunk.windows)])
    ]
    counts = iter(embedder.count_tokens([piece for *_, pieces in windows for _, piece in pieces]))
    rows: defaultdict[tuple[str, int], list[PackedTokens]] = defaultdict(list)
    for chunk, packed, pieces in windows:
        places = pairwise(accumulate((next(counts) for _ in pieces), initial=1))
        for (start, _), (first, end) in zip(pieces, places, strict=True):
            if start >= 0 and len(packed[first:end]):
                rows[chunk.id, start].append(packed[first:end])
    if not rows:
        return {}
    near, _ = compare_tokens(question, [np.concatenate(each) for each in rows.values()])
    return dict(zip(rows, spread_similarities(near).tolist(), strict=True))


def _cut_window(chunk: Chunk, number: int) -> Iterator[tuple[int, str]]:
    """Yield the parts of a window's embedded text: the start of the turn in the chunk, -1 for what is of none, and the text."""
    window, (_, text) = chunk.windows[number], chunk.indexed_windows[number]
    start, end = window.start - chunk.start, window.end - chunk.start
    before = len(text) - (end - start)
    spans = [(turn.start, max(turn.start, start), min(turn.end, end)) for turn in cut_turns(chunk.text)]
    turns = {first: turn for turn, first, last in spans if first < last}
    bounds = {start - before, end, *chain.from_iterable(span[1:] for span in spans if span[1] < span[2])}
    for first, last in pairwise(sorted(bounds)):
        yield turns.get(first, -1), text[first - start + before : last - start + before]
