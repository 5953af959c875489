"""Run the command line as ``python -P -m leanrag_mcp``."""

from .cli.main import main

main()
