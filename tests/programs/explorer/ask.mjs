// Ask a question on a page that `leanrag explore` serves, go to an entity, back, and load the page again: node ask.mjs ADDRESS QUESTION
//
// Prints what it saw as one JSON object; tests/server/explorer/test_routes.py judges it.

import { openBrowser, openPage } from "./browser.mjs";

const [, , address, question] = process.argv;
const browser = await openBrowser({ viewport: { width: 1280, height: 800 } });
const problems = [];
const page = await openPage(browser, address, problems);
const seen = { problems };
const answered = async () => {
  await page.waitForSelector("#panel .evidence");
  return [await page.locator("#question").inputValue(), await page.locator("#panel .evidence").first().textContent()];
};

await page.locator("#question").fill(question);
await page.keyboard.press("Enter");
seen.asked = await answered();
seen.focused = await page.evaluate(() => document.activeElement.id);
await page.locator("#panel .rows button").first().click();
await page.waitForSelector("#tab-details[aria-selected=true]");
await page.waitForSelector("#panel .evidence", { state: "detached" });
await page.goBack();
seen.back = await answered();
await page.reload();
seen.again = await answered();
await page.locator("#question").fill("Where is Xyzzy?");
await page.keyboard.press("Enter");
await page.waitForSelector("#panel .error");
seen.warned = await page.locator("#panel .error").allTextContents();
await browser.close();
console.log(JSON.stringify(seen));
