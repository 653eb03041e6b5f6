// Content is hostile: each attack in each place. Nothing of it runs, nothing asks the network, and the page stays usable.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { fillFiles } from "../export/fill.mjs";
import { ATTACKS, hostileLog } from "./attacks.mjs";
import { launch, listen, pathOf } from "./browser.mjs";
import { Log } from "./maker.mjs";
import { THREADSEAL } from "./scene.mjs";
import { serve } from "./server.mjs";

/** All that a browser asks of other hosts ends here, also what its own interface does not report. */
async function sink() {
  const hosts = [];
  const server = createServer((request, response) => {
    hosts.push(request.url);
    response.writeHead(502).end();
  });
  server.on("connect", (request, socket) => {
    hosts.push(request.url);
    socket.end("HTTP/1.1 502 no\r\n\r\n");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { hosts, port: server.address().port, close: () => server.close() };
}

for (const name of ["chrome", "firefox"]) {
  describe(`hostile content in ${name}`, { skip: pathOf(name) === null ? `${name} is not installed` : false }, () => {
    let browser;
    let server;
    let site;
    let folder;
    let outside;
    const path = (at) => join(folder, `hostile-${at}.jsonl`);
    before(async () => {
      folder = mkdtempSync(join(tmpdir(), "threadseal-hostile-"));
      const run = (...args) => execFileSync(THREADSEAL, args, { env: { ...process.env, HOME: folder, THREADSEAL_HOME: join(folder, "home") }, stdio: ["ignore", "pipe", "ignore"] }).toString();
      run("init");
      const sessions = ATTACKS.map((attack, at) => {
        writeFileSync(path(at), hostileLog(Log, [attack]));
        // Every second one is sealed, so that the key's name is shown as the signer's.
        if (at % 2 === 0) run("seal", "-q", path(at));
        const row = { id: attack, agent: attack, project: attack, title: attack, begun: null, updated: "2026-11-20T09:00:00Z", turns: 1, tools: 1, tokens: 1, cost: 1, model: attack, state: attack, state_text: attack, light: "red", sub_agents: 1, kind: attack };
        return { row, hitRole: attack, secrets: 1, logs: [{ log: `${at}-evil`, path: path(at) }, { log: attack, path: path(at), parent: `${at}-evil` }], links: [{ kind: attack, id: attack }, { kind: "lineage", id: attack }] };
      });
      const listed = JSON.parse(run("trust", "list", "--json"));
      const trust = { keys: (listed.entries ?? listed.keys).map((one) => ({ name: ATTACKS.join(" "), usage: one.usage ?? one.usages, public: one.public ?? one.key })), store: null };
      const drawings = Object.fromEntries(ATTACKS.map((attack, at) => [`drawing-${at}`, { nodes: [{ id: attack, label: attack, state: attack, session: attack }, { id: "b", label: attack, state: attack }], edges: [{ from: attack, to: "b", kind: attack }, { from: attack, to: attack, kind: attack }] }]));
      const report = (log) => ({ results: [{ verdict: log, completeness: ATTACKS.join(" "), findings: ATTACKS.map((code) => ({ code, severity: code, message: code, line: null, bytes: null, turn: null })) }] });
      server = await serve({ sessions, trust, drawings, report });
      site = await serve({ verify: true });
      outside = await sink();
      browser = await launch(name, [], outside.port);
    });
    after(async () => {
      await browser?.close();
      await server?.close();
      await site?.close();
      outside?.close();
      rmSync(folder, { recursive: true, force: true });
      assert.deepEqual(outside.hosts.filter((host) => /evil\.example/.test(host)), [], "the browser asked another host");
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
      assert.deepEqual(seen.errors.filter((one) => /content.security.policy|refused to/i.test(one)), [], "the policy had to refuse something");
    };
    const open = async (address) => {
      const page = await browser.newPage();
      const seen = listen(page);
      await page.goto(address);
      return { page, seen };
    };
    const unfold = (page) => page.evaluate(() => {
      for (const one of document.querySelectorAll('.item .fold[aria-expanded="false"]')) one.click();
      for (const one of document.querySelectorAll('.item [data-focus="raw"][aria-pressed="false"]')) one.click();
    });

    test("the list: title, project, agent, model, state, kind, and hits", async () => {
      const { page, seen } = await open(server.address);
      await page.waitForSelector(".session-row");
      await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
      await page.waitForFunction((count) => document.querySelectorAll(".session-row").length === count, {}, ATTACKS.length);
      await check(page, seen);
      const shown = await page.$$eval(".session-title", (all) => all.map((one) => one.textContent));
      assert.ok(shown.includes("<script>window.hacked = 1</script>"), "words are shown as words");
      assert.ok(shown.every((one) => !/[\u202a-\u202e\u2066-\u2069\u200b\ufeff]/.test(one)), "characters that hide are escaped");
      await page.evaluate(() => dispatchEvent(new Event("afterprint")));
      for (const button of await page.$$(".compare-button")) await button.evaluate((one) => one.click());
      for (const query of ["hacked", "evil.example", "<script>"]) {
        await page.$eval(".search-input", (input, words) => { input.value = words; input.dispatchEvent(new Event("input")); }, query);
        await page.waitForFunction((words) => document.querySelector(".hits:not([hidden]) mark")?.textContent === words, {}, query);
        await check(page, seen);
      }
      await page.close();
    });

    test("sessions: each attack in words, names, arguments, keys, results, paths, changes, links, logs, the signer, the server's report", async () => {
      const { page, seen } = await open(server.address);
      // So tall that every row is in the page.
      await page.setViewport({ width: 1000, height: 9000 });
      for (const [at, attack] of ATTACKS.entries()) {
        await page.evaluate((hash) => (location.hash = hash), `#/s/${encodeURIComponent(attack)}/${encodeURIComponent(at % 2 === 0 ? `${at}-evil` : attack)}`);
        await page.waitForFunction((words) => document.querySelector('.conversation[aria-busy="false"] .item') !== null && decodeURIComponent(location.hash).includes(words), {}, attack);
        await page.waitForFunction(() => document.querySelector(".verdict")?.dataset.light !== "none" && document.querySelector(".verdict progress") === null);
        await page.evaluate(() => document.querySelector('[data-checked][aria-expanded="false"]')?.click());
        await page.waitForFunction(() => document.querySelectorAll(".item").length > 8);
        await unfold(page);
        await page.waitForFunction(() => document.querySelectorAll(".call-content").length > 2 && document.querySelectorAll(".raw").length > 8);
        await check(page, seen);
      }
      await page.close();
    });

    test("long names leave room for what is read", async () => {
      const { page } = await open(`${server.address}#/s/${encodeURIComponent(ATTACKS[0])}`);
      await page.waitForFunction(() => /window\.ha…”/.test(document.querySelector(".verdict-sentence")?.textContent ?? ""));
      assert.ok(await page.evaluate(() => document.querySelector(".conversation").clientHeight > innerHeight / 3));
      await page.close();
    });

    test("search for hostile words in a session marks them", async () => {
      const { page, seen } = await open(`${server.address}#/s/${encodeURIComponent(ATTACKS[0])}`);
      await page.waitForSelector(".item");
      await page.type(".search-input", "<script>");
      await page.waitForFunction(() => /match/.test(document.querySelector(".search-status").textContent));
      await page.waitForSelector("mark");
      await check(page, seen);
      await page.close();
    });

    test("drawings and comparisons: labels, states, ids, kinds, addresses", async () => {
      const { page, seen } = await open(server.address);
      for (const [at, attack] of ATTACKS.entries()) {
        await page.evaluate((hash) => (location.hash = hash), `#/lineages/drawing-${at}`);
        await page.waitForFunction((id) => document.querySelector(".drawing") !== null && document.querySelector("h1").textContent.includes(id), {}, `drawing-${at}`);
        await check(page, seen);
        if (at % 4 !== 0) continue;
        await page.evaluate((hash) => (location.hash = hash), `#/compare?a=${encodeURIComponent(attack)}&b=${encodeURIComponent(ATTACKS[at + 1] ?? ATTACKS[0])}`);
        await page.waitForSelector(".pair.first");
        await check(page, seen);
      }
      await page.close();
    });

    test("the verification page: names of files, records, proofs and identities", async () => {
      const { page, seen } = await open(site.address);
      await page.waitForSelector("#files");
      const texts = [["", hostileLog(Log, ATTACKS.slice(0, 4))], [".html", "<title>x</title><pre id=\"text\"></pre>"], [".id", "{\"format\":\"threadseal-identity/1\",\"name\":\"<img src=x onerror=window.hacked=1>\"}"], [".seal", "{}\n"], [".turn-proof", "threadseal/1 proof of observed lines\n"]];
      for (const [at, [ending, text]] of texts.entries()) {
        // The first form has every name; each other one some of them.
        const names = ATTACKS.filter((_, n) => at === 0 || n % texts.length === at);
        await page.evaluate((attacks, more, content) => {
          const files = new DataTransfer();
          for (const attack of attacks) files.items.add(new File([content], `${attack}${more}`));
          const input = document.querySelector("#files");
          input.files = files.files;
          input.dispatchEvent(new Event("change"));
        }, names, ending, text);
        await page.waitForFunction((count) => document.querySelectorAll(".results > *").length >= count, {}, names.length);
        await page.waitForFunction(() => ![...document.querySelectorAll(".card")].some((one) => one.dataset.verdict === undefined));
        await check(page, seen);
      }
      await page.close();
    });

    test("an export of it, with scripts and without", async () => {
      const { html } = await fillFiles({ name: ATTACKS.join(" "), logs: ATTACKS.map((log, at) => ({ log, path: path(at), parent: at === 0 ? null : ATTACKS[0] })) });
      const file = join(folder, "hostile.html");
      writeFileSync(file, html);
      const { page, seen } = await open(pathToFileURL(file).href);
      await page.waitForSelector(".item");
      await check(page, seen);
      await page.close();
      if (name === "firefox") return;
      const plain = await browser.newPage();
      const requests = listen(plain);
      await plain.setJavaScriptEnabled(false);
      await plain.goto(pathToFileURL(file).href);
      const shown = await plain.$eval("noscript", (one) => one.textContent);
      assert.match(shown, /Nothing on this page is verified/);
      assert.ok(shown.includes("<script>window.hacked = 1</script>"), "the words are shown as words");
      assert.equal(await plain.$("noscript img, noscript iframe, noscript script, noscript a"), null);
      assert.deepEqual(requests.outside, []);
      await plain.close();
    });
  });
}
