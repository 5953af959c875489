"""The printed report of ``leanrag eval coverage``: remarks and a table for each set."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from leanrag_engine.evaluation.replies.reply_set import ReplySet
from leanrag_engine.evaluation.replies.run import FactCoverage, ReplyEvaluation, figures_of


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


def remarks(sets: Sequence[ReplySet], found: Sequence[ReplyEvaluation], *, misses: bool) -> Iterator[str]:
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


def show(found: Sequence[ReplyEvaluation]) -> None:
    console = Console(highlight=False)
    for title, figures in _list_tables(found):
        console.print(figures_table(title, figures))


def figures(found: Sequence[ReplyEvaluation]) -> dict[str, object]:
    """Return what ``--json`` prints: the figures of each set, and of all together if there are several."""
    return {"sets": {title: [each.as_json() for each in rows] for title, rows in _list_tables(found)}}


def _list_tables(found: Sequence[ReplyEvaluation]) -> list[tuple[str, list[FactCoverage]]]:
    tables = [(each.name, each.figures) for each in found]
    if len(found) > 1:
        tables.append(("all sets", figures_of([result for each in found for result in each.results])))
    return tables


def figures_table(title: str, figures: Sequence[FactCoverage]) -> Table:
    """Return a table with a row for each budget and way."""
    compared = any(each.against for each in figures)
    columns = ["way", "budget", "tokens", "facts (%)", "all (%)"]
    first = figures[0].way
    columns += [f"minus {first} [95 %]", f"{first} needs"] if compared else []
    table = make_table(f"{title}: {figures[0].questions:,} questions", *columns)
    for each in figures:
        cells = [f"{each.tokens:,.0f}", f"{each.facts:.1f}", f"{each.all_facts:.1f}"]
        if difference := each.against:
            cells.append(f"{difference.difference:+.1f} [{difference.low:+.1f} to {difference.high:+.1f}]")
            cells.append("more" if each.first_needs is None else f"{each.first_needs:,.0f}")
        table.add_row(each.way, f"{each.budget:,}", *cells)
    return table
