"""``leanrag eval``: how well the engine does on question sets, the user's own too, and on a built collection. The report
goes to standard output (``--json``: one JSON object on its last line), progress and remarks to standard error."""

from __future__ import annotations

import json as json_
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.runtime.replacement import write_output

from ..options import DataDir, as_command
from . import options as option
from .answers import answers, open_scratch

if TYPE_CHECKING:
    from leanrag_engine.evaluation.replies.writing import QuestionFile, SourceCorpus, WritingOutcome
    from leanrag_engine.llm.prompts import Prompts

app = typer.Typer(
    help="Measure: retrieval on a question set, replies on your own documents, answers by a judge.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.command()
@as_command
async def retrieval(
    question_set: option.RetrievalSet,
    embedder: option.EmbedderName = None,
    graph: Annotated[
        Path | None,
        typer.Option(
            metavar="OPENIE.json", help="Entities and triples in HippoRAG's OpenIE format to build on."
        ),
    ] = None,
    mode: Annotated[str, typer.Option(help="lca, local, global or naive.")] = "lca",
    ranking: Annotated[str, typer.Option(help="spread or paper.")] = "spread",
    compare: Annotated[
        str,
        typer.Option(
            metavar="A,B,…", help="Several modes and rankings side by side instead, such as lca,naive,paper."
        ),
    ] = "",
    budgets: option.Budgets = "500,1000,2000,4000",
    limit: option.Limit = None,
    data_dir: option.ScratchDir = None,
    json: option.Json = False,
) -> None:
    """Measure recall, coverage, tokens and latency on a question set. No model and no key needed.

    Builds a scratch collection (one passage = one document = one chunk), asks every question and prints, as means
    over the questions:

    * recall@k: share of a question's gold passages among the first k ranked; all@5: whether the first five hold all
      of them; MRR: 1 / rank of the first;

    * coverage and tokens by token budget: the share of the gold passages that the context holds, and its length. A
      passage counts if its full text is there or, of a trimmed one, the sentence with the answer; a citation alone
      does not;

    * latency: a query's p50 and p95 at 4,000 tokens (or the largest budget), without the embedding of its text;
      and the seconds that ingest and build took.

    A set is `{"passages": [{"title", "text"}], "queries": [{"id", "question", "answer", "type", "gold": [passage
    index, …]}]}`. `--json` gives the keys recall@2, recall@5, recall@10, all@5, mrr, coverage, tokens,
    latency_ms_p50, latency_ms_p95, build_s: recalls, all@5 and coverage in percent, mrr from 0 to 1.

    Example: `leanrag eval retrieval questions.json --compare lca,naive,paper`
    """
    # Heavy, all of them: --help must not wait for them.
    from leanrag_engine.evaluation.datasets import read_set  # noqa: PLC0415
    from leanrag_engine.evaluation.retrieval.run import evaluate, parse_strategies, strategy  # noqa: PLC0415
    from leanrag_engine.evaluation.scratch import GivenGraph, scratch_settings  # noqa: PLC0415
    from leanrag_engine.extraction.openie import read_openie  # noqa: PLC0415

    from .reports import retrieval_remarks, show_retrieval  # noqa: PLC0415

    names = compare.split(",") if compare else []
    if json and names:
        raise InvalidInput(
            "--json prints the figures of one way, --compare asks for several.", "Leave one out."
        )
    # All input is read and checked before any work.
    ways = parse_strategies(names) if names else [strategy(mode, ranking)]
    questions = read_set(question_set).first(limit)
    given = GivenGraph.of(read_openie(graph), questions) if graph else None
    sizes = parse_numbers(budgets)
    with open_scratch(data_dir) as (folder, show):
        found = await evaluate(scratch_settings(folder, embedder), questions, given, ways, sizes, show)
    for remark in retrieval_remarks(questions, given, found):
        typer.echo(remark, err=True)
    if json:
        typer.echo(json_.dumps(next(iter(found.figures.values())).as_json()))
    else:
        show_retrieval(questions, given, found)


@app.command()
@as_command
async def coverage(
    sets: Annotated[
        list[Path], typer.Argument(metavar="SET...", help="Folders with docs/ and questions.json.")
    ],
    embedder: option.EmbedderName = None,
    compare: Annotated[
        str,
        typer.Option(
            metavar="A,B,…",
            help="Modes and rankings of ours, and flat: the others are compared with the first.",
        ),
    ] = "lca,naive,flat",
    budgets: option.Budgets = "1000,2000,4000",
    limit: option.Limit = None,
    queries: Annotated[
        bool, typer.Option("--queries", help="Give the sub-queries that the set has.")
    ] = False,
    misses: Annotated[
        bool, typer.Option("--misses", help="List the questions that lack facts on standard error.")
    ] = False,
    collection: option.Collection = None,
    data_dir: option.CollectionDir = None,
    json: option.Json = False,
) -> None:
    """Measure how many of the facts that an answer needs stand in the first tokens of a reply. No model needed.

    Ingests a folder of your own documents, or takes a collection that you have, asks every question at each token budget
    and prints, as means over the questions that need facts:

    * facts: the share of a question's facts that the reply's text states within the budget, in percent;

    * all: the questions with all their facts, in percent;

    * minus: the difference of facts to the first way, with 95 % bounds (paired bootstrap over the questions).

    `flat` is the plain way to beat: windows of sentences by BM25 and the same embedder, fused by rank, no graph.

    A set is a folder with `docs/`, but for `--collection`, and `questions.json`: `{"questions": [{"id", "question", "facts":
    [{"any": [regular expression, …], "loose": [[regular expression, …], …]}], "queries": [sub-query, …]}]}`. A fact counts where one of its
    expressions matches, in any case and across line ends, or, in other words than the documents', all expressions of one list
    of `loose` within 320 characters. Questions with an empty list of facts are left out.

    Example: `leanrag eval coverage my_manuals --compare lca,flat --budgets 1000,2000`, or of what is indexed already,
    `leanrag eval coverage my_questions --collection default`
    """
    # Heavy, all of them: --help must not wait for them.
    from leanrag_engine.evaluation.replies.reply_set import read_reply_set  # noqa: PLC0415
    from leanrag_engine.evaluation.replies.run import check, evaluate_replies  # noqa: PLC0415
    from leanrag_engine.evaluation.scratch import scratch_settings  # noqa: PLC0415

    from .reports import coverage_figures, coverage_remarks, show_coverage  # noqa: PLC0415

    read = [read_reply_set(folder, with_documents=not collection).first(limit) for folder in sets]
    sizes = parse_numbers(budgets)
    ways = check(compare.split(","), sizes, read)
    settings = load_settings(data_dir=data_dir, collection=collection, embedder=embedder, read_only=True)
    with open_scratch(settings.data_dir if collection else data_dir) as (folder, show):
        if not collection:
            settings = scratch_settings(folder, embedder, whole_passages=False)
        found = [
            await evaluate_replies(settings, each, ways, sizes, show, use_queries=queries) for each in read
        ]
    for remark in coverage_remarks(read, found, misses=misses):
        typer.echo(remark, err=True)
    if json:
        typer.echo(json_.dumps(coverage_figures(found)))
    else:
        show_coverage(found)


app.command()(answers)


@app.command()
@as_command
async def questions(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="A folder with docs/; with --collection any, which is made."),
    ],
    number: Annotated[int, typer.Option(min=1, help="Questions that the set has in the end.")] = 20,
    budget: Annotated[int, typer.Option(min=1, help="Most tokens of all calls together.")] = 200_000,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Who writes; default: the setting llm_model.")
    ] = None,
    api_base: option.ApiBase = None,
    worksheet: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Write passages for an agent here, and call no model."),
    ] = None,
    filled: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Take the questions of a worksheet that was filled in."),
    ] = None,
    collection: option.Collection = None,
    data_dir: DataDir = None,
    json: option.Json = False,
) -> None:
    """Write questions with the facts that their answers need, on documents of your own, for `leanrag eval coverage`.

    FOLDER has a folder `docs/`, or `--collection` names a collection that you have; the questions go to FOLDER's
    `questions.json`, beside those that are there. A model writes one question on each of `--number` passages, which are
    spread over the documents. Or the agent at your side does: `--worksheet` writes the passages with instructions into a
    file, and `--filled` takes what the agent wrote in it.

    Every fact must stand in its passage word for word, not in the question, and not in many passages. What fails is
    asked for once more, then rejected, counted and listed. Each question is stored at once: run the
    command again to go on. No call is made that could pass `--budget`.

    Example: `leanrag eval questions my_manuals --number 40 --model openai/gpt-4o-mini`, or on what is indexed already,
    `leanrag eval questions my_questions --collection default --worksheet sheet.json`
    """
    # Heavy, all of them: --help must not wait for them.
    from leanrag_engine.evaluation.replies import writing  # noqa: PLC0415
    from leanrag_engine.llm.prompts import Prompts  # noqa: PLC0415

    from ..progress import progress_bar  # noqa: PLC0415

    if worksheet and filled:
        raise InvalidInput("--worksheet writes a new file, --filled reads one.", "Give one of them.")
    settings = load_settings(
        data_dir=data_dir, collection=collection, llm_model=model, llm_api_base=api_base, read_only=True
    )
    if not (worksheet or filled or settings.llm_model):
        raise InvalidInput(
            "No model is set to write the questions.",
            "Set llm_model or give --model; or let the agent at your side write them: --worksheet FILE.json.",
        )
    file, prompts = writing.QuestionFile.open(folder), Prompts.open(settings.prompts_dir)
    corpus = await writing.read_collection(settings) if collection else writing.read_corpus(folder, settings)
    if worksheet:
        write_worksheet(worksheet, corpus, file, number, prompts, as_json=json)
        return
    if filled:
        found = writing.take_worksheet(filled, corpus, file)
    else:
        async with writing.open_writer(settings, budget) as author:
            with progress_bar() as show:
                found = await writing.write_by_model(author, corpus, file, number, show, prompts)
    for remark in remarks(corpus, found, file, number):
        typer.echo(remark, err=True)
    if json:
        typer.echo(json_.dumps(figures(file, found)))
    else:
        rejected = f", {len(found.rejected):,} rejected" if found.rejected else ""
        typer.echo(f"{file.path}: {file.written:,} questions, {found.added:,} of them new{rejected}.")


def write_worksheet(
    path: Path, corpus: SourceCorpus, file: QuestionFile, number: int, prompts: Prompts, *, as_json: bool
) -> None:
    from leanrag_engine.evaluation.replies.writing import make_worksheet  # noqa: PLC0415 - heavy

    check_new(path)
    content = make_worksheet(corpus, file, number, prompts)
    write_new(path, content)
    if as_json:
        typer.echo(json_.dumps({"worksheet": str(path), "passages": len(content["passages"])}))
        return
    typer.echo(
        f"{path}: {len(content['passages']):,} passages. Have your agent fill in each result as the instructions in it "
        f"say, then run this command with --filled {path}."
    )


def remarks(corpus: SourceCorpus, found: WritingOutcome, file: QuestionFile, number: int) -> Iterator[str]:
    """Describe what could not be read, what was rejected, and why there are fewer questions than asked for."""
    yield from (f"Not read: {each}" for each in corpus.failed)
    most = 10  # the file has all that a model wrote
    for place, reason in found.rejected[:most]:
        yield f"Rejected, {place}: {reason}"
    if len(found.rejected) > most:
        yield f"… and {len(found.rejected) - most:,} more."
    if found.capped:
        yield "The next call could pass --budget. Run the command again to go on."
    elif found.meter.calls and file.written < number:
        yield f"All {len(corpus.passages):,} passages were tried."
    if found.meter.calls:
        yield f"{found.meter.format_use()}."


def figures(file: QuestionFile, found: WritingOutcome) -> dict[str, object]:
    return {
        "questions": file.written,
        "added": found.added,
        "rejected": len(found.rejected),
        "calls": found.meter.calls,
        "tokens": found.meter.prompt_tokens + found.meter.completion_tokens,
        "capped": found.capped,
    }


def check_new(path: Path) -> None:
    """Raise ``InvalidInput`` if the file exists or its folder does not."""
    if path.exists():
        raise InvalidInput(f"The file {path} exists already.", "Give another name, or delete it first.")
    if not path.parent.is_dir():
        raise InvalidInput(
            f"There is no folder {path.parent} for {path.name}.", "Create it, or give another."
        )


def write_new(path: Path, content: object) -> None:
    write_output(path, json_.dumps(content, ensure_ascii=False, indent=1).encode())


def parse_numbers(given: str) -> list[int]:
    """Parse whole numbers, comma separated, in order and each once. Raises ``InvalidInput``."""
    try:
        found = [int(each) for each in given.split(",") if each.strip()]
    except ValueError:
        found = []
    if not found:
        raise InvalidInput(
            f"Budgets cannot be {given!r}.", "Give whole numbers, comma separated, such as 500,1000."
        )
    return sorted(set(found))
