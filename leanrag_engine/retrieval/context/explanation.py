"""Explain in lines how the evidence of an answer is connected: seeds, LCA paths, relations."""

from __future__ import annotations

from leanrag_engine.core.model import Entity, Group, Relation, Subgraph

from .statements import shorten_name


def explain_subgraph(graph: Subgraph) -> tuple[str, ...]:
    """Return the lines of a detailed context, the most telling first."""
    names = {node.id: node.name for node in (*graph.path, *(seed.entity for seed in graph.seeds))}
    lines = [_format_group(group) for group in graph.groups]
    if graph.lca and len(graph.groups) > 1:
        lines.append(f"All seeds meet in {_format_node(graph.lca)}.")
    return (
        *lines,
        *(_format_relation(each, names) for each in (*graph.base_relations, *graph.inter_cluster_relations)),
    )


def name_group(group: Group) -> str:
    """Return the heading of a group: its seeds, and the cluster that joins them unless it is the root."""
    seeds = ", ".join(shorten_name(seed.name) for seed in group.seeds if is_proper(seed.name))
    joined = len(group.seeds) > 1 and group.lca.parent_id is not None and group.lca.layer > 0
    return f"{seeds} (in {shorten_name(group.lca.name)})" if joined else seeds


def is_proper(name: str) -> bool:
    """Return whether a name says something by itself: it has several words, or is no plain lower-case word."""
    return " " in name or not (name.islower() and name.isalpha() and name.isascii())


def _format_group(group: Group) -> str:
    seeds = ", ".join(_format_node(seed) for seed in group.seeds)
    joint = _format_node(group.lca)
    higher = sorted((node for node in group.path if node.layer > 0), key=lambda node: -node.layer)
    path = " > ".join(_format_node(node) for node in higher)
    return f"{seeds}: joined by {joint}; path {path}" if path else f"{seeds}: joined by {joint}"


def _format_node(node: Entity) -> str:
    root = ", root" if node.layer > 0 and node.parent_id is None else ""
    return f"{shorten_name(node.name)} ({node.id}, layer {node.layer}{root})"


def _format_relation(relation: Relation, names: dict[str, str]) -> str:
    ends = f"{shorten_name(names[relation.source_id])} — {shorten_name(names[relation.target_id])}"
    strength = f" (layer {relation.layer}, strength {relation.strength})" if relation.layer else ""
    return f"{ends}{strength}: {relation.description}" if relation.description else f"{ends}{strength}"
