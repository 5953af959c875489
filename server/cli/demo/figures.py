"""What the demo asks, and what it measures."""

from __future__ import annotations

from dataclasses import dataclass, field

TOKEN_BUDGET = 1200

QUESTIONS = (
    "What does the with statement do with __enter__ and __exit__ when the body raises an exception?",
    "How does a generator function differ from a coroutine function, and what does yield do in each?",
    "Which takes precedence in attribute lookup: a data descriptor, the instance dictionary or __getattr__?",
)


@dataclass(slots=True)
class DemoFigures:
    """Measurements of the demo."""

    documents: int = 0
    passages: int = 0
    layers: list[int] = field(default_factory=list)
    relations: list[int] = field(default_factory=list)
    index_seconds: float = 0
    context_tokens: list[int] = field(default_factory=list)
    flat_tokens: int = 0
    tools: list[str] = field(default_factory=list)
    total_seconds: float = 0
