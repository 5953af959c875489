// Walk through a page that `leanrag explore --out` wrote, by keyboard where there is a choice: node walk.mjs ADDRESS
//
// Prints what it saw as one JSON object; tests/server/explorer/test_page.py judges it.

import { openBrowser, openPage } from "./browser.mjs";

const [, , address] = process.argv;
const browser = await openBrowser({ viewport: { width: 1280, height: 800 } });
const problems = [];
const page = await openPage(browser, address, problems);
const trail = () => page.locator("#trail button").allTextContents();
const seen = { problems };

await page.waitForSelector("#members button");
seen.trail = await trail();
await page.locator("#members button").first().focus();
await page.keyboard.press("Enter");
await page.waitForFunction(() => document.querySelectorAll("#trail button").length === 2);
seen.deeper = await trail();
await page.keyboard.press("Backspace");
await page.waitForFunction(() => document.querySelectorAll("#trail button").length === 1);
seen.climbed = await trail();

await page.keyboard.press("/");
await page.keyboard.type("Ada Byron");
await page.waitForSelector("#found button");
seen.found = await page.locator("#found .named").textContent();
await page.keyboard.press("Control+A");
await page.keyboard.type("Xyzzy");
await page.waitForFunction(() => document.querySelector("#found").textContent.includes("No entity"));
await page.keyboard.press("Enter");
await page.waitForTimeout(300);
seen.unknown = [await page.locator("#found").textContent(), ...(await trail())];
await page.locator("h1").click();
seen.closed = await page.locator("#found").textContent();
await page.keyboard.press("/");
await page.keyboard.press("Control+A");
await page.keyboard.type("Ada Byron");
await page.keyboard.press("Enter");
await page.waitForSelector(".sentence button");
await page.locator(".sentence button").first().click();
await page.waitForSelector("#reader[open] mark");
await page.setViewportSize({ width: 360, height: 640 });
seen.overflow = await page.locator("#reader").evaluate((reader) => reader.scrollWidth - reader.clientWidth);
await page.setViewportSize({ width: 1280, height: 800 });
seen.marked = await page.locator("#reader mark").textContent();
seen.passage = await page.locator("#text").textContent();
await page.keyboard.press("Escape");

await page.locator("#tab-details").focus();
await page.keyboard.press("ArrowRight");
await page.waitForSelector("#panel input[type=search]");
seen.document = await page.locator("#panel .rows").textContent();
await page.emulateMedia({ media: "print" });
seen.printed = await page.evaluate(() => [document.querySelector("#panel").scrollHeight <= document.querySelector("#panel").clientHeight, document.querySelector("#level").clientHeight]);
seen.title = await page.title();
await browser.close();
console.log(JSON.stringify(seen));
