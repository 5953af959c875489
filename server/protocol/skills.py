"""The skills extension (``io.modelcontextprotocol/skills``, SEP-2640): instructions for work with the tools, as files that a
host loads when it needs them. A plugin holds the same files."""

import hashlib
from collections.abc import Sequence
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


def load_skills(offered: Offered) -> dict[str, bytes]:
    """Return the ``SKILL.md`` of each skill, its only file, that the tools of a server suffice for."""
    folder = files("leanrag_prompts").joinpath("skills")
    wanted = [name for name, tool in NEEDED_TOOLS.items() if tool in offered.tools]
    return {name: folder.joinpath(name, "SKILL.md").read_bytes() for name in wanted}


def read_front_matter(content: bytes) -> dict[str, str]:
    """Return the fields between the lines of dashes: in ours each is a text on one line."""
    _, head, _ = content.decode().split("---\n", 2)
    return dict(line.split(": ", 1) for line in head.splitlines())


class SkillParams(RequestParams):
    uri: str


class Skills(Extension):
    """Serves the skills as resources, and ``skills/list`` and ``skills/get``."""

    identifier = "io.modelcontextprotocol/skills"

    def __init__(self, offered: Offered) -> None:
        self._files = {f"skill://{name}/SKILL.md": file for name, file in load_skills(offered).items()}

    def resources(self) -> Sequence[ResourceBinding]:
        made = []
        for uri, file in self._files.items():
            about = read_front_matter(file)
            name, description = about["name"], about["description"]
            text, kind = file.decode(), "text/markdown"
            made.append(TextResource(uri=uri, name=name, description=description, mime_type=kind, text=text))
        return [ResourceBinding(each) for each in made]

    def methods(self) -> Sequence[MethodBinding]:
        return [
            MethodBinding("skills/list", PaginatedRequestParams, self._list),
            MethodBinding("skills/get", SkillParams, self._get),
        ]

    def _describe(self, uri: str) -> dict[str, object]:
        file = self._files[uri]
        resources = [{"uri": uri, "digest": f"sha256:{hashlib.sha256(file).hexdigest()}", "size": len(file)}]
        return {"uri": uri, "frontmatter": read_front_matter(file), "resources": resources}

    async def _list(self, _: ServerRequestContext, params: PaginatedRequestParams) -> HandlerResult:
        del params  # there is one page
        return {"skills": [self._describe(uri) for uri in self._files], **COMPLETE}

    async def _get(self, _: ServerRequestContext, params: SkillParams) -> HandlerResult:
        if params.uri not in self._files:
            raise MCPError(INVALID_PARAMS, f"There is no skill {params.uri!r}; skills/list names all.")
        return {"skill": self._describe(params.uri), **COMPLETE}
