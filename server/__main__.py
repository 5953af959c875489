"""``python -P -m leanrag_mcp`` is the command line."""

from .cli import main

main()
