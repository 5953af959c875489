"""Read one document: its chunks, and what the heuristics extract from each. Runs in whatever process; see ``adapters/workers``."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from leanrag_engine.core.errors import DocumentUnreadable
from leanrag_engine.core.model import Chunk, Extract, LoadedDocument
from leanrag_engine.core.ports import Tokenizer
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.decoding import decode
from leanrag_engine.extraction.heuristic.extract import extract


@dataclass(frozen=True, slots=True)
class ReadingTask:
    """A document, and how it is cut; ``extracts``: the heuristics read its chunks."""

    document: LoadedDocument
    tokenizer: Tokenizer
    max_tokens: int
    overlap: int
    extracts: bool


def read_document(task: ReadingTask, say: Callable[[str], None]) -> tuple[list[Chunk], list[Extract]]:
    """Return the chunks of a document and their extracts; ``say`` may raise. Raises ``DocumentUnreadable`` if it holds no text."""
    document = task.document
    chunks = chunk(document, tokenizer=task.tokenizer, max_tokens=task.max_tokens, overlap=task.overlap)
    if not chunks:
        raise DocumentUnreadable(f"The document {document.id!r} holds no text.", "Give one with text in it.")
    say(f"{document.title}: reading {len(chunks)} chunks")
    if not task.extracts:
        return chunks, []
    steps = count(1)

    def beat() -> None:
        # The extractor beats twice for each chunk.
        say(f"{document.title}: chunk {next(steps) // 2} of {len(chunks)}")

    return chunks, extract(chunks, document.title, pulse=beat)


def decode_text(data: bytes, name: str) -> str:
    """Return the characters of text in whatever encoding, as those of a file are read. Raises ``DocumentUnreadable``."""
    return decode(data, name)[0]
