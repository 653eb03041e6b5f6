// The page as the command serves and exports it: real sessions of a home, in real browsers.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { launch, listen, pathOf, verdict } from "./browser.mjs";
import { workday } from "./maker.mjs";
import { THREADSEAL } from "./scene.mjs";

/** A home with one archived session and its subagent. */
function makeHome() {
  const folder = mkdtempSync(join(tmpdir(), "threadseal-served-"));
  const env = { PATH: process.env.PATH, HOME: folder, THREADSEAL_HOME: join(folder, "home") };
  const run = (...args) => execFileSync(THREADSEAL, args, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] }).toString();
  run("init", "-q");
  const day = workday();
  const logs = join(folder, "claude");
  mkdirSync(join(logs, day.log.id, "subagents"), { recursive: true });
  const path = join(logs, `${day.log.id}.jsonl`);
  writeFileSync(path, day.log.text);
  writeFileSync(join(logs, day.log.id, "subagents", `agent-${day.agent}.jsonl`), day.sub.text);
  run("archive", "add", logs);
  return { folder, env, run, path, id: `claude-code:${day.log.id}`, end: () => rmSync(folder, { recursive: true, force: true }) };
}

/** `threadseal view`, until it is ended. */
async function view(home, ...what) {
  const child = spawn(THREADSEAL, ["view", "--no-open", "--json", ...what], { cwd: home.folder, env: home.env, stdio: ["ignore", "pipe", "ignore"] });
  const line = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (part) => {
      text += part;
      if (text.includes("\n")) resolve(text.split("\n")[0]);
    });
    child.on("exit", (code) => reject(new Error(`view ended with ${code}`)));
  });
  return {
    url: JSON.parse(line).url,
    end: () => new Promise((resolve) => {
      child.removeAllListeners("exit");
      child.on("exit", resolve);
      child.kill("SIGTERM");
    }),
  };
}

for (const name of ["chrome", "firefox"]) {
  describe(`the command's page in ${name}`, { skip: pathOf(name) === null ? `${name} is not installed` : false }, () => {
    let browser;
    let home;
    before(async () => {
      home = makeHome();
      browser = await launch(name);
    });
    after(async () => {
      await browser?.close();
      home?.end();
    });

    const open = async (url) => {
      const page = await browser.newPage();
      const seen = listen(page);
      await page.goto(url);
      return { page, seen };
    };
    const sentence = (page, words) => page.waitForFunction((words) => document.querySelector(".verdict-sentence")?.textContent.includes(words), {}, words);

    test("the list has the session, which both engines verify as the command does", async () => {
      const served = await view(home);
      const { page, seen } = await open(served.url);
      await page.waitForFunction(() => document.querySelector('[href^="#/s/"]') !== null);
      await page.evaluate(() => document.querySelector('[href^="#/s/"]').click());
      const found = await verdict(page);
      assert.deepEqual({ ...found, seen }, { light: "green", sentence: found.sentence, seen: { errors: [], outside: [] } });
      assert.match(found.sentence, /^(Verified|Unchanged)/);
      await page.close();
      await served.end();
    });

    test("a record that is edited on the disk turns red in the open page, with its place", async () => {
      const served = await view(home, home.id);
      const { page, seen } = await open(served.url);
      assert.equal((await verdict(page)).light, "green");
      const before = readFileSync(home.path, "utf8");
      writeFileSync(home.path, before.replace("42 passed; 2 failed", "44 passed; 0 failed"));
      await sentence(page, "Changed at turn");
      assert.equal(await page.$eval(".verdict", (one) => one.dataset.light), "red");
      writeFileSync(home.path, before);
      await page.waitForFunction(() => document.querySelector(".verdict").dataset.light === "green");
      assert.deepEqual(seen.outside, []);
      await page.close();
      await served.end();
    });

    test("two copies are compared, and the command's export opens from a disk", async () => {
      const copy = join(home.folder, "copy.jsonl");
      writeFileSync(copy, readFileSync(home.path, "utf8").replace("42 passed; 2 failed", "44 passed; 0 failed"));
      const served = await view(home, home.path, copy);
      const { page } = await open(served.url);
      await sentence(page, "part there");
      await page.close();
      await served.end();
      const file = join(home.folder, `${name}.html`);
      home.run("export", home.id, "--html", file);
      const exported = await open(pathToFileURL(file).href);
      assert.match((await verdict(exported.page)).sentence, /is not one you trust/);
      assert.deepEqual(exported.seen, { errors: [], outside: [] });
      await exported.page.close();
    });
  });
}
