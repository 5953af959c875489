// MCP TypeScript SDK 1.x (@modelcontextprotocol/sdk), on which most desktop clients are built.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { place, play } from "./contract.mjs";

const where = place();
const client = new Client({ name: "leanrag-check", version: "1" });
await client.connect(
  where.transport === "http"
    ? new StreamableHTTPClientTransport(new URL(where.url))
    : new StdioClientTransport({ command: where.command, args: where.args }),
);
await play("typescript-sdk 1", client);
await client.close();
