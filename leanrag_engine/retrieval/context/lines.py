"""Write the graph's nodes and relations as lines of a context, one each, with the passages that support it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from leanrag_engine.core.model import Entity, Relation, Subgraph
from leanrag_engine.core.text.shortening import cut_end, one_line

from .rendering import ContextLine

Origins = tuple[tuple[int, int, str], ...]
"""Start and end of parts of a text, and the citation of the passage that each was taken from."""


@dataclass(frozen=True, slots=True)
class LineCitations:
    """For the id of a node or relation: the citations of passages that support it, best first, and which
    of them the parts of its description were taken from."""

    supporting: Mapping[str, tuple[str, ...]]
    origins: Mapping[str, Origins] = field(default_factory=dict)

    def of(self, id_: str) -> tuple[str, ...]:
        """Return the two best citations of the node or relation."""
        return self.supporting.get(id_, ())[:2]

    def origins_of(self, id_: str) -> Origins:
        return self.origins.get(id_, ())


def entity_lines(entities: Iterable[Entity], citations: LineCitations) -> tuple[ContextLine, ...]:
    """Layer-0 entities with their descriptions."""
    found = []
    for entity in entities:
        kind = f" ({entity.type})" if entity.type not in ("", "concept") else ""
        origins = citations.origins_of(entity.id)
        found.append(
            ContextLine(
                f"{shorten_name(entity.name)}{kind}",
                entity.description,
                citations.of(entity.id),
                origins=origins,
            )
        )
    return drop_unsupported(found)


def relation_lines(
    relations: Iterable[Relation], names: Mapping[str, str], citations: LineCitations
) -> tuple[ContextLine, ...]:
    """Relations of any layer; above layer 0 with layer and strength λ."""
    found = []
    for relation in relations:
        ends = f"{shorten_name(names[relation.source_id])} — {shorten_name(names[relation.target_id])}"
        strength = f" (layer {relation.layer}, strength {relation.strength})" if relation.layer else ""
        origins = citations.origins_of(relation.id)
        found.append(
            ContextLine(f"{ends}{strength}", relation.description, citations.of(relation.id), origins=origins)
        )
    return drop_unsupported(found)


def summary_lines(
    clusters: Iterable[Entity],
    beneath: Mapping[str, Sequence[Entity]],
    citations: LineCitations,
    *,
    detailed: bool = False,
) -> tuple[ContextLine, ...]:
    """Clusters, the seeds that they join, their descriptions and, if ``detailed``, their findings; else those may be
    added where there is room.

    A cluster's name and what it joins are worth a line even if its text is cut.
    """
    found = []
    for cluster in clusters:
        findings = [f"{finding.summary} {finding.explanation}".strip() for finding in cluster.findings]
        said = [cluster.description, *(findings if detailed else ())]
        head = f"{shorten_name(cluster.name)} (layer {cluster.layer}{_joins(beneath.get(cluster.id, ()))})"
        text = " ".join(filter(None, said))
        origins = citations.origins_of(cluster.id)
        more = () if detailed else tuple(findings)
        found.append(ContextLine(head, text, citations.of(cluster.id), bare=True, origins=origins, more=more))
    return drop_unsupported(found)


def summaries_of(subgraph: Subgraph, beneath: Mapping[str, Sequence[Entity]]) -> list[Entity]:
    """Return the clusters on the LCA paths, those first that say how seeds belong together.

    First the LCAs of several seeds, then what joins some on the way, then the clusters of lone
    seeds; the root, which says least, comes last, and only where it is a group's LCA.
    """
    if not subgraph.groups:
        return [node for node in subgraph.path if node.layer > 0]
    lcas = {group.lca.id for group in subgraph.groups if len(group.seeds) > 1}
    nodes = {
        node.id: node for group in subgraph.groups for node in (group.lca, *group.path) if node.layer > 0
    }

    def worth(node: Entity) -> tuple[bool, bool, bool]:
        return node.parent_id is None, len(beneath.get(node.id, ())) < 2, node.id not in lcas  # noqa: PLR2004 - joined

    return sorted(nodes.values(), key=worth)


def drop_unsupported(lines: Sequence[ContextLine]) -> tuple[ContextLine, ...]:
    """Those with a passage behind them: what has none went with its document."""
    return tuple(line for line in lines if line.citations)


def shorten_name(name: str) -> str:
    """Return a name on one line, cut where it is longer than a name should be."""
    return cut_end(one_line(name), 80)


def _joins(seeds: Sequence[Entity], most: int = 4) -> str:
    names = ", ".join(shorten_name(seed.name) for seed in seeds[:most]) + (", …" if len(seeds) > most else "")
    return f"; {'joins' if len(seeds) > 1 else 'holds'} {names}" if seeds else ""
