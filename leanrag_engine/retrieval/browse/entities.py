"""Browse the graph: names to entities, entities to their ancestors, clusters and relations."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from leanrag_engine.core.errors import Ambiguous, Candidate, InvalidInput, NotFound, StoreUnusable
from leanrag_engine.core.model import Chunk, Entity, Group, Hit, Relation, Seed, Subgraph
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.shortening import shorten
from leanrag_engine.retrieval.index import IndexSnapshot
from leanrag_engine.retrieval.request import QUERY_LIMITS, clean_text
from leanrag_engine.retrieval.search.crediting import FoundPassages
from leanrag_engine.retrieval.search.hits import embed_texts
from leanrag_engine.retrieval.search.seeds import best_first, match_names, name_spans, rank_entities


async def rename_namesakes(
    index: IndexSnapshot, entities: Iterable[Entity], allows: Callable[[str], bool] = lambda _: True
) -> dict[str, Entity]:
    """Return by id the ``entities`` of layer 0 that share a name, renamed as ``King (Alice in Wonderland)``.
    Only documents of which ``allows`` accepts a chunk are named."""
    alike: dict[str, dict[str, Entity]] = {}
    for each in entities:
        if each.layer == 0:
            alike.setdefault(name_key(each.name), {})[each.id] = each
    groups = [group for group in alike.values() if len(group) > 1]
    if not groups:
        return {}
    firsts = {
        id_: next(filter(allows, each.chunk_ids), "") for group in groups for id_, each in group.items()
    }  # an entity of an agent's extract may have no chunk
    chunks = await index.documents.chunks(index.collection.name, [id_ for id_ in firsts.values() if id_])
    known = {chunk.id: chunk for chunk in chunks}
    passages = {id_: known.get(first) for id_, first in firsts.items()}
    return {
        id_: replace(entity, name=f"{entity.name} ({mark})") if mark else entity
        for group in groups
        for (id_, entity), mark in zip(group.items(), _choose_marks(group, passages), strict=True)
    }


def _choose_marks(group: Mapping[str, Entity], passages: Mapping[str, Chunk | None]) -> list[str]:
    """Return what tells each of a group from the others: type, title of a document, or title and passage."""
    found = [passages[id_] for id_ in group]
    # 60 characters are enough to recognise a title.
    titles = [shorten(each.title, 60) if each else "" for each in found]
    cited = [f"{title}, {each.citation}" if each else "" for title, each in zip(titles, found, strict=True)]
    choices = ([each.type for each in group.values()], titles, cited)
    clear = [marks for marks in choices if all(marks) and len(set(marks)) == len(marks)]
    # Where all stand in one passage nothing but the ref tells them apart.
    return clear[0] if clear else cited if len(set(cited)) > 1 else [""] * len(found)


async def mark_namesakes(index: IndexSnapshot, graph: Subgraph, allows: Callable[[str], bool]) -> Subgraph:
    """Return ``graph`` with the entities that share a name renamed, wherever they occur in it."""
    renamed = await rename_namesakes(index, [*(seed.entity for seed in graph.seeds), *graph.path], allows)
    if not renamed:
        return graph

    def mark(entities: Iterable[Entity]) -> tuple[Entity, ...]:
        return tuple(renamed.get(each.id, each) for each in entities)

    return replace(
        graph,
        seeds=tuple(replace(seed, entity=renamed.get(seed.entity.id, seed.entity)) for seed in graph.seeds),
        groups=tuple(Group(group.lca, mark(group.seeds), mark(group.path)) for group in graph.groups),
        path=mark(graph.path),
    )


CANDIDATES = 8  # Entities that an error lists

SEARCH_DEPTH = 200  # Entities that each search gives; pages are cut from the fusion of these


async def resolve(index: IndexSnapshot, name_or_ref: str) -> Entity:
    """Return the entity of any layer that has this ref or name; one that has it as an alias comes second.
    Raises ``NotFound`` with the nearest candidates, ``Ambiguous`` with all that bear the name."""
    wanted = clean_text("entity", name_or_ref, QUERY_LIMITS.name)
    if not wanted:
        raise InvalidInput("The entity's name is empty.", "Give a name or a ref.")
    number = index.generation.number
    if by_ref := await index.generations.entities(number, [wanted]):
        return by_ref[0]
    bearers = await index.generations.entities_by_name(number, [wanted])
    key = name_key(wanted)
    proper = [entity for entity in bearers if name_key(entity.name) == key] or bearers
    if len(proper) == 1:
        return proper[0]
    if proper:
        raise Ambiguous(
            f"{len(proper)} entities are called {wanted!r}.",
            "Give the ref of the one that is meant.",
            await _candidates(index, proper[: 2 * CANDIDATES]),
        )
    near = await _nearest(index, wanted)
    raise NotFound(
        f"No entity is called {wanted!r}.",
        "Give one of these names or refs:" if near else "Search for entities to see what there is.",
        await _candidates(index, near),
    )


async def _nearest(index: IndexSnapshot, name: str) -> list[Entity]:
    """Return entities of similar name, then those that a keyword search finds."""
    number = index.generation.number
    similar = await index.generations.similar_entities(number, name, CANDIDATES - 2)
    hits = await index.generations.search_entities(number, name, CANDIDATES)
    found = await index.generations.entities(number, [hit.id for hit in hits])
    return list({entity.id: entity for entity in (*similar, *found)}.values())[:CANDIDATES]


async def _candidates(index: IndexSnapshot, entities: Sequence[Entity]) -> tuple[Candidate, ...]:
    wanted = list(dict.fromkeys(entity.parent_id for entity in entities if entity.parent_id))
    parents = {
        each.id: each.name for each in await index.generations.entities(index.generation.number, wanted)
    }
    return tuple(Candidate(each.id, each.name, _hint(each, parents)) for each in entities)


def _hint(entity: Entity, parents: Mapping[str, str]) -> str:
    """Describe what tells an entity from its namesakes: layer, type, parent, first words."""
    parent = parents.get(entity.parent_id or "")
    place = f", in {parent}" if parent else ""
    words = " ".join(entity.description.split(None, 12)[:12])
    return f"layer {entity.layer}, {entity.type}{place}" + (f". {words} …" if words else "")


async def complete_names(index: IndexSnapshot, text: str, aggregated: bool, limit: int) -> list[str]:
    """Return names of entities of layer 0, or of ``aggregated`` ones, that begin with ``text``; if there is none, those that
    look like it."""
    wanted = clean_text("name", text, QUERY_LIMITS.name)
    number = index.generation.number
    found = await index.generations.entities_by_prefix(number, wanted, limit, aggregated=aggregated)
    if wanted and not found:
        similar = await index.generations.similar_entities(number, wanted, CANDIDATES)
        found += [each for each in similar if bool(each.layer) is aggregated]
    return list(dict.fromkeys(entity.name for entity in found))[:limit]


async def search_entities(
    index: IndexSnapshot, query: str, layer: int | None, offset: int, limit: int
) -> tuple[list[Seed], int]:
    """Return one page of the entities of one layer (None: all) by name, meaning and keyword, and how many there are.
    Each search looks ``SEARCH_DEPTH`` deep, and by meaning only from half the best similarity on. Scores lie in 0–1."""
    text = clean_text("query", query)
    if not text:
        raise InvalidInput("The query is empty.", "Give a name or a few words to look for.")
    _check_layer(index, layer)
    check_page(offset, limit)
    number = index.generation.number
    dense = await _dense(index, text, layer)
    keyword = await index.generations.search_entities(number, text, SEARCH_DEPTH, layer)
    spans = name_spans(text)
    bearers = await index.generations.entities_by_name(
        number, list(dict.fromkeys(span.key for span in spans))
    )
    of_layer = [each for each in bearers if layer in (None, each.layer)]
    names = match_names(spans, of_layer, index.collection.chunks)
    hits = rank_entities([hit.id for hit in dense], [hit.id for hit in keyword], names, 3 * SEARCH_DEPTH)
    # What the vectors hold of other generations is no entity of this one: it must go before pages are cut.
    found = {each.id: each for each in await index.generations.entities(number, [hit.id for hit in hits])}
    seeds = [
        Seed(found[hit.id], hit.score)
        for hit in hits
        if hit.id in found and layer in (None, found[hit.id].layer)
    ]
    page = seeds[offset : offset + limit]
    renamed = await rename_namesakes(index, [seed.entity for seed in page])
    return [replace(seed, entity=renamed.get(seed.entity.id, seed.entity)) for seed in page], len(seeds)


async def _dense(index: IndexSnapshot, text: str, layer: int | None) -> list[Hit]:
    (vector,) = await embed_texts(index, [text])
    if vector is None or index.spaces is None:
        return []
    spaces = [index.spaces.entities] if layer in (None, 0) else []
    spaces += [index.spaces.aggregates] if layer != 0 else []
    hits = [hit for space in spaces for hit in await index.vectors.search(space, vector, SEARCH_DEPTH)]
    # Without a bound every entity of a small corpus would count as found.
    least = 0.5 * max((hit.score for hit in hits), default=0.0)
    return best_first({hit.id: hit.score for hit in hits if 0 < hit.score >= least})[:SEARCH_DEPTH]


def _check_layer(index: IndexSnapshot, layer: int | None) -> None:
    top = index.generation.top
    if layer is not None and not 0 <= layer <= top:
        raise InvalidInput(
            f"There is no layer {layer}.",
            f"Layers go from 0 (base) to {top} (the root); leave it out for all.",
        )


def check_page(offset: int, limit: int) -> None:
    if offset < 0 or limit < 1:
        raise InvalidInput(
            f"A page cannot start at {offset} and hold {limit}.",
            "Start at 0 or later, and ask for 1 or more.",
        )


async def ancestors(index: IndexSnapshot, entity: Entity) -> list[Entity]:
    """Return the chain from ``entity`` (itself first) up to the root."""
    nodes = await load_ancestors(index, [entity])
    chain = [entity]
    while (parent := chain[-1].parent_id) is not None:
        chain.append(nodes[parent])
    return chain


async def second_cluster(index: IndexSnapshot, entity: Entity) -> Entity | None:
    """Return the other cluster to which the entity belongs in part, None if the mixture gives that less than a fifth."""
    least = 0.2
    if entity.second_parent_id is None or entity.second_responsibility < least:
        return None
    found = await index.generations.entities(index.generation.number, [entity.second_parent_id])
    return next(iter(found), None)


async def load_ancestors(index: IndexSnapshot, entities: Sequence[Entity]) -> dict[str, Entity]:
    """``entities`` and all their ancestors by id: fetched at once where the adjacency is loaded, else layer by layer."""
    nodes = {entity.id: entity for entity in entities}
    if index.adjacency is not None:
        above = index.adjacency.ancestors(list(nodes))
        known = await index.generations.entities(index.generation.number, above)
        nodes.update((entity.id, entity) for entity in known)
    wanted = _unknown_parents(entities, nodes)
    while wanted:
        found = await index.generations.entities(index.generation.number, wanted)
        if len(found) < len(wanted):
            raise _incomplete(index)
        nodes.update((entity.id, entity) for entity in found)
        wanted = _unknown_parents(found, nodes)
    return nodes


async def root(index: IndexSnapshot) -> Entity:
    found = await index.generations.layer(index.generation.number, index.generation.top)
    if not found:
        raise _incomplete(index)
    return found[0]


def _incomplete(index: IndexSnapshot) -> StoreUnusable:
    """Return the error for rows that every generation has: a deletion removed this one, or the store is damaged."""
    return StoreUnusable(
        f"Generation {index.generation.number} of collection {index.collection.name!r} is incomplete.",
        "Ask again; if that does not help, build the hierarchy again.",
    )


def _unknown_parents(entities: Iterable[Entity], nodes: Mapping[str, Entity]) -> list[str]:
    parents = (entity.parent_id for entity in entities)
    return list(dict.fromkeys(id_ for id_ in parents if id_ is not None and id_ not in nodes))


@dataclass(frozen=True, slots=True)
class ClusterView:
    """An aggregated entity with what surrounds it. ``ends`` holds the entities at both ends of ``relations``; by the ``found``
    passages, if any, are members, findings and relations sorted."""

    entity: Entity
    parent: Entity | None
    members: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    ends: Mapping[str, Entity]
    found: FoundPassages | None = None


async def view_cluster(
    index: IndexSnapshot, entity: Entity, offset: int, limit: int, found: FoundPassages | None = None
) -> ClusterView:
    """Return an aggregated entity, one page of its members (``entity.members`` is their number) and its strongest relations;
    or of both those that have most of the ``found`` passages beneath."""
    _check_aggregated(entity)
    check_page(offset, limit)
    number = index.generation.number
    if found:
        every = await index.generations.members(number, entity.id, 0, entity.members)
        members = found.sort(every)[offset : offset + limit]
        entity = replace(entity, findings=tuple(found.sort(entity.findings)))
    else:
        members = await index.generations.members(number, entity.id, offset, limit)
    relations, _ = await inter_cluster_relations(index, entity, None, 0, 0, limit, found)
    above = await index.generations.entities(number, [entity.parent_id]) if entity.parent_id else []
    ids = dict.fromkeys(end for each in relations for end in (each.source_id, each.target_id))
    ends = {each.id: each for each in await index.generations.entities(number, list(ids))}
    return ClusterView(entity, above[0] if above else None, tuple(members), tuple(relations), ends, found)


async def relations_within(index: IndexSnapshot, cluster: Entity, limit: int) -> list[Relation]:
    """Return the strongest relations among the members of an aggregated entity."""
    _check_aggregated(cluster)
    number = index.generation.number
    members = await index.generations.members(number, cluster.id, 0, cluster.members)
    return (await index.generations.relations_among(number, [each.id for each in members]))[:limit]


async def inter_cluster_relations(
    index: IndexSnapshot,
    cluster: Entity | None,
    layer: int | None,
    min_strength: int,
    offset: int,
    limit: int,
    found: FoundPassages | None = None,
) -> tuple[list[Relation], int]:
    """Return one page of the relations of ``view_cluster`` (None: of all) in ``layer`` (None: all above 0), strongest first, and the
    total; or those alone both of whose ends have some of the same ``found`` passages beneath, those with most first."""
    check_page(offset, limit)
    if cluster is not None:
        _check_aggregated(cluster)
    if layer is not None and layer < 1:
        raise InvalidInput(
            f"Layer {layer} has no inter-cluster relations.",
            f"They are in the layers 1 to {index.generation.top}; leave the layer out for all.",
        )
    _check_layer(index, layer)
    if found:
        among = await index.generations.relations_among(index.generation.number, [*found.credit])
        about = [
            each
            for each in among
            if each.layer > 0
            and layer in (None, each.layer)
            and (cluster is None or cluster.id in (each.source_id, each.target_id))
            and each.strength >= min_strength
            and found.beneath(each)
        ]
        return found.sort(about)[offset : offset + limit], len(about)
    return await index.generations.relations_page(
        index.generation.number,
        layer=layer,
        cluster=cluster.id if cluster else None,
        min_strength=min_strength,
        offset=offset,
        limit=limit,
    )


def _check_aggregated(entity: Entity) -> None:
    if entity.layer == 0:
        raise InvalidInput(
            f"{entity.name!r} is an entity of layer 0, not a cluster.",
            f"Give one of its ancestors; its own cluster has the ref {entity.parent_id}.",
        )


async def sample_beneath(index: IndexSnapshot, entity: Entity, width: int) -> list[Entity]:
    """Sample layer-0 entities beneath ``entity``: up to ``width`` members with most mentions, down the layers."""
    row = [entity]
    while row and row[0].layer > 0:
        members = [
            await index.generations.members(index.generation.number, each.id, 0, width) for each in row
        ]
        # In turns, so that each branch contributes before the limit is reached.
        row = [each for place in range(width) for group in members for each in group[place : place + 1]][
            :width
        ]
    return row
