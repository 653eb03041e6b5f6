// Pictures of every page and state, for the eyes of a person: what a test cannot judge.
//
//   THREADSEAL=… node test/pictures.mjs FOLDER [NAME …]

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { fillFiles } from "../export/fill.mjs";
import { launch, verdict } from "./browser.mjs";
import { makeScene } from "./scene.mjs";
import { serve } from "./server.mjs";

const [folder, ...names] = process.argv.slice(2);
if (folder === undefined) {
  console.error("usage: node test/pictures.mjs FOLDER [NAME …]");
  process.exit(2);
}
mkdirSync(folder, { recursive: true });
const scene = makeScene();
const server = await serve(scene);
const site = await serve({ verify: true });
const empty = await serve({});
const browser = await launch("chrome");

const session = (id, rest = "") => `${server.address}#/s/${encodeURIComponent(id)}${rest}`;
const listed = (page) => page.waitForSelector(".session-row");
const press = (...keys) => async (page) => {
  await verdict(page);
  for (const key of keys) await page.keyboard.press(key);
};
const opened = async (page) => {
  await verdict(page);
  await page.evaluate(() => { for (const one of [...document.querySelectorAll(".fold")].slice(0, 6)) one.click(); });
};
const scrolled = (share) => async (page) => {
  await verdict(page);
  await page.evaluate((part) => { const list = document.querySelector(".conversation"); list.scrollTop = part * (list.scrollHeight - list.clientHeight); }, share);
};
const dropped = (...files) => async (page) => {
  await (await page.waitForSelector("#files")).uploadFile(...files);
  await page.waitForSelector(".card[data-verdict]");
  if (files.includes(scene.identity)) await page.waitForSelector("[data-trust]");
};
const exported = async (name, more = {}) => {
  const path = join(scene.folder, name);
  const logs = [{ log: scene.day.id, path: scene.day.path }, { log: `${scene.day.id}/agent-${scene.day.agent}`, path: scene.day.sub, parent: scene.day.id }];
  writeFileSync(path, (await fillFiles({ name: scene.day.id, logs, ...more })).html);
  return pathToFileURL(path).href;
};
const WIDE = [1280, 800];
const NARROW = [320, 640];
const compareAddress = `${server.address}#/compare?a=${encodeURIComponent("claude-code:changed")}&b=${encodeURIComponent(scene.day.id)}`;

/** Name: [address, what is done, size, colours, more]. */
const PICTURES = {
  list: [server.address, listed],
  "list-dark": [server.address, listed, WIDE, "dark"],
  "list-320": [server.address, listed, NARROW],
  "list-4k": [server.address, listed, [3840, 2160]],
  "list-hits": [server.address, async (page) => { await listed(page); await page.type(".search-input", "from_decimal"); await page.waitForSelector(".hits:not([hidden]) a"); }],
  "list-none": [server.address, async (page) => { await listed(page); await page.type(".search-input", "zzz nothing has this"); await page.waitForSelector(".sessions.empty"); }],
  "list-empty": [empty.address, (page) => page.waitForSelector(".list-page")],
  "list-chosen": [server.address, async (page) => { await listed(page); for (const key of ["j", "c", "j", "c"]) await page.keyboard.press(key); }],
  session: [session(scene.day.id), verdict],
  "session-dark": [session(scene.day.id), verdict, WIDE, "dark"],
  "session-middle": [session(scene.day.id), scrolled(0.5)],
  "session-end": [session(scene.day.id), scrolled(1)],
  "session-open": [session(scene.day.id), opened],
  "session-checked": [session(scene.day.id), press("c")],
  "session-keys": [session(scene.day.id), press("?")],
  "session-320": [session(scene.day.id), verdict, NARROW],
  "session-320-open": [session(scene.day.id), opened, NARROW],
  "session-320-side": [session(scene.day.id), async (page) => { await verdict(page); await page.click(".side-button"); }, NARROW],
  "session-4k": [session(scene.day.id), verdict, [3840, 2160]],
  "session-search": [session(scene.day.id), async (page) => { await verdict(page); await page.keyboard.press("/"); await page.keyboard.type("cents"); await page.waitForSelector("mark"); }],
  changed: [session("claude-code:changed"), verdict],
  "changed-dark": [session("claude-code:changed"), verdict, WIDE, "dark"],
  growing: [session("claude-code:growing"), press("G")],
  unsealed: [session("claude-code:unsealed"), verdict],
  redacted: [session("claude-code:redacted"), opened],
  native: [session("thread:demo"), verdict],
  codex: [session("codex:codex-0.169.0.jsonl"), verdict],
  nowhere: [session("claude-code:nowhere"), (page) => page.waitForSelector(".problem")],
  compare: [compareAddress, (page) => page.waitForSelector(".pair.first")],
  "compare-320": [compareAddress, (page) => page.waitForSelector(".pair.first"), NARROW],
  drawing: [`${server.address}#/lineages/run-1`, (page) => page.waitForSelector(".drawing")],
  "drawing-dark": [`${server.address}#/lineages/run-1`, (page) => page.waitForSelector(".drawing"), WIDE, "dark"],
  verify: [site.address, (page) => page.waitForSelector(".attack-result[data-verdict]"), [1280, 1500]],
  "verify-320": [site.address, (page) => page.waitForSelector(".attack-result[data-verdict]"), [320, 2000]],
  "verify-result": [site.address, dropped(scene.day.path, `${scene.day.path}.seal`, scene.identity), [1280, 1000]],
  export: [await exported("picture.html"), verdict],
  "export-320": [await exported("picture.html"), verdict, NARROW],
  "export-locked": [await exported("locked.html", { passphrase: "x" }), (page) => page.waitForSelector("#passphrase")],
  paper: [session(scene.day.id), verdict, [760, 1000], "print"],
  parts: [session("thread:parts"), verdict],
  // What a reader of a received file does: open turn 3, ask what is proved, ask whose key it is.
  "reader-turn": [await exported("picture.html"), async (page) => {
    await verdict(page);
    await page.evaluate(() => [...document.querySelectorAll(".item")].find((one) => /turn 3$/.test(one.querySelector(".turn-number").textContent)).querySelector(".fold").click());
  }],
  "reader-proved": [await exported("picture.html"), press("c"), [1280, 1000]],
  "reader-key": [await exported("picture.html"), async (page) => { await verdict(page); await page.click(".key-panel summary"); }],
};

try {
  for (const [name, [address, act, [width, height] = WIDE, colours = "light"]] of Object.entries(PICTURES)) {
    if (names.length > 0 && !names.some((one) => name.startsWith(one))) continue;
    const page = await browser.newPage();
    await page.setViewport({ width, height });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: colours === "dark" ? "dark" : "light" }]);
    await page.goto(address);
    try {
      await act(page);
      await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 250)));
      if (colours === "print") {
        await page.emulateMediaType("print");
        await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
      }
      await page.screenshot({ path: join(folder, `${name}.png`), fullPage: colours === "print" });
      console.log(name);
    } catch (error) {
      console.log(`${name}: ${error.message}`);
    }
    await page.close();
  }
} finally {
  await browser.close();
  for (const one of [server, site, empty]) await one.close();
  scene.end();
}
