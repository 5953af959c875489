"""The embedder that comes with this package: all-MiniLM-L6-v2 as an ONNX file, on onnxruntime and tokenizers. It
needs no torch, no download and no network. The file is made by ``tests/programs/export/minilm.py``, which
compares it with the original. The libraries and the weights are loaded for the first text, once in a process."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.adapters.embedders.onnx import Batch, OnnxEmbedder, OnnxSource, T, open_session
from leanrag_engine.adapters.embedders.pretrained import Span, check_rows, pool_windows
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import EmbeddedQueries, PackedTokens, QueryTokens, Vectors
from leanrag_engine.core.ports import ProgressReport
from leanrag_engine.core.runtime.checksums import checksum_of
from leanrag_engine.core.text.language.words import STOPWORDS
from leanrag_engine.core.text.shortening import one_line
from leanrag_engine.core.vectors import unit_rows

NAME = "minilm"
DIMENSION = 384
FOLDER = Path(__file__).parent
FILES = ("model.onnx", "tokenizer.json")
IDENTITY = f"{NAME}-1b70ca426f91326a"
"""Name and digest of the model's files: vectors of another export are never compared with these."""
CHECKSUM = 0x62BCD91A
"""CRC-32 of both files, by which damage is noticed: the digest takes five times as long, 2 % of the time of ``leanrag query``."""

WINDOW = 256
"""Tokens that the model reads at once, with the two that mark beginning and end: what it was tuned with."""

TOKENS = "encoder.layer.5.output.LayerNorm.normed"  # The output of the model that is the vector of each token

UNKNOWN, BEGIN, END = 100, 101, 102
"""Tokens of tokenizer.json: a word that is not known, and the marks around a text."""

NO_TOKENS: PackedTokens = np.zeros((0, 2 + DIMENSION // 8), dtype=np.uint8)
NO_QUERY_TOKENS = QueryTokens(np.zeros(0, np.uint16), np.zeros((0, DIMENSION), np.float32))
"""Those of a blank text."""

ROOM = WINDOW - 6
"""Tokens of a window. Two mark its ends; a window cut out of a text may have a few more than its part of the text."""


class MiniLMEmbedder(OnnxEmbedder):
    """The model in memory. Session and tokenizer may be used by several threads at once."""

    identity, dimension, room = IDENTITY, DIMENSION, ROOM
    # Chosen on four sets of documents: 2 of 140 questions that they answer stay below it, and 30 of 40
    # that they do not answer. On two more sets that was 2 of 68 and 17 of 20.
    unrelated = 0.3
    english = True
    # The best answering window of 577 questions on six sets: median 0.52, a tenth below 0.32. The best window of the five
    # other sets for each: median 0.23, a tenth above 0.36, a hundredth above 0.45.
    related = 0.5

    def __init__(self, session: Any, tokenizer: Any) -> None:
        self._session = session
        self._tokenizer = tokenizer
        # Those of a conversation come again with each question.
        self._count = lru_cache(maxsize=1 << 14)(
            lambda text: len(_word_places(self._tokenizer.encode(text, add_special_tokens=False).tokens))
        )

    def _spans_of(self, texts: list[str]) -> list[list[Span]]:
        return [each.offsets for each in self._tokenizer.encode_batch(texts, add_special_tokens=False)]

    async def embed_with_tokens(
        self, texts: Sequence[str], report: ProgressReport | None = None
    ) -> tuple[Vectors, list[PackedTokens]]:
        windows, packed = await self.embed_batches(texts, partial(self._rows_and_tokens, _pack), report)
        tokens: list[list[PackedTokens]] = [[] for _ in texts]
        for row, owner in enumerate(windows.owners):
            tokens[owner].append(packed.get(row, NO_TOKENS))
        return pool_windows(windows, len(texts)), [np.concatenate(parts) for parts in tokens]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [self._count(text) for text in texts]

    async def embed_queries(self, texts: Sequence[str]) -> EmbeddedQueries:
        """Return the rows of ``embed``, and the tokens of the first window of each text."""
        windows, tokens = await self.embed_batches(texts, partial(self._rows_and_tokens, _select))
        first = [windows.owners.index(place) for place in range(len(texts))]
        rows = pool_windows(windows, len(texts))
        return EmbeddedQueries(rows, [tokens.get(place, NO_QUERY_TOKENS) for place in first])

    def _rows(self, texts: list[str]) -> Batch[PackedTokens]:
        _, rows, _ = self._run(texts, ["rows"])
        return Batch(rows)

    def _rows_and_tokens(self, keep: Callable[[Any, NDArray[np.float32]], T], texts: list[str]) -> Batch[T]:
        encoded, rows, vectors = self._run(texts, ["rows", TOKENS])
        return Batch(rows, [keep(each, own) for each, own in zip(encoded, vectors, strict=True)])

    def _run(
        self, texts: list[str], outputs: list[str]
    ) -> tuple[list[Any], Vectors, list[NDArray[np.float32]]]:
        """Return the tokens of each text, its row, zero without a known word, and the vectors of its tokens, if asked."""
        encoded = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        given, tokens = np.empty((len(texts), DIMENSION), dtype=np.float32), []
        # One by one: a text's row does not depend on its neighbours, and no time goes to padding.
        for place, each in enumerate(encoded):
            ids = np.array([[BEGIN, *each.ids[: WINDOW - 2], END]], dtype=np.int64)
            given[place : place + 1], *vectors = self._session.run(outputs, {"ids": ids})
            tokens += [each[0] for each in vectors]
        rows = check_rows(given, texts, DIMENSION, NAME)
        rows[[all(id_ == UNKNOWN for id_ in each.ids) for each in encoded]] = 0
        return encoded, rows, tokens


def _word_places(tokens: Sequence[str]) -> list[int]:
    """Return the places of the tokens that are no stop words and no signs."""
    return [
        place
        for place, token in enumerate(tokens)
        if token not in STOPWORDS and any(letter.isalnum() for letter in token)
    ]


def _select(encoded: Any, vectors: NDArray[np.float32]) -> QueryTokens:
    """Return the numbers and the vectors of the words of a question; those of all its tokens if it has no word."""
    words = _word_places(encoded.tokens) or range(len(encoded.ids))
    places = [place for place in words if place < WINDOW - 2]
    return QueryTokens(np.array(encoded.ids, dtype=np.uint16)[places], unit_rows(vectors[1:][places]))


def _pack(encoded: Any, vectors: NDArray[np.float32]) -> PackedTokens:
    """Return the number and the signs of the text's first mark, which stands for all of it, and of its words."""
    places = [0, *(place + 1 for place in _word_places(encoded.tokens[: WINDOW - 2]))]
    numbers = np.array([BEGIN, *encoded.ids], dtype="<u2")[places]
    return np.hstack((numbers.view(np.uint8).reshape(-1, 2), np.packbits(vectors[places] > 0, axis=1)))


@lru_cache(maxsize=1)
def _load_once() -> MiniLMEmbedder:
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - only embedding pays for it

        model, tokenizer = (FOLDER / name for name in FILES)
        if checksum_of(model, tokenizer) != CHECKSUM:
            raise _unusable("its files are damaged")
        return MiniLMEmbedder(open_session(model), Tokenizer.from_file(str(tokenizer)))
    except (ImportError, OSError) as problem:
        raise _unusable(f"{type(problem).__name__}: {one_line(str(problem))[:200]}") from problem


MINILM_SOURCE = OnnxSource(NAME, IDENTITY, _load_once)


def _unusable(why: str) -> InvalidInput:
    return InvalidInput(
        f"The embedder {NAME!r} cannot be loaded ({why}).",
        "Install this package and its dependencies again, or set the embedder to 'fitted'.",
    )
