"""The embedder of the package: the original's vectors, offline, whatever the text, and loaded by its first use."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import run
from zlib import crc32

import anyio
import numpy as np
import pytest

from leanrag_engine.adapters.embedders.minilm import embedder as module
from leanrag_engine.adapters.embedders.minilm.embedder import (
    CHECKSUM,
    DIMENSION,
    FILES,
    FOLDER,
    IDENTITY,
    MINILM_SOURCE,
    NAME,
    checksum_of,
)
from leanrag_engine.adapters.embedders.onnx import identity_of
from leanrag_engine.core.errors import Cancelled, InvalidInput
from leanrag_engine.core.model import Vectors
from leanrag_engine.core.ports import Embedder, Progress

REFERENCE = json.loads((Path(__file__).parent / "minilm_reference.json").read_text(encoding="utf-8"))
"""Texts and the vectors that sentence-transformers gives them; written by ``tests/programs/export/minilm.py``."""

LONG = "The harbour\n" + " ".join(
    f"Ship number {number} left the harbour on a grey morning." for number in range(60)
)


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return anyio.run(MINILM_SOURCE.fit, [])[0]


def embedded(embedder: Embedder, texts: list[str]) -> Vectors:
    return anyio.run(embedder.embed, texts)


# --- vectors -------------------------------------------------------------------------------


def test_the_vectors_are_those_of_sentence_transformers(embedder: Embedder) -> None:
    rows = embedded(embedder, [each["text"] for each in REFERENCE])
    original = np.array([each["vector"] for each in REFERENCE], dtype=np.float32)
    cosines = (rows * original).sum(axis=1) / np.linalg.norm(original, axis=1)
    assert rows.shape == (len(REFERENCE), DIMENSION)
    assert rows.dtype == np.float32
    assert cosines.mean() >= 0.995
    assert cosines.min() >= 0.99


def test_a_text_has_the_same_vector_alone_and_beside_longer_ones(embedder: Embedder) -> None:
    texts = [each["text"] for each in REFERENCE]
    together = embedded(embedder, [*texts, LONG])[: len(texts)]
    alone = np.concatenate([embedded(embedder, [text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-7)


@pytest.mark.parametrize("text", ["", " \n\t ", "\u200b\u0000\x07", "😀🎉", "🏳️‍🌈 👩‍👩‍👧"])
def test_a_text_without_a_known_word_is_a_zero_row(embedder: Embedder, text: str) -> None:
    rows = embedded(embedder, [text, "oak"])
    assert not rows[0].any()
    assert np.linalg.norm(rows[1]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        "oak " * 2_000,
        "知识图谱的层次结构。" * 60,
        "\ud83d",
        "[PAD] [CLS]",
        "a\x00b",
        "İstanbul ﬁn",
    ],
)
def test_any_other_text_has_a_row_of_length_one_or_zero(embedder: Embedder, text: str) -> None:
    (row,) = embedded(embedder, [text])
    assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5) or not row.any()


def test_equal_texts_are_embedded_once_and_each_gets_its_rows(
    embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    rows: Callable[[list[str]], Vectors] = embedder._rows  # type: ignore[attr-defined]
    monkeypatch.setattr(embedder, "_rows", lambda texts: seen.extend(texts) or rows(texts))
    windows = anyio.run(embedder.embed_windows, ["oak", LONG, "oak", LONG, "ash"])
    assert len(seen) == len(set(seen))
    assert windows.owners.count(1) == windows.owners.count(3) > 2
    assert sorted(windows.owners) == list(windows.owners)
    first, second = (windows.vectors[np.array(windows.owners) == owner] for owner in (1, 3))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(windows.vectors[-1], embedded(embedder, ["ash"])[0], atol=1e-6)


def test_no_texts_give_no_rows(embedder: Embedder) -> None:
    assert embedded(embedder, []).shape == (0, DIMENSION)


def test_a_fact_at_the_end_of_a_long_text_is_near_in_one_of_its_windows(embedder: Embedder) -> None:
    text = f"{LONG} The lighthouse keeper kept a tame raven called Nevermore."
    windows = anyio.run(embedder.embed_windows, [text])
    (query,) = anyio.run(embedder.embed_queries, ["What was the lighthouse keeper's raven called?"]).rows
    scores = windows.vectors @ query
    assert scores.argmax() == len(scores) - 1
    assert scores.max() > scores.min() + 0.2


# --- how it works --------------------------------------------------------------------------


def test_batches_hold_texts_of_similar_length_and_the_work_stops_between_them(embedder: Embedder) -> None:
    told: list[Progress] = []

    def report(step: Progress) -> None:
        told.append(step)
        if step.done >= 32:
            raise Cancelled("Asked to stop.")

    with pytest.raises(Cancelled):
        anyio.run(embedder.embed, [f"oak {number}" for number in range(1000)], report)
    assert {(step.stage, step.total) for step in told} == {("embed", 1000)}
    counts = [step.done for step in told]
    assert counts == sorted(counts)
    assert [*dict.fromkeys(counts)][:3] == [0, 16, 32]
    assert counts[-1] <= 32 + 16 * 8  # what was under way on the other processors


def test_a_cancelled_task_does_not_wait_for_the_rest(embedder: Embedder) -> None:
    told: list[Progress] = []

    async def stop_early() -> None:
        with anyio.CancelScope() as scope:

            def report(step: Progress) -> None:
                told.append(step)
                scope.cancel()

            await embedder.embed([f"oak {number}" for number in range(1000)], report)

    anyio.run(stop_early)
    assert {step.done for step in told} == {0}


def test_queries_are_answered_while_documents_are_embedded(embedder: Embedder) -> None:
    alone = anyio.run(embedder.embed_queries, ["Where is the oak?"]).rows
    found: list[Vectors] = []

    async def ask() -> None:
        found.append((await embedder.embed_queries(["Where is the oak?"])).rows)

    async def both() -> None:
        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(embedder.embed, [f"{LONG} {number}"])
                group.start_soon(ask)

    anyio.run(both)
    assert len(found) == 3
    for rows in found:
        np.testing.assert_allclose(rows, alone, atol=1e-6)


def test_the_event_loop_goes_on_while_texts_are_embedded(embedder: Embedder) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.001)
            ticks += 1

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            await embedder.embed([f"{LONG} {number}" for number in range(2)])
            group.cancel_scope.cancel()

    anyio.run(both)
    assert ticks > 5


def test_no_network_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("something connects")

    async def load_and_embed() -> Vectors:
        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        module._load_once.cache_clear()
        embedder, _ = await MINILM_SOURCE.fit([])
        return await embedder.embed(["oak"])

    assert anyio.run(load_and_embed).any()


def test_neither_libraries_nor_weights_are_loaded_before_the_first_use() -> None:
    code = (
        "import anyio, sys\n"
        "from leanrag_engine.adapters.wiring import embedder_source\n"
        "from leanrag_engine.core.config import load_settings\n"
        "for name in ('auto', 'minilm'):\n"
        "    source = embedder_source(load_settings(embedder=name))\n"
        f"    print(source.name, anyio.run(source.gave, {IDENTITY!r}))\n"
        "print(sorted({'onnxruntime', 'tokenizers', 'sklearn', 'scipy', 'torch'} & set(sys.modules)))\n"
    )
    done = run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["auto True", "minilm True", "[]"]


# --- files ---------------------------------------------------------------------------------


def test_the_identity_names_the_files() -> None:
    files = [FOLDER / name for name in FILES]
    model, tokenizer = (file.read_bytes() for file in files)
    assert identity_of(NAME, model, tokenizer) == IDENTITY
    assert checksum_of(*files) == CHECKSUM == crc32(model + tokenizer)
    assert len(model) + len(tokenizer) < 50_000_000


def test_the_licence_lies_beside_the_model() -> None:
    assert "Apache License" in (FOLDER / "LICENSE").read_text(encoding="utf-8")
    assert "sentence-transformers/all-MiniLM-L6-v2" in (FOLDER / "NOTICE.md").read_text(encoding="utf-8")


def test_identities_of_others_are_not_its_own() -> None:
    gave = [anyio.run(MINILM_SOURCE.gave, each) for each in (IDENTITY, "minilm-0123", "fitted-0123", "")]
    assert gave == [True, False, False, False]


@pytest.mark.parametrize("damage", ["missing", "cut", "changed"])
def test_damaged_files_are_told_with_a_way_out(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in FILES:
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    model = tmp_path / "model.onnx"
    data = model.read_bytes()
    if damage == "missing":
        model.unlink()
    else:
        model.write_bytes(data[: len(data) // 2] if damage == "cut" else data[:-1] + b"?")
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    module._load_once.cache_clear()
    with pytest.raises(InvalidInput, match="'minilm' cannot be loaded") as caught:
        anyio.run(MINILM_SOURCE.fit, [])
    assert "'fitted'" in caught.value.next_step
