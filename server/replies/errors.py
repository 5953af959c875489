"""The server's own messages: errors that a model can act on, and next steps that name only tools on offer."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from leanrag_engine.core.errors import EmbedderChanged, LeanRAGError, NotReady
from leanrag_engine.core.text.nearest import find_nearest
from leanrag_engine.core.text.shortening import cut_middle

if TYPE_CHECKING:
    from mcp_types import CallToolResult

READ_ONLY = "This server offers no tool for that: use a server that can write, or the command line."

REPEATED = 80  # Characters of a refused value that a message repeats

_SENTENCES = re.compile(r"(?<=[^\d][.!?])\s+")


def plain(text: str) -> str:
    """Return ``text`` without control, zero-width and direction characters."""
    from leanrag_engine.core.text.cleaning import clean  # noqa: PLC0415 - its tables take 30 ms, and the start needs none

    return clean(text)


def plain_line(text: str) -> str:
    """Return ``plain`` on one line: after a line break in a name, the rest would look like the server's own line."""
    cleaned = plain(text)
    return " ".join(cleaned.split()) if "\n" in cleaned or "\t" in cleaned else cleaned


def without_steps(text: str) -> str:
    """Return a reply without its lines about the next call of a tool."""
    return "\n".join(line for line in text.split("\n") if not line.startswith(("Next: ", "More: ")))


def error_result(text: str) -> CallToolResult:
    """Return an error whose whole text the model reads; long lines, which may repeat a whole argument, are cut."""
    from mcp_types import CallToolResult, TextContent  # noqa: PLC0415 - 0.2 s; the command line sends no result

    # The beginning says what is wrong and the end what to do; between them is what was repeated from the call.
    lines = [cut_middle(line, 600) for line in plain(text).split("\n")]
    return CallToolResult(content=[TextContent(type="text", text="\n".join(lines))], is_error=True)


@dataclass(frozen=True, slots=True)
class Offered:
    """The tools that a server offers, among all tools."""

    tools: frozenset[str]
    all_tools: frozenset[str]

    def is_allowed(self, text: str) -> bool:
        return not (self.all_tools - self.tools) & set(re.findall(r"\w+", text))

    def steps(self, text: str) -> str:
        """Return ``text`` without the sentences that name a tool not offered."""
        if self.is_allowed(text):
            return text
        return " ".join(part for part in _SENTENCES.split(text) if self.is_allowed(part)) or READ_ONLY

    def lines(self, text: str) -> str:
        """Apply ``steps`` to each line of ``text`` and leave out the lines of which nothing remains."""
        kept = [(line, self.steps(line)) for line in text.split("\n")]
        return "\n".join(new for old, new in kept if new != READ_ONLY or old == new)

    def result(self, result: CallToolResult) -> CallToolResult:
        """Return ``result`` with a next step that names only tools on offer, in text and structured content."""
        content = result.structured_content or {}
        step = content.get("next_step", "")
        if not isinstance(step, str) or self.is_allowed(step):
            return result
        new = self.steps(step)
        blocks = [
            block.model_copy(update={"text": block.text.replace(step, new)})
            if block.type == "text"
            else block
            for block in result.content
        ]
        return result.model_copy(
            update={"content": blocks, "structured_content": {**content, "next_step": new}}
        )

    def problem(self, problem: LeanRAGError) -> str:
        """Return the engine's message, its candidates as quoted text, and the tool for the next step."""
        # The context's own fences; imported here because start-up must not load them.
        from leanrag_engine.core.text.cleaning import fence  # noqa: PLC0415

        text = f"{problem.message} {problem.next_step}".rstrip()
        if isinstance(problem, NotReady | EmbedderChanged):
            needs = "build" if isinstance(problem, EmbedderChanged) else problem.needs
            tool = {"documents": "ingest_documents", "build": "build_hierarchy", "end": "get_job"}[needs]
            return f"{text} {f'Tool: {tool}.' if tool in self.tools else READ_ONLY}"
        candidates = getattr(problem, "candidates", ())
        if not candidates:
            return text
        return f"{text}\n{fence(chr(10).join(f'- {plain_line(str(each))}' for each in candidates))}"


def unknown_tool(name: str, offered: Collection[str]) -> str:
    near = find_nearest(name[:REPEATED], sorted(offered))
    guess = f" Did you mean {near[0]}?" if near else ""
    return f"There is no tool {repeat_value(name)}.{guess} The tools are: {', '.join(sorted(offered))}."


def missing_right(name: str, right: str) -> str:
    """Return what is said of a tool that the caller has no right to."""
    return f"Your token may not call {name}: that needs the right {right}. Ask the administrator of the server for it."


def unknown_arguments(tool: str, given: Iterable[str], known: list[str], only_collection: str = "") -> str:
    """Name the arguments that do not exist, and what may have been meant."""
    lines = [f"{tool} cannot be called like this:"]
    for name in [*given][:20]:
        if name == "collection" and only_collection:
            lines.append(f"- leave out 'collection': this server serves {only_collection!r} alone.")
        elif name not in known:
            near = find_nearest(name[:REPEATED], known)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            lines.append(f"- there is no argument {repeat_value(name)}{hint}")
    return "\n".join([*lines, arguments_line(known)])


def invalid_arguments(tool: str, problem: ValidationError, known: list[str]) -> str:
    """Describe each refused argument: its name, its value, what was expected."""
    lines = [f"{tool} cannot be called like this:"]
    for error in problem.errors():
        where = ".".join(str(part) for part in error["loc"])
        if error["type"] == "extra_forbidden":
            lines.append(f"- there is no {repeat_value(where)}.")
        elif error["type"] == "missing":
            lines.append(f"- the argument {where!r} is missing.")
        else:
            lines.append(f"- {where} is {repeat_value(error['input'])}: {error['msg'].lower()}.")
    return "\n".join([*lines[:20], arguments_line(known)])


def arguments_line(known: list[str]) -> str:
    return f"Its arguments are: {', '.join(known)}." if known else "It takes no arguments."


def repeat_value(value: object) -> str:
    """Format a value as an error repeats it."""
    given = repr(value)
    return given if len(given) <= REPEATED else f"{given[: REPEATED - 3]}..."


def internal_error(tool: str, cause: BaseException | None) -> str:
    """Describe a defect of the server: no internals, but what it means to the caller."""
    kind = type(cause).__name__ if cause else "an unknown error"
    return (
        f"{tool} failed inside the server ({kind}). The call was valid; this is a defect of the server, and its log "
        "has the details. Nothing was changed. Try again with simpler arguments, or continue without it."
    )
