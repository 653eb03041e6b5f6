// testkit/transcripts/rye: transcripts by Rye, and attacks on them; and that no changed byte makes one better.

import { deepEqual } from "node:assert/strict";
import { type Verdict, exitOf } from "../dist/report.js";
import { type RyeOptions, verifyRye } from "../dist/rye.js";
import type { Trust } from "../dist/trust.js";
import { type Entry, keyOfPem, readList, testkit, textOf, listTest } from "./lists.js";

const FOLDER = "transcripts/rye";

function trustOf(names: readonly string[]): Trust {
  const entries = names.map((name) => ({ name, key: keyOfPem(`${FOLDER}/keys/${name}_public.pem`), usages: ["rye" as const] }));
  return { entries, pins: [], now: 1_800_000_000 };
}

function trustFor(entry: Entry): Trust {
  const named = entry["trust"];
  return trustOf(typeof named === "string" ? [named] : Array.isArray(named) ? named : ["self", "colleague"]);
}

const LIST = readList(`${FOLDER}/expect.toml`).entries;

listTest("transcripts/rye/expect.toml", "expect.toml", async () => {
  const wrong: string[] = [];
  const check = async (entry: Entry, name: string, expected: string | undefined, options: RyeOptions): Promise<void> => {
    if (expected === undefined) return;
    const file = textOf(entry, "file")!;
    const report = await verifyRye(testkit(`${FOLDER}/${file}`), options);
    const error = textOf(entry, "error");
    const told = name !== "verdict" || error === undefined || report.findings.some((f) => f.code === error && f.severity === "error");
    if (report.verdict !== expected || !told) {
      wrong.push(`${file} (${name}): ${report.verdict} (${report.codes().join(" ")}) for ${expected} ${error ?? ""}`);
    }
  };
  for (const entry of LIST) {
    const trust = trustFor(entry);
    const verdict = textOf(entry, "verdict");
    await check(entry, "verdict", verdict, { trust });
    // The keys that are pinned take the place of the store.
    const pinned: Trust = { entries: [], pins: [keyOfPem(`${FOLDER}/keys/self_public.pem`)], now: trust.now };
    await check(entry, "pinned", textOf(entry, "pinned"), { trust: pinned });
    const head = textOf(entry, "head");
    if (head !== undefined) await check(entry, "with_head", textOf(entry, "with_head"), { trust, head });
    const thread = textOf(entry, "thread");
    if (thread !== undefined) await check(entry, "with_thread", textOf(entry, "with_thread") ?? verdict, { trust, thread });
  }
  deepEqual(wrong, []);
});

listTest("transcripts/rye/expect.toml", "lines that only Python reads, and lines that a cut explains", async () => {
  const trust = trustOf(["self", "colleague"]);
  const judged = async (text: string): Promise<string> => {
    const report = await verifyRye(new TextEncoder().encode(text), { trust });
    return `${report.verdict} ${report.codes().join(" ")}`;
  };
  const sealed = new TextDecoder().decode(testkit(`${FOLDER}/one.jsonl`));
  const event = `{"thread_id": "t", "event_type": "x", "payload": {"n": NaN}}`;
  deepEqual(await judged(`${event}\n`), "unsigned no_checkpoint nonstandard_json");
  deepEqual(await judged(`${event.replace("{\"n\"", "{\r\"n\"")}\n`), "malformed carriage_return");
  for (const cut of ['{"x": tru', '{"x": "\\ud83e', '{"x": 1e', "[1", " "]) {
    deepEqual(await judged(`${event}\n${cut}`), "unsigned no_checkpoint nonstandard_json torn_tail", cut);
    deepEqual(await judged(sealed + cut), "unsigned_tail end_unproved torn_tail unsigned_tail", cut);
  }
  deepEqual(await judged(`${sealed}nuk`), "unsigned_tail end_unproved not_json torn_tail unsigned_tail");
  deepEqual(await judged(`${sealed}[NaN]\n`), "unsigned_tail end_unproved not_an_object unsigned_tail");
});

/** By exit codes: a change may turn one kind of evidence into another. */
function isBetter(verdict: Verdict, original: Verdict): boolean {
  const goodness = (one: Verdict): number => [1, 3, 0].indexOf(exitOf(one));
  return goodness(verdict) > goodness(original);
}

listTest("transcripts/rye/expect.toml", "no changed byte makes a transcript better", async () => {
  const better: string[] = [];
  for (const entry of LIST) {
    const file = textOf(entry, "file")!;
    const bytes = testkit(`${FOLDER}/${file}`);
    const options = { trust: trustFor(entry) };
    const original = (await verifyRye(bytes, options)).verdict;
    // A bad checkpoint on the last line that is no checkpoint any more is a tail: nothing covers that line.
    const lastLine = bytes.lastIndexOf(0x0a, bytes.length - 2);
    const step = Math.max(1, Math.floor(bytes.length / 150));
    for (let at = 0; at < bytes.length; at += step) {
      const changed = bytes.slice();
      changed[at] = changed[at]! ^ (1 << at % 7);
      const { verdict } = await verifyRye(changed, options);
      const isTail = at > lastLine && verdict === "unsigned_tail";
      if (isBetter(verdict, original) && !isTail) better.push(`${file} at ${at}: ${original} became ${verdict}`);
    }
  }
  deepEqual(better, []);
});
