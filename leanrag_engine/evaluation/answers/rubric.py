"""Requests to a judge and the reading of its verdicts: the paper's four measures (appendix D.3, D.4)."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from leanrag_engine.core.errors import ReplyUnusable
from leanrag_engine.core.model import Json, JsonSchema
from leanrag_engine.core.ports import ChatRequest, Message
from leanrag_engine.core.text.cleaning import fence
from leanrag_engine.llm.batching import quote, read_object
from leanrag_engine.llm.item_schema import object_schema
from leanrag_engine.llm.prompts import Prompts

T = TypeVar("T", int, float)
V = TypeVar("V")

MEASURES = ("comprehensiveness", "diversity", "empowerment", "overall")
"""Three criteria and the overall quality."""

LOWEST, HIGHEST = 1, 10

VERDICT_TOKENS = 2000  # Room for a verdict with four reasons and the reasoning tokens of some models

_SCORE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:/\s*10)?")
_WINNER = re.compile(r"(?:answer\s*)?([12])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Score:
    """``value`` from 1 to 10."""

    value: float
    reason: str


@dataclass(frozen=True, slots=True)
class Choice:
    """``winner`` is the answer's place in the request, 1 or 2."""

    winner: int
    reason: str


Scores = Mapping[str, Score]
Choices = Mapping[str, Choice]
"""By measure, all of ``MEASURES``."""


def score_request(question: str, answer: str, prompts: Prompts) -> ChatRequest:
    """Return the request to grade one answer, without the temperature and the seed of the vote."""
    text = prompts.fill("judge_scores", question=fence(question), answer=fence(answer))
    return ChatRequest((Message("user", text),), VERDICT_TOKENS, SCORES_SCHEMA)


def choice_request(question: str, first: str, second: str, prompts: Prompts) -> ChatRequest:
    """Return the request to compare two answers in this order, without the temperature and the seed of the vote."""
    text = prompts.fill("judge_pair", question=fence(question), first=fence(first), second=fence(second))
    return ChatRequest((Message("user", text),), VERDICT_TOKENS, CHOICES_SCHEMA)


def read_scores(text: str) -> Scores:
    """Read the scores. Raises ``ReplyUnusable`` with what is missing or out of range."""
    return _read(text, "score", _score, "a number from 1 to 10", Score)


def read_choices(text: str) -> Choices:
    """Read the winners. Raises ``ReplyUnusable`` with what is missing or not 1 or 2."""
    return _read(text, "winner", _winner, "1 or 2", Choice)


def _read(
    text: str, key: str, value_of: Callable[[Json], T | None], expected: str, make: Callable[[T, str], V]
) -> dict[str, V]:
    verdicts = {_plain(name): value for name, value in read_object(text).items()}
    found: dict[str, V] = {}
    for measure in MEASURES:
        verdict = verdicts.get(measure)
        if not isinstance(verdict, dict):
            raise ReplyUnusable(f'It has no object under "{measure}", with "reason" and "{key}".')
        parts = {_plain(name): value for name, value in verdict.items()}
        value, reason = value_of(parts.get(key)), parts.get("reason", parts.get("explanation"))
        if value is None:
            raise ReplyUnusable(
                f'The {key} of "{measure}" is {quote(repr(parts.get(key)))}; expected {expected}.'
            )
        if not isinstance(reason, str) or not reason.strip():
            raise ReplyUnusable(f'The {key} of "{measure}" has no reason.')
        found[measure] = make(value, reason.strip())
    return found


def _plain(name: object) -> str:
    """Normalise a key as judges vary it: ``Overall Quality``, ``overall_winner`` and ``overall`` are one."""
    words = re.findall(r"[a-z]+", str(name).lower())
    return words[0] if words else ""


def _score(value: object) -> float | None:
    if isinstance(value, str) and (match := _SCORE.fullmatch(value.strip())):
        value = float(match[1])
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) if LOWEST <= value <= HIGHEST else None


def _winner(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    match = _WINNER.fullmatch(str(value).strip())
    return int(match[1]) if match else None


def _schema(title: str, key: str, values: range) -> JsonSchema:
    """Return the schema of a verdict; the reason comes before the number, so that the model reasons first."""
    verdict = object_schema({"reason": {"type": "string"}, key: {"type": "integer", "enum": list(values)}})
    schema: JsonSchema = {"title": title, **object_schema(dict.fromkeys(MEASURES, verdict))}
    return schema


SCORES_SCHEMA = _schema("scores", "score", range(LOWEST, HIGHEST + 1))
CHOICES_SCHEMA = _schema("choices", "winner", range(1, 3))
