// The module under test, and files as questions.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL, fileURLToPath } from "node:url";

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");
export const testkit = path.join(root, "testkit");

const folder = process.env.THREADSEAL_WASM;
if (!folder) throw new Error("THREADSEAL_WASM names no build; hint: web/wasm/run.sh");
export const wasm = await import(pathToFileURL(path.join(folder, "threadseal_wasm.js")).href);
export const instance = wasm.initSync({ module: fs.readFileSync(path.join(folder, "threadseal_wasm_bg.wasm")) });

// Any moment from 2027 on: here 2027-01-15T08:00:00Z.
export const NOW = 1_800_000_000_000;

/** The bytes in chunks of these sizes, again and again. */
export function* chunks(bytes, sizes) {
  for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
    const end = at + sizes[turn % sizes.length];
    yield bytes.subarray(at, end);
    at = end;
  }
}

/** Verifies the bytes; `held` is how many may be held before they are streamed. */
export function verify(question, bytes, { sizes = [1 << 20], held } = {}) {
  const verifier = new wasm.Verifier(question, held);
  for (;;) {
    for (const chunk of chunks(bytes, sizes)) verifier.push(chunk);
    const passes = verifier.progress().pass;
    const report = verifier.finish();
    if (report !== undefined) {
      verifier.free();
      return { ...JSON.parse(report), passes };
    }
  }
}
