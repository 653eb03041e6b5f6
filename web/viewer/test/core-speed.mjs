// Verification of one log by the core in WebAssembly, beside two passes of SHA-256 of the same module over the same
// bytes, in a page of a browser.

import { once } from "node:events";
import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const TYPES = { ".js": "text/javascript", ".wasm": "application/wasm", ".html": "text/html" };

/** Runs in the page. */
async function measure({ usages, rounds }) {
  const module = await import("/core/threadseal_wasm.js");
  await module.default({ module_or_path: "/core/threadseal_wasm_bg.wasm" });
  const load = async (path) => new Uint8Array(await (await fetch(path)).arrayBuffer());
  const [log, seals] = [await load("/log"), await load("/seals")];
  const CHUNK = 1 << 20;
  const read = (each) => {
    for (let at = 0; at < log.length; at += CHUNK) each(log.subarray(at, at + CHUNK));
  };
  const hashTwice = () => {
    const hashers = [new module.Sha256(), new module.Sha256()];
    read((chunk) => hashers.forEach((one) => one.push(chunk)));
    return hashers.map((one) => one.finish());
  };
  const verify = () => {
    const question = new module.Question("large.jsonl", Date.now());
    for (const [usage, key] of usages) question.trustFor(usage, key);
    question.seal(seals);
    question.size(log.length);
    const verifier = new module.Verifier(question);
    for (;;) {
      read((chunk) => verifier.push(chunk));
      const report = verifier.finish();
      if (report !== undefined) return JSON.parse(report).results[0].verdict;
    }
  };
  const best = { hashed: Infinity, verified: Infinity };
  let verdict;
  for (let round = 0; round < rounds; round++) {
    let begin = performance.now();
    hashTwice();
    best.hashed = Math.min(best.hashed, performance.now() - begin);
    begin = performance.now();
    verdict = verify();
    best.verified = Math.min(best.verified, performance.now() - begin);
  }
  return { ...best, verdict };
}

/** `{ hashed, verified, verdict }`: the shortest milliseconds of three rounds, and the verdict. `core` is the folder of
 * web/wasm/build.sh. */
export async function coreSpeed(browser, core, log, keys) {
  const files = { "/log": log, "/seals": `${log}.seal` };
  const server = createServer((request, response) => {
    const path = files[request.url] ?? (request.url.startsWith("/core/") ? join(core, request.url.slice(6)) : null);
    if (request.url === "/") return response.setHeader("content-type", "text/html").end("<!doctype html>");
    if (path === null || request.url.includes("..") || !existsSync(path)) return response.writeHead(404).end();
    response.setHeader("content-type", TYPES[/\.[a-z]+$/.exec(path)?.[0]] ?? "application/octet-stream");
    createReadStream(path).pipe(response);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const page = await browser.newPage();
  try {
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    const usages = keys.flatMap((key) => key.usage.map((usage) => [usage, key.public]));
    return await page.evaluate(measure, { usages, rounds: 3 });
  } finally {
    await page.close();
    server.close();
  }
}
