// Open the explorer in headless Chromium and take pictures: node look.mjs ADDRESS FOLDER
//
// ADDRESS is what `leanrag explore --no-open` printed, or the file:// address of a page that `--out` wrote. Desktop and
// phone width, light and dark. Needs playwright-core (npm); CHROMIUM names the browser.

import { createRequire } from "node:module";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const { chromium } = createRequire(join(process.cwd(), "package.json"))("playwright-core");

export const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export async function openBrowser(options) {
  const folder = mkdtempSync(join(tmpdir(), "chromium-"));
  return chromium.launchPersistentContext(folder, { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS, ...options });
}

export async function openPage(browser, address) {
  const page = await browser.newPage();
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && console.log(message.type(), message.text()));
  page.on("pageerror", (problem) => console.log("pageerror", problem.message));
  await page.goto(address);
  await page.waitForSelector("body[data-ready]", { timeout: 60000 });
  await page.waitForTimeout(900);
  return page;
}

const [, , address, folder, question] = process.argv;
const sizes = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };
for (const [size, viewport] of Object.entries(sizes)) {
  for (const colorScheme of ["light", "dark"]) {
    const browser = await openBrowser({ viewport, colorScheme });
    const page = await openPage(browser, address);
    const shoot = (name) => page.screenshot({ path: join(folder, `${size}-${colorScheme}-${name}.png`) });
    await shoot("root");
    await page.locator("#members button").first().click();
    await page.waitForTimeout(1200);
    await shoot("cluster");
    if (size === "phone") {
      await page.locator('#switch [data-view="map"]').click();
      await page.waitForTimeout(1200);
      await shoot("map");
    }
    if (question) {
      await page.locator("#tab-question").click();
      await page.locator('#panel input[type="text"]').fill(question);
      await page.locator("#panel form button").click();
      await page.waitForSelector("#panel h3");
      await page.waitForTimeout(1500);
      await shoot("question");
    }
    await browser.close();
  }
}
