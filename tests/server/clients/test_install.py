"""Getting into a client's configuration: the right file, nothing lost, nothing half written."""

from __future__ import annotations

import itertools
import json
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from leanrag_engine.core.config import load_settings
from leanrag_engine.core.errors import InvalidInput, NotFound
from leanrag_mcp.cli.machine import install as installing
from leanrag_mcp.cli.main import app
from leanrag_mcp.clients import files as client_files
from leanrag_mcp.clients.places import CLIENTS, Machine, Scope, config_file, is_present

ROAMING = Path("AppData/Roaming")
PACKAGED = Path("AppData/Local/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude")


def machine(platform: str, home: Path, **environ: str) -> Machine:
    return Machine(platform, home, environ, home / "project")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home folder on this platform, without settings from the environment."""
    folder = tmp_path / "home"
    (folder / "notes").mkdir(parents=True)
    for name in [*os.environ]:
        if name.startswith(("LEANRAG_", "XDG_", "CLAUDE_", "UV_", "CODEX_", "GEMINI_", "CLINE_", "COPILOT_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.chdir(folder)
    return folder


def leanrag(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


def read_servers(client: str, text: str) -> dict[str, Any]:
    """Return the servers of a configuration, by Python's own readers."""
    kind = CLIENTS[client]
    servers = (tomllib.loads(text) if kind.toml else json.loads(text))[kind.servers]
    assert isinstance(servers, dict)
    return servers


def command_in(entry: dict[str, Any]) -> list[str]:
    """Return the program and its arguments, whatever the client's form."""
    command = entry["command"]
    return command if isinstance(command, list) else [command, *entry["args"]]


def read_json(file: Path) -> dict[str, Any]:
    value = json.loads(file.read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


# --- where ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "client", "expected"),
    [
        ("darwin", "claude-desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", "claude-desktop", ROAMING / "Claude/claude_desktop_config.json"),
        ("linux", "claude-desktop", ".config/Claude/claude_desktop_config.json"),
        ("darwin", "claude-code", ".claude.json"),
        ("win32", "claude-code", ".claude.json"),
        ("linux", "claude-code", ".claude.json"),
        ("darwin", "vscode", "Library/Application Support/Code/User/mcp.json"),
        ("win32", "vscode", ROAMING / "Code/User/mcp.json"),
        ("linux", "vscode", ".config/Code/User/mcp.json"),
        ("darwin", "cursor", ".cursor/mcp.json"),
        ("win32", "cursor", ".cursor/mcp.json"),
        ("linux", "cursor", ".cursor/mcp.json"),
        ("darwin", "codex", ".codex/config.toml"),
        ("win32", "codex", ".codex/config.toml"),
        ("linux", "codex", ".codex/config.toml"),
        ("darwin", "gemini-cli", ".gemini/settings.json"),
        ("win32", "gemini-cli", ".gemini/settings.json"),
        ("linux", "gemini-cli", ".gemini/settings.json"),
        ("darwin", "windsurf", ".codeium/windsurf/mcp_config.json"),
        ("win32", "windsurf", ".codeium/windsurf/mcp_config.json"),
        ("linux", "windsurf", ".codeium/windsurf/mcp_config.json"),
        ("darwin", "zed", ".config/zed/settings.json"),
        ("win32", "zed", ROAMING / "Zed/settings.json"),
        ("linux", "zed", ".config/zed/settings.json"),
        ("darwin", "cline", ".cline/data/settings/cline_mcp_settings.json"),
        ("win32", "cline", ".cline/data/settings/cline_mcp_settings.json"),
        ("linux", "cline", ".cline/data/settings/cline_mcp_settings.json"),
        ("darwin", "opencode", ".config/opencode/opencode.json"),
        ("win32", "opencode", ".config/opencode/opencode.json"),
        ("linux", "opencode", ".config/opencode/opencode.json"),
        ("darwin", "copilot-cli", ".copilot/mcp-config.json"),
        ("win32", "copilot-cli", ".copilot/mcp-config.json"),
        ("linux", "copilot-cli", ".copilot/mcp-config.json"),
    ],
)
def test_each_client_is_looked_for_where_its_documentation_says(
    tmp_path: Path, platform: str, client: str, expected: str
) -> None:
    assert config_file(client, "user", machine(platform, tmp_path)) == tmp_path / expected


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("claude-code", ".mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("codex", ".codex/config.toml"),
        ("gemini-cli", ".gemini/settings.json"),
        ("zed", ".zed/settings.json"),
        ("opencode", "opencode.json"),
        ("copilot-cli", ".github/mcp.json"),
    ],
)
def test_a_project_has_a_file_of_its_own(tmp_path: Path, client: str, expected: str) -> None:
    assert config_file(client, "project", machine("linux", tmp_path)) == tmp_path / "project" / expected


@pytest.mark.parametrize("client", ["claude-desktop", "windsurf", "cline"])
def test_some_clients_have_none_per_project(tmp_path: Path, client: str) -> None:
    with pytest.raises(InvalidInput, match=f"{CLIENTS[client].title} has no configuration per project"):
        config_file(client, "project", machine("linux", tmp_path))


@pytest.mark.parametrize(
    ("platform", "variable", "client", "expected"),
    [
        ("win32", "APPDATA", "claude-desktop", "Claude/claude_desktop_config.json"),
        ("win32", "APPDATA", "vscode", "Code/User/mcp.json"),
        ("linux", "XDG_CONFIG_HOME", "vscode", "Code/User/mcp.json"),
        ("linux", "CLAUDE_CONFIG_DIR", "claude-code", ".claude.json"),
        ("linux", "CODEX_HOME", "codex", "config.toml"),
        ("linux", "GEMINI_CLI_HOME", "gemini-cli", ".gemini/settings.json"),
        ("linux", "XDG_CONFIG_HOME", "zed", "zed/settings.json"),
        ("win32", "APPDATA", "zed", "Zed/settings.json"),
        ("linux", "CLINE_DIR", "cline", "data/settings/cline_mcp_settings.json"),
        ("linux", "CLINE_DATA_DIR", "cline", "settings/cline_mcp_settings.json"),
        ("darwin", "XDG_CONFIG_HOME", "opencode", "opencode/opencode.json"),
        ("linux", "COPILOT_HOME", "copilot-cli", "mcp-config.json"),
    ],
)
def test_a_moved_folder_is_followed(
    tmp_path: Path, platform: str, variable: str, client: str, expected: str
) -> None:
    moved = tmp_path / "elsewhere"
    place = machine(platform, tmp_path, **{variable: str(moved)})
    assert config_file(client, "user", place) == moved / expected


def test_claude_desktop_from_the_microsoft_store_reads_only_the_copy_in_its_package(tmp_path: Path) -> None:
    (tmp_path / ROAMING / "Claude").mkdir(parents=True)
    (tmp_path / PACKAGED).mkdir(parents=True)
    file = config_file("claude-desktop", "user", machine("win32", tmp_path))
    assert file == tmp_path / PACKAGED / "claude_desktop_config.json"


def test_two_packages_of_claude_desktop_are_an_error_rather_than_a_guess(tmp_path: Path) -> None:
    for package in ("Claude_one", "Claude_two"):
        (tmp_path / "AppData/Local/Packages" / package / "LocalCache/Roaming/Claude").mkdir(parents=True)
    with pytest.raises(InvalidInput, match=r"Claude_one.*Claude_two.*--config"):
        config_file("claude-desktop", "user", machine("win32", tmp_path))


def test_an_older_cline_keeps_its_file_in_vs_code_until_the_shared_one_is_there(tmp_path: Path) -> None:
    name = "cline_mcp_settings.json"
    old = tmp_path / ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings" / name
    shared = tmp_path / ".cline/data/settings" / name
    old.parent.mkdir(parents=True)
    assert config_file("cline", "user", machine("linux", tmp_path)) == shared
    old.touch()
    assert config_file("cline", "user", machine("linux", tmp_path)) == old
    shared.parent.mkdir(parents=True)
    shared.touch()
    assert config_file("cline", "user", machine("linux", tmp_path)) == shared


@pytest.mark.parametrize("scope", ["user", "project"])
def test_opencodes_file_with_comments_in_its_name_is_used_if_it_is_the_only_one(
    tmp_path: Path, scope: Scope
) -> None:
    file = config_file("opencode", scope, machine("linux", tmp_path))
    file.parent.mkdir(parents=True)
    file.with_suffix(".jsonc").touch()
    assert config_file("opencode", scope, machine("linux", tmp_path)) == file.with_suffix(".jsonc")
    file.touch()
    assert config_file("opencode", scope, machine("linux", tmp_path)) == file


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_a_client_is_found_by_the_folder_that_it_makes(tmp_path: Path, client: str) -> None:
    place = machine("linux", tmp_path)
    assert not is_present(client, place)
    file = config_file(client, "user", place)
    file.parent.mkdir(parents=True, exist_ok=True)
    if client == "claude-code":
        assert not is_present(client, place)
        file.touch()
    assert is_present(client, place)


# --- what ----------------------------------------------------------------------------------


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_a_first_install_writes_an_entry_that_starts_the_server(home: Path, client: str) -> None:
    ran = leanrag(
        "install", client, "--allow-dir", "notes", "--data-dir", "d", "--collection", "c", "--read-only"
    )
    assert ran.exit_code == 0, ran.output
    text = config_file(client, "user", Machine.here()).read_text(encoding="utf-8")
    entry = read_servers(client, text)["leanrag"]
    program, *arguments = command_in(entry)
    assert Path(program).is_absolute()
    assert arguments[-7:] == [
        *(
            "--allow-dir",
            str(home / "notes"),
            "--data-dir",
            str(home / "d"),
            "--collection",
            "c",
            "--read-only",
        )
    ]
    rest = {key: value for key, value in entry.items() if key not in ("command", "args")}
    assert rest == MARKS.get(client, {})


MARKS: dict[str, dict[str, Any]] = {
    "claude-code": {"type": "stdio"},
    "vscode": {"type": "stdio"},
    "zed": {"source": "custom"},
    "opencode": {"type": "local", "enabled": True},
    "copilot-cli": {"type": "local", "tools": ["*"]},
}


def test_folders_are_written_in_full_and_each_on_its_own(home: Path) -> None:
    (home / "more").mkdir()
    leanrag("install", "cursor", "--allow-dir", "~/notes", "--allow-dir", "more")
    arguments = read_json(home / ".cursor/mcp.json")["mcpServers"]["leanrag"]["args"]
    assert arguments[-4:] == ["--allow-dir", str(home / "notes"), "--allow-dir", str(home / "more")]


def test_a_data_folder_named_in_the_environment_is_written_for_the_client_does_not_see_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEANRAG_DATA_DIR", str(home / "elsewhere"))
    monkeypatch.setenv("LEANRAG_LLM_MODEL", "openai/gpt-4o-mini")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    ran = leanrag("install", "claude-desktop")
    text = (home / ".config/Claude/claude_desktop_config.json").read_text(encoding="utf-8")
    assert str(home / "elsewhere") in text
    assert "sk-secret" not in text + ran.output
    assert "LEANRAG_LLM_MODEL set in this shell may not reach Claude Desktop" in ran.output
    assert "without --allow-dir" in ran.output


def test_under_uvx_the_passing_environment_is_not_written_but_uvx_itself(tmp_path: Path) -> None:
    uvx = tmp_path / "bin" / "uvx"
    uvx.parent.mkdir()
    uvx.touch(mode=0o755)
    for prefix, environ in (
        (Path("/home/ada/.cache/uv/archive-v0/x1"), {}),
        (Path("/var/uv/x1"), {"UV_CACHE_DIR": "/var/uv"}),
    ):
        found = installing.command_of(prefix, {**environ, "PATH": str(uvx.parent)})
        assert found == [str(uvx), "leanrag-mcp"]
    lasting = installing.command_of(Path("/home/ada/.local/share/uv/tools/leanrag-mcp"), {})
    assert "uvx" not in lasting[0]


SHARING: list[str] = [name for name, each in CLIENTS.items() if each.project_file]


@pytest.mark.parametrize("client", SHARING)
def test_a_shared_file_holds_no_path_of_one_person(
    home: Path, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    project = home / "project"
    (project / "docs").mkdir(parents=True)
    monkeypatch.chdir(project)
    monkeypatch.setenv("LEANRAG_DATA_DIR", str(home / "mine"))
    monkeypatch.setenv("LEANRAG_ALLOW_DIRS", str(home / "notes"))
    ran = leanrag(
        "install",
        client,
        "--scope",
        "project",
        "--allow-dir",
        "docs",
        "--allow-dir",
        ".",
        "--data-dir",
        ".lr",
    )
    assert ran.exit_code == 0, ran.output
    text = config_file(client, "project", Machine.here()).read_text(encoding="utf-8")
    assert str(home) not in text
    entry = read_servers(client, text)["leanrag"]
    folder = "${workspaceFolder}" if client in ("vscode", "cursor") else ""
    docs, whole, data = (f"{folder}/docs", folder, f"{folder}/.lr") if folder else ("docs", ".", ".lr")
    assert command_in(entry) == [
        *("leanrag-mcp", "--allow-dir", docs, "--allow-dir", whole, "--data-dir", data)
    ]
    assert "Everyone who opens this project needs leanrag-mcp on their PATH" in ran.output
    assert leanrag("uninstall", client, "--scope", "project").exit_code == 0
    assert not config_file(client, "project", Machine.here()).exists()


@pytest.mark.parametrize("option", ["--allow-dir", "--data-dir"])
def test_a_folder_outside_the_project_is_refused_in_a_shared_file(
    home: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    (home / "project").mkdir()
    monkeypatch.chdir(home / "project")
    ran = leanrag("install", "cursor", "--scope", "project", option, "../notes")
    assert ran.exit_code == 1
    assert f"{option} ../notes is outside of the project {home / 'project'}" in ran.output
    assert [*(home / "project").iterdir()] == []


# --- what stays ----------------------------------------------------------------------------

COMMENTED = """\
{
    // shared by the team
    "inputs": [{"type": "promptString", "id": "key", "password": true}],
    "servers": {
        "files": { "command": "npx", "args": ["-y", "files"], "env": {"KEY": "${input:key}"} }, // theirs
    },
}
"""


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("client", ["vscode", "cursor", "gemini-cli", "zed", "opencode"])
def test_comments_other_servers_and_spacing_stay_byte_by_byte(client: str) -> None:
    file = config_file(client, "user", Machine.here())
    file.parent.mkdir(parents=True)
    before = COMMENTED.replace('"servers"', json.dumps(CLIENTS[client].servers))
    file.write_text(before, encoding="utf-8")
    assert leanrag("install", client, "--allow-dir", "notes").exit_code == 0
    after = file.read_text(encoding="utf-8")
    assert [line for line in before.splitlines() if line not in after.splitlines()] == []
    assert '"leanrag": {' in after
    assert file.with_name(f"{file.name}.bak1").read_text(encoding="utf-8") == before
    assert leanrag("uninstall", client).exit_code == 0
    assert file.read_text(encoding="utf-8") == before


CODEX = """\
# mine
model = "x" # the large one

[mcp_servers.files]
command = "npx"
args = ["-y", "files"] # theirs

[mcp_servers.files.env]
KEY = "k"

[tui]
theme = "dark"
"""


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_codexs_comments_other_servers_and_spacing_stay_byte_by_byte(home: Path, newline: str) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    before = CODEX.replace("\n", newline).encode()
    file.write_bytes(before)
    assert leanrag("install", "codex", "--allow-dir", "notes").exit_code == 0
    after = file.read_bytes()
    assert [line for line in before.split(b"\n") if line not in after.split(b"\n")] == []
    assert set(read_servers("codex", after.decode())) == {"files", "leanrag"}
    assert file.with_name("config.toml.bak1").read_bytes() == before
    assert leanrag("uninstall", "codex").exit_code == 0
    assert file.read_bytes() == before


def test_what_the_user_added_to_codexs_entry_outlives_a_second_install(home: Path) -> None:
    leanrag("install", "codex")
    file = home / ".codex" / "config.toml"
    file.write_text(
        file.read_text(encoding="utf-8")
        + 'startup_timeout_sec = 30 # slow disk\n\n[mcp_servers.leanrag.env]\nOPENAI_API_KEY = "sk-mine"\n',
        encoding="utf-8",
    )
    ran = leanrag("install", "codex", "--allow-dir", "notes")
    text = file.read_text(encoding="utf-8")
    entry = read_servers("codex", text)["leanrag"]
    assert (entry["env"], entry["startup_timeout_sec"]) == ({"OPENAI_API_KEY": "sk-mine"}, 30)
    assert str(home / "notes") in entry["args"]
    assert "# slow disk" in text
    assert "sk-mine" not in ran.output


def test_what_the_user_added_to_the_entry_outlives_a_second_install(home: Path) -> None:
    leanrag("install", "claude-desktop")
    file = home / ".config/Claude/claude_desktop_config.json"
    value = read_json(file)
    value["mcpServers"]["leanrag"]["env"] = {"OPENAI_API_KEY": "sk-mine"}
    file.write_text(json.dumps(value), encoding="utf-8")
    ran = leanrag("install", "claude-desktop", "--allow-dir", "notes")
    entry = read_json(file)["mcpServers"]["leanrag"]
    assert entry["env"] == {"OPENAI_API_KEY": "sk-mine"}
    assert str(home / "notes") in entry["args"]
    assert "sk-mine" not in ran.output


def test_a_second_install_of_the_same_writes_nothing_and_makes_no_backup(home: Path) -> None:
    leanrag("install", "cursor", "--allow-dir", "notes")
    file = home / ".cursor/mcp.json"
    first = file.stat().st_mtime_ns
    ran = leanrag("install", "cursor", "--allow-dir", "notes")
    assert "nothing was written" in ran.output
    assert file.stat().st_mtime_ns == first
    assert [each.name for each in file.parent.iterdir()] == ["mcp.json"]


def test_backups_are_numbered_and_none_is_overwritten(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    texts = []
    for folder in ("a", "b", "c"):
        (home / folder).mkdir()
        (home / folder / "x").mkdir()
        value = read_json(file) if file.exists() else {"mcpServers": {}}
        value["mcpServers"][folder] = {"command": folder}
        file.write_text(json.dumps(value), encoding="utf-8")
        texts.append(file.read_text(encoding="utf-8"))
        for more in (folder, f"{folder}/x"):  # between which only our entry differs
            assert leanrag("install", "cursor", "--allow-dir", more).exit_code == 0
    backups = sorted(file.parent.glob("mcp.json.bak*"))
    assert [each.name for each in backups] == [f"mcp.json.bak{number}" for number in (1, 2, 3)]
    assert [each.read_text(encoding="utf-8") for each in backups] == texts


def test_another_server_of_the_same_name_is_left_alone(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    before = '{"mcpServers": {\n"leanrag": {"url": "https://example.org/mcp"}}}'
    file.write_text(before, encoding="utf-8")
    for command in ("install", "uninstall"):
        ran = leanrag(command, "cursor")
        assert ran.exit_code == 1
        assert "line 2" in ran.output
        assert "Choose another --name" in ran.output
    assert file.read_text(encoding="utf-8") == before
    assert leanrag("install", "cursor", "--name", "leanrag-notes").exit_code == 0
    assert set(read_json(file)["mcpServers"]) == {"leanrag", "leanrag-notes"}


def test_a_linked_configuration_stays_a_link_and_keeps_its_rights(home: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text("{}", encoding="utf-8")
    real.chmod(0o600)
    (home / ".claude.json").symlink_to(real)
    assert leanrag("install", "claude-code").exit_code == 0
    assert (home / ".claude.json").is_symlink()
    assert "leanrag" in read_json(real)["mcpServers"]
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


# --- what is refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "text", "line"),
    [
        ("claude-desktop", '{\n  "mcpServers": {},\n}', 3),
        ("claude-desktop", '{\n  // mine\n  "mcpServers": {}\n}', 2),
        ("claude-code", '{"a": 1}\n]', 2),
        ("vscode", '{\n  "servers": {\n    "x": {"command": "y" "args": []}\n  }\n}', 3),
        ("cursor", '{\n  "mcpServers": []\n}', 2),
        ("cursor", '{\n  "mcpServers": {},\n  "mcpServers": {}\n}', 3),
        ("cursor", '["mcpServers"]', 1),
        ("cline", '{\n  // mine\n  "mcpServers": {}\n}', 2),
        ("codex", 'model = "x"\nnonsense\n', 2),
        ("codex", "[a]\nb = 1\nb = 2\n", 3),
    ],
)
def test_a_malformed_file_is_reported_with_its_line_and_left_unchanged(
    home: Path, client: str, text: str, line: int
) -> None:
    file = config_file(client, "user", Machine.here())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    ran = leanrag("install", client)
    assert ran.exit_code == 1
    assert f"{file}, line {line}:" in ran.output
    assert "Nothing was written" in ran.output
    assert file.read_text(encoding="utf-8") == text
    assert [each.name for each in file.parent.iterdir() if each.name.startswith(file.name + ".")] == []
    assert home in file.parents


def test_a_file_in_another_encoding_is_reported(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_bytes('{"mcpServers": {}}'.encode("utf-16"))
    ran = leanrag("install", "cursor")
    assert ran.exit_code == 1
    assert "is not UTF-8 text" in ran.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--allow-dir", "nowhere"), "The folder nowhere does not exist"),
        (("--name", "my server"), "'my server'"),
        (("--collection", "../up"), "../up"),
    ],
)
def test_a_bad_argument_is_reported_before_anything_is_written(
    home: Path, arguments: tuple[str, str], said: str
) -> None:
    ran = leanrag("install", "cursor", *arguments)
    assert ran.exit_code == 1
    assert said in ran.output
    assert not (home / ".cursor").exists()


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_misspelled_client_is_reported_with_the_one_that_may_be_meant(home: Path, command: str) -> None:
    ran = leanrag(command, "cursr")
    assert (ran.exit_code, "Did you mean cursor? Choose one of claude-desktop, " in ran.stderr) == (1, True)
    assert [each.name for each in home.iterdir()] == ["notes"]


def test_a_change_by_another_program_in_between_is_not_lost(home: Path) -> None:
    file = home / ".claude.json"
    file.write_text("{}", encoding="utf-8")
    plan = client_files.plan_install(CLIENTS["claude-code"], file, "leanrag", {"command": "x"})
    file.write_text('{"numStartups": 2}', encoding="utf-8")
    with pytest.raises(InvalidInput, match="changed by another program"):
        client_files.apply_change(plan)
    assert file.read_text(encoding="utf-8") == '{"numStartups": 2}'


def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / ".claude.json"
    file.write_text("{}", encoding="utf-8")

    def raise_disk_full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", raise_disk_full)
    ran = leanrag("install", "claude-code")
    assert ran.exit_code == 1
    assert "No space left on device" in ran.output
    assert file.read_text(encoding="utf-8") == "{}"
    assert {each.name for each in home.iterdir()} == {"notes", ".claude.json"}


def test_a_server_that_is_not_installed_cannot_be_uninstalled(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    with pytest.raises(NotFound, match="no server called 'leanrag'"):
        client_files.plan_uninstall(CLIENTS["cursor"], file, "leanrag")
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"files": {}}}', encoding="utf-8")
    ran = leanrag("uninstall", "cursor")
    assert ran.exit_code == 1
    assert "It has: files." in ran.output


# --- shown only ----------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--print", "--dry-run"])
def test_showing_writes_nothing(home: Path, option: str) -> None:
    ran = leanrag("install", "vscode", "--allow-dir", "notes", option)
    assert ran.exit_code == 0
    assert "--allow-dir" in ran.stdout
    assert [each.name for each in home.iterdir()] == ["notes"]


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_what_is_printed_is_what_is_written(home: Path, client: str) -> None:
    printed = leanrag("install", client, "--allow-dir", "notes", "--print").stdout
    leanrag("install", client, "--allow-dir", "notes")
    written = config_file(client, "user", Machine.here()).read_text(encoding="utf-8")
    assert read_servers(client, written) == read_servers(client, printed)
    assert home.exists()


def test_what_is_printed_keeps_the_folders_that_are_allowed_already_and_needs_no_readable_file(
    home: Path,
) -> None:
    leanrag("install", "cursor", "--allow-dir", "notes")
    assert str(home / "notes") in leanrag("install", "cursor", "--print").stdout
    assert str(home / "notes") not in leanrag("install", "cursor", "--print", "--no-allow-dir").stdout
    (home / ".cursor/mcp.json").write_text("{", encoding="utf-8")
    assert '"leanrag"' in leanrag("install", "cursor", "--print").stdout
    assert leanrag("install", "cursor").exit_code == 1


def test_claude_code_is_shown_its_own_command_too(home: Path) -> None:
    ran = leanrag("install", "claude-code", "--allow-dir", "notes", "--print")
    assert "claude mcp add --scope user leanrag -- " in ran.stderr
    assert str(home / "notes") in ran.stderr


def test_an_install_says_what_the_client_will_start_and_whether_the_client_seems_to_be_there(
    home: Path,
) -> None:
    (home / "my notes").mkdir()
    first = leanrag("install", "cursor", "--allow-dir", "my notes")
    assert f"--allow-dir '{home}/my notes'" in first.stdout
    assert "Is Cursor installed" in first.stderr
    assert "installed" not in leanrag("install", "cursor", "--allow-dir", "notes").stderr


def test_a_command_to_copy_is_quoted_as_the_platforms_shell_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert installing.command_line(["leanrag-mcp.exe", "C:\\my notes"]) == 'leanrag-mcp.exe "C:\\my notes"'


def test_a_dry_run_shows_only_the_lines_that_change(home: Path) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text('{\n  "mcpServers": {\n    "x": {\n      "env": {"KEY": "sk-theirs"}\n    }\n  }\n}')
    shown = leanrag("install", "cursor", "--dry-run").stdout
    assert '+    "leanrag": {' in shown
    assert "sk-theirs" not in shown


@pytest.mark.parametrize("scope", ["user", "project"])
def test_a_blank_file_counts_as_an_empty_one(home: Path, scope: Scope) -> None:
    file = config_file("cursor", scope, Machine.here())
    file.parent.mkdir()
    file.write_text("\n", encoding="utf-8")
    assert leanrag("install", "cursor", "--scope", scope).exit_code == 0
    assert "leanrag" in read_json(file)["mcpServers"]
    assert home in file.parents


def test_an_installed_entry_starts_the_server(home: Path) -> None:
    """The command, as written, answers a client's handshake; arguments are those the server takes."""
    settings = load_settings(
        allow_dirs=(home / "notes",), data_dir=home / "d", collection="c", read_only=True
    )
    command = [*installing.server_command(), *installing.server_arguments(settings)]
    ran = subprocess.run(command, input="", capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""


# --- installed again, and removed ------------------------------------------------------------


def allowed_folders(file: Path) -> list[str]:
    arguments = read_json(file)["mcpServers"]["leanrag"]["args"]
    return [each for before, each in itertools.pairwise(arguments) if before == "--allow-dir"]


def test_a_second_install_keeps_the_folders_that_are_there_unless_they_are_cleared(home: Path) -> None:
    (home / "papers").mkdir()
    file = home / ".cursor/mcp.json"
    for more, expected in (
        (["--allow-dir", "notes"], ["notes"]),
        (["--allow-dir", "papers"], ["notes", "papers"]),
        (["--collection", "work"], ["notes", "papers"]),
        (["--no-allow-dir", "--allow-dir", "papers"], ["papers"]),
        (["--no-allow-dir"], []),
    ):
        ran = leanrag("install", "cursor", *more)
        assert ran.exit_code == 0, ran.output
        assert allowed_folders(file) == [str(home / each) for each in expected]
        assert ("reads no files" in ran.stderr) is (not expected)


def test_an_install_keeps_what_restricts_the_entry_and_says_what_it_does_not_keep(home: Path) -> None:
    (home / "papers").mkdir(exist_ok=True)
    leanrag("install", "cursor", "--allow-dir", "notes", "--read-only", "--collection", "work")
    ran = leanrag("install", "cursor", "--allow-dir", "papers")
    arguments = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]["leanrag"]["args"]
    assert "--read-only" in arguments
    assert "--collection" not in arguments
    assert "Not kept of the entry that was there: --collection work." in ran.stderr


def test_a_file_with_servers_written_in_one_line_is_left_as_it_is_with_advice(home: Path) -> None:
    servers = 'mcp_servers = { other = { command = "y" } }'
    file = home / ".codex/config.toml"
    file.parent.mkdir()
    file.write_text(f"{servers}\n", encoding="utf-8")
    ran = leanrag("install", "codex", "--allow-dir", "notes")
    assert ran.exit_code == 1
    assert "expected [mcp_servers.NAME] tables" in ran.stderr
    assert file.read_text(encoding="utf-8") == f"{servers}\n"


@pytest.mark.parametrize(
    "original", [None, "", "{}", '{\n  "mcpServers": {}\n}\n', '{"mcpServers": {"x": {}}}', '{"theme":"x"}\n']
)
def test_an_uninstall_leaves_what_was_there_before_and_no_backup_of_it(
    home: Path, original: str | None
) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    if original is not None:
        file.write_text(original, encoding="utf-8")
    (home / "papers").mkdir()
    for folder in ("notes", "papers", "."):
        assert leanrag("install", "cursor", "--allow-dir", folder).exit_code == 0
    assert len([*file.parent.iterdir()]) == 2  # the file, and one backup
    ran = leanrag("uninstall", "cursor")
    assert ran.exit_code == 0, ran.output
    left = {each.name: each.read_text(encoding="utf-8") for each in file.parent.iterdir()}
    assert left == ({} if original is None else {"mcp.json": original})


def test_removing_everything_takes_the_server_out_of_each_client_and_deletes_only_our_data(
    home: Path,
) -> None:
    data = home / "data"
    leanrag("ingest", str(home / "notes"), "--data-dir", "data")
    (home / "notes" / "a.md").write_text("Assam tea grows along the Brahmaputra.", encoding="utf-8")
    assert leanrag("ingest", "notes", "--data-dir", "data").exit_code == 0
    (data / "mine.txt").write_text("not yours", encoding="utf-8")
    for client in ("cursor", "codex", "zed"):
        leanrag("install", client, "--data-dir", "data")
    broken = home / ".gemini" / "settings.json"
    broken.parent.mkdir()
    broken.write_text("{", encoding="utf-8")
    all_of_it = ("uninstall", "--all", "--data", "--yes", "--data-dir", "data")
    stopped = leanrag(*all_of_it)
    assert (stopped.exit_code, "Gemini CLI was left as it is" in stopped.stderr) == (1, True)
    assert not [*home.glob(".cursor/*"), *home.glob(".codex/*"), *home.glob(".config/zed/*")]
    assert (data / "graph.sqlite3").exists()
    broken.unlink()
    assert leanrag(*all_of_it, "--dry-run").stdout.count("graph.sqlite3\n") == 1
    assert CliRunner().invoke(app, [*all_of_it[:3], *all_of_it[4:]], input="n\n").exit_code == 1
    assert (data / "graph.sqlite3").exists()
    ran = leanrag(*all_of_it)
    assert ran.exit_code == 0, ran.output
    assert [each.name for each in data.iterdir()] == ["mine.txt"]
    assert (home / "notes" / "a.md").exists()
    assert leanrag("uninstall").exit_code == 1
