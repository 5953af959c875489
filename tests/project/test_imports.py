"""Which package may import which, and where each foreign package is imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "leanrag_engine"

# What a package of the engine may import besides itself.
ALLOWED = {
    "core": set(),
    "documents": {"core"},
    "llm": {"core"},
    "extraction": {"core", "documents", "llm"},
    "hierarchy": {"core", "llm"},
    "retrieval": {"core", "documents"},
    "adapters": {"core"},
    "pipeline": {"core", "documents", "exchange", "extraction", "hierarchy", "retrieval", "llm", "adapters"},
    "exchange": {"core", "documents", "extraction"},
    "engine": {"core", "exchange", "retrieval", "llm", "pipeline", "adapters"},
    "evaluation": {
        "core",
        "documents",
        "extraction",
        "hierarchy",
        "retrieval",
        "llm",
        "pipeline",
        "adapters",
        "engine",
    },
    "__init__": {"core", "retrieval", "engine"},
}

SERVER_MAY = {"core", "engine", "evaluation", "exchange", "extraction", "llm", "pipeline", "retrieval"}
"""What the server may import of the engine: no reader, clustering or adapter."""

# Each foreign package (numpy aside) is imported in one place, given as the path of a file or folder.
HOMES = {
    "aiolimiter": {"server/http/tokens.py"},
    "alembic": {"leanrag_engine/adapters/sql"},
    "chardet": {"leanrag_engine/documents/decoding.py"},
    "chromadb": {"leanrag_engine/adapters/chroma/client.py"},
    "chromadb_rust_bindings": {"leanrag_engine/adapters/chroma/client.py"},
    "distributed": {"leanrag_engine/adapters/workers/cluster.py"},
    "docx": {"leanrag_engine/documents/readers/office/docx.py"},
    "filelock": {"leanrag_engine/adapters/files/writer_lock.py"},
    "graspologic_native": {"leanrag_engine/hierarchy/clustering/communities.py"},
    "httpx": {"leanrag_engine/adapters/embedders/local.py"},
    "httpx2": {"server/http/tokens.py", "leanrag_engine/adapters/chroma/server.py"},
    "huggingface_hub": {"leanrag_engine/adapters/embedders/local.py"},
    "json_repair": {"leanrag_engine/llm/batching.py"},
    "jsonschema": {"leanrag_engine/llm/item_schema.py"},
    "jwt": {"server/http/tokens.py"},
    "litellm": {"leanrag_engine/adapters/chat/model.py"},
    "lxml": {"leanrag_engine/documents/readers"},
    "mcp": {"server"},
    "mcp_types": {"server"},
    "networkx": {"leanrag_engine/exchange"},
    "onnxruntime": {"leanrag_engine/adapters/embedders/onnx.py"},
    "openpyxl": {"leanrag_engine/documents/readers/office/xlsx.py"},
    "opentelemetry": {"leanrag_engine/core/runtime/telemetry.py", "server/protocol/telemetry.py"},
    "pathspec": {"leanrag_engine/documents/folders/walk.py"},
    "platformdirs": {"leanrag_engine/core/config.py"},
    "psutil": {"leanrag_engine/pipeline/job_runner.py", "leanrag_engine/adapters"},
    "psycopg": {"leanrag_engine/adapters/sql/dialect/postgres"},
    "pydantic": {"leanrag_engine/core/config.py", "leanrag_engine/adapters/sql/schema/tables.py", "server"},
    "pydantic_settings": {"leanrag_engine/core/config.py", "server/http/settings.py"},
    "pptx": {"leanrag_engine/documents/readers/office/pptx.py"},
    "pypdfium2": {"leanrag_engine/documents/readers/pdf.py"},
    "pyarrow": {"leanrag_engine/exchange/parquet.py"},
    "regex": {"leanrag_engine/retrieval/browse/text_search.py"},
    "rich": {"server"},
    "rjieba": {"leanrag_engine/core/text/language/segmentation.py"},
    "sklearn": {
        "leanrag_engine/hierarchy/clustering/mixture.py",
        "leanrag_engine/adapters/embedders/fitted.py",
    },
    "scipy": {
        "leanrag_engine/adapters/embedders/fitted.py",
        "leanrag_engine/hierarchy/clustering/links.py",
        "leanrag_engine/retrieval/graph/adjacency_cache.py",
    },
    "sqlalchemy": {"leanrag_engine/adapters/sql"},
    "starlette": {"server/http/serving.py", "server/explorer/routes.py"},
    "sudachipy": {"leanrag_engine/core/text/language/segmentation.py"},
    "tenacity": {"leanrag_engine/adapters/chat/model.py", "leanrag_engine/llm/cache.py"},
    "threadpoolctl": {"leanrag_engine/core/vectors.py"},
    "tiktoken": {"leanrag_engine/adapters/tokenizer.py"},
    "tokenizers": {"leanrag_engine/adapters/embedders/minilm/embedder.py"},
    "tomlkit": {"server/cli/machine/config.py", "server/clients/toml.py"},
    "typer": {"server"},
    "uvicorn": {"server/http/serving.py"},
    "h11": {"server/http/serving.py"},
    "watchfiles": {"server/cli/corpus/documents.py"},
    "yaml": {"leanrag_engine/extraction/schemas/reading.py"},
}

EVERYWHERE = {"numpy", "anyio", "leanrag_engine", "leanrag_mcp", "leanrag_prompts"}


def modules() -> list[Path]:
    return sorted([*ENGINE.rglob("*.py"), *(ROOT / "server").rglob("*.py")])


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Absolute dotted names of everything that a module imports, wherever in it."""
    return tuple(find_imports(path))


def find_imports(path: Path) -> Iterator[str]:
    package = list(path.relative_to(ROOT).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = [*base, *(node.module.split(".") if node.module else [])]
            yield from (".".join([*prefix, alias.name]) for alias in node.names)


def package_of(dotted: str) -> str:
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def test_every_engine_module_imports_only_from_the_packages_below_it() -> None:
    wrong = []
    for path in ENGINE.rglob("*.py"):
        package = path.relative_to(ENGINE).parts[0].removesuffix(".py")
        for dotted in imports(path):
            if dotted.startswith(("leanrag_mcp", "server", "mcp")):
                wrong.append(f"{path} imports the server or its SDK: {dotted}")
            elif dotted.startswith("leanrag_engine") and package_of(dotted) not in ALLOWED[package] | {
                package
            }:
                wrong.append(f"{path} may not import {dotted}")
    assert not wrong, "\n".join(wrong)


def test_the_server_imports_only_the_public_side_of_the_engine() -> None:
    wrong = [
        f"{path} may not import {dotted}"
        for path in (ROOT / "server").rglob("*.py")
        for dotted in imports(path)
        if dotted.startswith("leanrag_engine") and package_of(dotted) not in SERVER_MAY
    ]
    assert not wrong, "\n".join(wrong)


def test_no_folder_has_modules_that_import_each_other_in_a_circle() -> None:
    folders = {path.parent for path in modules()}
    for folder in sorted(folders):
        graph = nx.DiGraph(list(edges_within(folder)))
        assert not list(nx.simple_cycles(graph)), f"{folder} has import cycles"


def edges_within(folder: Path) -> Iterator[tuple[str, str]]:
    """Import edges between the entries of a folder, those of all modules below it included."""
    prefix = ".".join(folder.relative_to(ROOT).parts).replace("server", "leanrag_mcp", 1)
    for path in folder.rglob("*.py"):
        here = path.relative_to(folder).parts[0].removesuffix(".py")
        for dotted in imports(path):
            name = dotted.replace("server", "leanrag_mcp", 1) if dotted.startswith("server") else dotted
            if name.startswith(prefix + "."):
                there = name.removeprefix(prefix + ".").split(".")[0]
                if there != here and (folder / there).is_dir() | (folder / f"{there}.py").is_file():
                    yield here, there


def test_every_foreign_package_is_imported_only_in_its_home() -> None:
    wrong = []
    for path in modules():
        here = str(path.relative_to(ROOT))
        for dotted in imports(path):
            package = dotted.split(".", maxsplit=1)[0]
            if package in sys.stdlib_module_names or package in EVERYWHERE or dotted.startswith("server"):
                continue
            if not any(here == home or here.startswith(home + "/") for home in HOMES[package]):
                wrong.append(f"{here} imports {package}")
    assert not wrong, "\n".join(wrong)


def test_the_table_names_no_package_that_nothing_imports() -> None:
    used = {dotted.split(".", maxsplit=1)[0] for path in modules() for dotted in imports(path)}
    assert {package for package, homes in HOMES.items() if homes} <= used
