"""The command ``leanrag eval questions``: a reply set written on one's own documents by a model or by the calling agent."""

from __future__ import annotations

import json as json_
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leanrag_engine.core.config import Settings, load_settings
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.runtime.replacement import write_output

from ..options import as_command
from .options import ApiBase, Json

if TYPE_CHECKING:
    from leanrag_engine.evaluation.replies.writing import QuestionFile, SourceCorpus, WritingOutcome


@as_command
async def questions(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with docs/.")],
    number: Annotated[int, typer.Option(min=1, help="Questions that the set has in the end.")] = 20,
    budget: Annotated[int, typer.Option(min=1, help="Most tokens of all calls together.")] = 200_000,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Who writes; default: the setting llm_model.")
    ] = None,
    api_base: ApiBase = None,
    worksheet: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Write passages for an agent here, and call no model."),
    ] = None,
    filled: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Take the questions of a worksheet that was filled in."),
    ] = None,
    json: Json = False,
) -> None:
    """Write questions with the facts that their answers need, on documents of your own, for `leanrag eval coverage`.

    FOLDER has a folder `docs/`; the questions go to its `questions.json`, beside those that are there. A model
    writes one question on each of `--number` passages, which are spread over the documents. Or the agent at your side does:
    `--worksheet` writes the passages with instructions into a file, and `--filled` takes what the agent wrote in it.

    Every fact must stand in its passage word for word, not in the question, and not in many passages. What fails is
    asked for once more, then rejected, counted and listed. Each question is stored at once: run the
    command again to go on. No call is made that could pass `--budget`.

    Example: `leanrag eval questions my_manuals --number 40 --model openai/gpt-4o-mini`
    """
    from leanrag_engine.evaluation.replies.writing import (  # noqa: PLC0415 - heavy
        QuestionFile,
        open_corpus,
        take_worksheet,
    )

    if worksheet and filled:
        raise InvalidInput("--worksheet writes a new file, --filled reads one.", "Give one of them.")
    settings = load_settings(llm_model=model, llm_api_base=api_base)
    if not (worksheet or filled or settings.llm_model):
        raise InvalidInput(
            "No model is set to write the questions.",
            "Set llm_model or give --model; or let the agent at your side write them: --worksheet FILE.json.",
        )
    file = QuestionFile.open(folder)
    corpus = open_corpus(folder, settings)
    if worksheet:
        write_worksheet(worksheet, corpus, file, number, settings, as_json=json)
        return
    if filled:
        found = take_worksheet(filled, corpus, file)
    else:
        found = await write(settings, corpus, file, number, budget)
    for remark in remarks(corpus, found, file, number):
        typer.echo(remark, err=True)
    if json:
        typer.echo(json_.dumps(figures(file, found)))
    else:
        rejected = f", {len(found.rejected):,} rejected" if found.rejected else ""
        typer.echo(f"{file.path}: {file.written:,} questions, {found.added:,} of them new{rejected}.")


def write_worksheet(
    path: Path, corpus: SourceCorpus, file: QuestionFile, number: int, settings: Settings, *, as_json: bool
) -> None:
    from leanrag_engine.evaluation.replies.writing import make_worksheet  # noqa: PLC0415 - heavy
    from leanrag_engine.llm.prompts import Prompts  # noqa: PLC0415 - only here

    check_new(path)
    content = make_worksheet(corpus, file, number, Prompts.open(settings.prompts_dir))
    write_new(path, content)
    if as_json:
        typer.echo(json_.dumps({"worksheet": str(path), "passages": len(content["passages"])}))
        return
    typer.echo(
        f"{path}: {len(content['passages']):,} passages. Have your agent fill in each result as the instructions in it "
        f"say, then run this command with --filled {path}."
    )


async def write(
    settings: Settings, corpus: SourceCorpus, file: QuestionFile, number: int, budget: int
) -> WritingOutcome:
    """Have the model of the settings write, with progress on standard error."""
    from leanrag_engine.evaluation.replies.writing import open_writer, write_by_model  # noqa: PLC0415
    from leanrag_engine.llm.prompts import Prompts  # noqa: PLC0415 - only here

    from ..progress import progress_bar  # noqa: PLC0415 - rich is heavy

    async with open_writer(settings, budget) as model:
        with progress_bar() as show:
            prompts = Prompts.open(settings.prompts_dir)
            return await write_by_model(model, corpus, file, number, show, prompts)


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
