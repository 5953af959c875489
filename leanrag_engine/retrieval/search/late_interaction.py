"""Late interaction: the vectors of a question's words compared with those of each window's words, one by one.
ColBERT's sum of maximal similarities (arXiv:2004.12832), over the token vectors of the embedder at hand, of which
windows keep the signs alone. Pure: vectors in, similarities out."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.model import PackedTokens, QueryTokens

STRANGE: Final = 0.36
"""Similarity up to which a word of a question is strange to windows that do not have it (figures in ``.docs/decisions.md``)."""


def compare_tokens(
    question: QueryTokens, windows: Sequence[PackedTokens]
) -> tuple[NDArray[np.float32], float]:
    """Return how near each window is to the question, (n,): for each of its words the most similar word of the window counts,
    weighted by how few of the windows have the word itself. Return also the share of its words that are strange to all."""
    starts = np.cumsum([0, *map(len, windows[:-1])])
    rows = np.concatenate(windows)
    bits = np.unpackbits(rows[:, 2:], axis=1).astype(np.float32)
    # The product with signs, 2 × bit − 1, without a pass over all of them for each step.
    similar = (2.0 * (bits @ question.vectors.T) - question.vectors.sum(axis=1)) / np.float32(
        np.sqrt(bits.shape[1])
    )
    best = np.maximum.reduceat(similar, starts, axis=0)
    numbers = rows[:, :2].copy().view("<u2")
    having = np.logical_or.reduceat(numbers == question.numbers, starts, axis=0).sum(axis=0)
    weights = np.log1p(len(windows) / (1.0 + having)).astype(np.float32)
    strange = float(((having == 0) & (best.max(axis=0) <= STRANGE)).mean())
    return np.asarray(best @ weights / weights.sum(), dtype=np.float32), strange


def spread_similarities(similarities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the similarities with the best as 1 and the median as 0, none below -0.5: the shape of a score that ranks."""
    middle, most = float(np.median(similarities)), float(similarities.max())
    spread: NDArray[np.float32] = np.clip((similarities - middle) / max(most - middle, 1e-9), -0.5, 1.0)
    return spread
