"""Compare an agent that has a shell alone with one that has our tools alone, on the same folder and questions.

    python tests/programs/agent_runs/compare.py                              score the recorded runs again
    python tests/programs/agent_runs/compare.py shell LOG ID FOLDER COMMAND   run a command for question ID, and log it
    python tests/programs/agent_runs/compare.py tool LOG ID URL TOOL JSON     call a tool of a server, and log it
    python tests/programs/agent_runs/compare.py record LOG ANSWERS CORPUS AGENT   add a run to the recorded ones

The agent is any client that can be scripted: it reads what ``shell`` or ``tool`` prints, and writes its answers as lines
``{"id": ..., "answer": ...}``. A fact counts in any wording. Of the questions only the patterns are kept here: the documents
are not ours to pass on.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp_types import TextContent

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.evaluation.replies.reply_set import NeededFact

RECORDED = Path(__file__).with_name("recorded.json")


def log(path: str, id_: str, tool: str, text: str) -> None:
    """Print what the agent reads and note its tokens."""
    print(text)
    row = {"id": id_, "tool": tool, "tokens": TiktokenTokenizer().count(text)}
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def run_shell(path: str, id_: str, folder: str, command: str) -> None:
    done = subprocess.run(
        ["/bin/bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False
    )
    log(path, id_, "shell", done.stdout + done.stderr)


async def call_tool(path: str, id_: str, url: str, tool: str, arguments: str) -> None:
    async with Client(url) as client:
        reply = await client.call_tool(tool, json.loads(arguments))
    text = "\n".join(block.text for block in reply.content if isinstance(block, TextContent))
    log(path, id_, tool, text)


def read_lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def record(path: str, answers: str, corpus: str, agent: str) -> None:
    """Add the run, in place of an earlier one of the same agent on the same corpus."""
    kept = json.loads(RECORDED.read_text(encoding="utf-8"))
    calls = [[row["id"], row["tool"], row["tokens"]] for row in read_lines(path)]
    run = {
        "corpus": corpus,
        "agent": agent,
        "calls": calls,
        "answers": {row["id"]: row["answer"] for row in read_lines(answers)},
    }
    others = [each for each in kept["runs"] if (each["corpus"], each["agent"]) != (corpus, agent)]
    RECORDED.write_text(json.dumps(kept | {"runs": [*others, run]}, indent=1) + "\n", encoding="utf-8")


def compile_group(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(each, re.IGNORECASE | re.DOTALL) for each in patterns)


def score() -> None:
    """Print for each run the facts in its answers, the complete ones, and the tokens and calls of a question."""
    kept = json.loads(RECORDED.read_text(encoding="utf-8"))
    print(f"{'corpus':16}{'agent':8}{'facts':>8}{'complete':>10}{'tokens':>8}{'calls':>7}   of a question")
    for run in kept["runs"]:
        questions = {each["id"]: each for each in kept["questions"] if each["corpus"] == run["corpus"]}
        stated = {
            id_: [
                NeededFact((), tuple(map(compile_group, fact))).is_in(str(run["answers"].get(id_, "")))
                for fact in question["facts"]
            ]
            for id_, question in questions.items()
        }
        answerable = [row for row in stated.values() if row]
        facts = [each for row in answerable for each in row]
        calls = [tokens for id_, _, tokens in run["calls"] if id_ in questions]
        print(
            f"{run['corpus']:16}{run['agent']:8}{100 * sum(facts) / len(facts):7.1f}%{sum(map(all, answerable)):6} / {len(answerable)}"
            f"{sum(calls) / len(questions):8.0f}{len(calls) / len(questions):7.1f}"
        )


def main() -> None:
    match sys.argv[1:]:
        case ["tool", path, id_, url, tool, arguments]:
            anyio.run(call_tool, path, id_, url, tool, arguments)
        case ["shell", path, id_, folder, command]:
            run_shell(path, id_, folder, command)
        case ["record", path, answers, corpus, agent]:
            record(path, answers, corpus, agent)
        case []:
            score()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
