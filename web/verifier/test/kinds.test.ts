// Scrolls, documents, ledgers and Rye's transcripts as the protocol asks for them; and that no bytes at all
// make a verifier throw.

import { equal, ok } from "node:assert/strict";
import { base64, concat, hex } from "../dist/bytes.js";
import { answer } from "../dist/cli/respond.js";
import { VERDICTS, type Verdict } from "../dist/report.js";
import { type Entry, flagOf, hasFlag, keyOfPem, listTest, readList, testkit, textOf } from "./lists.js";
import { FIRST } from "./signing.js";

interface Asked {
  readonly kind: string;
  readonly role: string;
  readonly folder: string;
  readonly trust: () => { key: string; usage: string }[];
}

const SCROLL: Asked = { kind: "scroll", role: "scroll", folder: "scroll/", trust: () => [{ key: FIRST, usage: "scroll" }] };
const LEDGER: Asked = { kind: "ledger", role: "ledger", folder: "ledger/", trust: () => [] };
const RYE: Asked = {
  kind: "rye", role: "record", folder: "transcripts/rye/",
  trust: () => ["self", "colleague"].map((name) => ({ key: hex(keyOfPem(`transcripts/rye/keys/${name}_public.pem`)), usage: "rye" })),
};
const DOCUMENT: Asked = {
  kind: "document", role: "document", folder: "documents/native/",
  trust: () => ["native", "rye"].map((usage) => ({ key: hex(keyOfPem(`documents/native/keys/${usage}.pem`)), usage })),
};

async function ask(asked: Asked, bytes: Uint8Array, more: Record<string, unknown>): Promise<Record<string, unknown>> {
  const files = { [asked.role]: { base64: base64(bytes) } };
  const line = JSON.stringify({ id: 7, kind: asked.kind, files, trust: asked.trust(), now: 1_800_000_000, ...more });
  return JSON.parse(await answer(line)) as Record<string, unknown>;
}

function membersOf(entry: Entry): Record<string, unknown> {
  const pin = flagOf(entry, "--key");
  return {
    name: textOf(entry, "file"),
    head: flagOf(entry, "--expect-head") ?? textOf(entry, "head"),
    strict_digits: hasFlag(entry, "--strict-digits"),
    profile: flagOf(entry, "--profile"),
    thread: flagOf(entry, "--run") ?? textOf(entry, "thread"),
    ...(pin === undefined ? {} : { pins: [pin] }),
  };
}

/** Documents with a suffix, which nothing covers. */
const UNCOVERED = ["suffix_cut", "provider_renamed"];

/** Keys of its own are trusted. */
function trustsOthers(entry: Entry): boolean {
  return textOf(entry, "trust") !== undefined;
}

for (const asked of [SCROLL, LEDGER, RYE, DOCUMENT]) {
  const list = `${asked.folder}expect.toml`;
  listTest(list, "by the protocol", async () => {
    for (const entry of readList(list).entries) {
      if (trustsOthers(entry)) continue;
      const file = textOf(entry, "file")!;
      const result = await ask(asked, testkit(asked.folder + file), membersOf(entry));
      const expected = entry["with_head"] ?? entry["with_thread"] ?? entry["verdict"] ?? entry["auto"];
      equal(result["verdict"], expected, `${asked.folder}${file}`);
      equal(result["id"], 7);
    }
  });

  listTest(list, "no bytes make a verifier throw", async () => {
    const random = numbers(1);
    const next = (): number => random.next().value as number;
    for (const entry of readList(list).entries) {
      const file = textOf(entry, "file")!;
      for (let n = 0; n < 12; n += 1) {
        const bytes = spoilt(testkit(asked.folder + file), next);
        const result = await ask(asked, bytes, { name: file });
        const known = VERDICTS.includes(result["verdict"] as Verdict);
        ok(known || result["unsupported"] !== undefined, `${asked.folder}${file}`);
        const free = asked !== DOCUMENT || UNCOVERED.some((name) => file.startsWith(name));
        ok(result["verdict"] !== "verified" || free || sameAs(bytes, file), `${file} ${n}`);
      }
    }
  });
}

/** A small generator, so that each run sees the same bytes. */
function* numbers(seed: number): Generator<number> {
  for (let x = seed; ; ) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    yield x >>> 8;
  }
}

function spoilt(bytes: Uint8Array, next: () => number): Uint8Array {
  let all: Uint8Array = bytes.slice();
  for (let n = 1 + (next() % 4); n > 0; n -= 1) {
    const at = next() % (all.length + 1);
    const to = Math.min(all.length, at + (next() % 40));
    const how = next() % 4;
    if (how === 0) all = concat(all.subarray(0, at), all.subarray(to));
    else if (how === 1) all = concat(all.subarray(0, to), all.subarray(at));
    else if (how === 2) all = all.slice(0, at);
    else if (at < all.length) all[at] = next() & 0xff;
  }
  return all;
}

function sameAs(bytes: Uint8Array, file: string): boolean {
  return hex(bytes) === hex(testkit(DOCUMENT.folder + file));
}
