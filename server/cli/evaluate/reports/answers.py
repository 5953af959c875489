"""The printed report of ``leanrag eval answers``: tables of scores, of pairs, and of the answers themselves."""

from rich.console import Console
from rich.table import Table

from leanrag_engine.core.config import Settings
from leanrag_engine.evaluation.answers.figures import Grade, Wins
from leanrag_engine.evaluation.answers.judge import Judgement
from leanrag_engine.evaluation.answers.rubric import MEASURES

from .coverage import make_table

SHORT = ("compreh.", "diversity", "empower.", "overall")
"""The measures, short enough for a terminal of 80 columns."""


def show(found: Judgement, settings: Settings) -> None:
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
    first = found.names[0]
    table = make_table(
        f"How often {first} beats the other way, in percent [95 % bounds]",
        "against",
        *SHORT,
        "flips",
        "votes",
    )
    for name, wins in found.wins.items():
        flips = [each.flips for each in wins.values() if each.flips is not None]
        cells = [format_wins(wins.get(measure)) for measure in MEASURES]
        table.add_row(
            name,
            *cells,
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
