// Make the README's picture of the explorer from the real thing: node picture.mjs ADDRESS FILE.jpg
//
// ADDRESS is what `leanrag explore --no-open --collection python-reference` prints after `leanrag demo`. See browser.mjs for
// what it needs.

import { openBrowser, openPage } from "./browser.mjs";

const QUESTION = "What is a context manager?";

const [, , address, file] = process.argv;
const browser = await openBrowser({ viewport: { width: 1560, height: 760 }, colorScheme: "light" });
const page = await openPage(browser, address);
await page.locator("#tab-question").click();
await page.locator("#question").fill(QUESTION);
await page.keyboard.press("Enter");
await page.waitForSelector("#panel .evidence");
await page.waitForTimeout(1500);
await page.screenshot({ path: file, type: "jpeg", quality: 80 });
await browser.close();
