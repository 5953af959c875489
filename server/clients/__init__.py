"""Installing the server into MCP clients."""
