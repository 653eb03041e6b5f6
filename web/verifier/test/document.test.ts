// testkit/documents: native seals and Rye's signatures, under each profile; and that no changed byte makes a
// document better.

import { deepEqual, ok } from "node:assert/strict";
import { type DocumentOptions, type Item, type Profile, kindOf, verifyDocument } from "../dist/document.js";
import { type Report, type Verdict, exitOf } from "../dist/report.js";
import type { Trust, Usage } from "../dist/trust.js";
import { type Entry, keyOfPem, readList, testkit, textOf, listTest } from "./lists.js";

const NOW = 1_800_000_000;

function trustOf(keys: readonly (readonly [string, Usage])[]): Trust {
  const entries = keys.map(([path, usage]) => ({ name: path, key: keyOfPem(path), usages: [usage] }));
  return { entries, pins: [], now: NOW };
}

async function answer(bytes: Uint8Array, name: string, options: Omit<DocumentOptions, "name">): Promise<Report> {
  const kind = kindOf(name, bytes);
  ok(kind !== null, name);
  return verifyDocument(bytes, kind, { name, ...options });
}

function described(file: string, profile: string, report: Report, expected: unknown): string {
  return `${file} (${profile}): ${report.verdict} (${report.codes().join(" ")}) for ${String(expected)}`;
}

const NATIVE = (): Trust => trustOf([["documents/native/keys/native.pem", "native"], ["documents/native/keys/rye.pem", "rye"]]);
const NATIVE_LIST = readList("documents/native/expect.toml").entries;

function nativeOptions(entry: Entry, profile: Profile): Omit<DocumentOptions, "name"> {
  const head = textOf(entry, "head");
  const thread = textOf(entry, "thread");
  return { trust: NATIVE(), profile, ...(head === undefined ? {} : { head }), ...(thread === undefined ? {} : { thread }) };
}

listTest("documents/native/expect.toml", "native", async () => {
  const wrong: string[] = [];
  for (const entry of NATIVE_LIST) {
    const file = textOf(entry, "file")!;
    for (const profile of ["auto", "native", "rye"] as const) {
      if (entry[profile] === undefined) continue;
      const report = await answer(testkit(`documents/native/${file}`), file, nativeOptions(entry, profile));
      ok(report.verdict !== "verified" || report.checks.every((check) => check.result !== "fail"), file);
      if (report.verdict !== entry[profile]) wrong.push(described(file, profile, report, entry[profile]));
    }
  }
  deepEqual(wrong, []);
});

const RYE = readList("documents/rye/expect.toml");

function ryeTrust(entry: Entry): Trust {
  const paths = RYE.head["trust"]![textOf(entry, "trust") ?? "user"] as string[];
  return trustOf(paths.map((path) => [`documents/rye/${path}`, "rye"] as const));
}

listTest("documents/rye/expect.toml", "rye", async () => {
  const wrong: string[] = [];
  let n = 0;
  for (const entry of RYE.entries) {
    const file = textOf(entry, "file")!;
    const bytes = testkit(`documents/rye/${file}`);
    const trust = ryeTrust(entry);
    const items: (Item | undefined)[] = [undefined];
    if (entry["item"] !== undefined) items.push(entry["item"] as Item);
    for (const item of items) {
      const chosen = item === undefined ? {} : { item };
      for (const profile of ["auto", "rye"] as const) {
        if (entry[profile] === undefined) continue;
        n += 1;
        const report = await answer(bytes, file, { trust, profile, ...chosen });
        if (report.verdict !== entry[profile]) wrong.push(described(file, `${profile} ${item ?? ""}`, report, entry[profile]));
      }
      if (entry["pinned"] === undefined) continue;
      const pinned = { ...trust, pins: [trust.entries[0]!.key] };
      const report = await answer(bytes, file, { trust: pinned, ...chosen });
      if (report.verdict !== entry["pinned"]) wrong.push(described(file, "pinned", report, entry["pinned"]));
    }
  }
  ok(n > 600);
  deepEqual(wrong, []);
});

/**
 * By exit codes: a change may turn one kind of evidence into another. A change of the seal's mark itself leaves
 * a file without a seal.
 */
function isBetter(verdict: Verdict, original: Verdict): boolean {
  if (verdict === "unsigned") return false;
  const goodness = (one: Verdict): number => [1, 3, 0].indexOf(exitOf(one));
  return goodness(verdict) > goodness(original);
}

listTest("documents/native/expect.toml", "no changed byte makes a sealed document better, or leaves it verified", async () => {
  const better: string[] = [];
  for (const entry of NATIVE_LIST) {
    const file = textOf(entry, "file")!;
    const bytes = testkit(`documents/native/${file}`);
    const options = nativeOptions(entry, "auto");
    const original = (await answer(bytes, file, options)).verdict;
    // One byte of the suffix is another one already: a second makes it a registry's name, which nothing covers.
    if (file === "provider_renamed.json") continue;
    for (let at = 0; at < bytes.length; at += 3) {
      const changed = bytes.slice();
      changed[at] = changed[at]! ^ (1 << at % 7);
      const { verdict } = await answer(changed, file, options);
      const kept = verdict === "verified" && !file.startsWith("suffix_cut");
      if (isBetter(verdict, original) || kept) better.push(`${file} at ${at}: ${original} became ${verdict}`);
    }
  }
  deepEqual(better, []);
});
