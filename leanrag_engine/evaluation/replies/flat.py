"""The plain way that a graph has to beat: windows of sentences, ranked by BM25 and by meaning, the best ones first.

It shares nothing with the engine's retrieval but the text of the documents, the tokenizer and the embedder.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leanrag_engine.core.model import Vectors
from leanrag_engine.core.ports import Embedder, EmbedderSource, Tokenizer
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.core.text.language.words import words

SATURATION, LENGTH_SHARE = 1.2, 0.75
"""k1 and b of BM25 (Robertson and Zaragoza 2009)."""


@dataclass(frozen=True, slots=True)
class FlatIndex:
    """Windows of sentences with their word counts and vectors, ``(n, d)`` in the same order."""

    texts: tuple[str, ...]
    sizes: tuple[int, ...]
    terms: tuple[Counter[str], ...]
    embedder: Embedder
    vectors: Vectors
    tokenizer: Tokenizer

    @classmethod
    async def of(cls, documents: Sequence[str], source: EmbedderSource, tokenizer: Tokenizer) -> FlatIndex:
        texts = tuple(text for document in documents for text in cut_into_windows(document, tokenizer))
        embedder, _ = await source.fit(texts)
        terms = tuple(Counter(words(text)) for text in texts)
        sizes = tuple(tokenizer.count_many(texts))
        return cls(texts, sizes, terms, embedder, await embedder.embed(texts), tokenizer)

    async def answer(self, queries: Sequence[str], budget: int) -> str:
        """Return the windows that rank first for the queries together, best first, in at most ``budget`` tokens."""
        similarities = await self.embedder.embed_queries(queries) @ self.vectors.T
        fused = np.zeros(len(self.texts))
        for query, similar in zip(queries, similarities, strict=True):
            for scores in (self._score_by_words(query), similar):
                ranks = np.argsort(np.argsort(-scores, kind="stable"), kind="stable")
                # Reciprocal rank fusion (Cormack et al. 2009).
                fused += 1 / (60 + ranks)
        chosen: list[str] = []
        room = budget
        for place in np.argsort(-fused, kind="stable"):
            cost = self.sizes[place] + 2  # the blank line between two windows
            if cost <= room:
                chosen.append(self.texts[place])
                room -= cost
        return "\n\n".join(chosen)

    def _score_by_words(self, query: str) -> Vectors:
        """Return the BM25 score of each window."""
        lengths = np.array([terms.total() for terms in self.terms], dtype=np.float32)
        norms = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * lengths / max(float(lengths.mean()), 1.0))
        scores = np.zeros(len(self.terms), dtype=np.float32)
        for word in dict.fromkeys(words(query)):
            counts = np.array([terms[word] for terms in self.terms], dtype=np.float32)
            holding = int((counts > 0).sum())
            rarity = math.log(1 + (len(self.terms) - holding + 0.5) / (holding + 0.5))
            scores += rarity * counts * (SATURATION + 1) / (counts + norms)
        return scores


def cut_into_windows(text: str, tokenizer: Tokenizer) -> list[str]:
    """Return consecutive sentences of ``text`` in windows of at most 120 tokens; a longer sentence is one alone."""
    found = [" ".join(text[start:end].split()) for start, end in sentences(text)]
    windows: list[str] = []
    most = 120
    used = most
    for sentence, size in zip(found, tokenizer.count_many(found), strict=True):
        if used + size > most:
            windows.append(sentence)
            used = size
        else:
            windows[-1] += f" {sentence}"
            used += size
    return windows
