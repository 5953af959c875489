"""Entry point of an ``.mcpb`` bundle: turns the values from its host into the server's arguments and variables. A host
expands several chosen folders into several arguments, and leaves the placeholder or an empty text as the value of an empty
field. Some hosts start this file as a script instead of the module that the manifest names: hence absolute imports."""

import os
import sys
from collections.abc import Mapping, Sequence

PLACEHOLDER = "${user_config."

VARIABLES = (
    *("LEANRAG_COLLECTION", "LEANRAG_DATA_DIR", "LEANRAG_READ_ONLY", "LEANRAG_EMBEDDER", "LEANRAG_LLM_MODEL"),
    *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"),
)
"""What the fields of the bundle's form fill, but for the folders; ``tests/programs/bundling.py`` declares the form."""


def is_filled(value: str) -> bool:
    return bool(value.strip()) and not value.startswith(PLACEHOLDER)


def arguments_of(folders: Sequence[str]) -> list[str]:
    """Return one ``--allow-dir`` for each chosen folder."""
    return [part for folder in folders if is_filled(folder) for part in ("--allow-dir", folder)]


def find_unfilled(environ: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Return those of ``names`` whose variables are empty: an empty key is no key."""
    return [name for name in names if name in environ and not is_filled(environ[name])]


def main() -> None:
    """Serve over standard input and output, as ``leanrag-mcp`` does."""
    if not __spec__:
        sys.path.pop(0)  # this folder: its modules are not top-level ones
    from leanrag_mcp.cli.main import serve_main  # noqa: PLC0415 - as above

    for name in find_unfilled(os.environ, VARIABLES):
        del os.environ[name]
    sys.argv[1:] = arguments_of(sys.argv[1:])
    serve_main()


if __name__ == "__main__":
    main()
