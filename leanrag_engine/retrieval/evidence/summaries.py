"""Select the summaries that serve a query best (mode ``global``).

One rule chooses their layer: from the top down, the lowest layer of which all summaries that are about the question fit
into half of the budget. A broad question is about many summaries and gets few, general ones; a narrow question, or more
room, gets finer ones. The search begins at the highest layer with at least half as many summaries as ``seeds``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from leanrag_engine.core.model import Entity, Seed, Vectors
from leanrag_engine.retrieval.search.hits import embed_texts, rank_by_similarity, spaces_of
from leanrag_engine.retrieval.search.seeds import rank_entities, unite

from .run import QueryRun
from .written import wants_overview


@dataclass(frozen=True, slots=True)
class _LayerSummaries:
    """The summaries of a layer, best first. ``about`` of them are about the question; ``tokens`` is what one takes on average."""

    nodes: tuple[Entity, ...]
    scores: dict[str, float]
    about: int
    tokens: float


async def select_summaries(run: QueryRun, among: set[str] | None) -> list[Seed]:
    """Return the summaries of the layer that fits the question and the budget, best by meaning and keyword first.

    They are as many as are about the question and fit, at least one and at most ``seeds``.
    """
    layers = run.index.generation.layers
    options = run.query.evidence_options
    room = options.summary_share * run.query.token_budget
    if wants_overview(run):
        return await _select_largest(run, among)
    vectors = await embed_texts(run.index, run.query.texts)
    many = (each.layer for each in layers if each.layer and 2 * each.entities >= run.query.seeds)
    highest = max(many, default=1)
    chosen = await _rank_layer(run, highest, vectors, among)
    sizes = {each.layer: each.entities for each in layers}
    for layer in range(highest - 1, 0, -1):
        if sizes[layer] > options.most_summaries:
            break
        finer = await _rank_layer(run, layer, vectors, among)
        if finer.about * finer.tokens > room:
            break
        chosen = finer
    fitting = min(chosen.about, int(room / max(chosen.tokens, 1.0)))
    shown = chosen.nodes[: max(1, min(run.query.seeds, fitting))]
    return [Seed(node, chosen.scores.get(node.id, 0.0)) for node in shown]


async def _select_largest(run: QueryRun, among: set[str] | None) -> list[Seed]:
    """Return summaries for a question that names no subject, as many as fit: written ones before heuristic ones, of each kind from
    the top down, the largest of a layer first."""
    generation = run.index.generation
    nodes: list[Entity] = []
    for layer in reversed(generation.layers[1:]):
        held = await run.index.generations.layer(generation.number, layer.layer)
        nodes += sorted(held, key=lambda each: -each.mentions)
    room = float(run.query.token_budget)
    chosen: list[Seed] = []
    for node in sorted(nodes, key=lambda each: not each.method.written):
        if room > 0 and (among is None or node.id in among):
            room -= run.index.tokenizer.count(_write_out(node))
            chosen.append(Seed(node, 1.0 / (1 + len(chosen))))
    return chosen


async def _rank_layer(
    run: QueryRun, layer: int, vectors: Sequence[Vectors | None], among: set[str] | None
) -> _LayerSummaries:
    """Rank the summaries of a layer, those that nothing finds last, the largest first."""
    number = run.index.generation.number
    nodes = {
        each.id: each
        for each in await run.index.generations.layer(number, layer)
        if among is None or each.id in among
    }
    ids = list(nodes)
    ranked = []
    about: set[str] = set()
    for text, vector in zip(run.query.texts, vectors, strict=True):
        space = spaces_of(run.index).aggregates
        dense = [] if vector is None else await rank_by_similarity(run.index, space, ids, vector)
        keyword = await run.index.generations.search_entities(number, text, len(nodes), layer)
        by_meaning = [hit.id for hit in dense if hit.score > 0]
        by_keyword = [hit.id for hit in keyword if hit.id in nodes]
        least = run.query.context_options.strong * max((hit.score for hit in dense), default=0.0)
        # Without a meaning that can be compared, all of them may be about it.
        about.update((hit.id for hit in dense if hit.score >= least) if by_meaning else by_keyword or ids)
        ranked.append(rank_entities(by_meaning, by_keyword, (), len(ids), run.query.search_options))
    scores = {hit.id: hit.score for hit in unite(ranked, len(ids))}
    order = dict.fromkeys([*scores, *sorted(ids, key=lambda id_: -nodes[id_].mentions)])
    sizes = run.index.tokenizer.count_many([_write_out(each) for each in nodes.values()])
    return _LayerSummaries(
        tuple(nodes[id_] for id_ in order), scores, len(about), sum(sizes) / max(len(sizes), 1)
    )


def _write_out(node: Entity) -> str:
    """Return what a context says of a summary, citations aside."""
    findings = (f"{each.summary} {each.explanation}" for each in node.findings)
    return "\n".join([f"{node.name}: {node.description}", *findings])
