"""A small question set on the demo's corpus, for ``leanrag eval``: made from the topics on this machine."""

import json
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

from leanrag_engine.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question, and the words of the passages that it needs: each topic's name and words that stand there once."""

    text: str
    answer: str
    needed: tuple[tuple[str, str], ...]


QUESTIONS = (
    DemoQuestion(
        "What happens to an exception in the body of a with statement if __exit__ returns a true value?",
        "suppressed",
        (("with", "If the return value was true, the exception is suppressed"),),
    ),
    DemoQuestion(
        "Which functions are coroutines even if they never await anything?",
        "async def",
        (("async", "are always coroutine functions"),),
    ),
    DemoQuestion(
        "What becomes of an exception that waits while a finally clause returns?",
        "discarded",
        (("try", "the saved exception is discarded"),),
    ),
    DemoQuestion(
        "When does Python fall back to __getattr__?",
        "default attribute access fails",
        (("attribute-access", "Called when the default attribute access fails"),),
    ),
    DemoQuestion(
        "Which descriptors win over the dictionary of an instance?",
        "Data descriptors",
        (("attribute-access", "always override a redefinition in an instance dictionary"),),
    ),
    DemoQuestion(
        "What happens to hashing if a class defines equality only?",
        "None",
        (("customization", 'implicitly set to "None"'),),
    ),
    DemoQuestion(
        "How does one skip the rest of a loop's body and begin its next round?",
        "next cycle",
        (("continue", "next cycle of the nearest enclosing"),),
    ),
    DemoQuestion(
        "When are the defaults of parameters computed?",
        "when the function definition is executed",
        (("function", "Default parameter values are evaluated from left to right"),),
    ),
    DemoQuestion("What is an assert statement short for?", "if __debug__", (("assert", "if __debug__:"),)),
    DemoQuestion(
        "What turns a def into a generator function, and what into a coroutine function?",
        "generator function",
        (
            ("yield", "cause that definition to create a generator function"),
            ("async", "are always coroutine functions"),
        ),
    ),
)

OTHERS = ("for", "while", "break", "class", "lambda", "calls", "del", "import", "raise", "return")
"""Topics that no question needs."""


def write_questions(file: Path) -> str:
    """Write the question set and return what it holds. Raises :class:`InvalidInput` if the file cannot be written."""
    passages = [
        {"title": topic, "text": text}
        for topic in sorted({topic for each in QUESTIONS for topic, _ in each.needed} | {*OTHERS})
        for text in split_passages(topics[topic])
    ]
    queries = []
    for number, each in enumerate(QUESTIONS, 1):
        gold = [
            index
            for topic, words in each.needed
            for index, passage in enumerate(passages)
            if passage["title"] == topic and words in " ".join(passage["text"].split())
        ]
        # Another version of Python may say it in other words.
        if len(gold) == len(each.needed):
            kind = "one passage" if len(gold) == 1 else "two passages"
            queries.append(
                {"id": f"q{number}", "question": each.text, "answer": each.answer, "type": kind, "gold": gold}
            )
    try:
        file.write_text(json.dumps({"passages": passages, "queries": queries}, indent=1), encoding="utf-8")
    except OSError as problem:
        raise InvalidInput(
            f"{file} cannot be written: {problem.strerror}.", "Give another file."
        ) from problem
    return f"Wrote {file}: {len(queries)} questions on {len(passages)} passages of the Python language reference."


def split_passages(text: str) -> list[str]:
    """Return the text in passages of whole paragraphs, of about 1,000 characters."""
    passages = [""]
    most_characters = 1000
    for paragraph in text.split("\n\n"):
        if passages[-1] and len(passages[-1]) + len(paragraph) > most_characters:
            passages.append("")
        passages[-1] += f"{paragraph}\n\n"
    return [each.strip() for each in passages if each.strip()]
