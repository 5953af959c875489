"""Explain in lines how the evidence of an answer is connected (seeds, LCA paths, relations) and why it was chosen."""

from collections.abc import Iterable, Sequence

from leanrag_engine.core.model import ContextLine, Entity, Group, Relation, ScoreParts, Subgraph

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


def explain_choice(lines: Iterable[ContextLine]) -> list[str]:
    """Return for each line of a context what its value is made of, the best first."""
    return [f"{', '.join(each.citations)} {each.kind}: value {format_parts(each.parts)}" for each in lines]


def format_parts(parts: ScoreParts) -> str:
    """Return a value as the sum of its parts: "1.52 = meaning 0.97 + keyword 0.55"."""
    rounded = round_parts(parts)
    added = " + ".join(f"{name} {value:.2f}" for name, value in rounded.items())
    return f"{sum(rounded.values()):.2f} = {added}" if added else "0.00"


def round_parts(parts: ScoreParts) -> dict[str, float]:
    """Return the parts that are not 0, rounded so that they still add up."""
    named = parts.items()
    values = round_to_sum([value for _, value in named])
    return {name: value for (name, _), value in zip(named, values, strict=True)}


def round_to_sum(values: Sequence[float], digits: int = 2) -> list[float]:
    """Return the values rounded so that they add up to their rounded sum, each changed by less than one last digit."""
    unit = 10**digits
    floors = [int(value * unit // 1) for value in values]
    missing = round(sum(values) * unit) - sum(floors)
    by_rest = sorted(range(len(values)), key=lambda place: floors[place] - values[place] * unit)
    for place in by_rest[:missing]:
        floors[place] += 1
    return [each / unit for each in floors]


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
