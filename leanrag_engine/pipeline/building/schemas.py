"""The schema of extraction of a collection: set, shown, removed, and what a user decides about types outside it."""

from dataclasses import dataclass, replace

from leanrag_engine.core.errors import Candidate, NotFound
from leanrag_engine.core.model import Collection, ExtractionSchema, Method, SchemaEffects, TypeProposal
from leanrag_engine.core.text.nearest import find_nearest
from leanrag_engine.extraction.schemas.reading import list_types, load_schema
from leanrag_engine.pipeline.index import Stores


@dataclass(frozen=True, slots=True)
class SchemaView:
    """The schema of a collection, what it did in the published build (None if no build had it), and what it makes due. ``outdated``
    are the passages that a model read with another schema or none, which the next build has it read again; ``agent_outdated`` those
    that an agent read so, which are pending work again. ``heuristic`` are the passages that neither has read."""

    schema: ExtractionSchema | None
    effects: SchemaEffects | None = None
    outdated: int = 0
    agent_outdated: int = 0
    heuristic: int = 0


async def list_held_types(stores: Stores, collection: Collection) -> str:
    """Return the names of the types of the collection's schema, a sentence for each kind; "" if it has none."""
    held = await find_schema(stores, collection)
    return list_types(held) if held else ""


async def find_schema(stores: Stores, collection: Collection) -> ExtractionSchema | None:
    """Return the schema with the types that the published build adopted; None if the collection has none."""
    schema = await stores.documents.schema(collection.name)
    if schema is None:
        return None
    effects = _effects_of(collection, schema)
    kept = (ref for ref in (effects.adopted if effects else ()) if schema.decisions.get(ref, True))
    chosen = (ref for ref, adopt in schema.decisions.items() if adopt)
    return replace(schema, adopted=tuple(dict.fromkeys((*kept, *chosen))))


def _effects_of(collection: Collection, schema: ExtractionSchema) -> SchemaEffects | None:
    effects = collection.generation.record.schema if collection.generation else None
    return effects if effects and effects.digest == schema.digest else None


async def view_schema(stores: Stores, name: str) -> SchemaView:
    """Return the schema of the collection and its state, also of one that does not exist yet."""
    collection = await stores.documents.collection(name)
    if collection is None:
        return SchemaView(None)
    schema = await find_schema(stores, collection)
    outdated = await stores.documents.count_outdated(name)
    extracts = await stores.documents.count_extracts(name)
    return SchemaView(
        schema,
        _effects_of(collection, schema) if schema else None,
        outdated.get(Method.MODEL, 0),
        outdated.get(Method.AGENT, 0),
        extracts.get(Method.HEURISTIC, 0),
    )


async def set_schema(stores: Stores, name: str, source: str) -> SchemaView:
    """Give the collection, created if need be, the schema of this name or file; equal types change nothing. Raises as ``load_schema``."""
    schema = load_schema(source)
    await stores.documents.create_collection(name)
    held = await stores.documents.schema(name)
    if held is None or (held.digest, held.name) != (schema.digest, schema.name):
        await stores.documents.put_schema(name, schema)
    return await view_schema(stores, name)


async def remove_schema(stores: Stores, name: str) -> SchemaView:
    """Take the schema away. Raises ``NotFound`` if there is none."""
    await _require_schema(stores, name)
    await stores.documents.put_schema(name, None)
    return await view_schema(stores, name)


async def decide_type(stores: Stores, name: str, given: str, *, adopt: bool) -> TypeProposal:
    """Record that a type (a ref like ``entity:vessel``, or an unambiguous name) is adopted or refused; return it. Raises ``NotFound``."""
    schema = await _require_schema(stores, name)
    collection = await stores.documents.collection(name)
    effects = _effects_of(collection, schema) if collection else None
    known = {each.ref: each for each in (effects.proposals if effects else ())}
    found = [each for each in known.values() if given.strip().lower() in (each.ref, each.name)]
    if len(found) != 1:
        near = [each.ref for each in found] or find_nearest(given, known, 5, cutoff=0.3) or list(known)[:5]
        raise NotFound(
            f"Several types are called {given!r}." if found else f"No type {given!r} was proposed.",
            "Give one of these:"
            if near
            else "The last build kept nothing apart; `leanrag build` looks again.",
            tuple(Candidate(ref, known[ref].name, describe_proposal(known[ref])) for ref in near),
        )
    decisions = {**schema.decisions, found[0].ref: adopt}
    await stores.documents.put_schema(name, replace(schema, decisions=decisions))
    return found[0]


def describe_proposal(proposal: TypeProposal) -> str:
    return f"in {proposal.chunks} passages, {proposal.confident} of them with enough confidence"


async def _require_schema(stores: Stores, name: str) -> ExtractionSchema:
    schema = await stores.documents.schema(name)
    if schema is None:
        raise NotFound(
            f"Collection {name!r} has no schema.",
            "Give it one: leanrag schema set FILE, or leanrag schema list.",
        )
    return schema
