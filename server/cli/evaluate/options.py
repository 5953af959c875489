"""The options of ``leanrag eval retrieval``, ``anonymise``, ``coverage``, ``questions`` and ``answers``."""

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
GraphFile = Annotated[
    Path | None,
    typer.Option(metavar="OPENIE.json", help="Entities and triples in HippoRAG's OpenIE format to build on."),
]
ModeName = Annotated[str, typer.Option(help="lca, local, global or naive.")]
RankingName = Annotated[str, typer.Option(help="spread, fused or paper.")]
CompareStrategies = Annotated[
    str,
    typer.Option(
        metavar="A,B,…", help="Several modes and rankings side by side instead, such as lca,naive,paper."
    ),
]
Budgets = Annotated[str, typer.Option(help="Token budgets, comma separated.")]
ScratchDir = Annotated[
    Path | None,
    typer.Option(
        help="Keep the scratch collection here, and use it again next time; default: a folder that is removed."
    ),
]


AnonymousFile = Annotated[Path, typer.Option(metavar="FILE.json", help="Where the new set is written.")]
NamesFile = Annotated[
    Path | None, typer.Option(metavar="FILE.json", help="Where the name behind each token is written.")
]

RecoverFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.json", help="A set that asks for the names behind the tokens is written here."
    ),
]


ReplySets = Annotated[
    list[Path], typer.Argument(metavar="SET...", help="Folders with docs/ and questions.json.")
]
CompareWays = Annotated[
    str,
    typer.Option(
        metavar="A,B,…", help="Modes and rankings of ours, and flat: the others are compared with the first."
    ),
]
UseQueries = Annotated[bool, typer.Option("--queries", help="Give the sub-queries that the set has.")]
ListMisses = Annotated[
    bool, typer.Option("--misses", help="List the questions that lack facts on standard error.")
]


NewSet = Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with docs/.")]
Number = Annotated[int, typer.Option(min=1, help="Questions that the set has in the end.")]
TokenCap = Annotated[int, typer.Option(min=1, help="Most tokens of all calls together.")]
WriterModel = Annotated[
    str | None, typer.Option(metavar="MODEL", help="Who writes; default: the setting llm_model.")
]
WorksheetFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE.json", help="Write passages for an agent here, and call no model."),
]
FilledWorksheet = Annotated[
    Path | None,
    typer.Option(metavar="FILE.json", help="Take the questions of a worksheet that was filled in."),
]


QuestionsFile = Annotated[
    Path,
    typer.Argument(
        metavar="SET",
        help="Passages and questions (JSON), UltraDomain's JSON Lines, or with --collection a text file of questions.",
    ),
]
JudgeModel = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="Who judges; default: the setting judge_model, else the answerer."),
]
AnswererModel = Annotated[
    str | None, typer.Option(metavar="MODEL", help="Who writes the answers; default: the setting llm_model.")
]
ApiBase = Annotated[
    str | None, typer.Option(metavar="URL", help="Where the answerer is, and a judge of the same provider.")
]
JudgeApiBase = Annotated[str | None, typer.Option(metavar="URL", help="Where the judge is, if elsewhere.")]
CompareWithLca = Annotated[
    str,
    typer.Option(
        metavar="A,B,…",
        help="Ways beside lca: local, global, naive, paper, fused, without-relations, without-chunks.",
    ),
]
WithAblations = Annotated[
    bool | None,
    typer.Option(
        help="The paper's ablations too: without relations (table 2), without chunks (table 3).",
        show_default="with --compare",
    ),
]
Votes = Annotated[int, typer.Option(min=1, help="How often each answer and each pair is judged.")]
Budget = Annotated[int, typer.Option(help="Most tokens of a context.")]
OpenMode = Annotated[
    bool,
    typer.Option(
        "--open/--reject", help="May the model use what it knows, or must it decline without evidence?"
    ),
]
WithScores = Annotated[bool, typer.Option(help="Grade each answer from 1 to 10.")]
WithPairs = Annotated[bool, typer.Option(help="Compare each way's answer with that of lca.")]
JudgeTemperature = Annotated[float, typer.Option(min=0, max=2, help="Of the judge; 0 makes all votes alike.")]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Calls under way at once.")]
ExistingCollection = Annotated[
    str | None, typer.Option(help="Ask this collection as it is, instead of one made of the set's passages.")
]
AnswersDataDir = Annotated[
    Path | None,
    typer.Option(
        help="Where the collection is, or where one made of the set is kept; default: the platform's, or removed."
    ),
]
DetailsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.jsonl", help="Write every answer and verdict with its reasons here, as they come."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say how many calls and tokens it takes.")]
