"""The reply that lists collections and the documents of one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from leanrag_engine.core.model import Collection, Document
from leanrag_engine.core.text.citation import format_document
from leanrag_engine.core.text.paths import find_folder
from leanrag_engine.core.text.shortening import count_things

from ..base import LIMITS, Card, Count, ReplyModel, disarm, fit_page, format_time, shorten_line


class CollectionCard(Card):
    name: str
    documents: int
    chunks: int
    entities: int
    layers: int
    embedder: str
    summaries: str = Field(description="how they were made")
    created_at: str
    built_at: str
    stale: bool
    about: SkipJsonSchema[str]

    @classmethod
    def from_engine(cls, collection: Collection) -> CollectionCard:
        generation = collection.generation
        methods = generation.record.summaries.most_common() if generation else ()
        return cls.of(
            collection,
            entities=generation.layers[0].entities if generation else 0,
            layers=len(generation.layers) if generation else 0,
            embedder=generation.embedder_name if generation else "",
            summaries=" and ".join(method for method, _ in methods) or ("heuristic" if generation else ""),
            created_at=format_time(collection.created_at),
            built_at=format_time(generation.created_at) if generation else "",
            stale=bool(collection.documents) and collection.stale,
            about=disarm(" ".join(collection.describe_folders(list(collection.notes)))),
        )

    def to_line(self, show: Callable[[str], str] = str) -> str:
        stale = ", stale" if self.stale else ""
        built = (
            f"built {show(self.built_at)} ({self.layers} layers, {count_things(self.entities, 'entity', 'entities')}, {self.embedder} embedder, "
            f"{self.summaries} summaries{stale})"
        )
        unbuilt = f"not built{' (stale)' if self.stale else ''}"
        return (
            f"- {self.name}: {count_things(self.documents, 'document')}, {count_things(self.chunks, 'chunk')}, made {show(self.created_at)}, "
            f"{built if self.built_at else unbuilt}{f'. {self.about}' if self.about else ''}"
        )


class ListedDocument(Card):
    id: str
    number: str
    title: str
    chunks: int
    date: str = Field(description="its own; empty if unknown")
    date_origin: str
    ingested_at: str
    metadata: dict[str, str]
    path: str
    pending: bool

    @classmethod
    def from_engine(cls, document: Document, built: int) -> ListedDocument:
        """Return the card; ``built`` is the revision of the published build, -1 before the first."""
        return cls.of(
            document,
            number=format_document(document.number),
            title=shorten_line(document.title, LIMITS.brief),
            ingested_at=format_time(document.ingested_at),
            metadata={
                key: shorten_line(str(value), LIMITS.glimpse) for key, value in document.metadata.items()
            },
            path=document.source,
            pending=document.revision > built,
        )

    def to_row(self, folder: str) -> list[str]:
        """Return the cells of its line, the path relative to ``folder`` if it lies beneath."""
        return [
            self.number,
            "pending" if self.pending else "indexed",
            self.date,
            count_things(self.chunks, "chunk"),
            self.path.removeprefix(folder) or self.id,
            self.title,
        ]


def format_documents(documents: Sequence[ListedDocument], collection: str, width: int) -> str:
    """Return one line for each document, and their number. Where lines are longer than ``width`` (0: no limit), paths
    are without the common folder, which is named last, and cut at the front where they leave titles no room."""
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 - only for the command line

    if not documents:
        return "No document."

    def measure(rows: list[list[str]]) -> list[int]:
        return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]

    rows, beneath = [each.to_row("") for each in documents], ""
    if width and sum(each + 2 for each in measure(rows) if each) - 2 > width:
        folder = find_folder(each.path for each in documents)
        beneath = f"\nPaths are beneath {folder[:-1]}." if folder else ""
        rows = [each.to_row(folder) for each in documents]
        *first, _, title = measure(rows)
        room = width - sum(each + 2 for each in first if each) - 2
        longest = max(room // 2, room - title, 8)
        for row in rows:
            if cell_len(row[-2]) > longest:
                row[-2] = f"…{set_cell_size(row[-2][::-1], longest - 1)[::-1].lstrip()}"
    widths = measure(rows)
    lines = [
        "  ".join(set_cell_size(*each) for each in zip(row, widths, strict=True) if each[1]).rstrip()
        for row in rows
    ]
    pending = sum(each.pending for each in documents)
    note = f", {pending} of them pending: run `leanrag build`" if pending else ""
    return "\n".join([*lines, f"{count_things(len(documents), 'document')} in {collection}{note}.{beneath}"])


class CollectionsReply(ReplyModel):
    collections: list[CollectionCard]
    next_step: str

    @classmethod
    def from_engine(cls, collections: Sequence[Collection], selected: str, count: Count) -> CollectionsReply:
        """Build the reply; ``selected`` is the collection that calls read unless they name another."""
        full = [each.name for each in collections if each.documents]
        step = "Call query_lca_context with a question, or get_outline for the documents."
        if selected not in full:
            step = "Call ingest_documents with paths or texts."
            step = f"Give collection={full[0]!r} or another one that holds documents." if full else step
        return cls(
            collections=fit_page([CollectionCard.from_engine(each) for each in collections], count),
            next_step=step,
        )

    def to_markdown(self) -> str:
        lines = ["There is no collection yet."]
        if self.collections:
            lines = [f"Collections, {len(self.collections)}:", *(each.to_line() for each in self.collections)]
        return "\n".join([*lines, f"Next: {self.next_step}"])
