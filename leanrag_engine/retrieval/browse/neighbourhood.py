"""Walk from an entity along relations: what lies within some hops, nearest first (local search, course reader §3.1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.model import Entity, Relation
from leanrag_engine.retrieval.index import IndexSnapshot
from leanrag_engine.retrieval.search.crediting import FoundPassages


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An entity that was reached from ``via`` by ``relation``, which the passages ``citations`` state; relations above G0 have none."""

    entity: Entity
    hops: int
    via: Entity
    relation: Relation
    citations: tuple[str, ...]


async def walk(
    index: IndexSnapshot,
    entity: Entity,
    hops: int,
    limit: int,
    found: FoundPassages | None = None,
    *,
    fanout: int = 500,
) -> list[Neighbour]:
    """Return at most ``limit`` entities of the same layer by breadth-first search: the fewest hops first, then those that have
    most of the ``found`` passages, then the strongest relation. Each hop reads at most ``fanout`` relations, the strongest.
    Raises ``InvalidInput`` for too many hops."""
    most_hops = 3
    if not 0 <= hops <= most_hops:
        raise InvalidInput(f"{hops} hops are out of range.", f"Give 0 to {most_hops}.")
    number = index.generation.number
    known = {entity.id: entity}
    steps: list[tuple[int, str, str, Relation]] = []
    frontier = [entity.id]
    for hop in range(1, hops + 1):
        relations = await index.generations.relations_of(number, frontier, fanout)
        reached: dict[str, tuple[int, str, str, Relation]] = {}
        for relation in relations:
            for via, end in (
                (relation.source_id, relation.target_id),
                (relation.target_id, relation.source_id),
            ):
                if via in known and end not in known and end not in reached:
                    reached[end] = (hop, via, end, relation)
        order = list(reached.values())
        if found:
            order.sort(key=lambda step: -sum(found.credit.get(step[2], {}).values()))
        chosen = order[: limit - len(steps)]
        steps += chosen
        frontier = [end for _, _, end, _ in chosen]
        known |= {each.id: each for each in await index.generations.entities(number, frontier)}
        if len(steps) >= limit or not frontier:
            break
    cited = await _find_citations(index, [relation for *_, relation in steps])
    return [
        Neighbour(known[end], hop, known[via], relation, cited[relation.id])
        for hop, via, end, relation in steps
    ]


async def _find_citations(index: IndexSnapshot, relations: Sequence[Relation]) -> dict[str, tuple[str, ...]]:
    cited = 2  # passages named for each relation
    wanted = list(dict.fromkeys(id_ for each in relations for id_ in each.chunk_ids[:cited]))
    chunks = {each.id: each.citation for each in await index.documents.chunks(index.collection.name, wanted)}
    return {
        each.id: tuple(chunks[id_] for id_ in each.chunk_ids[:cited] if id_ in chunks) for each in relations
    }
