"""``leanrag config``: the settings, where each comes from, and the file that keeps them."""

import json as json_format
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from leanrag_engine.core.config import Settings, config_file, load_settings, unknown_setting, variable_of
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.runtime.replacement import replace_file

from ..options import Json, report_errors

app = typer.Typer(
    help="Read and change the settings. An option of a command goes before an environment variable, that before the "
    "file, that before the default.\n\nExample: `leanrag config set llm_model openai/gpt-4o-mini`",
    no_args_is_help=True,
)

CREDENTIALS = re.compile(r"(?<=//)[^/@\s]+(?=@)")
"""Name and password within an address."""

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
        setting = getattr(load_settings(**{check_name(name): value}), name)
        write_setting(name, f"{name} = {to_toml(setting)}")
    typer.echo(f"{name} = {format_value(setting)}   ({config_file()})")
    if os.environ.get(variable_of(name)):
        typer.echo(f"Note: {variable_of(name)} is set in this shell and goes before the file.", err=True)


@app.command("unset")
def unset_setting(name: Name) -> None:
    """Take a setting out of the file."""
    with report_errors():
        write_setting(check_name(name), "")
        typer.echo(f"{name} = {format_value(getattr(load_settings(), name))}")


def check_name(name: str) -> str:
    if name not in Settings.model_fields:
        raise unknown_setting(name)
    return name


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


def read_file() -> dict[str, object]:
    file = config_file()
    return parse(file.read_text(encoding="utf-8")) if file.exists() else {}


def parse(text: str) -> dict[str, object]:
    import tomllib  # noqa: PLC0415 - the other commands read no TOML

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InvalidInput(f"{config_file()} is no TOML file: {problem}.", "Correct it by hand.") from problem


def write_setting(name: str, line: str) -> None:
    """Replace the line of a setting in the file, or add it; "" removes it. All other lines stay as they are."""
    file = config_file()
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    kept = [each for each in text.splitlines() if not re.match(rf"{name}\s*=", each)]
    changed = "\n".join([line, *kept] if line else kept).strip() + "\n"
    expected = {key: value for key, value in parse(text).items() if key != name} | parse(line)
    try:
        complete = parse(changed) == expected
    except InvalidInput:
        complete = False
    if not complete:  # such as a value of several lines
        raise InvalidInput(f"{name} in {file} cannot be changed line by line.", "Change it by hand.")
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, changed.encode("utf-8"))


def to_toml(value: object) -> str:
    match value:
        case bool() | int() | float():
            return format_value(value)
        case tuple():
            return f"[{', '.join(map(to_toml, value))}]"
    return json_format.dumps(str(value), ensure_ascii=False)
