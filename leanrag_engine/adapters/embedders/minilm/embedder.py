"""The embedder that comes with this package: all-MiniLM-L6-v2 as an ONNX file, on onnxruntime and tokenizers.
It needs no torch, no download and no network. The file is made by ``tests/programs/export/minilm.py``, which
compares it with the original. The libraries and the weights are loaded for the first text, once in a
process."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from leanrag_engine.adapters.embedders.onnx import OnnxEmbedder, OnnxSource, open_session, pad
from leanrag_engine.adapters.embedders.pretrained import Span, check_rows
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import Vectors
from leanrag_engine.core.ports import Embedder
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


class MiniLMSource(OnnxSource):
    """The one model."""

    name, identity = NAME, IDENTITY

    def load(self) -> Embedder:
        return MiniLMEmbedder(_load_once())


@dataclass(frozen=True, slots=True)
class _LoadedMiniLM:
    """The model in memory. Session and tokenizer may be used by several threads at once."""

    session: Any
    tokenizer: Any


class MiniLMEmbedder(OnnxEmbedder):
    """The model."""

    identity, dimension, room = IDENTITY, DIMENSION, ROOM
    # Chosen on four sets of documents: 2 of 140 questions that they answer stay below it, and 30 of 40
    # that they do not answer. On two more sets that was 2 of 68 and 17 of 20.
    unrelated = 0.3
    # The best answering window of 577 questions on six sets: median 0.52, a tenth below 0.32. The best window of the five
    # other sets for each: median 0.23, a tenth above 0.36, a hundredth above 0.45.
    related = 0.5

    def __init__(self, model: _LoadedMiniLM) -> None:
        super().__init__()
        self._model = model

    def _spans_of(self, texts: list[str]) -> list[list[Span]]:
        encoded = self._model.tokenizer.encode_batch(texts, add_special_tokens=False)
        return [each.offsets for each in encoded]

    def _rows(self, texts: list[str]) -> Vectors:
        model = self._model
        encoded = model.tokenizer.encode_batch(texts, add_special_tokens=False)
        known = [place for place, each in enumerate(encoded) if any(id_ != UNKNOWN for id_ in each.ids)]
        rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        if known:
            ids, mask = pad([[BEGIN, *encoded[place].ids[: WINDOW - 2], END] for place in known])
            (given,) = model.session.run(None, {"ids": ids, "mask": mask})
            rows[known] = check_rows(given, [texts[place] for place in known], DIMENSION, NAME)
        return rows


@lru_cache(maxsize=1)
def _load_once() -> _LoadedMiniLM:
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - only embedding pays for it

        model, tokenizer = (FOLDER / name for name in FILES)
        if checksum_of(model, tokenizer) != CHECKSUM:
            raise _unusable("its files are damaged")
        return _LoadedMiniLM(open_session(model), Tokenizer.from_file(str(tokenizer)))
    except (ImportError, OSError) as problem:
        raise _unusable(f"{type(problem).__name__}: {one_line(str(problem))[:200]}") from problem


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
