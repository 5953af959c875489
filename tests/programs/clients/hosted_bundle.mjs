// How a host starts an unpacked bundle, worked out by the packer's own library: one word of the command per line.
// Arguments: the bundle's folder, the data folder, and the folders that a user would pick.
import { readFileSync } from "node:fs";
import { getMcpConfigForManifest } from "@anthropic-ai/mcpb";

const [bundle, data, ...documents] = process.argv.slice(2);
const { command, args, env } = await getMcpConfigForManifest({
  manifest: JSON.parse(readFileSync(`${bundle}/manifest.json`, "utf-8")),
  extensionPath: bundle,
  systemDirs: {},
  userConfig: { documents, data_dir: data, openai_api_key: "sk-check" },
  pathSeparator: "/",
});
const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
console.log(["env", ...variables, command, ...args].join("\n"));
