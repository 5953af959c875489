"""Corrections of the graph by an agent or a person, checked against the published build and applied by every later one."""

from collections.abc import Sequence

from leanrag_engine.core.errors import Candidate, InvalidInput, NotFound
from leanrag_engine.core.model import Correction, Document, Entity
from leanrag_engine.core.text.citation import parse_citation
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.nearest import find_nearest
from leanrag_engine.pipeline.delete import look_up_documents
from leanrag_engine.retrieval.browse.entities import resolve
from leanrag_engine.retrieval.index import IndexSnapshot

LISTED = 5  # Places that an error lists


async def plan_merge(index: IndexSnapshot, entities: Sequence[str], name: str) -> Correction:
    """Return the correction that makes ``entities`` (names or refs) one, called ``name`` or as the first of them. Raises ``NotFound`` and
    ``Ambiguous`` with candidates; ``InvalidInput`` for aggregated entities, an entity with itself, and the name of yet another entity."""
    fewest = 2
    if len(entities) < fewest:
        raise InvalidInput(
            f"A merge needs two entities, not {len(entities)}.", "Give the names or refs of both."
        )
    found = {each.id: each for each in [await _resolve_base(index, given) for given in entities]}
    if len(found) < fewest:
        (only,) = found.values()
        raise InvalidInput(
            f"{' and '.join(repr(each) for each in entities)} are one entity already: {only.name!r}.",
            "Give two different entities.",
        )
    chosen = " ".join(name.split()) or next(iter(found.values())).name
    _check_name(chosen)
    names = dict.fromkeys([chosen, *(each.name for each in found.values())])
    keys = {name_key(each) for each in names}
    for each in await index.generations.entities_by_name(index.generation.number, [*names]):
        if not each.layer and each.id not in found and name_key(each.name) in keys:
            raise InvalidInput(
                f"{each.name!r} is the name of another entity too (ref {each.id}), and a merge is by name.",
                "Give that entity as well if it is the same; if not, use another `name`, or split_entity with the "
                "documents where the name means what is to be merged and the name of the other as `name`.",
            )
    return Correction("merge", tuple(dict.fromkeys(each.name for each in found.values())), chosen)


async def plan_split(index: IndexSnapshot, entity: str, name: str, places: Sequence[str]) -> Correction:
    """Return the correction by which ``entity`` is another one, called ``name``, in ``places``: documents
    (ids or ``d3``) and passages (``d3:c12``). Raises ``NotFound``, ``Ambiguous``, and ``InvalidInput`` for an
    aggregated entity, the same name, and places without it."""
    found = await _resolve_base(index, entity)
    chosen = " ".join(name.split())
    _check_name(chosen)
    if name_key(chosen) == name_key(found.name):
        raise InvalidInput(
            f"{chosen!r} is the name that the entity has now.",
            "Give another name, such as one with a remark.",
        )
    if not places:
        raise InvalidInput(
            "A split needs the documents or passages where the name means another entity.",
            f"{found.name!r} is mentioned in {await _list_mentions(index, found)}.",
        )
    citations = [each for each in places if parse_citation(each)]
    documents = await _find_documents(index, [each for each in places if each not in citations])
    chunks = await index.documents.chunks_by_citation(index.collection.name, citations)
    missing = set(citations) - {each.citation for each in chunks}
    if missing:
        raise NotFound(f"There is no passage {', '.join(sorted(missing))}.", "Give citations such as d3:c12.")
    mentions = await index.documents.chunks(index.collection.name, found.chunk_ids)
    wanted = {each.id for each in chunks}
    if not any(each.id in wanted or each.document_id in documents for each in mentions):
        raise InvalidInput(
            f"{found.name!r} is not mentioned there.",
            f"It is mentioned in {await _list_mentions(index, found)}.",
        )
    return Correction("split", (found.name,), chosen, tuple(sorted(documents)), tuple(sorted(wanted)))


def find_correction(corrections: Sequence[Correction], ref: str) -> Correction:
    """Return the correction of that ref. Raises ``NotFound`` with the nearest ones."""
    for each in corrections:
        if each.ref == ref:
            return each
    known = {each.ref: each for each in corrections}
    near = find_nearest(ref, known, LISTED, cutoff=0.3) or list(known)[-LISTED:]
    raise _not_found(f"There is no correction {ref!r}.", [known[each] for each in near])


def find_merge(corrections: Sequence[Correction], names: Sequence[str]) -> Correction:
    """Return the last merge of all ``names``. Raises ``NotFound`` with the last merges."""
    merges = [each for each in corrections if each.kind == "merge"]
    wanted = {name_key(name) for name in names}
    for each in reversed(merges):
        if wanted and wanted <= {name_key(name) for name in (*each.names, each.name)}:
            return each
    raise _not_found(f"There is no merge of {' and '.join(map(repr, names))}.", merges[-LISTED:])


def find_split(corrections: Sequence[Correction], entity: str, name: str) -> Correction:
    """Return the last split of ``name`` from ``entity``. Raises ``NotFound`` with the last splits."""
    splits = [each for each in corrections if each.kind == "split"]
    wanted = name_key(entity), name_key(name)
    for each in reversed(splits):
        if (name_key(each.names[0]), name_key(each.name)) == wanted:
            return each
    raise _not_found(f"There is no split of {name!r} from {entity!r}.", splits[-LISTED:])


def _not_found(message: str, near: Sequence[Correction]) -> NotFound:
    return NotFound(
        message,
        "These are:" if near else "There are none.",
        tuple(Candidate(each.ref, " = ".join(each.names), f"called {each.name}") for each in near),
    )


async def _resolve_base(index: IndexSnapshot, given: str) -> Entity:
    found = await resolve(index, given)
    if found.layer:
        raise InvalidInput(
            f"{found.name!r} is an aggregated entity of layer {found.layer}: clusters are made anew by each build.",
            "Give entities of layer 0, such as its members.",
        )
    return found


def _check_name(name: str) -> None:
    if not name_key(name):
        raise InvalidInput("The name is empty.", "Give the name that the entity is to have.")


async def _find_documents(index: IndexSnapshot, given: Sequence[str]) -> set[str]:
    if not given:
        return set()
    held: list[Document] = await index.documents.find_all(index.collection.name)
    found = look_up_documents(held, given)
    if found.unknown:
        unknown, near = found.unknown[0]
        raise NotFound(f"There is no document {unknown!r}.", "Give ids or numbers (d3), such as:", near)
    return {document.id for _, document in found.documents}


async def _list_mentions(index: IndexSnapshot, entity: Entity) -> str:
    chunks = await index.documents.chunks(index.collection.name, entity.chunk_ids[:LISTED])
    more = len(entity.chunk_ids) - len(chunks)
    listed = ", ".join(each.citation for each in chunks)
    return f"{listed} and {more} more" if more > 0 else listed
