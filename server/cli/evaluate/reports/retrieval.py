"""The printed report of ``leanrag eval retrieval``: remarks and tables."""

from collections import Counter
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.table import Table

from leanrag_engine.evaluation.datasets import QuestionSet
from leanrag_engine.evaluation.retrieval.run import Evaluation, RetrievalFigures
from leanrag_engine.evaluation.scratch import CHUNK_TOKENS, GivenGraph

from .coverage import make_table

EXAMPLES = 3  # Rows of one kind that a remark names


def remarks(questions: QuestionSet, given: GivenGraph | None, found: Evaluation) -> Iterator[str]:
    """Describe differences from the set, and what degraded the answers."""
    scratch = found.scratch
    if questions.repeated:
        yield f"{questions.repeated:,} passages repeat earlier ones and count as one with them."
    if given:
        yield from _graph_remarks(given)
    if scratch.failed:
        yield f"{len(scratch.failed):,} passages could not be ingested: {'; '.join(scratch.failed[:EXAMPLES])}"
    if scratch.split:
        yield (
            f"{scratch.split:,} passages are longer than {CHUNK_TOKENS:,} tokens and were split: "
            "any chunk of a passage counts as the passage, and rankings name fewer than ten."
        )
    if scratch.reused:
        yield "The collection existed already: the build seconds are those of checking it."
    for name, answered in found.answered.items():
        warned = Counter(warning for each in answered for warning in each.warnings)
        several = sum(bool(each.warnings) for each in answered)
        if warned:
            yield f"{name}: {several} of {len(answered)} answers came with a warning, such as: {warned.most_common(1)[0][0]}"


def _graph_remarks(given: GivenGraph) -> Iterator[str]:
    graph = given.graph
    yield (
        f"Graph: {len(graph.entries):,} entries with {graph.triples:,} triples; "
        f"{given.unmatched:,} passages have no entry and are read heuristically."
    )
    for kind, count in graph.malformed.items():
        yield f"{count:,} malformed {kind} were left out."
    yield from (f"  {problem}" for problem in graph.problems[:EXAMPLES])


def show(questions: QuestionSet, given: GivenGraph | None, found: Evaluation) -> None:
    console = Console(highlight=False)
    scratch = found.scratch
    console.print(
        f"[bold]{questions.name}[/bold]: {len(questions.passages):,} passages, "
        f"{len(questions.questions):,} questions. Embedder {scratch.engine.settings.embedder}, "
        f"{'given' if given else 'heuristic'} graph of {' > '.join(f'{size:,}' for size in scratch.layers)} entities, "
        f"built in {scratch.build_s:.1f} s."
    )
    console.print(figures_table(found.figures))


def figures_table(figures: Mapping[str, RetrievalFigures]) -> Table:
    """Return a table with a row for each measure and a column for each strategy."""
    table = make_table("", "", *figures)
    columns = [figures_cells(each) for each in figures.values()]
    for label in columns[0]:
        table.add_row(label, *(column[label] for column in columns))
    return table


def figures_cells(each: RetrievalFigures) -> dict[str, str]:
    """Return the column of one strategy, by measure."""
    cells = {f"recall@{depth} (%)": f"{value:.1f}" for depth, value in each.recall.items()}
    cells |= {"all@5 (%)": f"{each.all_at_5:.1f}", "MRR": f"{each.mrr:.3f}"}
    cells |= {f"coverage at {budget:,} (%)": f"{value:.1f}" for budget, value in each.coverage.items()}
    cells |= {f"tokens at {budget:,}": f"{value:,.0f}" for budget, value in each.tokens.items()}
    times = {"p50": each.latency_ms_p50, "p95": each.latency_ms_p95}
    return cells | {f"query {share} (ms)": f"{value:,.1f}" for share, value in times.items()}
