"""``leanrag config``: the settings, where each comes from, and the file that keeps them."""

import json as json_format
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import tomlkit
import typer
from tomlkit.exceptions import ParseError

from leanrag_engine.core.config import Settings, config_file, load_settings, unknown_setting, variable_of
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.runtime.replacement import replace_file

from ..options import Json, report_errors

app = typer.Typer(
    help="Read and change the settings. An option of a command goes before an environment variable, that before the "
    "file, that before the default.\n\nExample: `leanrag config set llm_model openai/gpt-4o-mini`",
    no_args_is_help=True,
)

CREDENTIALS = re.compile(r"(?<=//).+(?=@)")  # Name and password within an address

FOLDERS = ("data_dir", "allow_dirs", "prompts_dir")
Name = Annotated[str, typer.Argument(help="Name of a setting.", show_default=False)]


@app.command("list")
def list_settings(*, json: Json = False) -> None:
    """List all settings: name, value, where it comes from. Keys of models are no settings and are not shown."""
    with report_errors():
        settings, kept = load_settings(), read_file()
    rows = [
        {"name": name, "value": format_value(getattr(settings, name)), "origin": find_origin(name, kept)}
        for name in Settings.model_fields
    ]
    if json:
        typer.echo(json_format.dumps({"file": str(config_file()), "settings": rows}, ensure_ascii=False))
        return
    width = max(len(name) for name in Settings.model_fields)
    for row in rows:
        origin = "" if row["origin"] == "default" else f"   ({row['origin']})"
        typer.echo(f"{row['name']:{width}}  {row['value'] or '-'}{origin}")
    typer.echo(f"File: {config_file()}{'' if kept else ' (does not exist or is empty)'}", err=True)


@app.command("get")
def get_setting(name: Name) -> None:
    """Print the value of one setting."""
    with report_errors():
        typer.echo(format_value(getattr(load_settings(), check_name(name))))


@app.command("set")
def set_setting(
    name: Name,
    value: Annotated[str, typer.Argument(help="Its value; folders as in PATH.", show_default=False)],
) -> None:
    """Keep a setting in the file. It holds for all commands and servers of this user from their next start on.

    Example: `leanrag config set embedder fitted`
    """
    with report_errors():
        settings, file = load_settings(**{check_name(name): value}), read_file()
        setting: object = getattr(settings, name)
        file[name] = make_absolute(setting) if name in FOLDERS else settings.model_dump(mode="json")[name]
        write_file(file)
    typer.echo(f"{name} = {format_value(setting)}   ({config_file()})")
    if os.environ.get(variable_of(name)):
        typer.echo(f"Note: {variable_of(name)} is set in this shell and goes before the file.", err=True)


@app.command("unset")
def unset_setting(name: Name) -> None:
    """Take a setting out of the file."""
    with report_errors():
        file = read_file()
        file.pop(check_name(name), None)
        write_file(file)
        typer.echo(f"{name} = {format_value(getattr(load_settings(), name))}")


def check_name(name: str) -> str:
    if name not in Settings.model_fields:
        raise unknown_setting(name)
    return name


def make_absolute(folders: object) -> str | list[str]:
    """Return a folder, or several, with the whole path: a server may start in another one."""
    if isinstance(folders, tuple):
        return [str(each.expanduser().absolute()) for each in folders]
    return str(Path(str(folders)).expanduser().absolute())


def find_origin(name: str, kept: Mapping[str, object]) -> str:
    if os.environ.get(variable_of(name)):
        return "environment"
    return "file" if name in kept else "default"


def format_value(value: object) -> str:
    """Format a value as the environment takes it, without the password in an address."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case tuple():
            separator = os.pathsep if any(isinstance(each, Path) for each in value) else ","
            return separator.join(map(str, value))
    return hide_credentials(str(value))


def hide_credentials(address: str) -> str:
    """Return an address without the name and password in it."""
    return CREDENTIALS.sub("...", address)


def read_file() -> tomlkit.TOMLDocument:
    """Return the file, which keeps its form where it is not changed. Raises ``InvalidInput`` if it is no TOML."""
    file = config_file()
    try:
        return tomlkit.parse(file.read_text(encoding="utf-8") if file.exists() else "")
    except ParseError as problem:
        raise InvalidInput(f"{file} is no TOML file: {problem}.", "Correct it by hand.") from problem


def write_file(content: tomlkit.TOMLDocument) -> None:
    file = config_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, tomlkit.dumps(content).encode("utf-8"))
