// Shows an answer as a host with MCP Apps does: the AppBridge of @modelcontextprotocol/ext-apps, and the server's page in a
// sandboxed frame of a headless Chromium, under the specification's default policy.
//
//   node app_host.mjs QUESTION FOLDER leanrag serve --data-dir … : FOLDER gets the screenshots
//
// Needs @modelcontextprotocol/{client,ext-apps} and playwright-core; CHROMIUM is the browser, by default /usr/bin/chromium.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { AppBridge, getToolUiResourceUri } from "@modelcontextprotocol/ext-apps/app-bridge";
import { chromium } from "playwright-core";

const [question, folder, command, ...args] = process.argv.slice(2);
const MIME = "text/html;profile=mcp-app";
const DRAWING = "leanrag/drawing";
const POLICY =
  "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; media-src 'self' data:; connect-src 'none'";
const SIZES = { desktop: { width: 1100, height: 900 }, phone: { width: 390, height: 844 } };
mkdirSync(folder, { recursive: true });

async function connect(declares) {
  const capabilities = declares ? { extensions: { "io.modelcontextprotocol/ui": { mimeTypes: [MIME] } } } : {};
  const client = new Client({ name: "leanrag-check", version: "1" }, { capabilities });
  await client.connect(new StdioClientTransport({ command, args }));
  return client;
}

class FrameTransport {
  constructor(page) {
    this.page = page;
  }
  async start() {
    await this.page.exposeFunction("receive", (message) => this.onmessage?.(message));
  }
  async send(message) {
    await this.page.evaluate((each) => document.querySelector("iframe").contentWindow.postMessage(each, "*"), message);
  }
  async close() {}
}

// A frame is painted some time after it was resized; a picture of one colour is a few kilobytes.
async function photograph(page, path) {
  for (let tries = 0; tries < 40; tries += 1) {
    const picture = await page.screenshot({ path, fullPage: true });
    if (picture.length > 20_000) return;
    await page.waitForTimeout(250);
  }
  assert.fail(`${path} stays blank`);
}

async function show(browser, client, result, { size, theme, name }) {
  const page = await browser.newPage({ viewport: SIZES[size], colorScheme: theme });
  const problems = [];
  page.on("pageerror", (problem) => problems.push(String(problem)));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  const { contents } = await client.readResource({ uri: "ui://leanrag/answer" });
  assert.equal(contents[0].mimeType, MIME);
  const html = contents[0].text.replace("<head>", `<head><meta http-equiv="Content-Security-Policy" content="${POLICY}">`);
  await page.setContent(`<body style="margin:0;background:${theme === "dark" ? "#161616" : "#fff"}"></body>`);
  const context = { theme, displayMode: "inline", containerDimensions: { maxHeight: 4000, width: SIZES[size].width } };
  const bridge = new AppBridge(client, { name: "check", version: "1" }, { serverTools: {} }, { hostContext: context });
  const ready = new Promise((resolve) => (bridge.oninitialized = resolve));
  let height = 0;
  bridge.onsizechange = (asked) => (height = asked.height ?? height);
  await bridge.connect(new FrameTransport(page));
  await page.evaluate((srcdoc) => {
    window.addEventListener("message", (event) => window.receive(event.data));
    const frame = document.createElement("iframe");
    Object.assign(frame, { srcdoc, sandbox: "allow-scripts" });
    frame.style = "border:0;width:100vw;height:100vh";
    document.body.append(frame);
  }, html);
  await ready;
  await bridge.sendToolInput({ arguments: { query: question } });
  await bridge.sendToolResult(result);
  const frame = page.frames()[1];
  await frame.waitForSelector("#picture:not([hidden])");
  await frame.waitForFunction(() => {
    const shown = document.getElementById("wide");
    return shown.complete && shown.naturalWidth > 0;
  });
  const seen = await frame.evaluate(() => ({
    width: document.getElementById("wide").naturalWidth,
    alt: document.getElementById("wide").alt,
    overflow: document.documentElement.scrollWidth - innerWidth,
    scripts: document.scripts.length,
    context: document.getElementById("context").textContent,
    quoted: [...document.querySelectorAll("blockquote")].map((each) => each.textContent),
    above: document.getElementById("evidence").getBoundingClientRect().bottom <= document.getElementById("wide").getBoundingClientRect().top,
  }));
  assert.equal(seen.width, size === "phone" ? 360 : 980, "the drawing for this width");
  assert.match(seen.alt, /seed/);
  assert.ok(seen.overflow <= 0, "nothing to scroll sideways");
  assert.equal(seen.scripts, 1);
  assert.equal(seen.context, result.structuredContent.context);
  assert.ok(seen.quoted.length > 0 && seen.above, "the evidence stands above the drawing");
  for (let tries = 0; height <= 200 && tries < 40; tries += 1) await page.waitForTimeout(250);
  assert.ok(height > 200, "the page says how high it is");
  await page.evaluate((asked) => (document.querySelector("iframe").style.height = `${asked}px`), height);
  // What lies below the window would be painted late or never.
  await page.setViewportSize({ width: SIZES[size].width, height });
  await page.waitForTimeout(1000);
  await photograph(page, `${folder}/${name}.png`);
  await bridge.teardownResource({});
  assert.deepEqual(problems, []);
  await page.close();
  console.log(`${name}: ${height} px high. ${seen.alt.slice(0, 160)}`);
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"],
});
for (const declares of [true, false]) {
  const client = await connect(declares);
  const tool = (await client.listTools()).tools.find((each) => each.name === "query_lca_context");
  assert.equal(getToolUiResourceUri(tool), "ui://leanrag/answer");
  const result = await client.callTool({ name: tool.name, arguments: { query: question } });
  assert.equal(DRAWING in (result._meta ?? {}), declares, "only hosts that show pages get a drawing unasked");
  const views = declares
    ? Object.keys(SIZES).flatMap((size) => ["light", "dark"].map((theme) => ({ size, theme, name: `${size}-${theme}` })))
    : [{ size: "desktop", theme: "light", name: "undeclared" }];
  for (const view of views) await show(browser, client, result, view);
  await client.close();
}
await browser.close();
