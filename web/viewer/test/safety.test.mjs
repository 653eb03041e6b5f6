// Content is hostile: nothing of a session runs, nothing asks the network, and the page stays usable.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { fillFiles } from "../export/fill.mjs";
import { ATTACKS, hostileLog } from "./attacks.mjs";
import { launch, listen, pathOf } from "./browser.mjs";
import { Log } from "./maker.mjs";
import { serve } from "./server.mjs";

for (const name of ["chrome", "firefox"]) {
  describe(`hostile content in ${name}`, { skip: pathOf(name) === null ? `${name} is not installed` : false }, () => {
    let browser;
    let server;
    let folder;
    const path = () => join(folder, "hostile.jsonl");
    before(async () => {
      folder = mkdtempSync(join(tmpdir(), "threadseal-hostile-"));
      writeFileSync(path(), hostileLog(Log));
      const row = { id: ATTACKS[0], agent: ATTACKS[1], project: ATTACKS[2], title: ATTACKS[1], begun: null, updated: "2026-11-20T09:00:00Z", turns: 1, tools: 1, tokens: 1, cost: 1, model: ATTACKS[0], state: ATTACKS[0], state_text: ATTACKS[1], light: "red", sub_agents: 1, kind: ATTACKS[2] };
      server = await serve({
        sessions: [{ row, logs: [{ log: "evil", path: path() }, { log: "evil/<img src=x onerror=window.hacked=1>", path: path(), parent: "evil" }], links: [{ kind: ATTACKS[0], id: ATTACKS[1] }] }],
        drawings: { x: { nodes: [{ id: ATTACKS[0], label: ATTACKS[1], state: ATTACKS[2], session: "javascript:window.hacked=1" }], edges: [{ from: ATTACKS[0], to: ATTACKS[0], kind: ATTACKS[1] }] } },
        report: () => ({ results: [{ verdict: ATTACKS[0], completeness: ATTACKS[1], findings: [] }] }),
      });
      browser = await launch(name);
    });
    after(async () => {
      await browser?.close();
      await server?.close();
      rmSync(folder, { recursive: true, force: true });
    });

    /** What must hold on any page: nothing ran, nothing foreign is an element, nothing went out. */
    const check = async (page, seen) => {
      const found = await page.evaluate(() => ({
        hacked: window.hacked ?? null, polluted: {}.polluted ?? null,
        foreign: [...document.querySelectorAll("#app iframe,#app object,#app embed,#app form[action],#app style,#app link,#app meta,#app base,#app script,#app math,#app template")].length,
        handlers: [...document.querySelectorAll("*")].filter((one) => [...one.attributes].some((attribute) => /^on/i.test(attribute.name))).length,
        links: [...document.querySelectorAll("#app a")].map((one) => one.getAttribute("href")).filter((href) => !href.startsWith("#")),
        images: [...document.querySelectorAll("#app img")].map((one) => one.src).filter((src) => !src.startsWith("blob:")),
        styles: document.querySelectorAll("[style]:not(.virtual-space):not(.virtual-row)").length,
      }));
      assert.deepEqual(found, { hacked: null, polluted: null, foreign: 0, handlers: 0, links: [], images: [], styles: 0 });
      assert.deepEqual(seen.outside, []);
    };

    test("the list, and every item of a session, opened and raw", async () => {
      const page = await browser.newPage();
      const seen = listen(page);
      await page.goto(server.address);
      await page.waitForSelector(".session-row");
      await check(page, seen);
      await page.goto(`${server.address}#/s/${encodeURIComponent(ATTACKS[0])}`);
      await page.waitForSelector('.conversation[aria-busy="false"] .item');
      // Every row is brought into the page as on paper, then opened where it can be.
      await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
      await page.waitForFunction(() => document.querySelectorAll(".item").length > 100);
      await check(page, seen);
      await page.evaluate(() => dispatchEvent(new Event("afterprint")));
      for (let step = 0; step < 14; step++) {
        await page.evaluate(() => {
          for (const one of document.querySelectorAll('.item .fold[aria-expanded="false"]')) one.click();
          for (const one of document.querySelectorAll('.item [data-focus="raw"][aria-pressed="false"]')) one.click();
        });
        await new Promise((resolve) => setTimeout(resolve, 120));
        await check(page, seen);
        await page.evaluate(() => document.querySelector(".conversation").scrollBy(0, 2500));
        await new Promise((resolve) => setTimeout(resolve, 60));
      }
      assert.ok(await page.$(".item-damaged") !== null || (await page.$$(".item")).length > 0);
      await page.close();
    });

    test("search for hostile words, the drawing and the server's report", async () => {
      const page = await browser.newPage();
      const seen = listen(page);
      await page.goto(`${server.address}#/s/${encodeURIComponent(ATTACKS[0])}`);
      await page.waitForSelector(".item");
      await page.type(".search-input", "<script>");
      await page.waitForFunction(() => /match/.test(document.querySelector(".search-status").textContent));
      assert.ok(await page.$("mark"));
      await check(page, seen);
      await page.goto(`${server.address}#/lineages/x`);
      await page.waitForSelector(".drawing");
      await check(page, seen);
      await page.close();
    });

    test("an export of it, with scripts and without", async () => {
      const { html } = await fillFiles({ name: ATTACKS[9], logs: [{ log: ATTACKS[0], path: path() }] });
      const file = join(folder, "hostile.html");
      writeFileSync(file, html);
      const page = await browser.newPage();
      const seen = listen(page);
      await page.goto(pathToFileURL(file).href);
      await page.waitForSelector(".item");
      await check(page, seen);
      await page.close();
      if (name === "firefox") return;
      const plain = await browser.newPage();
      const outside = listen(plain);
      await plain.setJavaScriptEnabled(false);
      await plain.goto(pathToFileURL(file).href);
      const shown = await plain.$eval("noscript", (one) => one.textContent);
      assert.match(shown, /Nothing on this page is verified/);
      assert.ok(shown.includes("<script>window.hacked = 1</script>"), "the words are shown as words");
      assert.equal(await plain.$("noscript img, noscript iframe, noscript script, noscript a"), null);
      assert.deepEqual(outside.outside, []);
      await plain.close();
    });
  });
}
