// The vectors of the testkit for keys, notes, trees, native records and observed logs.

import { deepEqual, equal } from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { base64, hex, parseHex, utf8 } from "../dist/bytes.js";
import { isPublicKey, verify } from "../dist/ed25519.js";
import { equationHolds } from "../dist/ed25519-plain.js";
import { leafHash, rootOf } from "../dist/merkle.js";
import { parseVkey, verifyNote } from "../dist/note.js";
import { answer } from "../dist/cli/respond.js";
import { readStrict, validateAscii } from "../dist/json.js";
import { matchesPattern } from "../dist/trust.js";
import { TESTKIT, listTest, parseTables, readBytes, readText } from "./vectors.js";

const NOW = 1_830_000_000;

/** Signatures that the equation alone refuses. */
const ONE_EQUATION = new Set(["other_message", "other_key", "r_with_torsion", "mixed_key_cofactored"]);

interface Signed {
  name: string;
  key: string;
  message: string;
  signature: string;
  expect: string;
}

listTest("keys/signatures.json", "signatures", async () => {
  for (const one of JSON.parse(readText("keys/signatures.json")) as Signed[]) {
    const key = parseHex(one.key, 32) ?? new Uint8Array(0);
    const message = parseHex(one.message, one.message.length / 2)!;
    const signature = parseHex(one.signature, one.signature.length / 2)!;
    const good = isPublicKey(key) && (await verify(key, message, signature));
    equal(good ? "accept" : "reject", one.expect, one.name);
    if (one.expect === "accept" || ONE_EQUATION.has(one.name)) {
      equal(await equationHolds(key, message, signature), one.expect === "accept", `plain: ${one.name}`);
    }
  }
});

interface Tree {
  leaves?: string[];
  count?: number;
  root: string;
}

listTest("keys/merkle.json", "trees", () => {
  for (const one of JSON.parse(readText("keys/merkle.json")) as Tree[]) {
    const leaves = one.leaves?.map((leaf) => parseHex(leaf, leaf.length / 2)!)
      ?? Array.from({ length: one.count ?? 0 }, (_, i) => utf8(String(i)));
    equal(hex(rootOf(leaves.map(leafHash))), one.root);
  }
});

interface KeyVector {
  file: string;
  kind: string;
  expect: string;
  known?: string[];
  signers?: string[];
}

listTest("keys/index.json", "notes", async () => {
  const all = (JSON.parse(readText("keys/index.json")) as KeyVector[]).filter((one) => one.kind === "note");
  for (const one of all) {
    const known = (one.known ?? []).map((text) => parseVkey(text)!);
    const found = await verifyNote(readBytes(`keys/${one.file}`), known);
    equal(found.answer, one.expect, one.file);
    if (found.answer === "verified" && one.signers !== undefined) {
      deepEqual(found.signers.map((key) => key.name), one.signers, one.file);
    }
  }
  equal(all.length > 0, true);
});

interface ReadingVector {
  why: string;
  text?: string;
  hex?: string;
  strict: string;
}

listTest("canon/reading.json", "strict reading", () => {
  const { cases } = JSON.parse(readText("canon/reading.json")) as { cases: ReadingVector[] };
  for (const one of cases) {
    const bytes = one.text === undefined ? parseHex(one.hex!, one.hex!.length / 2)! : utf8(one.text);
    equal(readStrict(bytes).ok, one.strict === "accepted", one.why);
    if (bytes.every((byte) => byte < 0x80)) {
      equal(validateAscii(bytes, 0, bytes.length), one.strict === "accepted", `ascii: ${one.why}`);
    }
  }
});

listTest("transcripts/native/expect.toml", "native records and observed logs", async () => {
  const folder = "transcripts/native/";
  const { top, list } = parseTables(readText(`${folder}expect.toml`));
  for (const one of list) {
    const file = one["file"] as string;
    const flags = (one["flags"] ?? []) as readonly string[];
    const usage = (one["usage"] ?? "native") as string;
    const got = JSON.parse(await answer(JSON.stringify(question(folder + file, flags, String(top["trusted_key"]), usage)))) as {
      verdict: string;
    };
    equal(got.verdict, one["verdict"], `${file}: ${String(one["why"])}`);
  }
});

function question(path: string, flags: readonly string[], key: string, usage: string): unknown {
  const file = (name: string): unknown => ({ base64: base64(readBytes(name)) });
  const sealed = existsSync(`${TESTKIT}${path}.seal`);
  const flag = (name: string): string | undefined => {
    const at = flags.indexOf(name);
    return at < 0 ? undefined : flags[at + 1];
  };
  const pin = flag("--key");
  return {
    id: path,
    kind: sealed ? "observed" : "native",
    files: sealed ? { log: file(path), seals: file(`${path}.seal`) } : { record: file(path) },
    trust: [{ key, usage: sealed ? "observed" : usage }],
    pins: pin === undefined ? [] : [pin],
    thread: flag("--thread") ?? null,
    head: flag("--expect-head") ?? null,
    exact: flags.includes("--exact-head"),
    now: NOW,
  };
}

test("patterns of thread ids", () => {
  equal(matchesPattern("agency/*", "agency/a/b"), true);
  equal(matchesPattern("*a*b", "xaxb"), true);
  equal(matchesPattern("a*a", "a"), false);
  equal(matchesPattern("ci-*", "ci"), false);
  equal(matchesPattern("*", ""), true);
});
