"""Layer-0 entities that stand for the clusters of a retrieved subgraph."""

from collections.abc import Iterable, Mapping, Sequence

from leanrag_engine.core.model import Entity, Subgraph
from leanrag_engine.retrieval.browse import sample_beneath
from leanrag_engine.retrieval.graph import subgraph

from .run import QueryRun

Beneath = Mapping[str, Sequence[Entity]]
"""For the id of a node, layer-0 entities beneath it, best first."""


async def find_bearers(run: QueryRun, graph: Subgraph) -> dict[str, tuple[Entity, ...]]:
    """Return for each cluster on the paths the seeds beneath it, or where it is itself a seed, some of its entities."""
    found = subgraph.seeds_beneath(graph.seeds, graph.path)
    base = {id_: tuple(each for each in seeds if each.layer == 0) for id_, seeds in found.items()}
    for seed in graph.seeds:
        if seed.entity.layer > 0:
            samples = await sample_beneath(run.index, seed.entity, run.query.evidence_options.samples)
            kept = tuple(each for each in samples if run.scope.supports(each))
            base |= {id_: base[id_] or kept for id_, seeds in found.items() if seed.entity in seeds}
    return base


async def sample_clusters(run: QueryRun, nodes: Iterable[Entity]) -> dict[str, tuple[Entity, ...]]:
    """Return for each cluster some layer-0 entities beneath it that are in scope."""
    found = {}
    for node in nodes:
        if node.layer > 0:
            samples = await sample_beneath(run.index, node, run.query.evidence_options.samples)
            found[node.id] = tuple(each for each in samples if run.scope.supports(each))
    return found
