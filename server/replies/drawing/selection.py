"""Choose what of an answer's subgraph is drawn: few enough nodes to read, whole paths, stray seeds marked."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Entity, Relation, Subgraph

MOST_NODES = 30  # Nodes of one drawing: what a reader takes in at a glance


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """An entity that is drawn. ``score`` is that of a seed, None for others; ``joins`` the number of seeds of which it is
    the LCA; ``stray``: a seed that meets no other one below the root."""

    entity: Entity
    score: float | None = None
    joins: int = 0
    stray: bool = False

    @property
    def is_root(self) -> bool:
        return self.entity.layer > 0 and self.entity.parent_id is None


@dataclass(frozen=True, slots=True)
class DrawnLink:
    """A parent–child link; ``joining``: it belongs to the paths of a group up to its LCA, not to the way to the root."""

    parent: str
    child: str
    joining: bool


@dataclass(frozen=True, slots=True)
class DrawnGraph:
    """What is drawn. ``layers`` are rows of nodes, the highest layer first, siblings side by side; the counts are of what is left out."""

    layers: tuple[tuple[DrawnNode, ...], ...]
    links: tuple[DrawnLink, ...]
    relations: tuple[Relation, ...]
    nodes_left_out: int = 0
    seeds_left_out: int = 0
    relations_left_out: int = 0

    @property
    def nodes(self) -> list[DrawnNode]:
        return [node for row in self.layers for node in row]


def select_graph(graph: Subgraph, most_nodes: int = MOST_NODES) -> DrawnGraph:
    """Return what is drawn of an answer's subgraph: the best seeds with their paths, then what is related most."""
    entities = {node.id: node for node in _all_nodes(graph)}
    chosen = _choose(graph, entities, most_nodes)
    relations = [
        each
        for each in (*graph.inter_cluster_relations, *graph.base_relations)
        if each.source_id in chosen and each.target_id in chosen
    ]
    relations.sort(key=lambda each: (-each.layer, -each.strength, -each.weight, each.id))
    drawn = tuple(relations[:24])
    links = _link(graph, entities, chosen)
    nodes = _describe(graph, entities, chosen, _find_stray(graph, chosen, links, relations))
    return DrawnGraph(
        layers=_arrange(nodes, links),
        links=links,
        relations=drawn,
        nodes_left_out=len(entities) - len(chosen),
        seeds_left_out=len({seed.entity.id for seed in graph.seeds} - chosen.keys()),
        relations_left_out=len(graph.inter_cluster_relations) + len(graph.base_relations) - len(drawn),
    )


def _all_nodes(graph: Subgraph) -> Iterator[Entity]:
    yield from (seed.entity for seed in graph.seeds)
    yield from graph.path
    yield from (group.lca for group in graph.groups)
    if graph.lca:
        yield graph.lca


def _choose(graph: Subgraph, entities: Mapping[str, Entity], most: int) -> dict[str, None]:
    """Return the ids of the nodes that are drawn: seeds, best first, each with all of its path or not at all."""
    chosen: dict[str, None] = {}
    for seed in graph.seeds:
        missing = [id_ for id_ in _climb(seed.entity.id, entities) if id_ not in chosen]
        if len(chosen) + len(missing) <= most:
            chosen |= dict.fromkeys(missing)
    degrees = dict.fromkeys(entities, 0)
    for each in (*graph.inter_cluster_relations, *graph.base_relations):
        for end in (each.source_id, each.target_id):
            if end in degrees:
                degrees[end] += 1
    on_paths = {id_ for seed in graph.seeds for id_ in _climb(seed.entity.id, entities)}
    beside = sorted((id_ for id_ in entities if id_ not in on_paths), key=lambda id_: -degrees[id_])
    return chosen | dict.fromkeys(beside[: most - len(chosen)])


def _climb(id_: str, entities: Mapping[str, Entity]) -> Iterator[str]:
    """Yield the node and its ancestors, as far as they belong to the answer."""
    place: str | None = id_
    while place is not None and place in entities:
        yield place
        place = entities[place].parent_id


def _link(
    graph: Subgraph, entities: Mapping[str, Entity], chosen: Mapping[str, None]
) -> tuple[DrawnLink, ...]:
    joining = {
        (node.parent_id, node.id) for group in graph.groups for node in group.path if node.id != group.lca.id
    }
    return tuple(
        DrawnLink(parent, id_, joining=(parent, id_) in joining)
        for id_ in chosen
        if (parent := entities[id_].parent_id) in chosen and parent is not None
    )


def _find_stray(
    graph: Subgraph, chosen: Mapping[str, None], links: Iterable[DrawnLink], relations: Iterable[Relation]
) -> set[str]:
    """Return the seeds that meet no other one below the root; without groups, those that nothing drawn joins to another."""
    if graph.groups:
        return {group.seeds[0].id for group in graph.groups if len(graph.groups) > 1 == len(group.seeds)}
    joined = {id_ for link in links for id_ in (link.parent, link.child)}
    joined |= {end for each in relations for end in (each.source_id, each.target_id)}
    return {id_ for id_ in chosen if id_ not in joined} if len(chosen) > 1 else set()


def _describe(
    graph: Subgraph, entities: Mapping[str, Entity], chosen: Iterable[str], stray: set[str]
) -> list[DrawnNode]:
    scores = {seed.entity.id: seed.score for seed in graph.seeds}
    joins = {group.lca.id: len(group.seeds) for group in graph.groups}
    if graph.lca:
        joins.setdefault(graph.lca.id, len(graph.seeds))
    return [
        DrawnNode(entities[id_], scores.get(id_), joins.get(id_, 0), stray=id_ in stray and id_ in scores)
        for id_ in chosen
    ]


def _arrange(nodes: Iterable[DrawnNode], links: Iterable[DrawnLink]) -> tuple[tuple[DrawnNode, ...], ...]:
    """Return the nodes in rows, the highest layer first, in the order of a walk down the tree."""
    by_id = {node.entity.id: node for node in nodes}
    children = group((link.parent, link.child) for link in links)
    below = {link.child for link in links}
    rows: dict[int, list[DrawnNode]] = {}
    waiting = [id_ for id_ in reversed(by_id) if id_ not in below]
    while waiting:
        node = by_id[waiting.pop()]
        rows.setdefault(node.entity.layer, []).append(node)
        waiting += reversed(children[node.entity.id])
    return tuple(tuple(rows[layer]) for layer in sorted(rows, reverse=True))
