"""Run the command line as ``python -P -m leanrag_mcp``."""

# Processes that read documents load this file too, under another name and outside the package.
if __name__ == "__main__":
    from leanrag_mcp.cli.main import main

    main()
