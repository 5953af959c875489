"""The retrieved subgraph (paper eq. 7–10): seeds, the LCA paths in groups, and the relations on them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leanrag_engine.core.grouping import group
from leanrag_engine.core.model import Entity, Group, Relation, Seed, Subgraph

Chain = tuple[str, ...]
"""The ids from a node up to the root, the node itself first. In a tree the chain is the one shortest path, so
the LCA of several nodes is the first id of any chain that is in all of them, and the union of the paths from
each node up to it is the smallest subtree that joins them. All work on chains costs O(nodes × depth)."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Seeds that meet below the root: their ``lca``, and ``path``, the union of their paths up to it.
    ``path`` goes from the seeds upwards, layer by layer; it holds the seeds and the LCA."""

    lca: str
    seeds: tuple[str, ...]
    path: tuple[str, ...]


def lowest_common_ancestor(chains: Sequence[Chain]) -> str:
    """Return the LCA of the nodes that begin the chains; of one node alone, its parent. (A node is its own LCA by the letter; its
    parent is what tells a reader where it belongs.) Raises ``ValueError`` if there are no chains, or if they do not end at one root."""
    if not chains:
        raise ValueError("no chains, so there is no common ancestor")
    if len({chain[0] for chain in chains}) == 1:
        return chains[0][min(1, len(chains[0]) - 1)]
    shared = set(chains[0]).intersection(*chains[1:])
    for node in chains[0]:
        if node in shared:
            return node
    raise ValueError("the chains share no node: they do not belong to one tree")


def path_to(chains: Sequence[Chain], lca: str) -> tuple[str, ...]:
    """Return the union of the paths from each chain's first node up to ``lca``, lowest layer first."""
    height = {node: len(chain) - place for chain in chains for place, node in enumerate(climb(chain, lca))}
    # dicts keep the order of first appearance, which breaks ties within a layer
    return tuple(sorted(height, key=lambda node: -height[node]))


def climb(chain: Chain, top: str) -> Chain:
    """Return the chain up to and including ``top``."""
    return chain[: chain.index(top) + 1]


def branches(chains: Sequence[Chain]) -> tuple[Branch, ...]:
    """Group nodes by the branches that they share, in the order of each branch's first node.

    Nodes whose LCA lies below the root are one branch. If they meet only at the root, which says
    nothing, they part into the root's children above them: the nodes beneath one child form a branch
    whose LCA is their own, as deep as it may be. A node alone in its part gets its parent as
    LCA: its cluster says more of it than a summary of thousands. Where no layer lies between nodes
    and root (up to 20 entities), the root is the LCA of all.
    """
    if not chains:
        return ()
    lca = lowest_common_ancestor(chains)
    root = chains[0][-1]
    if lca != root or all(root in chain[:2] for chain in chains):
        return (_branch(chains, lca),)
    parts = group((chain[max(len(chain) - 2, 0)], chain) for chain in chains)
    lcas = ((part, lowest_common_ancestor(part)) for part in parts.values())
    # A lone node right below the root is its own branch.
    return tuple(_branch(part, part[0][0] if lca == root else lca) for part, lca in lcas)


def _branch(chains: Sequence[Chain], lca: str) -> Branch:
    return Branch(lca, tuple(dict.fromkeys(chain[0] for chain in chains)), path_to(chains, lca))


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
