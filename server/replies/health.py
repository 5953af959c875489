"""The health of a build as a status tells it: the record that the build left, in few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .models import HealthCard, LayerHealthCard

if TYPE_CHECKING:
    from leanrag_engine.core.model import Generation


def health_card(generation: Generation | None) -> HealthCard | None:
    """None without a build, and of one that an older version made and that left no record."""
    made: Mapping[str, Any] = generation.settings.get("health", {}) if generation else {}
    if not made:
        return None
    *lower, top = made["layers"]
    above = made["layers"][1:]
    entities = sum(each["entities"] for each in above)
    return HealthCard(
        clustering=made["clustering"],
        cluster_size=made["cluster_size"],
        cluster_cap=made["cluster_cap"],
        size_reason=made["size_reason"].split(" (", 1)[0].rstrip("."),
        heuristic=round(sum(each["heuristic_entities"] * each["entities"] for each in above) / entities, 2),
        islands=sum(each["islands"] for each in lower),
        similar_pairs_below_root=_below(made["meetings"]["pairs"], top["layer"]),
        seed_sets_below_root=_below(made["meetings"]["sets"], top["layer"]),
        layers=[_layer(each) for each in lower],
    )


def _below(shares: Mapping[str, float], top: int) -> float:
    return round(sum(share for layer, share in shares.items() if int(layer) < top), 2)


def _layer(made: Mapping[str, Any]) -> LayerHealthCard:
    return LayerHealthCard(
        layer=made["layer"],
        clusters=made["clusters"],
        smallest=int(made["sizes"]["least"]),
        median=made["sizes"]["median"],
        largest=int(made["sizes"]["most"]),
        tightness=round(made["tightness"], 2),
        joined=round(made["joined"], 2),
        inside=round(made["inside"], 2),
        strength_median=made["strength"]["median"],
        strength_most=int(made["strength"]["most"]),
    )


def health_lines(card: HealthCard) -> list[str]:
    islands = f"{card.islands} semantic islands" if card.islands else "no semantic island"
    line = (
        f"Health: clustered by {card.clustering}, size {card.size_reason}, at most {card.cluster_cap};"
        f" {_percent(card.heuristic)} of aggregates made without a model; {islands}."
        f" LCA below the root: {_percent(card.similar_pairs_below_root)} of similar pairs,"
        f" {_percent(card.seed_sets_below_root)} of sets of ten."
    )
    return [line, *(_layer_line(each) for each in card.layers)]


def _layer_line(each: LayerHealthCard) -> str:
    sizes = f"{each.clusters} clusters of {each.smallest}–{each.largest} (median {each.median:g})"
    strength = f"; λ median {each.strength_median:g}, most {each.strength_most}" if each.layer else ""
    return (
        f"- G{each.layer} in {sizes if each.clusters > 1 else f'one cluster of {each.largest}'},"
        f" tightness {each.tightness:g}; {_percent(each.joined)} of entities related,"
        f" {_percent(each.inside)} of relations inside a cluster{strength}"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def embedder_name(generation: Generation | None) -> str:
    """What the embedder is called in the settings, of a folder its own name; empty without a build."""
    name: str = generation.settings.get("embedder", "") if generation else ""
    return name if name.startswith("litellm/") else name.replace("\\", "/").rstrip("/").rpartition("/")[2]
