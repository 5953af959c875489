"""Propose a schema for a collection: from a sample of its chunks by a model, or from the types that extracts have."""

from collections import Counter
from collections.abc import Mapping, Sequence

from leanrag_engine.core.errors import InvalidInput, LeanRAGError, ReplyUnusable
from leanrag_engine.core.model import (
    Chunk,
    Extract,
    ExtractionSchema,
    Json,
    JsonObject,
    JsonSchema,
    content_id,
)
from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.core.text.fencing import fence
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.shortening import cut_end
from leanrag_engine.llm.batching import ModelWork, Task, TaskKind, ask_each
from leanrag_engine.llm.item_schema import TEXT

from .matching import UNKNOWN, type_name
from .reading import LIMITS, SECTIONS

AUTO = "auto"
_MOST = {"entities": 12, "relations": 15, "attributes": 10}
_SAMPLE_CHUNKS, _SAMPLE_TOKENS = 12, 6000

_ROW: JsonSchema = {
    "type": "object",
    "properties": {"name": TEXT, "description": TEXT},
    "required": ["name", "description"],
    "additionalProperties": False,
}
_ITEM: JsonSchema = {
    "type": "object",
    "properties": {
        section: {"type": "array", "maxItems": most, "items": _ROW} for section, most in _MOST.items()
    },
    "required": [*SECTIONS],
    "additionalProperties": False,
}


async def propose_by_model(work: ModelWork, chunks: Sequence[Chunk]) -> ExtractionSchema:
    """Return the schema that the model proposes from a sample of ``chunks``. Raises its error, ``ReplyUnusable`` included."""
    entities, relations, attributes = map(str, _MOST.values())
    instructions = work.prompts.fill(
        "propose_schema", entities=entities, relations=relations, attributes=attributes
    )
    kind = TaskKind("schema", instructions, _ITEM, 2000, prompts=work.prompts)
    sample = select_sample(chunks)
    shown = fence("\n\n".join(each.indexed_text for each in sample))
    task = Task(content_id("p", shown), shown, _read, tuple(each.id for each in sample))
    (answer,) = await ask_each(work.model, kind, [task], work.meter)
    if isinstance(answer, LeanRAGError):
        raise answer
    return answer


def select_sample(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return chunks at even distances in reading order, as many as the sample holds."""
    step = max(1, -(-len(chunks) // _SAMPLE_CHUNKS))
    found: list[Chunk] = []
    left = _SAMPLE_TOKENS
    for chunk in chunks[::step]:
        left -= chunk.tokens
        if left < 0 and found:
            break
        found.append(chunk)
    return found


def _read(item: JsonObject) -> ExtractionSchema:
    """Return the types of an answer that have a name, each once. Raises ``ReplyUnusable`` if no entity type is left."""
    sections = {section: _read_types(item.get(section), most) for section, most in _MOST.items()}
    if not sections["entities"]:
        raise ReplyUnusable('The answer has no type under "entities": give each a name and a description.')
    return ExtractionSchema(AUTO, sections["entities"], sections["relations"], sections["attributes"])


def _read_types(rows: Json, most: int) -> dict[str, str]:
    found: dict[str, tuple[str, str]] = {}
    for row in rows if isinstance(rows, list) else ():
        name, said = (row.get("name"), row.get("description")) if isinstance(row, Mapping) else (row, "")
        if isinstance(name, str):
            name = " ".join(clean(name).replace("_", " ").lower().split())
            said = " ".join(clean(said).split()) if isinstance(said, str) else ""
            if name_key(name) and len(name) <= LIMITS.name_characters:
                found.setdefault(name_key(name), (name, cut_end(said, LIMITS.description_characters)))
    return dict(list(found.values())[:most])


def propose_from_extracts(extracts: Sequence[Extract]) -> ExtractionSchema:
    """Return the most frequent types of entities in ``extracts``. Raises ``InvalidInput`` if there is none."""
    counts: Counter[str] = Counter()
    for extract in extracts:
        counts.update({type_name(each.type) for each in extract.entities} - _NO_TYPES)
    least_chunks = 2  # the heuristics may err in one
    types = {
        name: f"found in {count} passages" for name, count in counts.most_common() if count >= least_chunks
    }
    if not types:
        raise InvalidInput(
            "There is no chat model to propose a schema, and the heuristics have found no types to begin with.",
            "Set LEANRAG_LLM_MODEL, or choose a schema: leanrag schema list.",
        )
    return ExtractionSchema(
        f"{AUTO}, from heuristics", dict(list(types.items())[: _MOST["entities"]]), {}, {}
    )


_NO_TYPES = {UNKNOWN, "name", "term", "code", ""}
"""What heuristics call an entity whose type they cannot tell: the shape of its name."""
