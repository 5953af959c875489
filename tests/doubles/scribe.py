"""A script for the chat server that does the work of a build: it reads, summarises and relates, always alike.

Which work is asked for shows in the instructions. The answers are right in form and poor in content: an
extraction names the capitalised words of its passage, a summary is named by what it is made of.
"""

from __future__ import annotations

import hashlib
import json
import re
from itertools import pairwise
from typing import Any

WORK = (
    ("glean", "This is a second pass"),
    ("extract", "You turn passages of documents into a graph"),
    ("aggregate", "You write the entries of a reference work"),
    ("relate", "Each task shows two groups of entities"),
    ("describe", "You combine several descriptions into one"),
)
"""Each kind of work, and words of its instructions that none after it has."""


def work_of(request: Any) -> str:
    """Which work a request asks for; "answer" if none of the kinds."""
    instructions = str(request.body["messages"][0]["content"])
    return next((work for work, words in WORK if words in instructions), "answer")


def tasks_of(request: Any) -> dict[int, str]:
    """The tasks of a request by their number, as they are shown."""
    text = str(request.body["messages"][1]["content"]) if len(request.body["messages"]) > 1 else request.last
    parts = re.split(r"^## Task (\d+)$", text, flags=re.MULTILINE)
    return {int(number): shown.strip() for number, shown in zip(parts[1::2], parts[2::2], strict=True)}


def answer_to(work: str, shown: str) -> dict[str, Any]:
    """One right answer."""
    key = hashlib.blake2b(shown.encode(), digest_size=3).hexdigest()
    match work:
        case "extract":
            names = list(dict.fromkeys(re.findall(r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)*\b", shown)))[:8]
            return {
                "entities": [
                    {"name": name, "type": "concept", "description": f"{name} is told of here."}
                    for name in names
                ],
                "relations": [
                    {
                        "source": one,
                        "target": other,
                        "description": f"{one} stands beside {other}.",
                        "importance": 5,
                    }
                    for one, other in pairwise(names)
                ],
            }
        case "glean":
            return {"entities": [], "relations": []}
        case "aggregate":
            return {
                "name": f"Matters of kind {key}",
                "description": f"A group of matters of kind {key} that stand beside each other in the passages.",
                "findings": [
                    {
                        "summary": f"Finding {number} of {key}.",
                        "explanation": f"It rests on the members, way {number}.",
                    }
                    for number in range(1, 6)
                ],
            }
        case "relate":
            return {"sentence": f"The first group stands beside the second in the passages, in way {key}."}
    return {"description": f"What the passages say about it, put together in way {key}."}


def write(request: Any) -> str:
    """The right answers to every task of a request of the chat server's."""
    work = work_of(request)
    if work == "answer":
        return "INSUFFICIENT: this model only builds."
    items = [{"task": number, **answer_to(work, shown)} for number, shown in tasks_of(request).items()]
    return json.dumps({"items": items}, ensure_ascii=False)
