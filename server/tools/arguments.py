"""What several tools share: the engine, and arguments with the limits that their schemas state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

if TYPE_CHECKING:
    from leanrag_engine.engine import LeanRAG
    from leanrag_engine.retrieval import request

from ..engine_handle import EngineHandle


class ToolGroup:
    """Each method of a group is one tool; its docstring is what the model reads."""

    def __init__(self, engine: EngineHandle) -> None:
        self._engine = engine

    async def _open(self, collection: str) -> tuple[LeanRAG, str]:
        """Return the open engine, and the collection that a call means by this name."""
        return await self._engine.get(), await self._engine.choose(collection)


def wrap_single(value: object) -> object:
    """Wrap a single value in a list: some clients send one value for a list of one."""
    return [value] if isinstance(value, str | dict) else value


def parse_object(value: object) -> object:
    """Parse an object that a client sends as JSON in a string, also within a list."""
    if not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value  # validation refuses it with a message of its own
    return parsed if isinstance(parsed, dict) else value


CollectionName = str
"""Which corpus; ``default`` is the server's own. It has no description, which every tool's schema would repeat."""
EntityName = str
"""Name or ref, as ``search_entities`` says of every tool."""
JobId = str
WaitSeconds = Annotated[float, Field(ge=0, le=40)]
"""How long to wait for the end of a job."""
Limit = Annotated[int, Field(ge=1, le=100)]
Cursor = str
"""``next_cursor`` of the page before."""
ResponseFormat = Literal["concise", "detailed"]
Text = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)]
"""A text that may look like a number, which some clients then send as one."""
Strings = Annotated[list[str], BeforeValidator(wrap_single)]


# Without docstrings: pydantic would add them to the published schemas.


class DocumentArgument(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str = Field(default="", description="Beneath an allowed folder")
    text: str | None = None
    title: str = ""
    id: str = Field(default="", description="Default: the path")
    metadata: dict[str, str | int | float | bool] = Field(default_factory=dict)


class FiltersArgument(BaseModel):
    model_config = ConfigDict(extra="forbid")

    documents: Strings = Field(default_factory=list, description="ids, titles, d3 or folder/")
    metadata: dict[str, str] = Field(default_factory=dict, description="tags too; a|b: either")
    since: str = Field(default="", description="ISO, by the documents' own dates")
    until: str = ""

    def to_engine(self) -> request.Filters:
        from leanrag_engine.retrieval import request  # noqa: PLC0415 - heavy: only on the first call

        return request.Filters(tuple(self.documents), self.metadata, self.since or None, self.until or None)


Filters = Annotated[FiltersArgument, BeforeValidator(parse_object)]
FiltersAgain = Annotated[
    Filters, WithJsonSchema({"type": "object", "description": "As of query_lca_context"})
]
"""Filters of a further tool: their schema is said once."""
DocumentOrJson = Annotated[DocumentArgument, BeforeValidator(parse_object)]
