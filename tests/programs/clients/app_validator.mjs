// Checks what the server offers as an MCP App with MCPJam's conformance suite, which shares no code with ext-apps.
//
//   node app_validator.mjs leanrag serve --data-dir …
//
// Needs @mcpjam/sdk, and the release of @modelcontextprotocol/client that it was built on. A check that is skipped fails too.
import { MCPAppsConformanceTest } from "@mcpjam/sdk";

const [command, ...args] = process.argv.slice(2);
const result = await new MCPAppsConformanceTest({ command, args }).run();
for (const check of result.checks) {
  const reason = check.error ? `: ${check.error.message ?? JSON.stringify(check.error)}` : "";
  console.log(`${check.status}: ${check.title}${reason}`);
}
console.log(result.summary);
const passed = result.checks.length > 0 && result.checks.every((check) => check.status === "passed");
process.exit(passed ? 0 : 1); // its client keeps the process alive
