// The served page in a real browser: every page, every state of a session, search, keys, live tail, proofs.

import assert from "node:assert/strict";
import { appendFileSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { launch, listen, pathOf, verdict } from "./browser.mjs";
import { makeScene } from "./scene.mjs";
import { serve, watchLog } from "./server.mjs";

for (const name of ["chrome", "firefox"]) {
  describe(`the served page in ${name}`, { skip: pathOf(name) === null ? `${name} is not installed` : false }, () => {
    let browser;
    let scene;
    let server;
    before(async () => {
      scene = makeScene();
      server = await serve(scene);
      browser = await launch(name);
    });
    after(async () => {
      await browser?.close();
      await server?.close();
      scene?.end();
    });

    const open = async (path, options = {}) => {
      const page = await browser.newPage();
      const seen = listen(page);
      await page.setViewport({ width: 1280, height: 800, ...options });
      await page.goto(`${server.address}${path}`);
      return { page, seen };
    };
    const session = (id, rest = "") => `#/s/${encodeURIComponent(id)}${rest}`;

    test("the list has all sessions, filters and finds as one types", async () => {
      const { page, seen } = await open("");
      await page.waitForFunction((count) => document.querySelectorAll(".session-row").length === count, {}, scene.sessions.length);
      await page.type(".search-input", "codex");
      await page.waitForFunction(() => document.querySelectorAll(".session-row").length === 1);
      await page.select('select[aria-label="Agent"]', "codex");
      await page.$eval(".search-input", (input) => { input.value = ""; input.dispatchEvent(new Event("input")); });
      await page.waitForFunction(() => document.querySelectorAll(".session-row").length === 1);
      assert.deepEqual(seen, { errors: [], outside: [] });
      await page.close();
    });

    test("what is not known is a dash in the list, never a 0", async () => {
      const { page } = await open("");
      const row = await page.waitForSelector('[data-id="claude-code:unsealed"]');
      assert.deepEqual(await row.$$eval(".figure", (all) => all.map((one) => one.firstChild.data)), ["–", "–", "–"]);
      assert.equal(await row.$eval(".cost", (one) => one.textContent), "–");
      await page.close();
    });

    test("a new session comes into the list, and a changed one moves to its place", async () => {
      const before = server.follows(null);
      const { page, seen } = await open("");
      await page.waitForFunction((count) => document.querySelectorAll(".session-row").length === count, {}, scene.sessions.length);
      await server.followed(null, before);
      const first = scene.sessions[0];
      const log = { log: `claude-code:new-${name}`, bytes: Buffer.from("{}\n") };
      server.add({ row: { ...first.row, id: log.log, title: "It began just now", updated: new Date().toISOString() }, logs: [log] });
      await page.waitForFunction(() => document.querySelector(".session-row .session-title")?.textContent === "It began just now");
      const old = scene.sessions.at(-1);
      old.row = { ...old.row, title: "It was old", updated: new Date(Date.now() + 1000).toISOString() };
      server.changed(old.logs[0].log);
      await page.waitForFunction(() => document.querySelector(".session-row .session-title")?.textContent === "It was old");
      assert.deepEqual(seen, { errors: [], outside: [] });
      scene.sessions.splice(scene.sessions.findIndex((one) => one.row.id === log.log), 1);
      await page.close();
    });

    test("words inside sessions are found by the server and linked to the turn", async () => {
      const { page } = await open("");
      await page.waitForSelector(".session-row");
      await page.type(".search-input", "from_decimal");
      await page.waitForSelector(".hits:not([hidden]) a");
      const href = await page.$eval(".hits a", (link) => link.getAttribute("href"));
      assert.match(href, /\/turn\/\d+\?q=from_decimal/);
      await page.close();
    });

    const states = [
      ["claude-code:changed", "red", /^Changed at (turn 3 \(line 5\)|line 5):/],
      ["claude-code:growing", "amber", /came after that seal/],
      ["claude-code:unsealed", "amber", /Nothing protects/],
      ["claude-code:rolled", "red", /^Cut: this copy ends before/],
      ["claude-code:redacted", "green", /^Verified: nothing was changed since this machine's own key sealed it, but for 1 place that is marked as redacted/],
      ["thread:demo", "green", /^Verified/],
      ["claude-code:bare", "red", /^Its seals are gone/],
      ["thread:parts", "green", /^Verified/],
      ["codex:codex-0.169.0.jsonl", "amber", /^Unchanged since/],
      ["gemini:gemini-0.61.0.jsonl", "amber", /^Unchanged since/],
      ["pi:pi-0.73.1.jsonl", "amber", /^Unchanged since/],
      ["opencode:opencode-1.18.33.json", "green", /^Verified/],
      ["claude:claude-2.1.197.jsonl", "amber", /^Unchanged since/],
    ];
    for (const [id, light, sentence] of states) {
      test(`the verdict on ${id} is the page's own`, async () => {
        const { page, seen } = await open(session(id));
        const found = await verdict(page);
        assert.equal(found.light, light);
        assert.match(found.sentence, sentence);
        assert.ok((await page.$$(".item")).length > 0, "no turn is shown");
        assert.deepEqual(seen.outside, []);
        await page.close();
      });
    }

    test("a changed line is marked in its place, and what follows is doubted", async () => {
      const { page } = await open(session("claude-code:changed"));
      await verdict(page);
      assert.match(await page.$eval('.item[data-standing="changed"] .mark-changed', (one) => one.textContent), /changed after it was sealed/);
      assert.ok(await page.$('.item[data-standing="doubted"]'));
      assert.ok(await page.$('.item[data-standing="sealed"]'));
      await page.close();
    });

    test("texts that are in a file beside the record are shown in their places", async () => {
      const { page } = await open(session("thread:parts"));
      await page.waitForFunction(() => /The address is in ticket 4711/.test(document.querySelector(".conversation")?.textContent ?? ""));
      assert.match(await page.$eval(".item-user", (one) => one.textContent), /Where does the customer live/);
      await page.close();
    });

    test("a redacted line and an unsealed tail are shown as such in their places", async () => {
      const one = await open(session("claude-code:redacted"));
      await verdict(one.page);
      assert.match(await one.page.$eval(".item-hole", (item) => item.textContent), /deleted for good/);
      await one.page.close();
      const other = await open(session("claude-code:growing"));
      await verdict(other.page);
      await other.page.keyboard.press("G");
      await other.page.waitForSelector(".note-row");
      assert.match(await other.page.$eval(".note-row", (row) => row.textContent), /Not sealed yet/);
      assert.ok(await other.page.$('.item[data-standing="unsealed"]'));
      await other.page.close();
    });

    test("what was checked is behind a click, with the server's word apart", async () => {
      const { page } = await open(session("thread:demo"));
      await verdict(page);
      await page.keyboard.press("c");
      await page.waitForFunction(() => /The command on this machine/.test(document.querySelector(".server")?.textContent ?? ""));
      assert.equal((await page.$$(".facet")).length, 4);
      assert.match(await page.$eval(".engines", (one) => one.textContent), /TypeScript/);
      await page.close();
    });

    test("search finds, marks and filters; Enter shows the match among its neighbours", async () => {
      const { page } = await open(session(scene.day.id));
      await verdict(page);
      const all = (await page.$$(".item")).length;
      await page.keyboard.press("/");
      await page.keyboard.type("refund");
      await page.waitForFunction(() => /match/.test(document.querySelector(".search-status").textContent));
      const found = (await page.$$(".item")).length;
      assert.ok(found > 0 && found < all);
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => /Match 1 of/.test(document.querySelector(".search-status").textContent));
      await page.keyboard.press("Escape");
      await page.close();
    });

    test("keys move, open and fold; the address follows; a deep link returns there", async () => {
      const { page } = await open(session(scene.day.id));
      await verdict(page);
      for (const key of ["j", "j", "j", "j"]) await page.keyboard.press(key);
      await page.keyboard.press("o");
      await page.waitForSelector(".item.current.open .call-content");
      const address = await page.evaluate(() => location.hash);
      assert.match(address, /\/turn\/\d+$/);
      await page.close();
      const again = await open(address);
      await verdict(again.page);
      const turn = /turn\/(\d+)/.exec(address)[1];
      await again.page.waitForFunction((number) => document.activeElement?.querySelector(".turn-number")?.textContent.match(/\d+/)?.[0] === number, {}, turn);
      await again.page.close();
    });

    test("a subagent has a page of its own", async () => {
      const { page } = await open(session(scene.day.id));
      await verdict(page);
      await page.evaluate(() => document.querySelector(".family a").click());
      await page.waitForSelector(".head-line .chip");
      await page.waitForFunction(() => /every caller of/.test(document.querySelector(".item-user")?.textContent ?? ""));
      await page.close();
    });

    test("an image is shown from its bytes, a diff line by line", async () => {
      const { page } = await open(session(scene.day.id));
      await verdict(page);
      await page.evaluate(() => [...document.querySelectorAll(".item-tool")].find((one) => /Edit/.test(one.textContent)).querySelector(".fold").click());
      await page.waitForSelector(".diff .line.added");
      await page.evaluate(() => document.querySelector(".conversation").scrollBy(0, 700));
      await page.waitForFunction(() => [...document.querySelectorAll(".more")].some((one) => /image/.test(one.textContent)));
      await page.evaluate(() => [...document.querySelectorAll(".more")].find((one) => /image/.test(one.textContent)).click());
      await page.waitForFunction(() => document.querySelector(".images img")?.naturalWidth === 2);
      await page.close();
    });

    test("a running session grows in the page, and is verified again", async () => {
      const { path } = scene.sessions.find((one) => one.row.id === "claude-code:unsealed").logs[0];
      const watched = watchLog(server, "claude-code:unsealed", path);
      const { page } = await open(session("claude-code:unsealed"));
      await verdict(page);
      await page.keyboard.press("G");
      const line = JSON.stringify({ type: "assistant", sessionId: "x", timestamp: "2026-11-20T10:00:00Z", message: { id: "m", role: "assistant", content: [{ type: "text", text: "A live line came." }] } });
      appendFileSync(path, `${line.slice(0, 40)}`);
      appendFileSync(path, `${line.slice(40)}\n`);
      await page.waitForFunction(() => /A live line came/.test(document.querySelector(".conversation").textContent));
      watched.close();
      await page.close();
    });

    test("a session that is sealed while it is open turns from growing to sealed", async () => {
      const { path } = scene.sessions.find((one) => one.row.id === "claude-code:growing").logs[0];
      const [log, seal] = [path, `${path}.seal`].map((file) => readFileSync(file));
      const follows = server.follows("claude-code:growing");
      const { page } = await open(session("claude-code:growing"));
      assert.match((await verdict(page)).sentence, /came after that seal/);
      await server.followed("claude-code:growing", follows);
      appendFileSync(path, log.subarray(0, log.indexOf(10) + 1));
      server.changed("claude-code:growing");
      scene.run("seal", "-q", path);
      server.changed("claude-code:growing");
      await page.waitForFunction(() => /^Verified/.test(document.querySelector(".verdict-sentence").textContent));
      writeFileSync(path, log);
      writeFileSync(`${path}.seal`, seal);
      await page.close();
    });

    test("a log that did not change is read once; one that became shorter is read anew; one that is gone is reported", async () => {
      const { path } = scene.sessions.find((one) => one.row.id === "claude-code:unsealed").logs[0];
      const whole = readFileSync(path);
      const reads = () => server.requests.filter((one) => /unsealed\/bytes$/.test(decodeURIComponent(one))).length;
      const before = reads();
      const follows = server.follows("claude-code:unsealed");
      const { page } = await open(session("claude-code:unsealed"));
      await verdict(page);
      await page.waitForFunction(() => document.querySelectorAll(".item").length > 3);
      await server.followed("claude-code:unsealed", follows);
      server.changed("claude-code:unsealed");
      await new Promise((resolve) => setTimeout(resolve, 800));
      assert.equal(reads() - before, 1);
      writeFileSync(path, whole.subarray(0, whole.indexOf(10) + 1));
      server.changed("claude-code:unsealed");
      await page.waitForFunction(() => document.querySelectorAll(".item").length === 1);
      writeFileSync(path, whole);
      server.changed("claude-code:unsealed", true);
      await page.waitForSelector(".disk-note:not([hidden])");
      server.changed("claude-code:unsealed");
      await page.waitForFunction(() => document.querySelectorAll(".item").length > 3 && document.querySelector(".disk-note").hidden);
      await page.close();
    });

    test("the compare page has the verdict on each of the two", async () => {
      const { page } = await open(`#/compare?a=${encodeURIComponent("claude-code:changed")}&b=${encodeURIComponent(scene.day.id)}`);
      await page.waitForSelector('.side-head[data-light="red"]');
      await page.waitForSelector('.side-head[data-light="green"]');
      assert.match(await page.$eval('.side-head[data-light="red"]', (one) => one.textContent), /Changed at line 5/);
      await page.close();
    });

    test("the compare page shows where two copies part", async () => {
      const { page } = await open(`#/compare?a=${encodeURIComponent("claude-code:changed")}&b=${encodeURIComponent("claude-code:growing")}`);
      await page.waitForSelector(".pair.first");
      assert.match(await page.$eval(".verdict-sentence", (one) => one.textContent), /part there|begins like/);
      await page.close();
    });

    test("a change deep in a result is where two copies part", async () => {
      const { page } = await open(`#/compare?a=${encodeURIComponent("claude-code:changed")}&b=${encodeURIComponent(scene.day.id)}`);
      await page.waitForSelector(".pair.first .pair-diff");
      const text = await page.$eval(".pair.first .pair-diff", (one) => one.textContent);
      assert.match(text, /44 passed; 0 failed/);
      assert.match(text, /42 passed; 2 failed/);
      await page.close();
    });

    test("a lineage is drawn with its fork", async () => {
      const { page } = await open("#/lineages/run-1");
      await page.waitForSelector(".drawing");
      assert.equal((await page.$$(".drawing .node")).length, 4);
      assert.equal((await page.$$(".drawing .edge-fork")).length, 1);
      await page.close();
    });

    test("a log that is gone is reported, and the page stays", async () => {
      const { page } = await open(session("claude-code:nowhere"));
      await page.waitForSelector(".problem");
      assert.match(await page.$eval(".problem", (one) => one.textContent), /404/);
      await page.close();
    });
  });
}

describe("proofs made in the page", () => {
  test("a proof of a turn is saved, and the command confirms it", async () => {
    const scene = makeScene();
    const server = await serve(scene);
    const browser = await launch("chrome");
    try {
      const page = await browser.newPage();
      const client = await page.createCDPSession();
      const folder = join(scene.folder, "out");
      await client.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: folder });
      const done = new Set();
      const proof = async (id, item) => {
        await page.goto("about:blank");
        await page.goto(`${server.address}#/s/${encodeURIComponent(id)}`);
        await verdict(page);
        await page.waitForSelector(`${item} [data-focus="proof"]`);
        await page.evaluate((which) => document.querySelector(`${which} [data-focus="proof"]`).click(), item);
        await page.waitForFunction(() => /A proof of turns? .* was made, checked|No proof/.test(document.querySelector(".flash")?.textContent ?? ""));
        assert.match(await page.$eval(".flash", (one) => one.textContent), /was made, checked and saved: .*threadseal check-proof/);
        // The answer stays when the rows are drawn anew, as a later verdict does.
        const drawn = await page.evaluate((which) => {
          const before = document.querySelector(which);
          document.querySelector('[data-filter="other"]').click();
          document.querySelector('[data-filter="other"]').click();
          return before.isConnected;
        }, item);
        assert.equal(drawn, false);
        await page.waitForSelector(`${item} .flash`);
        let name;
        for (let tries = 0; tries < 100 && name === undefined; tries++) {
          name = readdirSync(folder).find((one) => one.endsWith(".turn-proof") && !done.has(one));
          await new Promise((resolve) => setTimeout(resolve, 50));
        }
        done.add(name);
        const { result } = JSON.parse(scene.run("check-proof", "--json", join(folder, name)));
        return { verdict: result.verdict, text: readFileSync(join(folder, name), "utf8") };
      };
      const observed = await proof(scene.day.id, ".item-tool");
      assert.equal(observed.verdict, "verified");
      assert.match(observed.text, /^threadseal\/1 proof of observed lines\n/);
      // Another host sealed it, whose key the command does not know.
      const native = await proof("thread:demo", ".item-tool");
      assert.equal(native.verdict, "unknown_signer");
      assert.match(native.text, /^threadseal\/1 proof\b[^]*3 failed/);
      const detached = await proof("thread:parts", ".item-assistant");
      assert.equal(detached.verdict, "verified");
    } finally {
      await browser.close();
      await server.close();
      scene.end();
    }
  });
});
