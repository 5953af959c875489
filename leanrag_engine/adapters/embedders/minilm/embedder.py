"""The embedder that comes with this package: all-MiniLM-L6-v2 as an ONNX file, on onnxruntime and tokenizers.

It needs no torch, no download and no network. The file is made by ``tests/programs/export/minilm.py``, which compares
it with the original. The libraries and the weights are loaded for the first text, once in a process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from leanrag_engine.adapters.embedders.pretrained import (
    EmbeddingWindows,
    PretrainedSource,
    Span,
    Windows,
    check_rows,
    embed_shared,
    pool_windows,
    repeat_windows,
)
from leanrag_engine.core.errors import InvalidInput, first_error
from leanrag_engine.core.model import Vectors
from leanrag_engine.core.ports import Embedder, Progress, ProgressReport
from leanrag_engine.core.text.shortening import one_line

NAME = "minilm"
DIMENSION = 384
FOLDER = Path(__file__).parent
FILES = ("model.onnx", "tokenizer.json")
IDENTITY = f"{NAME}-6377489f835b58b8"
"""Name and digest of the model's files: vectors of another export are never compared with these."""
CHECKSUM = 0x01F33CCC
"""CRC-32 of both files, by which damage is noticed: the digest takes five times as long, 2 % of the time of ``leanrag query``."""

WINDOW = 256
"""Tokens that the model reads at once, with the two that mark beginning and end: what it was tuned with."""


UNKNOWN, BEGIN, END = 100, 101, 102
"""Tokens of tokenizer.json: a word that is not known, and the marks around a text."""

ROOM = WINDOW - 6
"""Tokens of a window. Two mark its ends; a window cut out of a text may have a few more than its part of the text."""

_LOADING = threading.Lock()
"""Lock for loading: two threads would load the model twice."""


@dataclass(frozen=True, slots=True)
class MiniLMOptions:
    """Sizes of batches and threads."""

    texts: int = 16
    """Most texts of a batch: 8, 16 and 32 are equally fast on two cores."""
    tokens: int = 4096
    """Most tokens of a batch, which bounds its memory: 16 of the longest windows."""
    threads: int = 8
    """Most batches at once, by reading; fewer where fewer processors are available. Each batch has one thread: two threads for
    one batch took 18 to 24 % more processor time, as they wait for each other at every operator."""


class MiniLMSource(PretrainedSource):
    """The one model. ``name`` is ``minilm``."""

    @property
    def name(self) -> str:
        return NAME

    async def fit(self, texts: Sequence[str], before: str = "") -> tuple[Embedder, bytes]:  # noqa: ARG002 - nothing is fitted
        """Return the model with an empty state: nothing is fitted. Raises ``InvalidInput`` if it cannot be loaded."""
        return MiniLMEmbedder(await anyio.to_thread.run_sync(_load)), b""

    async def gave(self, identity: str) -> bool:
        """Return whether ``identity`` is that of these files."""
        return identity == IDENTITY

    async def restore(self, identity: str, state: bytes) -> Embedder:  # noqa: ARG002 - the port's arguments
        """Return the model, as ``fit`` does."""
        return (await self.fit(()))[0]


@dataclass(frozen=True, slots=True)
class _LoadedMiniLM:
    """The model in memory. Session and tokenizer may be used by several threads at once."""

    session: Any
    tokenizer: Any


class MiniLMEmbedder:
    """The model. Texts beyond its window are embedded in several windows; equal texts of a call are embedded once."""

    def __init__(self, model: _LoadedMiniLM, options: MiniLMOptions = MiniLMOptions()) -> None:
        self._model = model
        self._options = options

    @property
    def identity(self) -> str:
        return IDENTITY

    @property
    def dimension(self) -> int:
        return DIMENSION

    @property
    def unrelated(self) -> float | None:
        # Chosen on four sets of documents: 2 of 140 questions that they answer stay below it, and 30 of 40
        # that they do not answer. On two more sets that was 2 of 68 and 17 of 20.
        return 0.3

    async def embed(self, texts: Sequence[str], report: ProgressReport | None = None) -> Vectors:
        """Return L2-normalised (len(texts), dimension) float32 rows; a long text gets the mean of its windows."""

        async def embed(parts: Sequence[str]) -> Vectors:
            return pool_windows(await self.embed_windows(parts, report), len(parts))

        return await embed_shared(texts, embed)

    async def embed_windows(self, texts: Sequence[str], report: ProgressReport | None = None) -> Windows:
        """Return one row for each window; progress counts the windows of different texts.

        Batches run beside each other, each on one processor. The work can be cancelled between two of them.
        """
        # Half a surrogate pair is no text to the tokenizer: a question mark stands for it.
        texts = [text.encode("utf-8", "replace").decode() for text in texts]
        distinct = list(dict.fromkeys(texts))
        pieces = EmbeddingWindows.of(distinct, await self._spans(distinct), ROOM)
        rows = np.zeros((len(pieces.texts), DIMENSION), dtype=np.float32)
        batches = iter(pieces.batches(self._options.texts, self._options.tokens))
        done = 0

        async def embed_batches() -> None:
            nonlocal done
            for places in batches:
                if report is not None:
                    report(Progress("embed", done, len(pieces.texts)))
                batch = [pieces.texts[place] for place in places]
                rows[places] = await anyio.to_thread.run_sync(self._rows, batch)
                done += len(places)

        try:
            async with anyio.create_task_group() as group:
                for _ in range(_count_threads(self._options.threads)):
                    group.start_soon(embed_batches)
        except BaseExceptionGroup as problems:
            raise first_error(problems) from None
        return repeat_windows(Windows(rows, pieces.owners), distinct, texts)

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return the rows of ``embed``: the model has no prompts."""
        return await self.embed(texts)

    async def _spans(self, texts: list[str]) -> list[list[Span]]:
        spans: list[list[Span]] = []
        portion = 1024  # texts between two checks whether to stop
        for start in range(0, len(texts), portion):
            part = texts[start : start + portion]
            spans += await anyio.to_thread.run_sync(self._spans_of, part)
        return spans

    def _spans_of(self, texts: list[str]) -> list[list[Span]]:
        encoded = self._model.tokenizer.encode_batch(texts, add_special_tokens=False)
        return [each.offsets for each in encoded]

    def _rows(self, texts: list[str]) -> Vectors:
        """Return the rows of one batch; zero rows for texts without a known word."""
        model = self._model
        encoded = model.tokenizer.encode_batch(texts, add_special_tokens=False)
        known = [place for place, each in enumerate(encoded) if any(id_ != UNKNOWN for id_ in each.ids)]
        rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        if known:
            inputs = _pad([[BEGIN, *encoded[place].ids[: WINDOW - 2], END] for place in known])
            (given,) = model.session.run(None, inputs)
            rows[known] = check_rows(given, [texts[place] for place in known], DIMENSION, NAME)
        return rows


def _pad(texts: list[list[int]]) -> dict[str, NDArray[Any]]:
    """Return the inputs of a batch: tokens padded to the longest of ``texts``, and a mask."""
    shape = (len(texts), max(map(len, texts)))
    ids, mask = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int32)
    for row, tokens in enumerate(texts):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return {"ids": ids, "mask": mask}


# --- loading -------------------------------------------------------------------------------


def _load() -> _LoadedMiniLM:
    with _LOADING:
        return _load_once()


@lru_cache(maxsize=1)
def _load_once() -> _LoadedMiniLM:
    """Load the model; one is kept in memory, shared by all engines of the process."""
    try:
        import onnxruntime  # noqa: PLC0415 - only embedding pays for it
        from tokenizers import Tokenizer  # noqa: PLC0415 - as above

        model, tokenizer = (FOLDER / name for name in FILES)
        is_damaged = checksum_of(model, tokenizer) != CHECKSUM
    except (ImportError, OSError) as problem:
        raise _unusable(f"{type(problem).__name__}: {one_line(str(problem))[:200]}") from problem
    if is_damaged:
        raise _unusable("its files are damaged")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Measured on x86-64: the further levels double the time of loading, and neither speed nor any bit of a vector differs.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3  # errors: warnings would go to the server's standard error
    # By their paths: onnxruntime copies what it is given, which was a tenth of the time of loading.
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    words = Tokenizer.from_file(str(tokenizer))
    return _LoadedMiniLM(session, words)


def identity_of(model: bytes, tokenizer: bytes) -> str:
    """Return the identity of an embedder with these files."""
    digest = blake2b(model, digest_size=8)
    digest.update(tokenizer)
    return f"{NAME}-{digest.hexdigest()}"


def checksum_of(model: Path, tokenizer: Path) -> int:
    """Return the CRC-32 of the two files, one after the other."""
    checksum, part = 0, memoryview(bytearray(1 << 18))
    for path in (model, tokenizer):
        with path.open("rb", buffering=0) as file:
            while size := file.readinto(part):
                checksum = crc32(part[:size], checksum)
    return checksum


def _unusable(why: str) -> InvalidInput:
    return InvalidInput(
        f"The embedder {NAME!r} cannot be loaded ({why}).",
        "Install this package and its dependencies again, or set the embedder to 'fitted'.",
    )


def _count_threads(most: int) -> int:
    """Return the number of processors that this process may use, at most ``most``."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(available or 1, most)
