"""Shared by the embedders that run on onnxruntime: windows in batches beside each other, and how a model is opened."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, TypeVar

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.errors import open_task_group
from leanrag_engine.core.model import PackedTokens, QueryTokens, Vectors
from leanrag_engine.core.ports import Embedder, Progress, ProgressReport, UnmeasuredEmbedder

from .pretrained import EmbeddingWindows, PretrainedSource, Span, Windows, pool_windows, repeat_windows

# Sizes of batches and threads.
_BATCH_TEXTS = 16  # Most texts of a batch: 8, 16 and 32 are equally fast on two cores
_BATCH_TOKENS = 4096  # Most tokens of a batch, which bounds its memory: 16 windows of 256
_THREADS = 8
"""Most batches at once, by reading; fewer where fewer processors are available. Each batch has one thread: two threads for
one batch took 18 to 24 % more processor time, as they wait for each other at every operator."""

T = TypeVar("T", PackedTokens, QueryTokens)


@dataclass(frozen=True, slots=True, eq=False)
class Batch(Generic[T]):
    """The rows of one batch, and the tokens of each text where they are wanted."""

    rows: Vectors
    tokens: Sequence[T] = ()


_LOADING = threading.Lock()  # Lock for loading: two threads would load a model twice


class OnnxSource(PretrainedSource):
    """The one model of a package. ``load`` returns the embedder of the process, loaded for the first text and shared by all engines."""

    def __init__(self, name: str, identity: str, load: Callable[[], Embedder]) -> None:
        self.name = name
        self.identity = identity
        self._load = load

    async def gave(self, identity: str) -> bool:
        return identity == self.identity

    def _embedder(self) -> Embedder:
        with _LOADING:
            return self._load()


class OnnxEmbedder(UnmeasuredEmbedder):
    """A model. Texts beyond its window are embedded in several windows; equal texts of a call are embedded once."""

    identity: str
    dimension: int
    room: int
    """Most tokens of a window."""

    async def embed(self, texts: Sequence[str], report: ProgressReport | None = None) -> Vectors:
        return pool_windows(await self.embed_windows(texts, report), len(texts))

    async def embed_windows(self, texts: Sequence[str], report: ProgressReport | None = None) -> Windows:
        """Return one row for each window; progress counts the windows of different texts."""
        return (await self.embed_batches(texts, self._rows, report))[0]

    async def embed_batches(
        self, texts: Sequence[str], run: Callable[[list[str]], Batch[T]], report: ProgressReport | None = None
    ) -> tuple[Windows, dict[int, T]]:
        """Return one row for each window, and by row what ``run``, which embeds a batch, gives as its tokens.

        Batches run beside each other, each on one processor. The work can be cancelled between two of them.
        """
        # Half a surrogate pair is no text to a tokenizer: a question mark stands for it.
        texts = [text.encode("utf-8", "replace").decode() for text in texts]
        distinct = list(dict.fromkeys(texts))
        pieces = EmbeddingWindows.of(distinct, await self._spans(distinct), self.room)
        rows = np.zeros((len(pieces.texts), self.dimension), dtype=np.float32)
        batches = iter(pieces.batches(_BATCH_TEXTS, _BATCH_TOKENS))
        tokens: dict[int, T] = {}
        done = 0

        async def embed_batches() -> None:
            nonlocal done
            for places in batches:
                if report is not None:
                    report(Progress("embed", done, len(pieces.texts)))
                embedded = await anyio.to_thread.run_sync(run, [pieces.texts[place] for place in places])
                rows[places] = embedded.rows
                tokens.update(zip(places, embedded.tokens, strict=False))
                done += len(places)

        async with open_task_group() as group:
            for _ in range(_count_threads(_THREADS)):
                group.start_soon(embed_batches)
        windows, order = repeat_windows(Windows(rows, pieces.owners), distinct, texts)
        return windows, {place: tokens[row] for place, row in enumerate(order) if row in tokens}

    async def _spans(self, texts: list[str]) -> list[list[Span]]:
        spans: list[list[Span]] = []
        portion = 1024  # texts between two checks whether to stop
        for start in range(0, len(texts), portion):
            spans += await anyio.to_thread.run_sync(self._spans_of, texts[start : start + portion])
        return spans

    def _spans_of(self, texts: list[str]) -> list[list[Span]]:
        """Return the places of the tokens of each text."""
        raise NotImplementedError

    def _rows(self, texts: list[str]) -> Batch[PackedTokens]:
        """Return the rows of one batch; zero rows for texts without a known word."""
        raise NotImplementedError


def open_session(model: Path, weights: Mapping[str, NDArray[Any]] | None = None) -> Any:
    """Open a model of one thread; ``weights`` are the constants that its file names without holding them."""
    import onnxruntime  # noqa: PLC0415 - only embedding pays for it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Measured on x86-64: the further levels double the time of loading, and neither speed nor any bit of a vector differs.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3  # errors: warnings would go to the server's standard error
    if weights:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(each) for each in weights.values()]
        options.add_external_initializers(list(weights), values)
    # By its path: onnxruntime copies what it is given, which was a tenth of the time of loading.
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def identity_of(name: str, *files: bytes) -> str:
    """Return the identity of an embedder with these files."""
    return f"{name}-{blake2b(b''.join(files), digest_size=8).hexdigest()}"


def _count_threads(most: int) -> int:
    """Return the number of processors that this process may use, at most ``most``."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(available or 1, most)
