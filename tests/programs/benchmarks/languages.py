"""Measures questions in one language on documents in another, by meaning alone.

``languages.json`` holds 44 questions of the reply set uv_docs in German, French, Spanish and Chinese by their ids. Prints one JSON line
for each language, and for the same questions in English: the share of a question's facts that the first ten windows state.

Measured, German / French / Spanish / Chinese (the same questions in English): fitted 25 / 30 / 15 / 11 (34 / 44 / 36 / 21), MiniLM
25 / 25 / 10 / 14 (64 / 71 / 49 / 46), e5 61 / 42 / 28 / 31 (55 / 58 / 38 / 53): e5 twice MiniLM across languages, and below it
within English.

Run it as ``python tests/programs/benchmarks/languages.py SET EMBEDDER...``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import numpy as np

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.adapters.wiring import embedder_source
from leanrag_engine.core.config import load_settings
from leanrag_engine.core.model import DocumentSource
from leanrag_engine.core.ports import Embedder
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.loading import load
from leanrag_engine.evaluation.replies.reply_set import ReplyQuestion, read_reply_set

FIRST = 10
TRANSLATIONS: Mapping[str, Mapping[str, str]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)


def read_windows(folder: Path) -> list[str]:
    """Return the indexed windows of all documents."""
    settings, tokenizer = load_settings(), TiktokenTokenizer()
    windows: list[str] = []
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        document = load(DocumentSource(path=str(file)), allowed=None, max_bytes=1 << 30)
        for part in chunk(
            document, tokenizer=tokenizer, max_tokens=settings.chunk_tokens, overlap=settings.chunk_overlap
        ):
            windows += [text for _, text in part.indexed_windows]
    return windows


async def share_of_facts(
    embedder: Embedder, windows: Sequence[str], rows: np.ndarray, asked: Sequence[tuple[ReplyQuestion, str]]
) -> float:
    """Return the mean share of the questions' facts, in percent."""
    cosines = (await embedder.embed_queries([text for _, text in asked])).rows @ rows.T
    shares = []
    for (question, _), scores in zip(asked, cosines, strict=True):
        found = [windows[place] for place in np.argsort(-scores, kind="stable")[:FIRST]]
        stated = [any(fact.is_in(text) for text in found) for fact in question.facts]
        shares.append(sum(stated) / len(stated))
    return round(100 * sum(shares) / len(shares), 1)


async def measure(folder: Path, names: Sequence[str]) -> None:
    data = read_reply_set(folder)
    questions = {each.id: each for each in data.questions}
    windows = read_windows(data.documents)
    for name in names:
        embedder, _ = await embedder_source(load_settings(embedder=name)).fit(windows)
        rows = await embedder.embed(windows)
        for language, texts in TRANSLATIONS.items():
            asked = [(questions[id_], text) for id_, text in texts.items()]
            english = [(questions[id_], questions[id_].text) for id_ in texts]
            print(
                json.dumps(
                    {
                        "embedder": name,
                        "language": language,
                        "questions": len(asked),
                        "facts": await share_of_facts(embedder, windows, rows, asked),
                        "facts_in_english": await share_of_facts(embedder, windows, rows, english),
                    }
                ),
                flush=True,
            )


if __name__ == "__main__":
    anyio.run(measure, Path(sys.argv[1]), sys.argv[2:])
