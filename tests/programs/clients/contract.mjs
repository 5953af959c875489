// What every TypeScript client must get from the server: the same as contract.py asks of the others.
import assert from "node:assert/strict";

const TOOLS = [
  "query_lca_context", "search_entities", "get_entity_ancestors", "get_cluster", "list_inter_cluster_relations",
  "search_text", "get_outline", "get_sources", "get_index_status", "get_history", "list_collections",
  "ingest_documents", "build_hierarchy", "get_job", "cancel_job",
  "delete_documents", "merge_entities", "split_entity", "get_pending_work", "submit_extractions", "submit_summaries",
];

/** `stdio COMMAND ARGUMENT...` or `http URL`, from the command line. */
export function place() {
  const [transport, first, ...rest] = process.argv.slice(2);
  return { transport, command: first, args: rest, url: first };
}

function textOf(result) {
  return result.content.filter((block) => block.type === "text").map((block) => block.text).join("\n");
}

/** List, look, ingest, ask, and make one mistake. Throws where the server falls short. */
export async function play(library, client) {
  const tools = (await client.listTools()).tools.map((tool) => tool.name);
  assert.deepEqual(TOOLS.filter((name) => !tools.includes(name)), [], "not offered");
  const call = (name, args) => client.callTool({ name, arguments: args });
  assert.ok(!(await call("get_index_status", {})).isError);
  const name = library.replace(/(^|[^A-Za-z0-9]+)([A-Za-z0-9])/g, (_, __, letter) => letter.toUpperCase());
  const text =
    `The ${name} lighthouse stands on Muckle Flugga. Alan Stevenson designed the ${name} lighthouse. ` +
    `The ${name} lighthouse was lit in 1854.`;
  const documents = [{ id: library, title: `${name} lighthouse`, text }];
  const ingested = await call("ingest_documents", { documents, wait_seconds: 40 });
  assert.equal(ingested.structuredContent.status, "done", textOf(ingested));
  const asked = await call("query_lca_context", { query: `Who designed the ${name} lighthouse?` });
  assert.match(textOf(asked), /Alan Stevenson/);
  assert.match(asked.structuredContent.context, /Alan Stevenson/);
  const missed = await call("get_cluster", { cluster: "Atlantis under the sea" });
  assert.equal(missed.isError, true);
  assert.match(textOf(missed), /Atlantis under the sea/);
  assert.doesNotMatch(textOf(missed), /Error executing tool/);
  const said = JSON.stringify(textOf(missed).slice(0, 60));
  console.log(`${library} over ${place().transport}: ${tools.length} tools; reads text and structured; error: ${said}`);
}
