// Accessible: no violation that axe-core knows, on each page, light and dark, narrow and wide; all of it by keys.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { fillFiles } from "../export/fill.mjs";
import { launch, pathOf, verdict } from "./browser.mjs";
import { makeScene } from "./scene.mjs";
import { serve } from "./server.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// The longest suite; of a quick run one browser is enough.
const BROWSERS = process.env.QUICK ? ["chrome"] : ["chrome", "firefox"];
for (const name of BROWSERS) {
  describe(`accessibility in ${name}`, { skip: pathOf(name) === null ? `${name} is not installed` : false }, () => {
    let browser;
    let scene;
    let server;
    let site;
    let none;
    before(async () => {
      scene = makeScene();
      server = await serve(scene);
      site = await serve({ verify: true });
      none = await serve();
      browser = await launch(name);
    });
    after(async () => {
      await browser?.close();
      for (const one of [server, site, none]) await one?.close();
      scene?.end();
    });

    /** Runs axe in the page; its code comes from the debugger, which no policy of the page concerns. */
    const violations = async (page) => {
      await page.evaluate(AXE);
      const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"], rules: { "target-size": { enabled: true } } }));
      return found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
    };

    const session = (id) => `${server.address}#/s/${encodeURIComponent(id)}`;
    const pages = {
      list: [() => server.address, (page) => page.waitForSelector(".session-row")],
      "list, with hits": [() => server.address, async (page) => { await page.waitForSelector(".session-row"); await page.type(".search-input", "from_decimal"); await page.waitForSelector(".hits:not([hidden]) a"); }],
      "list, nothing matches": [() => server.address, async (page) => { await page.waitForSelector(".session-row"); await page.type(".search-input", "zzz nothing"); await page.waitForSelector(".none:not([hidden])"); }],
      "list, two chosen": [() => server.address, async (page) => { await page.waitForSelector(".session-row"); for (const key of ["j", "c", "j", "c"]) await page.keyboard.press(key); await page.waitForSelector(".compare-bar .primary"); }],
      "list, empty": [() => none.address, (page) => page.waitForSelector(".none:not([hidden])")],
      "no such session": [() => session("claude-code:nowhere"), (page) => page.waitForSelector(".problem")],
      session: [() => session(scene.day.id), verdict],
      "session, cut": [() => session("claude-code:rolled"), verdict],
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
      "session, its exchanges on a narrow page": [() => session(scene.day.id), async (page) => { await verdict(page); await page.evaluate(() => document.querySelector(".side-button").click()); }],
      compare: [() => `${server.address}#/compare?a=claude-code%3Achanged&b=claude-code%3Agrowing`, (page) => page.waitForSelector(".pair.first")],
      lineage: [() => `${server.address}#/lineages/run-1`, (page) => page.waitForSelector(".drawing")],
      verify: [() => site.address, (page) => page.waitForSelector(".attack")],
      "verify, a result": [() => site.address, async (page) => { await (await page.waitForSelector("#files")).uploadFile(scene.day.path, `${scene.day.path}.seal`, scene.identity); await page.waitForSelector(".card[data-verdict]"); await page.waitForSelector("[data-trust]"); }],
      "verify, trusted": [() => site.address, async (page) => { await (await page.waitForSelector("#files")).uploadFile(scene.day.path, `${scene.day.path}.seal`, scene.identity); await page.waitForSelector("[data-trust]"); await page.evaluate(() => document.querySelector("[data-trust]").click()); await page.waitForSelector(".trusted-here button"); await page.waitForSelector(".card[data-verdict]"); }],
      export: [() => pathToFileURL(join(scene.folder, "access.html")).href, verdict],
      "export, whose key": [() => pathToFileURL(join(scene.folder, "access.html")).href, async (page) => { await verdict(page); await page.click(".key-panel summary"); }],
      "export, encrypted": [() => pathToFileURL(join(scene.folder, "locked.html")).href, (page) => page.waitForSelector("#passphrase")],
    };

    /** Sizes, and whether a finger points. */
    const SCREENS = [{ width: 1280, height: 800 }, { width: 3840, height: 2160 }, { width: 320, height: 640, hasTouch: name === "chrome" }];

    for (const [state, [address, ready]] of Object.entries(pages)) {
      test(`axe finds nothing: ${state}`, async () => {
        const logs = [{ log: scene.day.id, path: scene.day.path }];
        if (state.startsWith("export")) writeFileSync(join(scene.folder, "access.html"), (await fillFiles({ name: scene.day.id, logs })).html);
        if (state === "export, encrypted") writeFileSync(join(scene.folder, "locked.html"), (await fillFiles({ name: scene.day.id, logs, passphrase: "x" })).html);
        for (const screen of SCREENS) {
          const page = await browser.newPage();
          await page.setViewport(screen);
          await page.goto(address());
          await ready(page);
          for (const scheme of ["light", "dark"]) {
            // Firefox takes no colours from its debugger; those of Chromium are the same.
            if (name === "chrome") await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
            else if (scheme === "dark") continue;
            assert.deepEqual(await violations(page), [], `${state}, ${scheme}, ${screen.width}`);
          }
          const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          assert.ok(over <= 0, `${state} is ${over} pixels too wide at ${screen.width}`);
          await page.close();
        }
      });
    }

    test("a session is found, opened, read, proved and left with keys alone", async () => {
      const page = await browser.newPage();
      await page.goto(server.address);
      await page.waitForSelector(".session-row");
      await page.keyboard.press("/");
      await page.keyboard.type("checkout test fails");
      await page.waitForFunction(() => document.querySelectorAll(".session-row").length === 1);
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => document.activeElement?.classList.contains("session-link"));
      await page.keyboard.press("Enter");
      await page.waitForSelector(".item");
      await verdict(page);
      await page.keyboard.press("j");
      await page.keyboard.press("]");
      await page.waitForFunction(() => document.activeElement?.classList.contains("item-user"));
      await page.keyboard.press("Tab");
      assert.equal(await page.evaluate(() => document.activeElement.tagName === "BUTTON" || document.activeElement.tagName === "A"), true);
      await page.keyboard.press("c");
      await page.waitForSelector(".facet");
      await page.keyboard.press("c");
      await page.waitForFunction(() => document.querySelector("#checked").hidden);
      await page.keyboard.press("?");
      await page.waitForSelector("dialog[open]");
      await page.keyboard.press("Escape");
      await page.waitForFunction(() => document.querySelector("dialog[open]") === null);
      // Everything that a mouse reaches is reached by Tab: the way back to the list, too.
      await page.evaluate(() => document.activeElement.blur());
      const reached = new Set();
      for (let step = 0; step < 40 && !reached.has("All sessions"); step++) {
        await page.keyboard.press("Tab");
        reached.add(await page.evaluate(() => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? ""));
      }
      assert.ok(reached.has("All sessions"), [...reached].join(", "));
      await page.keyboard.press("Enter");
      await page.waitForSelector(".session-row");
      await page.close();
    });

    test("text from right to left keeps its direction beside ours", async () => {
      const page = await browser.newPage();
      await page.goto(session(scene.day.id));
      await verdict(page);
      await page.keyboard.press("G");
      await page.waitForFunction(() => [...document.querySelectorAll(".prose p")].some((one) => /شكر/.test(one.textContent) && getComputedStyle(one).direction === "rtl"));
      assert.equal(await page.$eval(".item .turn-number", (one) => getComputedStyle(one).direction), "ltr");
      await page.close();
    });

    // Firefox takes no such wish from its debugger; the rules are the same.
    if (name === "chrome") test("less motion, where it is wished", async () => {
      const page = await browser.newPage();
      await page.emulateMediaFeatures([{ name: "prefers-reduced-motion", value: "reduce" }]);
      await page.goto(session(scene.day.id));
      await page.waitForSelector(".item");
      assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
      await page.close();
    });
  });
}
