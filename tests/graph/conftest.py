"""What the tests of the graph stages share."""

from __future__ import annotations

import pytest

from leanrag_engine.adapters.tiktoken_tokenizer import TiktokenTokenizer


@pytest.fixture(scope="session")
def tokenizer() -> TiktokenTokenizer:
    return TiktokenTokenizer()
