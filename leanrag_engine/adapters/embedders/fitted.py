"""The fitted embedder: latent semantic analysis of the collection itself.

Words are weighted by TF-IDF, then reduced by a truncated singular value decomposition (Deerwester et al. 1990) whose
singular values count with their square root (Levy, Goldberg & Dagan 2015); with few dimensions this
retrieves clearly more than plain LSA. It needs no model, no download and no key. Every word of the
vocabulary has one vector and a text is the weighted sum of its words, so the state is one table.
"""

from __future__ import annotations

import io
import json
import zipfile
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING
from zlib import crc32

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.errors import StoreUnusable
from leanrag_engine.core.model import EmbeddedQueries, Vectors
from leanrag_engine.core.ports import Embedder, Progress, ProgressReport, UnmeasuredEmbedder
from leanrag_engine.core.text.language.words import words
from leanrag_engine.core.vectors import one_thread

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# scipy and scikit-learn take a second to import: whether an embedder comes from here is told without them, and
# questions are embedded, and small collections fitted, without scikit-learn.


@dataclass(frozen=True, slots=True)
class FittingOptions:
    """Size and cut-off of the decomposition. Set by reading and by the time of a fit; not tuned on recall."""

    dimensions: int = 512
    vocabulary: int = 40_000
    """Features kept, the most frequent ones."""
    sample: int = 10_000
    """Most texts that are decomposed; the vocabulary and its weights come from all."""
    faint: float = 0.5
    """Smallest singular value kept. Texts have length 1, so a direction below it holds less than a quarter of one
    text: near duplicates differ by it, and it would distort texts that were not fitted."""


@dataclass(frozen=True, slots=True)
class _WordTable:
    """The word table: word ``i`` of ``vocabulary`` has the vector ``scales[i] * steps[i]``."""

    vocabulary: tuple[str, ...]
    steps: NDArray[np.int8]
    scales: NDArray[np.float32]

    @property
    def identity(self) -> str:
        digest = blake2b(json.dumps(self.vocabulary).encode(), digest_size=8)
        for table in (self.steps, self.scales):
            digest.update(repr(table.shape).encode() + table.tobytes())
        return f"fitted-{digest.hexdigest()}"


class FittedEmbedder(UnmeasuredEmbedder):
    """A fitted word table. Equal identities mean equal tables, hence equal vectors to the bit."""

    def __init__(self, table: _WordTable) -> None:
        self.identity = table.identity
        self.dimension = int(table.steps.shape[1])
        self._table = table
        self._places = {word: place for place, word in enumerate(table.vocabulary)}

    async def embed(self, texts: Sequence[str], report: ProgressReport | None = None) -> Vectors:
        rows = np.empty((len(texts), self.dimension), dtype=np.float32)
        step = 1024  # texts between two checks whether to stop
        for start in range(0, len(texts), step):
            if report is not None:
                report(Progress("embed", start, len(texts)))
            part = slice(start, start + step)
            rows[part] = await anyio.to_thread.run_sync(self._embed, list(texts[part]))
        return rows

    async def embed_queries(self, texts: Sequence[str]) -> EmbeddedQueries:
        return EmbeddedQueries(await self.embed(texts))

    def share_unknown(self, texts: Sequence[str]) -> float:
        """Return the share of the occurrences of words that are not in the table."""
        found = [word in self._places for text in texts for word in words(text)]
        return 1.0 - sum(found) / len(found) if found else 0.0

    def _embed(self, texts: list[str]) -> Vectors:
        if not self._places or not texts:
            return np.zeros((len(texts), self.dimension), dtype=np.float32)
        counts = _damp(_count(texts, self._places))
        # The vectors of these texts' words alone: those of all words take 80 MB, and longer than to embed a question.
        used, counts.indices = np.unique(counts.indices, return_inverse=True)
        counts.resize(len(texts), len(used))
        rows = counts @ (self._table.steps[used] * self._table.scales[used, None])
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        return np.asarray(rows / np.where(lengths > 0, lengths, 1)[:, None], dtype=np.float32)


class FittedEmbedderSource:
    """Fits the embedder on a collection's texts, and restores fitted ones. The one restored last is kept: an
    update needs it several times, and unpacking a state takes a tenth of a second."""

    name = "fitted"

    def __init__(self, options: FittingOptions = FittingOptions()) -> None:
        self._options = options
        self._last: tuple[tuple[str, int], FittedEmbedder] | None = None

    async def fit(self, texts: Sequence[str], before: str = "") -> tuple[Embedder, bytes]:  # noqa: ARG002 - the port's arguments
        """Fit an embedder on ``texts`` (any number of any length); return it with its state of at most about 20 MB."""
        return await anyio.to_thread.run_sync(_fit, texts, self._options, abandon_on_cancel=True)

    async def gave(self, identity: str) -> bool:
        return identity.startswith(f"{self.name}-")

    async def restore(self, identity: str, state: bytes) -> Embedder:
        return await anyio.to_thread.run_sync(self._restore, identity, state)

    async def unknown_words(self, identity: str, state: bytes, texts: Sequence[str]) -> float:
        embedder = await anyio.to_thread.run_sync(self._restore, identity, state)
        return await anyio.to_thread.run_sync(embedder.share_unknown, texts)

    async def restrict(self, identity: str, state: bytes, texts: Sequence[str]) -> tuple[str, bytes]:
        return await anyio.to_thread.run_sync(_remove_words, identity, state, texts)

    def _restore(self, identity: str, state: bytes) -> FittedEmbedder:
        mark = identity, crc32(state)
        last = self._last
        if last is None or last[0] != mark:
            last = self._last = mark, FittedEmbedder(_unpack(identity, state))
        return last[1]


def _features(text: str) -> list[str]:
    """Return the words, and the beginnings of the longer ones: a stemmer for any language."""
    found = words(text)
    stem = 6  # characters
    return found + [f"{word[:stem]}-" for word in found if len(word) > stem]


def _count(texts: Sequence[str], places: dict[str, int], *, grow: bool = False) -> csr_array:
    """Return how often each word stands in each text, (texts, words). A word without a place gets the next
    one if the vocabulary may ``grow``, and is left out otherwise."""
    from scipy.sparse import csr_array

    columns, numbers, ends = array("i"), array("f"), array("q", [0])
    for text in texts:
        found = Counter(_features(text))
        if grow:
            for word in found:
                places.setdefault(word, len(places))
        row = sorted((places[word], number) for word, number in found.items() if word in places)
        columns.extend(place for place, _ in row)
        numbers.extend(number for _, number in row)
        ends.append(len(columns))
    return csr_array((np.array(numbers, dtype=np.float32), columns, ends), shape=(len(texts), len(places)))


def _fit(texts: Sequence[str], options: FittingOptions) -> tuple[Embedder, bytes]:
    table = _word_table(list(texts), options)
    return FittedEmbedder(table), _pack(table)


def _word_table(texts: list[str], options: FittingOptions) -> _WordTable:
    places: dict[str, int] = {}
    counts = _count(texts, places, grow=True)
    if not places:
        return _WordTable((), np.zeros((0, 1), dtype=np.int8), np.zeros(0, dtype=np.float32))
    known = np.array(sorted(places), dtype=object)
    columns = np.array([places[word] for word in known])
    frequency = np.bincount(counts.indices, minlength=len(known))[columns]
    kept = np.sort(np.argsort(-frequency, kind="stable")[: options.vocabulary])
    # The inverse document frequency in Robertson's form, above zero: log(1 + (N - df + ½) / (df + ½)).
    df = frequency[kept]
    weights = np.log1p((len(texts) - df + 0.5) / (df + 0.5)).astype(np.float32)
    sample = np.linspace(0, len(texts) - 1, min(len(texts), options.sample)).astype(np.intp)
    weighted = _damp(counts[sample][:, columns[kept]]).multiply(weights).tocsr()
    table = weights[:, None] * _word_vectors(weighted, options)
    # Whole steps of the largest coordinate / 127 take a quarter of the space.
    scales = (np.abs(table).max(axis=1) / 127).astype(np.float32)
    steps = np.rint(table / np.maximum(scales, np.float32(1e-30))[:, None]).astype(np.int8)
    return _WordTable(tuple(known[kept].tolist()), steps, scales)


def _damp(counts: csr_array) -> csr_array:
    """Replace term counts n by 1 + ln n."""
    damped = counts.copy()
    damped.data = 1.0 + np.log(damped.data)
    return damped


def _word_vectors(weighted: csr_array, options: FittingOptions) -> NDArray[np.float32]:
    """Return the right singular vectors of the (texts, words) matrix with unit rows, times 1 / √σ: (words,
    d). A text x then gets x·V·Σ^-½ = U·Σ^½ for the texts that were fitted."""
    from scipy.sparse import csr_array

    lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
    rows = csr_array(weighted.multiply((1.0 / np.maximum(lengths, 1e-12))[:, None]), dtype=np.float32)
    with one_thread():
        if min(rows.shape) <= options.dimensions:
            values, axes = _decompose(rows)
        else:
            from sklearn.utils.extmath import randomized_svd

            _, values, axes = randomized_svd(rows, options.dimensions, n_iter=2, random_state=0)
    strong = values > options.faint
    return np.asarray(axes[strong].T / np.sqrt(values[strong]), dtype=np.float32)


def _decompose(rows: csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return all singular values, the largest first, and their right vectors, from the smaller Gram matrix."""
    exact = rows.astype(np.float64)
    of_texts = exact.shape[0] <= exact.shape[1]
    squares, vectors = np.linalg.eigh((exact @ exact.T if of_texts else exact.T @ exact).toarray())
    values = np.sqrt(np.maximum(squares[::-1], 0.0))
    axes = vectors.T[::-1]
    return values, (exact.T @ axes.T).T / np.maximum(values, 1e-12)[:, None] if of_texts else axes


def _pack(table: _WordTable) -> bytes:
    """Write the table as a zip of arrays (npz) without pickles."""
    buffer = io.BytesIO()
    vocabulary = np.frombuffer(json.dumps(table.vocabulary).encode(), dtype=np.uint8)
    np.savez(buffer, vocabulary=vocabulary, steps=table.steps, scales=table.scales)
    return buffer.getvalue()


def _unpack(identity: str, state: bytes) -> _WordTable:
    try:
        with np.load(io.BytesIO(state), allow_pickle=False) as arrays:
            vocabulary = tuple(json.loads(arrays["vocabulary"].tobytes()))
            table = _WordTable(vocabulary, arrays["steps"], arrays["scales"])
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as problem:
        raise _state_error(identity) from problem
    if table.identity != identity:
        raise _state_error(identity)
    return table


def _remove_words(identity: str, state: bytes, texts: Sequence[str]) -> tuple[str, bytes]:
    table = _unpack(identity, state)
    lost = set(table.vocabulary)
    for text in texts:
        if not lost:
            return identity, state
        lost.difference_update(_features(text))
    rows = [row for row, word in enumerate(table.vocabulary) if word not in lost]
    left = _WordTable(tuple(table.vocabulary[row] for row in rows), table.steps[rows], table.scales[rows])
    return left.identity, _pack(left)


def _state_error(identity: str) -> StoreUnusable:
    return StoreUnusable(
        f"The stored state of the embedder {identity!r} is damaged or belongs to another embedder.",
        "Build the collection anew; that fits a new embedder.",
    )
