// Headless Chromium through playwright-core (npm), which is looked for from the working directory. CHROMIUM names the browser.

import { createRequire } from "node:module";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const { chromium } = createRequire(join(process.cwd(), "package.json"))("playwright-core");

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const PATIENCE = 120000; // milliseconds: other work may keep the processors busy

export async function openBrowser(options = {}) {
  const folder = mkdtempSync(join(tmpdir(), "chromium-"));
  const browser = await chromium.launchPersistentContext(folder, { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS, timeout: PATIENCE, ...options });
  // At the end of the program: Chromium still writes when it is closed.
  process.on("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 }));
  return browser;
}

// Open the explorer and wait until it has drawn; problems collects what the browser complained about.
export async function openPage(browser, address, problems = []) {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(message.text()));
  page.on("pageerror", (problem) => problems.push(problem.message));
  page.on("dialog", (dialog) => problems.push(`dialog: ${dialog.message()}`) && dialog.dismiss());
  await page.goto(address);
  await page.waitForSelector("body[data-ready]");
  return page;
}
