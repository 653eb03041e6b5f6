// What a person reads who got a page and an identity file, and has nothing but a browser.

import assert from "node:assert/strict";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { fillFiles } from "../export/fill.mjs";
import { launch, pathOf, verdict } from "./browser.mjs";
import { Log } from "./maker.mjs";
import { makeScene } from "./scene.mjs";

/** Turn 0 is the user's; of a call and its result each is a turn. */
function asked() {
  const log = new Log();
  log.user([{ type: "text", text: "<ide_opened_file>The user opened spec.md.</ide_opened_file>" }, { type: "text", text: "Which data does the search use?" }]);
  log.call("Read", { file_path: "/src/spec.md" }, "The fields of a job.");
  log.call("Edit", { file_path: "/src/a.txt", old_string: "one\ntwo\nthree", new_string: "one\n2\nthree\nfour" }, "It was edited.");
  log.assistant([{ type: "text", text: "It uses the title.\n\n---\n\nSee [the spec](spec.md)." }]);
  return log;
}

for (const name of ["chrome", "firefox"]) {
  describe(`a stranger with a page in ${name}`, { skip: pathOf(name) === null ? `${name} is not installed` : false }, () => {
    let browser;
    let scene;
    let good;
    let changed;
    before(async () => {
      scene = makeScene();
      browser = await launch(name);
      good = await exported("asked", (path) => appendFileSync(path, `${new Log().user("One more thing.").lines[0]}\n`));
      changed = await exported("edited", (path) => writeFileSync(path, readFileSync(path, "utf8").replace("uses the title", "uses the price")));
    });
    after(async () => {
      await browser?.close();
      scene?.end();
    });

    /** Seals a log, does something to it, and writes its page. */
    async function exported(title, harm) {
      const path = join(scene.folder, `${title}.jsonl`);
      writeFileSync(path, asked().text);
      scene.run("seal", "-q", path);
      harm(path);
      const { html } = await fillFiles({ name: title, logs: [{ log: `${title}.jsonl`, path }] });
      const file = join(scene.folder, `${title}.html`);
      writeFileSync(file, html);
      return { address: pathToFileURL(file).href, html, key: JSON.parse(readFileSync(`${path}.seal`, "utf8").split("\n")[0]).key };
    }
    const open = async ({ address }, rest = "") => {
      const page = await browser.newPage();
      await page.setViewport({ width: 1280, height: 1600 });
      await page.goto(`${address}${rest}`);
      await verdict(page);
      await page.waitForFunction(() => /^turn 0$/.test(document.querySelector(".item-user .turn-number")?.textContent ?? ""));
      return page;
    };
    const text = (page, selector) => page.$eval(selector, (one) => one.textContent);
    const give = async (page, words) => {
      await page.evaluate(() => { document.querySelector(".key-panel").open = true; });
      await page.$eval("#identity", (area, given) => { area.value = given; }, words);
      await page.evaluate(() => document.querySelector(".given").replaceChildren());
      await page.evaluate(() => document.querySelector(".key-panel .primary").click());
      await page.waitForFunction(() => document.querySelector(".given").textContent !== "");
      return text(page, ".given");
    };
    const trustIt = async (page) => {
      await page.evaluate(() => document.querySelector("[data-trust]").click());
      await page.waitForFunction(() => document.querySelector(".trusted-here").textContent !== "");
    };
    const detail = async (page) => {
      await page.evaluate(() => document.querySelector('[data-checked][aria-expanded="false"]')?.click());
      return text(page, "#checked");
    };

    test("an identity is trusted after its words were compared, names its entry, and can be taken back", async () => {
      const page = await open(good);
      const identity = readFileSync(scene.identity, "utf8");
      const shown = await give(page, identity);
      const words = await page.$$eval(".words li", (all) => all.map((one) => one.textContent).join(" "));
      assert.equal(words.split(" ").length, 12);
      assert.ok(scene.run("id", "show").includes(words), "the words are those of the command");
      assert.match(shown, /Its entry observed sealed this record/);
      assert.match(shown, /given to you in another way/);
      assert.ok((await text(page, ".entries .own")).includes(good.key.slice(0, 12)), "the public key of the file is shown");
      assert.match((await verdict(page)).sentence, /is not one you trust/, "nothing is trusted before the answer");
      await trustIt(page);
      await page.waitForFunction(() => /since “.+” sealed it/.test(document.querySelector(".verdict-sentence").textContent));
      assert.match(await text(page, ".trusted-here"), /You trust “.+”.*ends when the page is closed/);
      await page.evaluate(() => document.querySelector(".trusted-here button").click());
      await page.waitForFunction(() => /is not one you trust/.test(document.querySelector(".verdict-sentence").textContent));
      assert.equal(await text(page, ".trusted-here"), "");
      await page.close();
    });

    test("a key that did not seal the record, and a key id, are refused with the cause", async () => {
      const page = await open(good);
      const { keys } = JSON.parse(readFileSync(scene.identity, "utf8"));
      const other = keys.find((one) => one.usage === "native").key;
      assert.match(await give(page, other), /This key did not seal this record/);
      assert.equal(await page.$("[data-trust]"), null);
      const id = await page.evaluate(() => [...document.querySelectorAll(".not-signer code")].at(-1).textContent);
      assert.match(await give(page, id), /key id from this page, no key/);
      assert.match(await give(page, good.key), /A bare key[^]*It sealed this record/);
      await trustIt(page);
      assert.equal((await verdict(page)).light, "amber");
      assert.ok((await detail(page)).includes(good.key), "key id and public key are both shown");
      await page.close();
    });

    test("before any trust nothing is green, and the tail is named in banner, card and list", async () => {
      const page = await open(good);
      assert.match((await verdict(page)).sentence, /^Up to the last seal, nothing was changed.*Turn 6 came after that seal/);
      const shown = await detail(page);
      assert.match(shown, /Integrity1 seal holds\. Turn 6 came after the last one/);
      assert.match(await text(page, ".unproved"), /Turn 6: no seal covers/);
      assert.doesNotMatch(shown, /Every byte/);
      assert.deepEqual(await page.$$eval('.facet[data-light="green"], .engines .good, .item[data-standing="sealed"]', (all) => all.length), 0);
      assert.match(shown, /Both programs in this page give the same answer: unknown signer/);
      await page.close();
    });

    test("turns have one numbering: in rows, links, search and the text without scripts", async () => {
      const page = await open(good);
      const numbers = await page.$$eval(".turn-number", (all) => all.map((one) => one.textContent));
      assert.deepEqual(numbers, ["turn 0", "turns 1–2", "turns 3–4", "turn 5", "turn 6"]);
      await page.type(".search-input", "turn 4");
      await page.waitForFunction(() => /^1 match/.test(document.querySelector(".search-status").textContent));
      assert.match(await text(page, ".item"), /Edit/);
      await page.close();
      const linked = await open(good, "#/s/asked/asked.jsonl/turn/2");
      await linked.waitForFunction(() => document.activeElement?.querySelector(".turn-number")?.textContent === "turns 1–2");
      await linked.close();
      const shown = /<pre id="text">([^]*?)<\/pre>/.exec(good.html)[1];
      const heads = [...shown.matchAll(/^\[.*\] \S+/gm)].map(([head]) => head);
      assert.deepEqual(heads, ["[turn 0] user", "[turn 1] assistant", "[turn 2] tool", "[turn 3] assistant", "[turn 4] tool", "[turn 5] assistant", "[turn 6] user"]);
    });

    test("the user's words are a turn of the user, and their context is folded in it", async () => {
      const page = await open(good);
      assert.match(await text(page, ".item-user .prose"), /^Which data does the search use\?$/);
      assert.match(await text(page, ".item-user details.context"), /The user opened spec\.md/);
      assert.equal(await page.$eval("details.context", (one) => one.open), false);
      assert.match(await text(page, ".exchange-title"), /Which data/);
      await page.close();
    });

    test("a changed record names the turn, leads to it, takes an identity, and has one answer on what holds", async () => {
      const page = await open(changed);
      assert.match((await verdict(page)).sentence, /^Changed at turn 5 \(line 6\): this is not what was sealed/);
      await page.evaluate(() => document.querySelector(".verdict-sentence button").click());
      await page.waitForFunction(() => document.activeElement?.dataset.standing === "changed");
      const shown = await detail(page);
      assert.equal(shown.match(/No part of it can be relied on, while its key is not one you trust/g)?.length, 2);
      assert.equal(await page.$$eval('.item[data-standing="sealed"]', (all) => all.length), 0);
      assert.match(shown, /Changed tampered/);
      await give(page, readFileSync(scene.identity, "utf8"));
      await trustIt(page);
      assert.equal((await verdict(page)).light, "red");
      const after = await detail(page);
      const until = /Up to turn (\d+) \(line (\d+)\) it is as it was sealed/.exec(after);
      const sealed = await page.$$eval('.item[data-standing="sealed"]', (all) => all.length);
      assert.equal(sealed > 0, until !== null, "the bars and the words agree");
      await page.close();
    });

    test("an edit counts the lines that its view shows", async () => {
      const page = await open(good);
      const row = await page.evaluate(() => {
        const one = [...document.querySelectorAll(".item-tool")].find((item) => /Edit/.test(item.textContent));
        one.querySelector(".fold").click();
        return one.dataset.i;
      });
      await page.waitForFunction((i) => document.querySelector(`.item[data-i="${i}"] .diff`) !== null, {}, row);
      const counts = await page.$eval(`.item[data-i="${row}"]`, (one) => [one.querySelector(".fold .plus").textContent, one.querySelector(".fold .minus").textContent, one.querySelectorAll(".line.added").length, one.querySelectorAll(".line.removed").length]);
      assert.deepEqual(counts, ["+2", "−1", 2, 1]);
      assert.equal(await page.$eval(".item-assistant .prose", (one) => one.querySelectorAll("hr").length), 1);
      assert.match(await text(page, ".item-assistant .prose"), /See the spec \(spec\.md\)/);
      await page.close();
    });

    test("paper has the findings, what is not proved, how it was verified, and all calls unfolded", async () => {
      const page = await open(good);
      await page.waitForFunction(() => document.querySelector(".item") !== null);
      await page.evaluate(async () => { for (let tries = 0; tries < 100; tries++) { dispatchEvent(new Event("beforeprint")); if (document.querySelectorAll(".call-content").length >= 2) break; dispatchEvent(new Event("afterprint")); await new Promise((resolve) => setTimeout(resolve, 50)); } });
      const all = await text(page, ".session");
      for (const words of [/The fields of a job/, /What is not proved/, /Verified in this page/, /Signer's key id/]) assert.match(all, words);
      await page.close();
    });
  });
}
