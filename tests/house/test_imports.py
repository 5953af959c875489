"""The house: who may import whom, and where each foreign package comes in."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "leanrag_engine"

# A room may import from these rooms of the engine, and from itself.
ALLOWED = {
    "model": set(),
    "errors": set(),
    "config": {"errors"},
    "language": set(),
    "fencing": set(),
    "ports": {"model", "errors"},
    "prompts": {"errors"},
    "graph": {"model", "errors", "ports", "language", "fencing", "prompts", "asking"},
    "hierarchy": {"model", "errors", "ports", "language", "fencing", "prompts", "asking"},
    "retrieval": {"model", "errors", "ports", "language", "fencing"},
    "adapters": {"model", "errors", "ports", "language"},
    "composition": {"config", "errors", "ports", "adapters"},
    "jobs": {"model", "errors", "ports"},
    "indexing": {"config", "model", "errors", "ports", "retrieval"},
    "embedding_reuse": {"model", "errors", "ports", "indexing"},
    "forgetting": {"model", "errors", "ports", "hierarchy", "indexing"},
    "ingesting": {"model", "errors", "ports", "graph", "indexing", "jobs"},
    "status": {"model", "errors", "ports", "indexing"},
    "staff": {"composition", "config", "model", "errors", "ports", "asking", "indexing", "spending"},
    "building": {
        *("composition", "config", "model", "errors", "ports", "asking", "spending", "staff"),
        *("graph", "hierarchy", "indexing", "embedding_reuse"),
    },
    "engine": {
        *("config", "composition", "model", "errors", "ports", "prompts", "jobs", "retrieval"),
        *(
            "indexing",
            "ingesting",
            "forgetting",
            "building",
            "staff",
            "status",
            "agent_work",
            "answering",
            "asking",
        ),
    },
    "agent_work": {"model", "errors", "ports", "prompts", "asking", "graph", "hierarchy"},
    "spending": {"model", "errors", "ports"},
    "asking": {"errors", "ports", "prompts"},
    "answering": {"model", "errors", "ports", "prompts", "retrieval", "asking", "fencing"},
    "exchange": {"model", "errors", "ports", "language"},
    "evaluation": {
        *("config", "composition", "model", "errors", "ports", "language", "fencing", "prompts"),
        *("engine", "indexing", "ingesting", "hierarchy", "retrieval", "exchange", "asking", "answering"),
    },
    "__init__": {"config", "engine", "errors", "model", "retrieval"},
}

SERVER_MAY = {
    "agent_work",
    "config",
    "engine",
    "errors",
    "evaluation",
    "exchange",
    "fencing",
    "forgetting",
    "language",
    "model",
    "prompts",
    "retrieval",
    "status",
}
"""What the server may know of the engine: its verbs, nouns, errors and settings, evaluation and other tools' formats;
no stage, port or adapter."""

# Each foreign package (numpy aside) is imported in one place, given as the path of a file or folder.
HOMES = {
    "alembic": {"leanrag_engine/adapters/sql_store"},
    "charset_normalizer": {"leanrag_engine/graph/decoding.py"},
    "chromadb": {"leanrag_engine/adapters/chroma_client.py"},
    "docx": {"leanrag_engine/graph/docx_reader.py"},
    "filelock": {"leanrag_engine/adapters/writer_lock.py"},
    "graspologic_native": {"leanrag_engine/hierarchy/communities.py"},
    "httpx": {"leanrag_engine/adapters/sentence_transformers_embedder.py"},
    "httpx2": {"server/http_tokens.py"},
    "huggingface_hub": {"leanrag_engine/adapters/sentence_transformers_embedder.py"},
    "json_repair": {"leanrag_engine/asking.py"},
    "jwt": {"server/http_tokens.py"},
    "litellm": {"leanrag_engine/adapters/litellm_model.py"},
    "lxml": {"leanrag_engine/graph/html_reader.py", "leanrag_engine/graph/docx_reader.py"},
    "matplotlib": {"leanrag_engine/evaluation/plots.py"},
    "mcp": {"server"},
    "mcp_types": {"server"},
    "networkx": set(),
    "platformdirs": {"leanrag_engine/config.py"},
    "psutil": {"leanrag_engine/jobs.py", "leanrag_engine/adapters"},
    "pydantic": {"leanrag_engine/config.py", "server"},
    "pydantic_settings": {"leanrag_engine/config.py", "server/http_settings.py"},
    "pypdf": {"leanrag_engine/graph/pdf_reader.py"},
    "rich": {"server"},
    "rjieba": {"leanrag_engine/language.py"},
    "sklearn": {"leanrag_engine/hierarchy/clustering.py", "leanrag_engine/adapters/builtin_embedder.py"},
    "scipy": {"leanrag_engine/adapters/builtin_embedder.py"},
    "sqlalchemy": {"leanrag_engine/adapters/sql_store"},
    "starlette": {"server/http_serving.py"},
    "sudachipy": {"leanrag_engine/language.py"},
    "tenacity": {"leanrag_engine/adapters/litellm_model.py"},
    "threadpoolctl": {
        "leanrag_engine/hierarchy/clustering.py",
        "leanrag_engine/adapters/builtin_embedder.py",
    },
    "tiktoken": {"leanrag_engine/adapters/tiktoken_tokenizer.py"},
    "typer": {"server"},
    "uvicorn": {"server/http_serving.py"},
}

EVERYWHERE = {"numpy", "anyio", "leanrag_engine", "leanrag_mcp", "leanrag_prompts"}


def modules() -> list[Path]:
    return sorted([*ENGINE.rglob("*.py"), *(ROOT / "server").rglob("*.py")])


def imports(path: Path) -> Iterator[str]:
    """Absolute dotted names of everything that a module imports, wherever in it."""
    package = list(path.relative_to(ROOT).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = [*base, *(node.module.split(".") if node.module else [])]
            yield from (".".join([*prefix, alias.name]) for alias in node.names)


def room_of(dotted: str) -> str:
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@pytest.mark.parametrize("path", sorted(ENGINE.rglob("*.py")), ids=lambda path: str(path.relative_to(ENGINE)))
def test_an_engine_module_imports_only_from_the_rooms_below_it(path: Path) -> None:
    room = path.relative_to(ENGINE).parts[0].removesuffix(".py")
    for dotted in imports(path):
        assert not dotted.startswith(("leanrag_mcp", "server", "mcp")), (
            f"{path} knows of the server: {dotted}"
        )
        if dotted.startswith("leanrag_engine"):
            assert room_of(dotted) in ALLOWED[room] | {room}, f"{room} may not import {dotted}"


@pytest.mark.parametrize("path", sorted((ROOT / "server").rglob("*.py")), ids=lambda path: path.name)
def test_the_server_knows_the_engine_by_its_face_alone(path: Path) -> None:
    for dotted in imports(path):
        if dotted.startswith("leanrag_engine"):
            assert room_of(dotted) in SERVER_MAY, f"{path.name} may not import {dotted}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_foreign_package_is_imported_only_in_its_home(path: Path) -> None:
    here = str(path.relative_to(ROOT))
    for dotted in imports(path):
        package = dotted.split(".", maxsplit=1)[0]
        if package in sys.stdlib_module_names or package in EVERYWHERE or dotted.startswith("server"):
            continue
        homes = HOMES[package]
        assert any(here == home or here.startswith(home + "/") for home in homes), f"{here} imports {package}"


def test_the_table_names_no_package_that_nothing_imports() -> None:
    used = {dotted.split(".", maxsplit=1)[0] for path in modules() for dotted in imports(path)}
    assert {package for package, homes in HOMES.items() if homes} <= used
