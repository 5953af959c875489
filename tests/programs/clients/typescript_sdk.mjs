// MCP TypeScript SDK 2.x (@modelcontextprotocol/client), in both eras of the protocol.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { place, play } from "./contract.mjs";

const where = place();
for (const mode of ["auto", "legacy"]) {
  const client = new Client({ name: "leanrag-check", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(
    where.transport === "http"
      ? new StreamableHTTPClientTransport(new URL(where.url))
      : new StdioClientTransport({ command: where.command, args: where.args }),
  );
  await play(`typescript-sdk 2 ${mode}`, client);
  await client.close();
}
