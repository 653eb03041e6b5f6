// The page in one file: from a disk, without scripts, encrypted, in parts; and a forged one, which is noticed.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { fillFiles } from "../export/fill.mjs";
import { launch, listen, pathOf, verdict } from "./browser.mjs";
import { makeScene } from "./scene.mjs";
import { serve } from "./server.mjs";

for (const name of ["chrome", "firefox"]) {
  describe(`an export in ${name}`, { skip: pathOf(name) === null ? `${name} is not installed` : false }, () => {
    let browser;
    let scene;
    let site;
    let logs;
    before(async () => {
      scene = makeScene();
      site = await serve({ verify: true });
      browser = await launch(name);
      logs = [{ log: scene.day.id, path: scene.day.path }, { log: `${scene.day.id}/agent-${scene.day.agent}`, path: scene.day.sub, parent: scene.day.id }];
    });
    after(async () => {
      await browser?.close();
      await site?.close();
      scene?.end();
    });

    const write = (file, text) => {
      const path = join(scene.folder, file);
      writeFileSync(path, text);
      return path;
    };
    const open = async (file) => {
      const page = await browser.newPage();
      const seen = listen(page);
      await page.goto(pathToFileURL(file).href);
      return { page, seen };
    };
    /** Drops files onto the verification page. */
    const drop = async (...files) => {
      const page = await browser.newPage();
      const seen = listen(page);
      await page.goto(site.address);
      await (await page.waitForSelector("#files")).uploadFile(...files);
      await page.waitForFunction(() => document.querySelector(".card") !== null && document.querySelector('.card[data-verdict]') !== null);
      if (files.some((file) => /\.(id|pub)$/.test(file))) {
        await page.waitForSelector("[data-trust]");
        await page.evaluate(() => document.querySelector("[data-trust]").click());
        await page.waitForFunction(() => document.querySelector('.card[data-verdict]') !== null && document.querySelector(".trusted-here button") !== null && document.querySelector("[data-trust]") === null);
      }
      return { page, seen, card: await page.$eval(".card", (one) => ({ ...one.dataset, text: one.textContent })) };
    };

    test("it opens from a disk, shows whose key is needed, and verifies itself with it", async () => {
      const { html } = await fillFiles({ name: scene.day.id, logs });
      const { page, seen } = await open(write("day.html", html));
      assert.match((await verdict(page)).sentence, /is not one you trust/);
      await page.waitForSelector("#identity");
      await page.$eval("#identity", (area, words) => { area.value = words; }, readFileSync(scene.identity, "utf8"));
      await page.evaluate(() => document.querySelector(".key-panel .primary").click());
      await page.waitForSelector("[data-trust]");
      await page.evaluate(() => document.querySelector("[data-trust]").click());
      await page.waitForFunction(() => /^Unchanged since/.test(document.querySelector(".verdict-sentence").textContent));
      await page.evaluate(() => document.querySelector("[data-checked]").click());
      assert.match(await page.$eval(".received", (one) => one.textContent), /own word is no proof/);
      await page.evaluate(() => document.querySelector(".family a").click());
      await page.waitForFunction(() => /every caller of/.test(document.querySelector(".item-user")?.textContent ?? ""));
      assert.deepEqual(seen, { errors: [], outside: [] });
      await page.close();
    });

    test("it prints every turn", async () => {
      const { html } = await fillFiles({ name: scene.day.id, logs });
      const { page } = await open(write("print.html", html));
      await verdict(page);
      await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
      assert.match(await page.$eval(".conversation", (one) => one.textContent), /All 44 tests pass[\s\S]*Audit callers of charge/);
      await page.close();
    });

    test("encrypted, it opens with its passphrase and with no other", async () => {
      const { html } = await fillFiles({ name: scene.day.id, logs, passphrase: "correct horse" });
      assert.ok(!html.includes("checkout") && !html.includes(scene.day.id), "nothing of the session is legible");
      const { page } = await open(write("locked.html", html));
      await page.waitForSelector("#passphrase");
      await page.type("#passphrase", "wrong");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => /does not open it/.test(document.querySelector(".note").textContent));
      await page.$eval("#passphrase", (one) => { one.value = ""; });
      await page.type("#passphrase", "correct horse");
      await page.keyboard.press("Enter");
      await page.waitForSelector(".item");
      await verdict(page);
      await page.close();
    });

    test("a dropped identity is shown with its words, counts after an answer, and can be taken back", async () => {
      const page = await browser.newPage();
      await page.goto(site.address);
      const files = await page.waitForSelector("#files");
      const sentence = () => page.$eval(".card .verdict-sentence", (one) => one.textContent);
      await files.uploadFile(scene.identity);
      await page.waitForSelector("[data-trust]");
      const shown = await page.$eval(".given", (one) => one.textContent);
      assert.doesNotMatch(shown, /sealed/, "nothing is judged yet");
      await files.uploadFile(scene.day.path, `${scene.day.path}.seal`);
      await page.waitForSelector(".card[data-verdict]");
      assert.match(await sentence(), /is not one you trust/);
      await page.waitForFunction(() => /Its entry observed sealed a record here/.test(document.querySelector(".given").textContent));
      const words = await page.$$eval(".words li", (all) => all.map((one) => one.textContent).join(" "));
      assert.ok(scene.run("id", "show").includes(words), "the words are those of the command");
      await page.evaluate(() => document.querySelector("[data-trust]").click());
      await page.waitForFunction(() => /since “.+” sealed it/.test(document.querySelector(".card[data-verdict] .verdict-sentence")?.textContent ?? ""));
      await page.evaluate(() => document.querySelector(".trusted-here button").click());
      await page.waitForFunction(() => /is not one you trust/.test(document.querySelector(".card[data-verdict] .verdict-sentence")?.textContent ?? ""));
      assert.equal(await page.$eval(".trusted-here", (one) => one.textContent), "");
      // A key that sealed nothing here has no button.
      const other = join(scene.folder, "other.pub");
      writeFileSync(other, JSON.parse(readFileSync(scene.identity, "utf8")).keys.find((one) => one.usage === "native").key);
      await files.uploadFile(other);
      await page.waitForSelector(".not-signer");
      assert.equal(await page.$("[data-trust]"), null);
      await page.close();
    });

    test("beyond the bound, parts are in files beside it, which it asks for", async () => {
      const { html, files } = await fillFiles({ name: "large", logs, maxBytes: 3000 });
      assert.ok(files.length > 0);
      const { page } = await open(write("parts.html", html));
      await page.waitForSelector(".gate #files");
      const paths = files.map((file) => write(file.name, file.bytes));
      await (await page.$("#files")).uploadFile(...paths);
      await page.waitForSelector(".item");
      await page.close();
    });

    test("a part that was changed does not open", async () => {
      const { html } = await fillFiles({ name: scene.day.id, logs });
      const { page } = await open(write("broken.html", html.replace(/(id="part-0">.{600})./, "$1A").replace(/(id="part-0">.{610})./, "$1B")));
      await page.waitForSelector(".problem");
      assert.match(await page.$eval(".problem", (one) => one.textContent), /cannot be opened/);
      await page.close();
    });

    test("the verification page takes the record out, judges it, and compares what is shown", async () => {
      const { html } = await fillFiles({ name: scene.day.id, logs });
      const { page, seen, card } = await drop(write("good.html", html), scene.identity);
      assert.equal(card.verdict, "open");
      assert.equal(card.forged, undefined);
      assert.match(card.text, /Its code is that of ThreadSeal/);
      assert.match(card.text, /without scripts is that of its record/);
      assert.deepEqual(seen.outside, []);
      await page.close();
    });

    test("bodies that were left out on purpose are no change of the record", async () => {
      const { path } = scene.sessions.find((one) => one.row.id === "thread:parts").logs[0];
      const { html } = await fillFiles({ name: "parts", logs: [{ log: "thread:parts", path }], withoutBodies: true });
      assert.ok(!html.includes("ticket 4711"));
      const { page, card } = await drop(write("parts.html", html), scene.identity);
      assert.equal(card.verdict, "partial");
      assert.match(card.text, /Unchanged as far as it is here: texts that were sealed with it were left out/);
      await page.close();
      const whole = await fillFiles({ name: "parts", logs: [{ log: "thread:parts", path }] });
      const one = await open(write("parts.html", whole.html));
      await one.page.waitForFunction(() => /The address is in ticket 4711/.test(document.querySelector(".conversation")?.textContent ?? ""));
      assert.match((await verdict(one.page)).sentence, /is not one you trust/);
      await one.page.close();
    });

    test("a forged export is green by its own word, and is noticed by the verification page", async () => {
      const { html } = await fillFiles({ name: scene.day.id, logs });
      const lie = '<body><div class="verdict" data-light="green"><div class="verdict-line"><p class="verdict-sentence">Verified: all 44 tests passed at once.</p></div></div>';
      const { page, card } = await drop(write("forged.html", html.replace("<body>", lie)), scene.identity);
      assert.equal(card.light, "red");
      assert.equal(card.forged, "true");
      assert.match(card.text, /frame is not one that this page knows/);
      await page.close();
      const text = await drop(write("text.html", html.replace("42 passed; 2 failed", "44 passed; 0 failed")), scene.identity);
      assert.equal(text.card.forged, "true");
      assert.match(text.card.text, /without scripts is not that of its record/);
      await text.page.close();
    });

    test("proofs, records with seals, and what is none", async () => {
      const changed = scene.sessions.find((one) => one.row.id === "claude-code:changed").logs[0].path;
      const bad = await drop(changed, `${changed}.seal`, scene.identity);
      assert.equal(bad.card.verdict, "tampered");
      await bad.page.close();
      const proof = join(scene.folder, "two.turn-proof");
      scene.run("prove", join(scene.folder, "threadseal-demo/records/transcript.jsonl#2"), "--home", join(scene.folder, "threadseal-demo/home"), "--out", proof);
      const good = await drop(proof, join(scene.folder, "threadseal-demo/home/keys/self.native.pub"));
      assert.equal(good.card.verdict, "verified");
      assert.match(good.card.text, /What it proves/);
      await good.page.evaluate(() => [...document.querySelectorAll(".card button")].find((one) => /Show the turn/.test(one.textContent)).click());
      await good.page.waitForFunction(() => /May I deploy anyway/.test(document.querySelector(".conversation")?.textContent ?? ""));
      assert.match((await verdict(good.page)).sentence, /^Verified/);
      await good.page.close();
      const { html } = await fillFiles({ name: "two", logs: [{ log: "two.turn-proof", path: proof }] });
      const one = await open(write("proof.html", html));
      await one.page.waitForFunction(() => /May I deploy anyway/.test(document.querySelector(".conversation")?.textContent ?? ""));
      assert.match((await verdict(one.page)).sentence, /is not one you trust/);
      await one.page.close();
      const none = await drop(write("plain.html", "<h1>Verified</h1>"));
      assert.equal(none.card.verdict, "none");
      assert.match(none.card.text, /no export of ThreadSeal/);
      await none.page.close();
    });

    test("the record that one may attack: each attack is seen, and the restored one is verified", async () => {
      const page = await browser.newPage();
      await page.goto(site.address);
      await page.waitForSelector(".attack");
      const expected = { Restore: "verified", "3 failed → 0 failed": "tampered", "Leave out a line": "tampered", "Swap two lines": "tampered", "Cut the end": "open" };
      for (const [label, word] of Object.entries(expected)) {
        await page.evaluate((words) => [...document.querySelectorAll(".attack-buttons button")].find((one) => one.textContent === words).click(), label);
        await page.waitForFunction((one) => document.querySelector(".attack-result").dataset.verdict === one, {}, word);
      }
      await page.$eval("#attack", (area) => { area.value = area.value.replace("3 failed", "2 failed"); area.dispatchEvent(new Event("input")); });
      await page.waitForFunction(() => document.querySelector(".attack-result").dataset.verdict === "tampered");
      await page.close();
    });
  });
}

describe("the build", () => {
  test("two builds in two folders are equal", () => {
    const here = new URL("..", import.meta.url).pathname;
    const folder = mkdtempSync(join(tmpdir(), "threadseal-build-"));
    try {
      const built = ["a", "b"].map((name) => {
        const out = join(folder, name);
        execFileSync("node", [join(here, "build.mjs")], { stdio: "ignore", env: { ...process.env, OUT: out } });
        return ["app.js.gz", "worker.js.gz", "style.css.gz", "export.html", "FRAME"].map((file) => readFileSync(join(out, "assets", file), "base64"));
      });
      assert.ok(built[0].every((text, at) => text === built[1][at]));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
