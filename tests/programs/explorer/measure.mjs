// Measure the explorer in headless Chromium: node measure.mjs ADDRESS [PICTURE.png]
//
// Prints one JSON line: milliseconds to the first drawing, then frames a second while real wheel events zoom from the root
// into a cluster of entities and back, and the processor time of the page for each frame. There is no graphics
// card in it: everything is drawn by the processor. See browser.mjs for what it needs.

import { openBrowser, openPage } from "./browser.mjs";

const STEPS = 120;

const [, , address, picture] = process.argv;
const browser = await openBrowser({ viewport: { width: 1280, height: 800 } });
const problems = [];
const page = await openPage(browser, address, problems);
const drawn = await page.evaluate(() => Math.round(performance.getEntriesByName("drawn")[0].startTime));
await page.waitForTimeout(1500);
const session = await browser.newCDPSession(page);
await session.send("Performance.enable");
const spent = async () => {
  const { metrics } = await session.send("Performance.getMetrics");
  return metrics.find((each) => each.name === "TaskDuration").value;
};

await page.evaluate(() => {
  window.frames_seen = [];
  const note = (time) => {
    window.frames_seen.push(time);
    requestAnimationFrame(note);
  };
  requestAnimationFrame(note);
});
const box = await page.locator("#map canvas").first().boundingBox();
await page.mouse.move(box.x + 0.55 * box.width, box.y + 0.5 * box.height);
const before = await spent();
for (let step = 0; step < STEPS; step++) {
  await page.mouse.wheel(0, step < STEPS / 2 ? -60 : 60);
  await page.waitForTimeout(12);
  if (picture && step === STEPS / 4) await page.screenshot({ path: picture });
}
const after = await spent();
const times = await page.evaluate(() => window.frames_seen);
const gaps = times.slice(1).map((time, place) => time - times[place]).sort((a, b) => a - b);
const at = (share) => gaps[Math.min(gaps.length - 1, Math.floor(share * gaps.length))];
console.log(
  JSON.stringify({
    first_drawing_ms: drawn,
    frames: gaps.length,
    frames_a_second: Math.round((1000 * gaps.length) / (times.at(-1) - times[0])),
    frame_ms: { median: at(0.5).toFixed(1), p95: at(0.95).toFixed(1), longest: gaps.at(-1).toFixed(1) },
    processor_ms_a_frame: ((1000 * (after - before)) / gaps.length).toFixed(1),
    problems,
  }),
);
await browser.close();
