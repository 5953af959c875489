"""Windows hold all of a text, none is too long, and batches hold each window once."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.adapters.embedders.pretrained import (
    EmbeddingWindows,
    Windows,
    check_rows,
    cut_windows,
    pool_windows,
    rough_tokens,
)
from leanrag_engine.core.errors import InvalidInput

WORDS = st.lists(
    st.sampled_from(["oak", "unbelievable", "知识图谱", "1843", "a-b", "…", "naïve"]), max_size=300
)
TITLES = st.sampled_from(["", "A title\n", "A title of so many words that it fills most of a window\n"])


@given(words=WORDS, title=TITLES, gap=st.sampled_from([" ", "\n", ""]), room=st.integers(16, 90))
def test_every_token_stands_in_a_window_and_no_window_holds_too_many(
    words: list[str], title: str, gap: str, room: int
) -> None:
    text = title + gap.join(f"{word}{number:03}" for number, word in enumerate(words))
    spans = rough_tokens(text)
    windows = cut_windows(text, spans, room)
    line = f"{text.partition(chr(10))[0]}\n"
    head = line if len(windows) > 1 and windows[-1].startswith(line) else ""
    covered = np.zeros(len(text), dtype=bool)
    covered[: len(head)] = True
    for window in windows:
        assert len(rough_tokens(window)) <= room
        assert window.startswith(head)
        body = window[len(head) :]
        place = text.index(body)
        covered[place : place + len(body)] = True
    assert all(covered[start:end].all() for start, end in spans)


@pytest.mark.parametrize("room", range(1, 16))
def test_the_smallest_windows_hold_every_word_too(room: int) -> None:
    words = [f"{number:02}" for number in range(40)]
    windows = cut_windows(" ".join(words), rough_tokens(" ".join(words)), room)
    assert all(len(rough_tokens(window)) <= room for window in windows)
    assert set(" ".join(windows).split()) == set(words)


def test_a_text_that_fits_is_left_as_it_is() -> None:
    text = "  A title\n\nand some text. "
    assert cut_windows(text, rough_tokens(text), len(rough_tokens(text))) == [text]


def test_each_window_carries_the_title_and_shares_words_with_the_next() -> None:
    words = [f"w{number}" for number in range(400)]
    text = "The title\n" + " ".join(words)
    windows = cut_windows(text, rough_tokens(text), 100)
    assert len(windows) > 2
    bodies = [window.removeprefix("The title\n").split() for window in windows]
    assert all(window.startswith("The title\n") for window in windows)
    for earlier, later in pairwise(bodies):
        assert set(earlier[1:-1]) & set(later[1:-1])


def test_a_window_begins_at_a_word() -> None:
    text = " ".join(f"unbelievable{number}" for number in range(100))
    for window in cut_windows(text, rough_tokens(text), 60):
        assert window.startswith("unbelievable")


@given(sizes=st.lists(st.integers(0, 50), max_size=60), most=st.integers(1, 20), tokens=st.integers(1, 300))
def test_batches_hold_every_worded_text_once_within_the_bounds(
    sizes: list[int], most: int, tokens: int
) -> None:
    texts = ["x " * size for size in sizes]
    pieces = EmbeddingWindows.of(texts, map(rough_tokens, texts), None)
    batches = pieces.batches(most, tokens)
    assert sorted(place for batch in batches for place in batch) == [
        p for p, size in enumerate(sizes) if size
    ]
    for batch in batches:
        assert len(batch) <= most
        assert len(batch) == 1 or max(sizes[place] for place in batch) * len(batch) <= tokens


def test_a_text_of_several_windows_gets_their_mean() -> None:
    rows = np.eye(3, dtype=np.float32)
    mean = pool_windows(Windows(rows, (0, 1, 1)), 2)
    np.testing.assert_allclose(mean, [[1, 0, 0], [0, 0.5**0.5, 0.5**0.5]], atol=1e-6)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([[1.0, 0.0], [float("nan"), 1.0]], "not finite for the text 'oak'"),
        ([[1.0, 0.0], [float("inf"), 1.0]], "not finite for the text 'oak'"),
        ([[1.0, 0.0], [1.0, 0.0, 0.0]], "a row of 3 numbers for the text 'oak', where 2 were expected"),
        ([[1.0, 0.0]], "1 rows for 2 texts"),
    ],
)
def test_a_bad_row_is_told_with_its_text(rows: list[list[float]], told: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(told)) as caught:
        check_rows(rows, ["elm", "oak"], 2, "some-model")
    assert "some-model" in str(caught.value)
    assert caught.value.next_step
