"""``leanrag eval anonymise``: a question set without its names."""

import json as json_
from pathlib import Path
from typing import Annotated

import typer

from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.runtime.replacement import write_output

from ..options import as_command
from .options import Json, RetrievalSet


@as_command
async def anonymise(
    question_set: RetrievalSet,
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="Where the new set is written.")],
    names: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Where the name behind each token is written.")
    ] = None,
    recover: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="A set that asks for the names behind the tokens is written here."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Replace the names in a question set by neutral tokens, the same in passages, questions and answers.

    A model may know the answers of public sets by heart. With a token in place of a name, such as `Person12`, it can only find them in
    the passages: measure with both sets, and the difference is what it knew. No model and no key needed. Names are what reading
    without a model finds, titles, answers that stand in a passage, and words that always have a capital; dates and numbers stay.

    `--names` keeps which token stands for which name, to read answers by. `--recover` writes another set on the same
    passages, whose questions ask for the names behind the tokens: a model that finds them (`leanrag eval answers --open`) combines
    what it retrieves with what it knows. Existing files are not overwritten.

    Example: `leanrag eval anonymise questions.json --out anonymous.json --names names.json`
    """
    from leanrag_engine.evaluation.anonymise import anonymise as replace_names  # noqa: PLC0415 - heavy
    from leanrag_engine.evaluation.datasets import read_set  # noqa: PLC0415 - heavy

    for path in filter(None, (out, names, recover)):
        check_new(path)
    found = replace_names(read_set(question_set))
    write_new(out, found.as_json())
    if names:
        write_new(names, dict(found.names))
    if recover:
        write_new(recover, found.recovery_as_json())
    total = len(found.questions.questions)
    if json:
        figures = {"names": len(found.names), "questions": total, "changed": found.changed}
        typer.echo(json_.dumps(figures | {"out": str(out)}))
    else:
        typer.echo(
            f"{out}: {len(found.names):,} names replaced; {found.changed:,} of {total:,} questions have one."
        )


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
