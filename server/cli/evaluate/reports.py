"""The printed reports of ``leanrag eval``: remarks and tables."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from leanrag_engine.core.config import Settings
from leanrag_engine.evaluation.answers.figures import Grade, Wins
from leanrag_engine.evaluation.answers.judge import Judgement
from leanrag_engine.evaluation.answers.rubric import MEASURES
from leanrag_engine.evaluation.datasets import QuestionSet
from leanrag_engine.evaluation.replies.reply_set import ReplySet
from leanrag_engine.evaluation.replies.run import FactCoverage, ReplyEvaluation, figures_of
from leanrag_engine.evaluation.retrieval.run import Evaluation, RetrievalFigures
from leanrag_engine.evaluation.scratch import CHUNK_TOKENS, GivenGraph


def make_table(title: str, *columns: str) -> Table:
    """Return a table without lines between its columns, so that more of them fit into 80 characters."""
    table = Table(
        title=title or None,
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


# --- retrieval

EXAMPLES = 3  # Rows of one kind that a remark names


def retrieval_remarks(questions: QuestionSet, given: GivenGraph | None, found: Evaluation) -> Iterator[str]:
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


def show_retrieval(questions: QuestionSet, given: GivenGraph | None, found: Evaluation) -> None:
    console = Console(highlight=False)
    scratch = found.scratch
    console.print(
        f"[bold]{questions.name}[/bold]: {len(questions.passages):,} passages, "
        f"{len(questions.questions):,} questions. Embedder {scratch.engine.settings.embedder}, "
        f"{'given' if given else 'heuristic'} graph of {' > '.join(f'{size:,}' for size in scratch.layers)} entities, "
        f"built in {scratch.build_s:.1f} s."
    )
    console.print(retrieval_table(found.figures))


def retrieval_table(figures: Mapping[str, RetrievalFigures]) -> Table:
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


# --- coverage


def coverage_remarks(
    sets: Sequence[ReplySet], found: Sequence[ReplyEvaluation], *, misses: bool
) -> Iterator[str]:
    """Describe what is wrong with a set, and with ``misses`` the questions that lack facts."""
    for each, evaluation in zip(sets, found, strict=True):
        if each.unanswerable:
            yield f"{each.name}: {each.unanswerable:,} questions need no fact and were left out."
        most = 3  # Facts or documents that a remark names.
        if evaluation.failed:
            examples = "; ".join(evaluation.failed[:most])
            yield f"{each.name}: {len(evaluation.failed):,} documents could not be ingested: {examples}"
        if evaluation.unstated:
            examples = ", ".join(evaluation.unstated[:most])
            yield (
                f"{each.name}: {len(evaluation.unstated):,} facts stand in no document, so that no reply can state "
                f"them: {examples}. Correct their expressions."
            )
        for result in evaluation.results if misses else ():
            if not all(result.found):
                count = f"{sum(result.found)} of {len(result.found)} facts"
                yield f"  {each.name}, {result.way} at {result.budget:,}: {result.question.id} has {count}"


def show_coverage(found: Sequence[ReplyEvaluation]) -> None:
    console = Console(highlight=False)
    for title, figures in _list_tables(found):
        console.print(coverage_table(title, figures))


def coverage_figures(found: Sequence[ReplyEvaluation]) -> dict[str, object]:
    """Return what ``--json`` prints: the figures of each set, and of all together if there are several."""
    return {"sets": {title: [each.as_json() for each in rows] for title, rows in _list_tables(found)}}


def _list_tables(found: Sequence[ReplyEvaluation]) -> list[tuple[str, list[FactCoverage]]]:
    tables = [(each.name, each.figures) for each in found]
    if len(found) > 1:
        tables.append(("all sets", figures_of([result for each in found for result in each.results])))
    return tables


def coverage_table(title: str, figures: Sequence[FactCoverage]) -> Table:
    """Return a table with a row for each budget and way."""
    columns = ["way", "budget", "tokens", "facts (%)", "all (%)"]
    first = figures[0].way
    columns += [f"minus {first} [95 %]", f"{first} needs"] if any(each.against for each in figures) else []
    table = make_table(f"{title}: {figures[0].questions:,} questions", *columns)
    for each in figures:
        cells = [f"{each.tokens:,.0f}", f"{each.facts:.1f}", f"{each.all_facts:.1f}"]
        if difference := each.against:
            cells.append(f"{difference.difference:+.1f} [{difference.low:+.1f} to {difference.high:+.1f}]")
            cells.append("more" if each.first_needs is None else f"{each.first_needs:,.0f}")
        table.add_row(each.way, f"{each.budget:,}", *cells)
    return table


# --- answers

SHORT = ("compreh.", "diversity", "empower.", "overall")
"""The measures, short enough for a terminal of 80 columns."""


def show_answers(found: Judgement, settings: Settings) -> None:
    console = Console(highlight=False)
    plan = found.plan
    console.print(
        f"{found.graph[:1].upper()}{found.graph[1:]}: {len(plan.questions):,} questions, contexts of at most {plan.budget:,} tokens. "
        f"Answers by {settings.llm_model}, judged by {settings.judge_model or settings.llm_model}, "
        f"{plan.votes} votes."
    )
    if found.grades:
        console.print(scores_table(found))
    if found.wins:
        console.print(pairs_table(found))
    for name, count in found.equal.items():
        console.print(
            f"Not compared: {name} gave the same context as {found.names[0]} for {count:,} questions."
        )
    console.print(overview_table(found))


def scores_table(found: Judgement) -> Table:
    table = make_table(
        "Scores from 1 to 10 (mean ± standard deviation between votes)", "way", *SHORT, "votes"
    )
    for name, grades in found.grades.items():
        cells = [format_grade(grades.get(measure)) for measure in MEASURES]
        table.add_row(name, *cells, str(min((each.votes for each in grades.values()), default=0)))
    return table


def pairs_table(found: Judgement) -> Table:
    table = make_table(
        f"How often {found.names[0]} beats the other way, in percent [95 % bounds]",
        "against",
        *SHORT,
        "flips",
        "votes",
    )
    for name, wins in found.wins.items():
        flips = [each.flips for each in wins.values() if each.flips is not None]
        table.add_row(
            name,
            *[format_wins(wins.get(measure)) for measure in MEASURES],
            f"{sum(flips) / len(flips):.0f} %" if flips else "–",
            str(min((each.votes for each in wins.values()), default=0)),
        )
    table.caption = (
        "A vote that flips with the order of the answers counts half for each; flips is the mean of the four."
    )
    return table


def overview_table(found: Judgement) -> Table:
    known = any(each.found is not None for each in found.overviews.values())
    columns = ["way", "answers", "tokens", "cited", "false marks", "declined"]
    table = make_table("The answers themselves, unjudged", *columns, *(["right"] if known else []))
    table.caption = (
        "tokens: of the context; cited: answers with a citation; false marks: citations that are not in the context."
        + (" right: ours does not decline and contains the answer of the set." if known else "")
    )
    for name, each in found.overviews.items():
        cells = [
            str(each.answers),
            f"{each.context_tokens:,.0f}",
            f"{each.cited:.0f} %",
            f"{each.unfounded:.1f} %",
            f"{each.declined:.0f} %",
        ]
        if known:
            cells.append("–" if each.found is None else f"{each.found:.0f} %")
        table.add_row(name, *cells)
    return table


def format_grade(grade: Grade | None) -> str:
    if grade is None:
        return "–"
    return f"{grade.mean:.2f}" + ("" if grade.spread is None else f"±{grade.spread:.2f}")


def format_wins(wins: Wins | None) -> str:
    return "–" if wins is None else f"{wins.share:.1f}\n[{wins.low:.0f}–{wins.high:.0f}]"
