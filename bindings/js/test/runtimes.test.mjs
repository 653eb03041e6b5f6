// Deno, Bun, a page and a worker of Chromium give the answers of Node.
import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { before, test } from "node:test";
import puppeteer from "puppeteer-core";
import { look } from "./everywhere.mjs";
import { KEY, app, program, scene, testkit } from "./scene.mjs";

const native = path.join(testkit, "transcripts/native");
const [file, edited] = ["valid.jsonl", "turn_edited.jsonl"].map((name) => path.join(native, name));
let expected;

before(async () => {
  expected = await look(fs.readFileSync(file), fs.readFileSync(edited), KEY);
  const { report, bad, refused } = JSON.parse(expected);
  assert.deepEqual([report.exit, bad.exit, refused[0], refused[2]], [0, 1, true, "tampered"]);
});

for (const [name, ...words] of [["deno", "run", "--allow-all", "--node-modules-dir=manual"], ["bun", "run"]]) {
  test(`${name} verifies, proves, refuses and records`, () => {
    const { options, key } = scene();
    const printed = program(name, [...words, "test/everywhere-main.mjs", file, edited, KEY, JSON.stringify({ ...options, key })]);
    const answer = JSON.parse(printed);
    assert.equal(answer.look, expected);
    assert.deepEqual([answer.sealed, answer.exit, answer.verdict], ["asked", 0, "verified"]);
  });
}

const TYPES = { ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", ".html": "text/html", ".jsonl": "text/plain" };
const MAP = { imports: { threadseal: "/node_modules/threadseal/dist/index.js" } };
const PAGE = `<!doctype html><script type="importmap">${JSON.stringify(MAP)}</script>`;
// A worker has no map of imports.
const WORKER = `import { verify } from "/node_modules/threadseal/dist/index.js";
self.onmessage = async ({ data: { bytes, options } }) => self.postMessage(JSON.stringify(await verify(bytes, options)));`;

/** The app on loopback, as any server of files has it. */
async function serve() {
  const server = http.createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://127.0.0.1");
    const made = { "/": PAGE, "/worker.mjs": WORKER, "/valid.jsonl": file, "/edited.jsonl": edited }[pathname];
    const inApp = path.join(app, pathname);
    if (made === undefined && !fs.existsSync(inApp)) return response.writeHead(404).end();
    const body = pathname.endsWith(".jsonl") ? fs.readFileSync(made) : (made ?? fs.readFileSync(inApp));
    return response.writeHead(200, { "content-type": TYPES[path.extname(pathname)] ?? "text/html" }).end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

test("a page and a worker of Chromium verify, prove and refuse", async (t) => {
  const executablePath = ["/usr/bin/chromium", "/usr/bin/google-chrome"].find((found) => fs.existsSync(found));
  const server = await serve();
  t.after(() => server.close());
  const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"] });
  t.after(() => browser.close());
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  const answer = await page.evaluate(async (key) => {
    const bytes = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
    const { look } = await import("/test/everywhere.mjs");
    return look(await bytes("/valid.jsonl"), await bytes("/edited.jsonl"), key);
  }, KEY);
  assert.equal(answer, expected);
  const reports = await page.evaluate(async (key) => {
    const worker = new Worker("/worker.mjs", { type: "module" });
    const ask = async (name) => {
      const bytes = new Uint8Array(await (await fetch(name)).arrayBuffer());
      const answered = new Promise((resolve, reject) => {
        worker.onmessage = ({ data }) => resolve(data);
        worker.onerror = (event) => reject(new Error(event.message));
      });
      worker.postMessage({ bytes, options: { trust: key, now: 1_800_000_000_000, name: "record.jsonl" } });
      return JSON.parse(await answered);
    };
    return [await ask("/valid.jsonl"), await ask("/edited.jsonl")];
  }, KEY);
  const { report, bad } = JSON.parse(expected);
  assert.deepEqual(reports, [report, bad]);
});
