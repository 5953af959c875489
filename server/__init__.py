"""The MCP server and the command line over :mod:`leanrag_engine`."""
