"""The printed report of ``leanrag eval health``."""

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from leanrag_engine.core.model import LayerHealth, SeedMeetings
from leanrag_engine.evaluation.health import CollectionHealth

from .tables import make_table


def show_health(found: CollectionHealth) -> None:
    console = Console(highlight=False)
    console.print(
        f"[bold]{found.collection}[/bold]: {' > '.join(f'{size:,}' for size in found.layers)} entities by layer.\n"
    )
    if made := found.build:
        console.print(
            f"Clustered by {made.clustering}; cluster size {made.cluster_size}, at most {made.cluster_cap}."
        )
        console.print(layers_table(made.layers))
        console.print(f"{format_meetings(made.meetings)}\n")
    console.print("Where two entities meet: the more pairs below the root, the more their LCA says.")
    console.print(meetings_table(found))
    console.print("\nClusters: sizes, and the mean cosine of members to their centre.")
    console.print(shapes_table(found))
    if found.stability:
        console.print(
            f"\nStability of G0's clusters (adjusted Rand index, {found.stability.entities:,} entities): "
            f"{found.stability.other_seed:.3f} with another seed, "
            f"{found.stability.without_a_tenth:.3f} without a tenth of the entities; "
            f"{100 * found.stability.kept:.0f} % of the clusters stay as they are without a hundredth of them."
        )
    console.print("\nContexts: shares said twice.")
    console.print(redundancy_table(found))


def layers_table(layers: Sequence[LayerHealth]) -> Table:
    """Return what the build recorded, one column for each layer."""
    table = make_table("", "of the build", *(f"G{each.layer}" for each in layers))
    for label, shown in RECORDED.items():
        table.add_row(label, *(shown(each) for each in layers))
    return table


def format_meetings(met: SeedMeetings) -> str:
    """Describe where similar entities meet, as the build measured it."""
    parts = [
        f"{what}: {', '.join(f'{100 * share:.0f} % in G{layer}' for layer, share in shares.items())}"
        for shares, what in (
            (met.pairs, "an entity and the one it resembles most"),
            (met.sets, "with the nine"),
        )
    ]
    return (
        f"LCAs of {met.tried} entities: {'; '.join(parts)}. Half of the pairs' LCAs have at most "
        f"{100 * met.beneath:.1f} % of G0 beneath them."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _modularity(each: LayerHealth) -> str:
    level = f", resolution {each.resolution:g}" if each.resolution else ""
    return f"{each.modularity:.2f}{level}" if each.clusters else ""


def _sizes(each: LayerHealth) -> str:
    sizes = each.sizes
    return f"{sizes.least:g}–{sizes.most:g}, {sizes.median:g}" if sizes else ""


RECORDED: dict[str, Callable[[LayerHealth], str]] = {
    "entities": lambda each: f"{each.entities:,}",
    "relations": lambda each: f"{each.relations:,}",
    "λ: median, mean, most": lambda each: (
        f"{each.strength.median:g}, {each.strength.mean:.1f}, {each.strength.most:g}"
    ),
    "relations above τ": lambda each: _percent(each.above_tau),
    "entities with a relation": lambda each: _percent(each.joined),
    "made without a model": lambda each: _percent(each.heuristic_entities),
    "members of a cluster: range, median": _sizes,
    "tightness": lambda each: f"{each.tightness:.2f}" if each.clusters else "",
    "relations within a cluster": lambda each: _percent(each.inside) if each.clusters else "",
    "modularity": _modularity,
    "clusters joined by relations": lambda each: _percent(each.connected) if each.clusters else "",
    "communities, relations apart": lambda each: (
        f"{each.communities}, {_percent(each.apart)} apart" if each.communities else ""
    ),
    "members in doubt": lambda each: _percent(each.contested) if each.clusters else "",
    "semantic islands": lambda each: f"{each.islands}" if each.clusters else "",
}
"""How the table formats each figure of a layer, by the row's label. Clusters are those of the layer's own entities."""


def meetings_table(found: CollectionHealth) -> Table:
    table = make_table("", "two entities", "pairs", "LCA below the root (%)", "its mean layer")
    for kind, each in found.meetings.items():
        table.add_row(kind, f"{each.pairs:,}", f"{100 * each.below_root:.1f}", f"{each.mean_layer:.2f}")
    return table


def shapes_table(found: CollectionHealth) -> Table:
    table = make_table("", "layer", "clusters", "smallest", "median", "mean", "largest", "tightness")
    for each in found.shapes:
        sizes = (str(each.smallest), f"{each.median:g}", f"{each.mean:.1f}", str(each.largest))
        table.add_row(f"G{each.layer}", f"{each.clusters:,}", *sizes, f"{each.tightness:.3f}")
    return table


def redundancy_table(found: CollectionHealth) -> Table:
    table = make_table("", "mode", "contexts", "sentences (%)", "five words in a row (%)", "mean tokens")
    for mode, each in found.redundancy.items():
        shares = (f"{100 * each.sentences:.1f}", f"{100 * each.phrases:.1f}")
        table.add_row(mode, str(each.contexts), *shares, f"{each.tokens:,.0f}")
    return table
