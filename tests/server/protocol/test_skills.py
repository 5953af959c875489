"""The skills extension, through a client, and the same files as a plugin."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PaginatedRequestParams, Request, RequestParams, Result, TextResourceContents
from pydantic import ConfigDict
from typer.testing import CliRunner

from leanrag_engine.core.config import load_settings
from leanrag_mcp.app import create_server
from leanrag_mcp.cli.main import app

pytestmark = pytest.mark.anyio

SEARCH = "skill://leanrag-search/SKILL.md"


class Held(Result):
    model_config = ConfigDict(extra="allow")


class SkillParams(RequestParams):
    uri: str


class ListRequest(Request[PaginatedRequestParams, str]):
    method: str = "skills/list"
    params: PaginatedRequestParams = PaginatedRequestParams()


class GetRequest(Request[SkillParams, str]):
    method: str = "skills/get"
    params: SkillParams


async def ask(client: Client, request: ListRequest | GetRequest) -> Mapping[str, Any]:
    return (await client.session.send_request(request, Held)).model_dump(by_alias=True)


async def test_listed_skills_are_read_as_their_digests_and_front_matter_say(tmp_path: Path) -> None:
    async with Client(create_server(load_settings(data_dir=tmp_path))) as client:
        assert client.server_capabilities.resources is not None
        assert (client.server_capabilities.extensions or {})["io.modelcontextprotocol/skills"] == {}
        listed = await ask(client, ListRequest())
        assert (listed["resultType"], listed["cacheScope"]) == ("complete", "public")
        assert listed["ttlMs"] > 0
        shown = {str(each.uri): each for each in (await client.list_resources()).resources}
        for skill in listed["skills"]:
            (file,) = skill["resources"]
            (content,) = (await client.read_resource(skill["uri"])).contents
            assert isinstance(content, TextResourceContents)
            raw = content.text.encode()
            assert file == {
                "uri": skill["uri"],
                "digest": f"sha256:{hashlib.sha256(raw).hexdigest()}",
                "size": len(raw),
            }
            _, head, _ = content.text.split("---\n", 2)
            assert skill["frontmatter"] == yaml.safe_load(head)
            name, about = skill["frontmatter"]["name"], skill["frontmatter"]["description"]
            assert skill["uri"] == f"skill://{name}/SKILL.md"
            assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
            assert len(about) <= 1024
            resource = shown[skill["uri"]]
            assert (resource.name, resource.description, resource.mime_type) == (name, about, "text/markdown")
            assert (await ask(client, GetRequest(params=SkillParams(uri=skill["uri"]))))["skill"] == skill
        with pytest.raises(MCPError, match=r"no skill 'skill://other/SKILL\.md'") as refused:
            await ask(client, GetRequest(params=SkillParams(uri="skill://other/SKILL.md")))
        assert refused.value.code == -32602


async def test_skills_name_tools_and_arguments_that_exist(tmp_path: Path) -> None:
    async with Client(create_server(load_settings(data_dir=tmp_path))) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        known = {name for tool in tools.values() for name in (tool.name, *tool.input_schema["properties"])}
        for skill in (await ask(client, ListRequest()))["skills"]:
            (content,) = (await client.read_resource(skill["uri"])).contents
            assert isinstance(content, TextResourceContents)
            named = re.findall(r"\b[a-z]+(?:_[a-z]+)+\b|(?<=`)[a-z]+(?=`)|[a-z]+(?==)", content.text)
            assert set(named) <= known | {"next_cursor", "tokens"}


async def test_a_server_without_tools_that_write_offers_no_skill_for_them(tmp_path: Path) -> None:
    async with Client(create_server(load_settings(data_dir=tmp_path, read_only=True))) as client:
        assert [each["uri"] for each in (await ask(client, ListRequest()))["skills"]] == [SEARCH]


async def test_a_plugin_holds_the_server_and_the_skills_that_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "plugin"
    arguments = ["install", "claude-code", "--plugin", str(folder), "--data-dir", str(tmp_path / "data")]
    assert "Would write" in CliRunner().invoke(app, [*arguments, "--dry-run"]).output
    assert not folder.exists()
    for _ in range(2):
        ran = CliRunner().invoke(app, arguments)
        assert ran.exit_code == 0, ran.output
    assert f"claude plugin marketplace add {folder}" in ran.output
    manifest, market = (
        json.loads((folder / ".claude-plugin" / f"{name}.json").read_text())
        for name in ("plugin", "marketplace")
    )
    assert manifest["name"] == market["name"] == market["plugins"][0]["name"] == "leanrag"
    assert (folder / market["plugins"][0]["source"]).resolve() == folder
    server = json.loads((folder / ".mcp.json").read_text())["mcpServers"]["leanrag"]
    assert server["args"][-2:] == ["--data-dir", str(tmp_path / "data")]
    async with Client(create_server(load_settings(data_dir=tmp_path))) as client:
        for skill in (await ask(client, ListRequest()))["skills"]:
            file = folder / "skills" / skill["frontmatter"]["name"] / "SKILL.md"
            assert (
                f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}" == skill["resources"][0]["digest"]
            )
    assert not (tmp_path / "home").exists(), "the client's own configuration stays as it is"


def test_a_plugin_is_refused_where_it_would_be_lost(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for client, folder, said in (("cursor", "new", "no plugins"), ("claude-code", ".", "not empty")):
        ran = CliRunner().invoke(app, ["install", client, "--plugin", str(tmp_path / folder)])
        assert ran.exit_code != 0
        assert said in ran.output
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]
