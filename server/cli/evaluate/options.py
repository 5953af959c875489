"""Options that several commands of ``leanrag eval`` share."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="End with one JSON object on one line.")]
EmbedderName = Annotated[
    str | None, typer.Option(help="What turns text into vectors; default: the setting's.")
]
Limit = Annotated[int | None, typer.Option(min=1, help="Ask so many questions only, the first ones.")]

RetrievalSet = Annotated[
    Path, typer.Argument(metavar="SET.json", help="Passages, and questions with their gold passages.")
]
Budgets = Annotated[str, typer.Option(help="Token budgets, comma separated.")]
ScratchDir = Annotated[
    Path | None,
    typer.Option(
        help="Keep the scratch collection here, and use it again next time; default: a folder that is removed."
    ),
]
Collection = Annotated[
    str | None,
    typer.Option(help="Take this collection as it is, instead of one made of the set's documents."),
]
CollectionDir = Annotated[
    Path | None,
    typer.Option(
        help="Where the collection is, or where one made of the set is kept; default: the platform's, or removed."
    ),
]
ApiBase = Annotated[
    str | None, typer.Option(metavar="URL", help="Where the answerer is, and a judge of the same provider.")
]
