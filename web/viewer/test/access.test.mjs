// Accessible: no violation that axe-core knows, on each page, light and dark, narrow and wide; all of it by keys.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { fillFiles } from "../export/fill.mjs";
import { launch, verdict } from "./browser.mjs";
import { makeScene } from "./scene.mjs";
import { serve } from "./server.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

describe("accessibility", () => {
  let browser;
  let scene;
  let server;
  let site;
  before(async () => {
    scene = makeScene();
    server = await serve(scene);
    site = await serve({ verify: true });
    browser = await launch("chrome");
  });
  after(async () => {
    await browser?.close();
    await server?.close();
    await site?.close();
    scene?.end();
  });

  /** Runs axe in the page; its code comes from the debugger, which no policy of the page concerns. */
  const violations = async (page) => {
    await page.evaluate(AXE);
    const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    return found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
  };

  const session = (id) => `${server.address}#/s/${encodeURIComponent(id)}`;
  const pages = {
    list: [() => server.address, (page) => page.waitForSelector(".session-row")],
    "list, with hits": [() => server.address, async (page) => { await page.waitForSelector(".session-row"); await page.type(".search-input", "from_decimal"); await page.waitForSelector(".hits:not([hidden]) a"); }],
    session: [() => session(scene.day.id), verdict],
    "session, checked": [() => session(scene.day.id), async (page) => { await verdict(page); await page.keyboard.press("c"); await page.waitForSelector(".facet"); }],
    "session, opened": [() => session(scene.day.id), async (page) => {
      await verdict(page);
      await page.evaluate(() => { for (const one of document.querySelectorAll(".fold")) one.click(); });
      await page.waitForSelector(".call-content");
      await page.evaluate(() => document.querySelector('[data-focus="raw"]').click());
      await page.waitForSelector(".raw");
    }],
    "session, searched": [() => session(scene.day.id), async (page) => { await verdict(page); await page.keyboard.press("/"); await page.keyboard.type("cents"); await page.waitForSelector("mark"); }],
    "session, changed": [() => session("claude-code:changed"), verdict],
    "session, growing": [() => session("claude-code:growing"), async (page) => { await verdict(page); await page.keyboard.press("G"); }],
    "session, redacted": [() => session("claude-code:redacted"), verdict],
    help: [() => session(scene.day.id), async (page) => { await verdict(page); await page.keyboard.press("?"); await page.waitForSelector("dialog[open]"); }],
    compare: [() => `${server.address}#/compare?a=claude-code%3Achanged&b=claude-code%3Agrowing`, (page) => page.waitForSelector(".pair.first")],
    lineage: [() => `${server.address}#/lineages/run-1`, (page) => page.waitForSelector(".drawing")],
    verify: [() => site.address, (page) => page.waitForSelector(".attack")],
    "verify, a result": [() => site.address, async (page) => { await (await page.waitForSelector("#files")).uploadFile(scene.day.path, `${scene.day.path}.seal`, scene.identity); await page.waitForSelector(".card[data-verdict]"); }],
    export: [() => pathToFileURL(join(scene.folder, "access.html")).href, verdict],
    "export, encrypted": [() => pathToFileURL(join(scene.folder, "locked.html")).href, (page) => page.waitForSelector("#passphrase")],
  };

  for (const [name, [address, ready]] of Object.entries(pages)) {
    test(`axe finds nothing: ${name}`, async () => {
      const logs = [{ log: scene.day.id, path: scene.day.path }];
      if (name === "export") writeFileSync(join(scene.folder, "access.html"), (await fillFiles({ name: scene.day.id, logs })).html);
      if (name === "export, encrypted") writeFileSync(join(scene.folder, "locked.html"), (await fillFiles({ name: scene.day.id, logs, passphrase: "x" })).html);
      for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["light", 320]]) {
        const page = await browser.newPage();
        await page.setViewport({ width, height: 800 });
        await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
        await page.goto(address());
        await ready(page);
        assert.deepEqual(await violations(page), [], `${name}, ${scheme}, ${width}`);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${name} is ${over} pixels too wide at ${width}`);
        await page.close();
      }
    });
  }

  test("a session is opened, read and left with keys alone", async () => {
    const page = await browser.newPage();
    await page.goto(server.address);
    await page.waitForSelector(".session-row");
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".item");
    await verdict(page);
    await page.keyboard.press("j");
    await page.keyboard.press("]");
    await page.waitForFunction(() => document.activeElement?.classList.contains("item-user"));
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.tagName === "BUTTON" || document.activeElement.tagName === "A"), true);
    await page.close();
  });

  test("text from right to left keeps its direction beside ours", async () => {
    const page = await browser.newPage();
    await page.goto(session(scene.day.id));
    await verdict(page);
    await page.keyboard.press("G");
    await page.waitForFunction(() => [...document.querySelectorAll(".prose p")].some((one) => /شكر/.test(one.textContent) && getComputedStyle(one).direction === "rtl"));
    await page.close();
  });

  test("who wants less motion gets none", async () => {
    const page = await browser.newPage();
    await page.emulateMediaFeatures([{ name: "prefers-reduced-motion", value: "reduce" }]);
    await page.goto(session(scene.day.id));
    await page.waitForSelector(".item");
    assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
    await page.close();
  });
});
