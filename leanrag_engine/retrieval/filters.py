"""Which documents and chunks a query's filters allow. A filter holds throughout: nothing is shown that an excluded
document alone supports, and no text into which an excluded document may have flowed. Where some support is excluded,
a description shrinks to those of its sentences that stand word for word in an allowed passage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from leanrag_engine.core.errors import Candidate, InvalidInput, NotFound
from leanrag_engine.core.model import Document, Entity, Relation
from leanrag_engine.core.ports import DocumentStore
from leanrag_engine.core.text.citation import format_document
from leanrag_engine.core.text.nearest import sort_by_similarity

from .request import QUERY_LIMITS, Filters, clean_text

LISTED = 10  # Documents or values that an error lists
_fold_path = lru_cache(maxsize=1 << 14)(lambda path: PurePath(path.casefold()))  # Of all, for each name


@dataclass(frozen=True, slots=True)
class ChunkScope:
    """The chunks that evidence may come from; ``allowed`` None: all of them."""

    allowed: frozenset[str] | None = None

    @property
    def everything(self) -> bool:
        return self.allowed is None

    def allows(self, chunk_id: str) -> bool:
        return self.allowed is None or chunk_id in self.allowed

    def mask(self, chunk_ids: NDArray[np.bytes_]) -> NDArray[np.bool_] | None:
        """Return which of ``chunk_ids`` are allowed; None: all of them."""
        if self.allowed is None:
            return None
        return np.isin(chunk_ids, np.array(sorted(self.allowed), dtype=np.bytes_))

    def select(self, chunk_ids: Sequence[str]) -> tuple[str, ...]:
        """Return those of ``chunk_ids`` that are allowed, in their order."""
        return tuple(id_ for id_ in chunk_ids if self.allows(id_))

    def supports(self, item: Entity | Relation) -> bool:
        """Return whether an allowed chunk supports an entity or relation of layer 0."""
        return self.allowed is None or any(map(self.allows, item.chunk_ids))

    def covers(self, item: Entity | Relation) -> bool:
        """Return whether every chunk behind an entity or relation of layer 0 is allowed."""
        return self.allowed is None or (bool(item.chunk_ids) and all(map(self.allows, item.chunk_ids)))


EVERYTHING = ChunkScope()


async def open_scope(documents: DocumentStore, collection: str, filters: Filters) -> tuple[ChunkScope, int]:
    """Return the chunks that ``filters`` allow, and how many documents they exclude for having no date."""
    if not filters.active:
        return EVERYTHING, 0
    known = await documents.find_all(collection)
    selected = [document.id for document in select_documents(known, filters)]
    ids = set(await documents.chunk_ids(collection, selected))
    if any(filters.window):
        talks = [each.id for each in known if "last_date" in each.metadata and each.id in selected]
        ids -= await _find_other_days(documents, collection, talks, filters)
    return ChunkScope(frozenset(ids)), count_undated(known, filters)


async def _find_other_days(
    documents: DocumentStore, collection: str, talks: Sequence[str], filters: Filters
) -> set[str]:
    """Return the ids of the chunks of conversations all of whose days lie outside the window of the filters."""
    chunks = await documents.chunks(collection, await documents.chunk_ids(collection, talks))
    days = {each.id: each.days() for each in chunks}
    window = filters.window
    return {
        id_ for id_, some in days.items() if some and not any(_lies_within(day, day, *window) for day in some)
    }


def select_documents(documents: Sequence[Document], filters: Filters) -> list[Document]:
    """Select the documents that ``filters`` allow. Raises ``NotFound`` for an unknown document,
    ``InvalidInput`` if the conditions together leave no document; both say what exists."""
    matching = list(documents)
    if filters.documents:
        numbers = {each.number for name in filters.documents for each in find_documents(name, documents)}
        matching = [each for each in matching if each.number in numbers]
    matching = [each for each in matching if _has_metadata(each, filters.metadata)]
    first, last = filters.window
    if first or last:
        matching = [each for each in matching if _lies_within(*_find_period(each), first, last)]
    if not matching:
        raise InvalidInput(
            f"The filters ({_format_filters(filters)}) exclude all {len(documents)} documents.",
            f"Loosen them. {_format_existing_values(documents, filters)}".strip(),
        )
    return matching


def count_undated(documents: Sequence[Document], filters: Filters) -> int:
    """Count the documents that ``since`` and ``until`` exclude only because they have no date."""
    if not any(filters.window):
        return 0
    others = replace(filters, since=None, until=None)
    return sum(not each.date for each in select_documents(documents, others))


def find_documents(name: str, documents: Sequence[Document]) -> list[Document]:
    """Find the documents of that id, title, number, file name or end of a path, or in a folder (``notes/``); where there is none,
    and no suffix or number was given, those whose file is called so before its suffix. Raises ``NotFound`` with the nearest."""
    folded = clean_text("document", name, QUERY_LIMITS.name).casefold()
    end = PurePath(folded).parts
    found = [
        each
        for each in documents
        if name == each.id
        or folded in (each.title.casefold(), format_document(each.number))
        or _fold_path(each.source or each.id).parts[-len(end) :] == end
        or (name.endswith("/") and _is_part_of_path(name, each.source or each.id))
    ]
    paths = ((each, _fold_path(each.source or each.id)) for each in documents)
    bare = not PurePath(folded).suffix and not (folded[:1] == "d" and folded[1:].isdigit())
    found = found or [
        each for each, path in paths if bare and (*path.parts[:-1], path.stem)[-len(end) :] == end
    ]
    exact = [
        each for each in found if PurePath(each.source or each.id).parts[-len(end) :] == PurePath(name).parts
    ]
    if not found:
        raise NotFound(
            f"No document is called {name!r}.",
            "Name documents by id, title, number (d3), file name or path.",
            tuple(
                Candidate(format_document(each.number), each.title, each.id)
                for each in nearest_documents(name, documents, LISTED)
            ),
        )
    return exact or found


def nearest_documents(name: str, documents: Sequence[Document], limit: int) -> list[Document]:
    """Return the documents in whose path ``name`` is a folder or the end; if it is in none, those of the most similar id,
    title or file name."""
    within = [each for each in documents if _is_part_of_path(name, each.source or each.id)]
    return within[:limit] or sort_by_similarity(
        name, documents, lambda each: (each.id, each.title, PurePath(each.source or each.id).name), limit
    )


def _is_part_of_path(name: str, path: str) -> bool:
    part, whole = _fold_path(name).parts, _fold_path(path).parts
    return bool(part) and any(whole[first : first + len(part)] == part for first in range(len(whole)))


def _has_metadata(document: Document, wanted: Mapping[str, str]) -> bool:
    """Return whether a document has a wanted value, or one of several (``a|b``), for each key."""
    return all(
        {str(value), *str(value).split("|")}
        & {str(document.metadata.get(key, "")), *_list_values(document, key)}
        for key, value in wanted.items()
    )


def _list_values(document: Document, key: str) -> set[str]:
    """Return the values of a key: several where it has a list, such as ``tags``."""
    values = str(document.metadata.get(key, "")).strip("[] ").split(",")
    return {value.strip(" \"'#") for value in values} - {""}


def _find_period(document: Document) -> tuple[str, str]:
    """Return the date of a document twice, or the first and the last one of a mailbox or conversation."""
    first, last = (str(document.metadata.get(key, document.date)) for key in ("first_date", "last_date"))
    return (first, last) if document.date else ("", "")


def _lies_within(begin: str, end: str, first: datetime | None, last: datetime | None) -> bool:
    """Return whether a period has a day between two moments; a month or year does if any day of it does.
    A document without a date lies nowhere."""
    if not begin:
        return False
    # A date that stops at the month or year is the beginning of every day in it.
    after = first is None or end >= f"{first:%Y-%m-%d}"[: len(end)]
    return after and (last is None or begin <= f"{last:%Y-%m-%d}"[: len(begin)])


def _format_filters(filters: Filters) -> str:
    parts = [f"documents={list(filters.documents)}"] if filters.documents else []
    parts += [f"{key}={value}" for key, value in sorted(filters.metadata.items())]
    parts += [
        f"{name}={value}" for name, value in (("since", filters.since), ("until", filters.until)) if value
    ]
    return ", ".join(parts)


def _format_existing_values(documents: Sequence[Document], filters: Filters) -> str:
    said = []
    for key in sorted(filters.metadata):
        values = sorted({value for each in documents for value in _list_values(each, key)})
        listed = ", ".join(values[:LISTED]) + (", …" if len(values) > LISTED else "")
        said.append(f"{key} has these values: {listed}." if values else f"No document has metadata {key!r}.")
    if (filters.since or filters.until) and documents:
        dates = sorted(each.date for each in documents if each.date)
        if dates:
            said.append(f"The documents are dated from {dates[0]} to {dates[-1]}.")
        if len(dates) < len(documents):
            said.append(f"{len(documents) - len(dates)} of {len(documents)} documents have no date.")
    return " ".join(said)
