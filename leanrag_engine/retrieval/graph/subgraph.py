"""The retrieved subgraph (paper eq. 7–10): seeds, the LCA paths in groups, and the relations on them."""

from collections.abc import Iterable, Mapping, Sequence

from leanrag_engine.core.model import Entity, Group, Relation, Seed, Subgraph

from .lca import Branch, Chain, branches, lowest_common_ancestor, path_to

EMPTY = Subgraph((), (), None, (), (), ())


def chain_of(entity: Entity, nodes: Mapping[str, Entity]) -> Chain:
    """Return the ids from ``entity`` up to the root; ``nodes`` holds every ancestor."""
    chain = [entity.id]
    while (parent := nodes[chain[-1]].parent_id) is not None:
        chain.append(parent)
    return tuple(chain)


def assemble_subgraph(
    seeds: Sequence[Seed], nodes: Mapping[str, Entity], relations: Sequence[Relation]
) -> Subgraph:
    """Return the subgraph that joins ``seeds``. ``nodes`` holds the seeds and all their ancestors. Of ``relations``, those
    between two seeds are R_lca's relations of G0, those between two aggregated entities on the paths are R_inter-cluster
    (eq. 10); others are dropped. The parent–child links of the paths stand in the entities' ``parent_id``."""
    if not seeds:
        return EMPTY
    chains = [chain_of(seed.entity, nodes) for seed in seeds]
    lca = lowest_common_ancestor(chains)
    path = path_to(chains, lca)
    seed_ids, path_ids = {seed.entity.id for seed in seeds}, set(path)
    ends = {relation.id: {relation.source_id, relation.target_id} for relation in relations}
    return Subgraph(
        seeds=tuple(seeds),
        groups=tuple(_group(branch, nodes) for branch in branches(chains)),
        lca=nodes[lca],
        path=tuple(nodes[id_] for id_ in path),
        base_relations=tuple(each for each in relations if each.layer == 0 and ends[each.id] <= seed_ids),
        inter_cluster_relations=tuple(
            each for each in relations if each.layer > 0 and ends[each.id] <= path_ids
        ),
    )


def _group(branch: Branch, nodes: Mapping[str, Entity]) -> Group:
    return Group(
        lca=nodes[branch.lca],
        seeds=tuple(nodes[id_] for id_ in branch.seeds),
        path=tuple(nodes[id_] for id_ in branch.path),
    )


def seeds_beneath(seeds: Sequence[Seed], nodes: Iterable[Entity]) -> dict[str, tuple[Entity, ...]]:
    """Return for each of ``nodes`` that is a seed or an ancestor of one, the seeds beneath it (itself included), best first."""
    parents = {node.id: node.parent_id for node in nodes}
    found: dict[str, list[Entity]] = {}
    for seed in seeds:
        place: str | None = seed.entity.id
        while place is not None and place in parents:
            found.setdefault(place, []).append(seed.entity)
            place = parents[place]
    return {id_: tuple(entities) for id_, entities in found.items()}
