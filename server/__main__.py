"""``python -P -m leanrag_mcp`` is the command line."""

from .cli.main import main

main()
