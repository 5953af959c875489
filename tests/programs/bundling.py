"""Make the ``.mcpb`` bundle from a checkout: ``python tests/programs/bundling.py OUT.mcpb``. A zip of the sources with
a manifest (version 0.4, ``server.type`` uv): the host installs the dependencies with uv. Equal sources give equal bytes."""

from __future__ import annotations

import ast
import inspect
import json
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer

from leanrag_engine.core.config import Settings, variable_of
from leanrag_engine.core.errors import InvalidInput, LeanRAGError
from leanrag_mcp.app import create_server

if TYPE_CHECKING:
    from leanrag_engine.core.model import Json, JsonObject


PARTS = ("pyproject.toml", "README.md", "LICENSE", "leanrag_engine", "prompts", "server")
MODULE = "leanrag_mcp.bundle_entry"
ENTRY_POINT = "server/bundle_entry.py"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the form. ``variable`` is empty for the folders, which become arguments."""

    key: str
    kind: str
    title: str
    description: str
    variable: str = ""
    secret: bool = False
    default: str | bool | None = None

    def schema(self) -> dict[str, Json]:
        """Return the field as the bundle's manifest declares it."""
        schema: dict[str, Json] = {"type": self.kind, "title": self.title, "description": self.description}
        if self.kind == "directory":
            schema["multiple"] = not self.variable
        if self.secret:
            schema["sensitive"] = True
        if self.default is not None:
            schema["default"] = self.default
        return schema | {"required": False}


def read_meanings(settings: type) -> dict[str, str]:
    """Return the text below each field of a class of settings, by the field's name: only documents are made of it."""
    (tree,) = ast.parse(inspect.getsource(settings)).body
    assert isinstance(tree, ast.ClassDef)
    return {
        field.target.id: str(said.value.value)
        for field, said in pairwise(tree.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(said, ast.Expr)
        and isinstance(said.value, ast.Constant)
    }


def of_setting(name: str, title: str, kind: str = "string", *, default: str | bool | None = "") -> Field:
    """Return a field for one setting, with the setting's own description."""
    return Field(
        name, kind, title, read_meanings(Settings)[name], variable=variable_of(name), default=default
    )


def key_of(service: str, variable: str) -> Field:
    description = f"Only needed for a model of {service}. Without one everything works offline."
    return Field(variable.lower(), "string", f"{service} API key", description, variable, secret=True)


DOCUMENTS = Field(
    "documents",
    "directory",
    "Folders with your documents",
    "The server reads files beneath these folders and nowhere else. Without one it accepts texts only.",
)

FIELDS = (
    DOCUMENTS,
    of_setting("collection", "Collection", default="default"),
    of_setting("data_dir", "Where the index is kept", "directory", default=None),
    of_setting("read_only", "Read only", "boolean", default=False),
    of_setting("embedder", "Embedder", default="auto"),
    of_setting("llm_model", "Chat model"),
    key_of("OpenAI", "OPENAI_API_KEY"),
    key_of("Anthropic", "ANTHROPIC_API_KEY"),
    key_of("Gemini", "GEMINI_API_KEY"),
)


@dataclass(frozen=True, slots=True)
class ServerFeatures:
    """What the server offers, for the manifest: name and title of each tool, and whether there are prompts."""

    tools: tuple[tuple[str, str], ...]
    prompts: bool


async def read_features() -> ServerFeatures:
    """Read the features from the server itself, with default settings; opens no store."""
    server = create_server(Settings(read_only=False))
    tools = tuple((tool.name, tool.title or tool.name) for tool in await server.list_tools())
    return ServerFeatures(tools, bool(await server.list_prompts()))


def manifest(project: Mapping[str, Any], offer: ServerFeatures) -> JsonObject:
    """Return the manifest of a project, given its ``[project]`` table."""
    return {
        "manifest_version": "0.4",
        "name": project["name"],
        "display_name": "LeanRAG",
        "version": project["version"],
        "description": project["description"],
        "author": {"name": f"The {project['name']} developers"},
        "license": project["license"],
        "keywords": project["keywords"],
        "server": {"type": "uv", "entry_point": ENTRY_POINT, "mcp_config": launch()},
        "tools": [{"name": name, "description": title} for name, title in offer.tools],
        "prompts_generated": offer.prompts,
        "compatibility": {
            "platforms": ["darwin", "linux", "win32"],
            "runtimes": {"python": project["requires-python"]},
        },
        "user_config": {field.key: field.schema() for field in FIELDS},
    }


def launch() -> JsonObject:
    """Return how the host starts the server. Keys are environment variables: process lists show arguments."""
    return {
        "command": "uv",
        "args": [
            *("run", "--directory", "${__dirname}", "--no-dev", "python", "-P", "-m", MODULE),
            f"${{user_config.{DOCUMENTS.key}}}",
        ],
        "env": {field.variable: f"${{user_config.{field.key}}}" for field in FIELDS if field.variable},
    }


def sources(root: Path) -> Iterator[Path]:
    """Yield every file of the bundle, by name: all of its folders but hidden files and caches."""
    for part in PARTS:
        for path in sorted([root / part, *(root / part).rglob("*")]):
            hidden = any(name.startswith((".", "__pycache__")) for name in path.relative_to(root).parts)
            if path.is_file() and not hidden:
                yield path


def project_of(root: Path) -> Mapping[str, Any]:
    """Return the ``[project]`` table of a checkout. Raises :class:`InvalidInput` if ``root`` is not one."""
    file = root / "pyproject.toml"
    table = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {}) if file.is_file() else {}
    if table.get("name") != "leanrag-mcp" or not (root / ENTRY_POINT).is_file():
        raise InvalidInput(
            f"{root} is not a checkout of leanrag-mcp.", "Run this in one, or name it with --source."
        )
    return dict(table)


def write_bundle(root: Path, out: Path, offer: ServerFeatures) -> int:
    """Write the bundle of the checkout at ``root`` and return the number of its files."""
    described = json.dumps(manifest(project_of(root), offer), indent=2, ensure_ascii=False) + "\n"
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in sources(root)}
    files["manifest.json"] = described.encode("utf-8")
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            # The earliest date of a zip: the clock must not change the bundle.
            record = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            # Weights hardly shrink, and packing them takes seconds.
            record.compress_type = zipfile.ZIP_STORED if name.endswith(".onnx") else zipfile.ZIP_DEFLATED
            record.create_system = 3
            record.external_attr = 0o644 << 16
            archive.writestr(record, files[name])
    return len(files)


def bundle(
    out: Annotated[Path, typer.Argument(metavar="OUT.mcpb", help="The file to write.")],
    source: Annotated[Path, typer.Option(help="The checkout.")] = Path(),
) -> None:
    """Write an .mcpb bundle, which Claude Desktop installs with a double click."""
    try:
        count = write_bundle(source.absolute(), out, anyio.run(read_features))
    except LeanRAGError as problem:
        typer.echo(f"Error: {problem}", err=True)
        raise typer.Exit(1) from problem
    except OSError as problem:
        typer.echo(f"Error: {out} cannot be written: {problem.strerror}.", err=True)
        raise typer.Exit(1) from problem
    typer.echo(f"Wrote {out}: {count} files, {out.stat().st_size // 1024} kB.")


if __name__ == "__main__":
    typer.run(bundle)
