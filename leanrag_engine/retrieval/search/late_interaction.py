"""Late interaction: the vectors of a question's words compared with those of each window's words, one by one.
ColBERT's sum of maximal similarities (arXiv:2004.12832), over the token vectors of the embedder at hand, of which
windows keep the signs alone. Pure: vectors in, similarities out."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.model import PackedTokens, QueryTokens


def compare_tokens(question: QueryTokens, windows: Sequence[PackedTokens]) -> NDArray[np.float32]:
    """Return how near each window is to the question, (n,): for each of its words the most similar word of the window counts,
    weighted by how few of the windows have the word itself."""
    sizes = [len(each) for each in windows]
    starts = np.cumsum([0, *sizes[:-1]])
    rows = np.concatenate(windows)
    signs = np.unpackbits(rows[:, 2:], axis=1).astype(np.float32)
    signs *= 2.0
    signs -= 1.0
    similar = (signs @ question.vectors.T) / np.float32(np.sqrt(signs.shape[1]))
    best = np.maximum.reduceat(similar, starts, axis=0)
    numbers = rows[:, :2].copy().view("<u2")[:, 0]
    held = Counter[int]()
    for start, size in zip(starts, sizes, strict=True):
        held.update({*numbers[start : start + size].tolist()})
    weights = np.array([np.log1p(len(windows) / (1 + held[each])) for each in question.numbers.tolist()])
    return np.asarray(best @ weights / weights.sum(), dtype=np.float32)


def spread_similarities(similarities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the similarities with the best as 1 and the median as 0, none below -0.5: the shape of a score that ranks."""
    middle, most = float(np.median(similarities)), float(similarities.max())
    spread: NDArray[np.float32] = np.clip((similarities - middle) / max(most - middle, 1e-9), -0.5, 1.0)
    return spread
