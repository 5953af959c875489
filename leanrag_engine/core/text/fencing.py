"""Documents' text as data: between fences that nothing in it can close, so that no order in it is taken for one."""

from __future__ import annotations

import re
from collections.abc import Iterable

_BACKTICKS = re.compile(r"`+")
_SHORTEST = 3


def fence_for(texts: Iterable[str]) -> str:
    """A fence of backticks longer than any run of them in ``texts``, so that none can close it."""
    longest = max((len(run) for text in texts for run in _BACKTICKS.findall(text)), default=0)
    return "`" * max(_SHORTEST, longest + 1)


def wrap_in_fence(body: str, fence: str) -> str:
    return f"{fence}\n{body}\n{fence}"


def fence(text: str) -> str:
    """``text`` between lines of backticks that nothing in it can close."""
    return wrap_in_fence(text, fence_for([text]))
