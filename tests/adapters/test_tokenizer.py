"""Token counts: offline, equal to tiktoken's own, quick on text that hurts tiktoken."""

from __future__ import annotations

import base64
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pydoc_data.topics import topics

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken_ext import openai_public

from leanrag_engine.adapters import tokenizer as tiktoken_tokenizer
from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.errors import LeanRAGError

REFERENCE = "\n".join(text for _, text in sorted(topics.items()))
"""The Python language reference: half a megabyte of prose and code."""

SAMPLES = (
    "",
    "Scrooge never painted out Old Marley's name.",
    "def f(x):\n    return x ** 2\n\n\n\tpass",
    "<|endoftext|> and <|endofprompt|> are ordinary text",
    "语义聚合与层次检索技术。大型语言模型",
    "吾輩は猫である。名前はまだ無い。",
    "모든 국민은 인간으로서의 존엄과 가치를 가지며",
    "👩‍👩‍👧 naïve café — “quotes” 1234567 a.b.c//d \r\n\r\n  x",
    "a\ud800b",
)


@pytest.fixture(scope="module")
def original() -> Iterator[tiktoken.Encoding]:
    """Tiktoken's own definition of the encoding, fed with the local file."""

    def local(address: str, expected_hash: str | None = None) -> dict[bytes, int]:
        assert address.endswith("o200k_base.tiktoken")
        assert expected_hash == tiktoken_tokenizer._VOCABULARY_SHA256
        lines = tiktoken_tokenizer._vocabulary().splitlines()
        return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_public, "load_tiktoken_bpe", local)
        yield tiktoken.Encoding(**openai_public.o200k_base())


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("the tokenizer opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def unread() -> Iterator[None]:
    """The vocabulary is read anew in this test, and again after it."""
    kept = (tiktoken_tokenizer._read_whole, tiktoken_tokenizer._read_latin, tiktoken_tokenizer._count_line)
    for each in kept:
        each.cache_clear()
    yield
    for each in kept:
        each.cache_clear()


@pytest.mark.usefixtures("no_network", "unread")
def test_the_first_count_opens_no_socket_and_leaves_the_environment_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    assert TiktokenTokenizer().count("hello world") == 2
    assert "TIKTOKEN_CACHE_DIR" not in tiktoken_tokenizer.os.environ


@pytest.mark.parametrize("text", SAMPLES)
def test_counts_equal_those_of_tiktoken(
    tokenizer: TiktokenTokenizer, original: tiktoken.Encoding, text: str
) -> None:
    assert tokenizer.count(text) == len(original.encode(text, disallowed_special=()))


@pytest.mark.usefixtures("unread")
def test_before_other_scripts_are_met_latin_text_is_counted_the_same_by_a_part_of_the_vocabulary(
    original: tiktoken.Encoding,
) -> None:
    latin = "".join(map(chr, [*range(0x20, 0x180), *range(0x2000, 0x3000)]))
    texts = [*REFERENCE.splitlines(), latin, latin[::-1], *(f" {each}naïve {each}Ünïcode" for each in latin)]
    counted = TiktokenTokenizer().count_many(texts)
    assert not tiktoken_tokenizer._read_whole.cache_info().currsize
    assert counted == [len(original.encode_ordinary(text)) for text in texts]
    assert TiktokenTokenizer().count("中文") == len(original.encode_ordinary("中文"))


def test_the_split_pattern_is_that_of_tiktoken(original: tiktoken.Encoding) -> None:
    assert original._pat_str == tiktoken_tokenizer._SPLIT_PATTERN


def test_many_texts_are_counted_in_their_order(tokenizer: TiktokenTokenizer) -> None:
    assert tokenizer.count_many(SAMPLES) == [tokenizer.count(text) for text in SAMPLES]


LONG = st.lists(
    st.sampled_from(
        [
            "word",
            " ",
            "  ",
            "\n",
            "\n\n",
            "。",
            "中文",
            "/",
            "don't",
            "123",
            "\t",
            "!\n/",
            "É",
            "e\u0301",
            "_",
            "½",
        ]
    ),
    min_size=50,
    max_size=400,
).map("".join)


@given(LONG)
@settings(max_examples=60, deadline=None)
def test_a_text_counted_in_parts_counts_the_same(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        whole = len(tiktoken_tokenizer._read_whole().encode_ordinary(text))
        patch.setattr(tiktoken_tokenizer, "_PART", 64)
        parts = list(tiktoken_tokenizer._parts(text))
        assert "".join(parts) == text
        hard = sum(len(part) == 128 for part in parts)
        assert abs(TiktokenTokenizer().count(text) - whole) <= 4 * hard


def test_a_book_counts_as_if_it_were_counted_whole(tokenizer: TiktokenTokenizer) -> None:
    assert tokenizer.count(REFERENCE) == len(tiktoken_tokenizer._read_whole().encode_ordinary(REFERENCE))


@pytest.mark.parametrize("character", [" ", "a", "=", "\n", "\t ", "中", "😀"])
def test_a_megabyte_of_one_character_is_counted(tokenizer: TiktokenTokenizer, character: str) -> None:
    """Tiktoken alone panics on a megabyte of spaces."""
    assert tokenizer.count(character * (1_000_000 // len(character))) > 1_000


@pytest.mark.usefixtures("unread")
def test_threads_share_one_vocabulary_that_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    real = tiktoken_tokenizer._vocabulary
    together = threading.Barrier(4)
    monkeypatch.setattr(tiktoken_tokenizer, "_vocabulary", lambda: reads.append(1) or real())

    def count(_: int) -> int:
        together.wait()
        return TiktokenTokenizer().count("hello world")

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(count, range(4))) == [2, 2, 2, 2]
    assert len(reads) == 1


@pytest.mark.usefixtures("unread", "no_network")
def test_a_missing_vocabulary_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tiktoken_tokenizer, "find_spec", lambda _: None)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(LeanRAGError, match="o200k_base") as caught:
        TiktokenTokenizer().count("hello")
    assert str(tmp_path) in caught.value.message
    assert "TIKTOKEN_CACHE_DIR" in caught.value.next_step


@pytest.mark.usefixtures("unread", "no_network")
def test_a_damaged_vocabulary_is_refused_and_a_whole_one_in_the_cache_folder_serves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = tiktoken_tokenizer._vocabulary()
    monkeypatch.setattr(tiktoken_tokenizer, "find_spec", lambda _: None)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    file = tmp_path / tiktoken_tokenizer._VOCABULARY
    file.write_bytes(whole[:-100])
    with pytest.raises(LeanRAGError, match="damaged"):
        TiktokenTokenizer().count("hello")
    file.write_bytes(whole)
    assert TiktokenTokenizer().count("hello world") == 2


def test_importing_the_adapter_imports_neither_litellm_nor_tiktoken() -> None:
    code = (
        "import sys; from leanrag_engine.adapters.tokenizer import TiktokenTokenizer as T;"
        "assert 'tiktoken' not in sys.modules; T().count('x'); assert 'litellm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True)
