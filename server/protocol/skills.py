"""The skills extension (``io.modelcontextprotocol/skills``, SEP-2640): instructions for work with the tools, as files that a
host loads when it needs them. A plugin holds the same files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding, ResourceBinding
from mcp.server.mcpserver.resources import TextResource
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, RequestParams

from ..replies.errors import Offered

NEEDED_TOOLS = {"leanrag-search": "query_lca_context", "leanrag-write": "submit_summaries"}
"""Each skill, and a tool without which it would be useless."""

COMPLETE = {"resultType": "complete", "ttlMs": 300_000, "cacheScope": "public"}


@dataclass(frozen=True, slots=True)
class Skill:
    """A folder that holds one file, ``SKILL.md``."""

    name: str
    content: bytes

    @property
    def uri(self) -> str:
        return f"skill://{self.name}/SKILL.md"

    @property
    def front_matter(self) -> dict[str, str]:
        """The fields between the lines of dashes: in ours each is a text on one line."""
        _, head, _ = self.content.decode().split("---\n", 2)
        return dict(line.split(": ", 1) for line in head.splitlines())

    @property
    def entry(self) -> dict[str, object]:
        """The entry of ``skills/list`` and ``skills/get``."""
        digest = f"sha256:{hashlib.sha256(self.content).hexdigest()}"
        file = {"uri": self.uri, "digest": digest, "size": len(self.content)}
        return {"uri": self.uri, "frontmatter": self.front_matter, "resources": [file]}


def load_skills(offered: Offered | None = None) -> Iterator[Skill]:
    """Yield the skills that the tools of a server suffice for; without one, all."""
    for name, tool in NEEDED_TOOLS.items():
        if offered is None or tool in offered.tools:
            yield Skill(name, files("leanrag_prompts").joinpath("skills", name, "SKILL.md").read_bytes())


class SkillParams(RequestParams):
    uri: str


class Skills(Extension):
    """Serves the skills as resources, and ``skills/list`` and ``skills/get``."""

    identifier = "io.modelcontextprotocol/skills"

    def __init__(self, offered: Offered) -> None:
        self._skills = {skill.uri: skill for skill in load_skills(offered)}

    def resources(self) -> Sequence[ResourceBinding]:
        return [
            ResourceBinding(
                TextResource(
                    uri=uri,
                    name=skill.name,
                    description=skill.front_matter["description"],
                    mime_type="text/markdown",
                    text=skill.content.decode(),
                )
            )
            for uri, skill in self._skills.items()
        ]

    def methods(self) -> Sequence[MethodBinding]:
        return [
            MethodBinding("skills/list", PaginatedRequestParams, self._list),
            MethodBinding("skills/get", SkillParams, self._get),
        ]

    async def _list(
        self, ctx: ServerRequestContext[object, object], params: PaginatedRequestParams
    ) -> HandlerResult:
        del ctx, params  # there is one page
        return {"skills": [skill.entry for skill in self._skills.values()], **COMPLETE}

    async def _get(self, ctx: ServerRequestContext[object, object], params: SkillParams) -> HandlerResult:
        del ctx
        if params.uri not in self._skills:
            raise MCPError(INVALID_PARAMS, f"There is no skill {params.uri!r}; skills/list names all.")
        return {"skill": self._skills[params.uri].entry, **COMPLETE}
