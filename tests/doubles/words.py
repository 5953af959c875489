"""An embedder and a tokenizer whose figures can be worked out by hand: they see words and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from leanrag_engine.core.model import EmbeddedQueries, Vectors
from leanrag_engine.core.text.language.words import STOPWORDS, words


class WordTokenizer:
    """Counts words and signs: simple, and never more for a text than for a longer one."""

    def count(self, text: str) -> int:
        return len(re.findall(r"\w+|[^\w\s]", text))

    def count_many(self, texts: Sequence[str]) -> list[int]:
        return [self.count(text) for text in texts]


class WordEmbedder:
    """Bags of known words: cosine similarity is word overlap, and a text of unknown words is a zero row."""

    identity = "words"
    unrelated: float | None = None
    english = False
    related: float | None = None

    def __init__(self, texts: Sequence[str]) -> None:
        vocabulary = sorted({word for text in texts for word in self._words(text)})
        self._place = {word: place for place, word in enumerate(vocabulary)}

    @property
    def dimension(self) -> int:
        return len(self._place)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in self._words(text):
                if word in self._place:
                    row[self._place[word]] += 1
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, norms, out=rows, where=norms > 0)

    async def embed_queries(self, texts: Sequence[str]) -> EmbeddedQueries:
        return EmbeddedQueries(await self.embed(texts))

    @staticmethod
    def _words(text: str) -> list[str]:
        return [word for word in words(text) if word not in STOPWORDS]
