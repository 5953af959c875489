// Open the explorer in headless Chromium and take pictures: node look.mjs ADDRESS FOLDER [QUESTION]
//
// ADDRESS is what `leanrag explore --no-open` printed, or the file:// address of a page that `--out` wrote. Desktop and
// phone width, light and dark. See browser.mjs for what it needs.

import { join } from "node:path";
import { openBrowser, openPage } from "./browser.mjs";

const [, , address, folder, question] = process.argv;
const sizes = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };
for (const [size, viewport] of Object.entries(sizes)) {
  for (const colorScheme of ["light", "dark"]) {
    const browser = await openBrowser({ viewport, colorScheme });
    const problems = [];
    const page = await openPage(browser, address, problems);
    await page.waitForSelector("#panel .work", { state: "detached" });
    await page.waitForTimeout(900);
    const shoot = (name) => page.screenshot({ path: join(folder, `${size}-${colorScheme}-${name}.png`) });
    await shoot("root");
    await page.locator("#tab-details").click();
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
      await page.locator("#question").fill(question);
      await page.keyboard.press("Enter");
      await page.waitForSelector("#panel .evidence");
      await page.waitForTimeout(1500);
      await shoot("question");
    }
    await browser.close();
    for (const problem of problems) console.log(size, colorScheme, problem);
  }
}
