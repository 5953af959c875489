"""The status of a collection: its content, how it was built, and what degrades its answers."""

from collections.abc import Mapping
from dataclasses import dataclass

from leanrag_engine.core.errors import StoreUnreachable, StoreUnusable
from leanrag_engine.core.jobs import Job
from leanrag_engine.core.model import METHODS, Collection, Correction, ExtractionSchema, Generation, Spent
from leanrag_engine.core.ports import LockHolder

from .index import Stores


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a collection and the activity in its data folder."""

    collection: Collection
    collections: tuple[str, ...]
    extracts: Mapping[str, int]
    spent: tuple[Spent, ...]
    vectors: Mapping[str, int]
    jobs: tuple[Job, ...]
    writer: LockHolder | None
    warnings: tuple[str, ...]
    embedder_note: str = ""
    corrections: tuple[Correction, ...] = ()
    embedder_trouble: tuple[str, ...] = ()  # Why search by meaning would fail now, if known so far
    types: str = ""  # What extraction is constrained to, if the collection has a schema
    vector_trouble: str = ""  # Why the server of the vectors cannot be reached

    @property
    def graph(self) -> str:
        """Say in a few words who wrote the published graph; "" without one."""
        generation = self.collection.generation
        return generation.record.graph if generation else ""


async def vector_counts(stores: Stores, generation: Generation | None) -> tuple[dict[str, int], list[str]]:
    """Return the rows in the vector store by kind, and the errors of unreadable spaces. Raises ``StoreUnreachable``."""
    counts: dict[str, int] = {}
    problems: list[str] = []
    for kind, space in (generation.record.spaces.by_kind() if generation else {}).items():
        try:
            counts[kind] = await stores.vectors.count(space)
        except StoreUnreachable:
            raise
        except StoreUnusable as problem:
            problems.append(str(problem))
    return counts, list(dict.fromkeys(problems))


def count_expected_vectors(held: Collection) -> Mapping[str, int]:
    """Return how many rows of each kind the published build wrote."""
    generation = held.generation
    if generation is None:
        return {}
    base, *above = [each.entities for each in generation.layers]
    return {"entities": base, "aggregates": sum(above)} | dict(generation.record.vectors)


def staleness_warnings(generation: Generation | None) -> list[str]:
    """Return a sentence on the written texts beneath which something has changed."""
    if generation is None or not generation.record.stale:
        return []
    found = f"{generation.record.stale} written summaries or relation sentences are stale"
    return [f"{found}: members came, left or changed since. They stay until they are written again."]


def reading_warnings(unread: int) -> list[str]:
    """Return a sentence on the passages that a model was asked to read and has not."""
    if not unread:
        return []
    return [
        f"{unread} passages could not be read by the model (see the failures of the last build): the next build asks again."
    ]


def schema_warnings(schema: ExtractionSchema | None, generation: Generation | None) -> list[str]:
    """Return a sentence on a schema that the published build does not have, or on what it kept apart."""
    if schema is None or generation is None:
        return []
    effects = generation.record.schema
    if effects is None or effects.digest != schema.digest:
        return [f"Schema {schema.name} was set after the last build: the next one extracts by it."]
    if not effects.apart:
        return []
    return [
        f"{effects.apart} mentions are outside schema {schema.name} and kept apart: `leanrag schema show` lists their types."
    ]


def note_embedder(generation: Generation | None, setting: str) -> str:
    """Return a sentence, or "", on an embedder that the script of the documents chose, or that does not suit
    it; ``setting`` is that of the settings."""
    if generation is None:
        return ""
    match generation.embedder_name, generation.record.latin, setting:
        case "minilm", False, _:
            return (
                "Most of the text is in a script that minilm does not know, so search by meaning finds little: "
                "set LEANRAG_EMBEDDER to e5 (the extra [e5]) or fitted, and build."
            )
        case "fitted", False, "auto":
            return "Chosen because most of the text is in a script that the default, minilm, does not know; e5 (the extra [e5]) finds more."
        case "e5", _, "auto":
            return "Chosen because a good part of the text is not English and the extra [e5] is installed."
        case "fitted", True, "auto":
            return (
                "Kept from an earlier build; most of the text is in Latin letters: "
                "set LEANRAG_EMBEDDER to minilm and build to find more by meaning."
            )
    return ""


def health_warnings(held: Collection, vectors: Mapping[str, int] | None) -> list[str]:
    """Return a warning for each thing that degrades answers; ``vectors`` are None if their numbers are not known."""
    warnings = []
    generation = held.generation
    if generation is None:
        if held.documents:
            warnings.append("No build yet: only keyword search over passages answers.")
        return warnings
    if held.stale:
        what = "Documents" if held.pending_documents else "Corrections, extractions, the schema or documents"
        warnings.append(f"{what} changed since the last build: the hierarchy does not show it yet.")
    # Ingests and deletions since the build change the number of passages only.
    written = {
        kind: rows
        for kind, rows in count_expected_vectors(held).items()
        if kind != "windows" or not held.stale
    }
    if vectors is not None and any(vectors.get(kind, 0) < rows for kind, rows in written.items()):
        warnings.append(
            "The vector index is incomplete: search by meaning misses some. A server repairs it, as does the next build, ingest or reindex."
        )
    if not any(METHODS[each].written for each in generation.record.summaries):
        warnings.append("Summaries and relations are heuristic: made without a language model.")
    return warnings
