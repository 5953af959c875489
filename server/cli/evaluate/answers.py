"""``leanrag eval answers``: answers written by a model from each way's context, graded and compared by a judge. The report
goes to standard output (``--json``: one JSON object on its last line), progress, forecast and remarks to standard error."""

from __future__ import annotations

import json as json_
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leanrag_engine.core.config import Settings, load_settings
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.text.shortening import count_things

from ..options import as_command
from . import options as option

if TYPE_CHECKING:
    from leanrag_engine.core.ports import ProgressReport
    from leanrag_engine.evaluation.answers.figures import Grade, JudgedQuestion, Wins
    from leanrag_engine.evaluation.answers.judge import Judgement, JudgingPlan
    from leanrag_engine.evaluation.datasets import QuestionSet


@as_command
async def answers(
    questions: Annotated[
        Path,
        typer.Argument(
            metavar="SET",
            help="Passages and questions (JSON), UltraDomain's JSON Lines, or with --collection a text file of questions.",
        ),
    ],
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Who judges; default: the setting judge_model, else the answerer."
        ),
    ] = None,
    answerer: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Who writes the answers; default: the setting llm_model."),
    ] = None,
    api_base: option.ApiBase = None,
    judge_api_base: Annotated[
        str | None, typer.Option(metavar="URL", help="Where the judge is, if elsewhere.")
    ] = None,
    compare: Annotated[
        str,
        typer.Option(
            metavar="A,B,…",
            help="Ways beside lca: local, global, naive, paper, without-relations (the paper's table 2), without-chunks (3).",
        ),
    ] = "",
    votes: Annotated[int, typer.Option(min=1, help="How often each answer and each pair is judged.")] = 5,
    budget: Annotated[int, typer.Option(help="Most tokens of a context.")] = 4000,
    limit: option.Limit = None,
    open_mode: Annotated[
        bool,
        typer.Option(
            "--open/--reject", help="May the model use what it knows, or must it decline without evidence?"
        ),
    ] = False,
    scores: Annotated[bool, typer.Option(help="Grade each answer from 1 to 10.")] = True,
    pairs: Annotated[bool, typer.Option(help="Compare each way's answer with that of lca.")] = True,
    temperature: Annotated[
        float, typer.Option(min=0, max=2, help="Of the judge; 0 makes all votes alike.")
    ] = 0.7,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Calls under way at once.")] = None,
    collection: option.Collection = None,
    embedder: option.EmbedderName = None,
    data_dir: option.CollectionDir = None,
    details: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl", help="Write every answer and verdict with its reasons here, as they come."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how many calls and tokens it takes.")
    ] = False,
    json: option.Json = False,
) -> None:
    """Have a model answer every question from the context alone, and a judge grade and compare the answers.

    Any model of litellm's may answer and judge; keys come from the provider's environment variable. Reported are:

    * scores from 1 to 10 for comprehensiveness, diversity, empowerment and overall: the mean, and the standard
      deviation between votes;

    * pairs: how often the answer from lca beats that of another way, in percent, with 95 % bounds. Each pair is
      asked in both orders; a vote that changes with the order counts half for each, and `flips` tells how many did;

    * without a judge: context tokens, citations that do not stand in the context, answers that decline, and where the
      set has answers, how many of ours hold them.

    With `--reject`, the default, the model has to decline where the context does not suffice; with `--open` it may add what it
    knows. The difference tells how much of an answer comes from retrieval; see also `tests/programs/anonymise.py`.

    A reply that cannot be read is asked for once more, then its vote is dropped and counted. Calls: one for each
    answer, `--votes` for its scores, twice `--votes` for each pair; `--dry-run` counts them.

    Example: `leanrag eval answers questions.json --answerer openai/gpt-4o-mini --compare naive --limit 20`
    """
    settings = load_settings(
        collection=collection, embedder=embedder, data_dir=data_dir,
        read_only=collection is not None,  # an existing collection is only read
        llm_model=answerer, llm_api_base=api_base, llm_concurrency=concurrency,
        judge_model=judge, judge_api_base=judge_api_base,
    )  # fmt: skip
    question_set, plan = read_plan(
        questions, compare, limit, collection=collection,
        votes=votes, budget=budget, grades=scores, duels=pairs, open_mode=open_mode, temperature=temperature,
    )  # fmt: skip
    typer.echo(forecast(plan), err=True)
    if not dry_run:
        from leanrag_engine.evaluation.answers.judge import judge_set  # noqa: PLC0415 - heavy

        kept = None if question_set and data_dir is None else settings.data_dir
        with open_notes(details) as note, open_scratch(kept) as (folder, show):
            settings = settings.model_copy(update={"data_dir": folder})
            found = await judge_set(settings, question_set, plan, show, note)
        for remark in remarks(found):
            typer.echo(remark, err=True)
        if json:
            typer.echo(json_.dumps(figures(found, settings)))
        else:
            from .reports import show_answers  # noqa: PLC0415 - rich is heavy

            show_answers(found, settings)
    elif json:
        typer.echo(json_.dumps({"forecast": forecast_figures(plan)}))


def read_plan(
    path: Path, compare: str, limit: int | None, *, collection: str | None, **options: Any
) -> tuple[QuestionSet | None, JudgingPlan]:
    """Read and check all input; return the set whose passages are ingested, if any, and the plan."""
    # Heavy, all of them: --help must not wait for them.
    from leanrag_engine.evaluation.answers.judge import SET_SUFFIXES, JudgingPlan, read_questions, strategies  # noqa: PLC0415
    from leanrag_engine.evaluation.datasets import read_set  # noqa: PLC0415

    ways = strategies(compare.split(","))
    if collection is None and path.is_file() and path.suffix.lower() not in SET_SUFFIXES:
        raise InvalidInput(
            f"{path} is no question set, and no collection is given for its questions.",
            "Give --collection, or a set as JSON or JSON Lines.",
        )
    question_set = None if collection else read_set(path)
    selected = (question_set.questions if question_set else read_questions(path))[:limit]
    return question_set, JudgingPlan(selected, ways, **options).check()


@contextmanager
def open_scratch(data_dir: Path | None) -> Iterator[tuple[Path, ProgressReport]]:
    """Yield ``data_dir`` or a folder that is removed afterwards, and what shows progress on standard error."""
    from ..progress import progress_bar  # noqa: PLC0415 - rich is heavy

    # Windows cannot remove files that the vector store still has open.
    make = partial(TemporaryDirectory, prefix="leanrag-eval-", ignore_cleanup_errors=True)
    with nullcontext(data_dir) if data_dir else make() as folder, progress_bar() as show:
        yield Path(folder), show


@contextmanager
def open_notes(details: Path | None) -> Iterator[Callable[[JudgedQuestion], None]]:
    """Yield a function that writes each question's answers and verdicts as one line, at once, so that none is lost."""
    if details is None:
        yield lambda _: None
        return
    try:
        file = details.open("w", encoding="utf-8")
    except OSError as problem:
        raise InvalidInput(
            f"The file {details} cannot be written: {problem.strerror}.", "Give another for --details."
        ) from problem

    def note(result: JudgedQuestion) -> None:
        line = {key: value for key, value in asdict(result).items() if key != "same"}
        file.write(json_.dumps(line | {"same": sorted(result.same)}, ensure_ascii=False) + "\n")
        file.flush()

    with file:
        yield note


def forecast_figures(plan: JudgingPlan) -> dict[str, int]:
    counted = ("calls", "answers", "scores", "comparisons", "input_tokens", "output_tokens")
    figures = {name: getattr(plan, name) for name in counted}
    return {"questions": len(plan.questions), "ways": len(plan.strategies), **figures}


def forecast(plan: JudgingPlan) -> str:
    ways = ", ".join(each.name for each in plan.strategies)
    return (
        f"{len(plan.questions):,} questions, each by {ways}: {plan.calls:,} model calls "
        f"({plan.answers:,} answers, {plan.scores:,} gradings, {plan.comparisons:,} comparisons), "
        f"about {plan.input_tokens:,} input tokens if contexts are full, and {plan.output_tokens:,} output tokens."
    )


def remarks(found: Judgement) -> Iterator[str]:
    """Describe which calls were lost, and what the calls used."""
    if found.losses:
        kinds = Counter(each.kind for each in found.losses)
        lost = ", ".join(count_things(count, kind) for kind, count in kinds.items())
        yield f"Lost: {lost}. They are not counted in any figure."
        reasons = Counter(each.reason for each in found.losses)
        yield from (f"  {count:,} times: {reason}" for reason, count in reasons.most_common(3))
    for role, meter in (("Answers", found.answering), ("Verdicts", found.judging)):
        price = "" if meter.unpriced else f", {meter.cost:.4f} US dollars"
        yield f"{role}: {meter.format_use()}{price}."


def figures(found: Judgement, settings: Settings) -> dict[str, object]:
    """Return what ``--json`` prints. Scores from 1 to 10; shares in percent."""

    def by_measure(table: Mapping[str, Mapping[str, Grade | Wins]]) -> dict[str, dict[str, object]]:
        return {name: {key: asdict(each) for key, each in rows.items()} for name, rows in table.items()}

    return {
        "questions": len(found.plan.questions),
        "votes": found.plan.votes,
        "budget": found.plan.budget,
        "mode": "open" if found.plan.open_mode else "reject",
        "graph": found.graph,
        "answerer": settings.llm_model,
        "judge": settings.judge_model or settings.llm_model,
        "scores": by_measure(found.grades),
        "pairs": {"of": found.names[0], "against": by_measure(found.wins), "equal": dict(found.equal)},
        "overview": {name: asdict(each) for name, each in found.overviews.items()},
        "lost": {kind: found.count_lost(kind) for kind in ("answer", "score", "comparison")},
        "usage": {"answering": asdict(found.answering), "judging": asdict(found.judging)},
        "forecast": forecast_figures(found.plan),
    }
