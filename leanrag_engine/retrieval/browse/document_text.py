"""Read the text of documents from their chunks."""

from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence

from leanrag_engine.core.model import PassageText
from leanrag_engine.core.ports import DocumentStore


async def read_passages(
    documents: DocumentStore, collection: str, numbers: Sequence[int] | None, batch: int = 1000
) -> AsyncIterator[PassageText]:
    """Yield the chunks of the documents of these numbers (``None``: of all) in reading order."""
    after = (0, 0)
    while True:
        page = await documents.passage_texts(collection, numbers, after=after, limit=batch)
        for passage in page:
            yield passage
        if len(page) < batch:
            return
        after = (page[-1].document, page[-1].number)


def find_chunks(parts: Sequence[PassageText], start: int, end: int) -> tuple[PassageText, PassageText]:
    """Return the chunks where ``text[start:end]`` of the document begins and ends. It is one chunk if any of them holds all of it."""
    at = max(0, bisect_right(parts, start, key=lambda part: part.start) - 1)
    near = parts[max(0, at - 1) : at + 1]
    whole = next((part for part in near if part.start <= start and end <= part.end), None)
    if whole:
        return whole, whole
    return parts[at], next((part for part in parts[at:] if end <= part.end), parts[-1])
