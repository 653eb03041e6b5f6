// Signed ledgers: beginnings, actors, records and heads that are signed (spec/ledger.md §6, §7), made here by
// another writer than that of the testkit.

import { equal, ok } from "node:assert/strict";
import { test } from "node:test";
import { base64, concat, hex, parseHex, utf8 } from "../dist/bytes.js";
import { ledger, readPython } from "../dist/canon.js";
import { didKey, keyId } from "../dist/ed25519.js";
import { type LedgerOptions, verifyLedger } from "../dist/ledger.js";
import type { Report } from "../dist/report.js";
import { sha256, tagged, u64be } from "../dist/sha256.js";
import type { Trust } from "../dist/trust.js";
import { FIRST, SECOND, type TestKey, taggedMessage, testKey } from "./signing.js";

type Value = Record<string, unknown>;

function coveredBytes(value: Value): Uint8Array {
  const reading = readPython(utf8(JSON.stringify(value)));
  ok(reading.ok);
  return ledger(reading.value)!;
}

function actor(key: TestKey): [string, Value] {
  const print = { kind: "agent", display_name: null, metadata: { public_key: didKey(key.key) } };
  return [`ar_${hex(sha256(coveredBytes(print))).slice(0, 24)}`, print];
}

function step(n: number, status: string, actorId: string | null): Value {
  return {
    run_id: "run-1", step_id: `step-${n}`, node_id: "n", status, effect: { type: "llm_call", payload: { n }, result_key: null },
    result: null, error: null, started_at: "2026-11-22T20:30:02+00:00", ended_at: status === "started" ? null : "2026-11-22T20:30:02+00:00",
    actor_id: actorId, session_id: null, attempt: 1, idempotency_key: null,
  };
}

function genesis(actors: Value | null, actorId: string | null): Value {
  return {
    ...step(0, "completed", actorId), node_id: "threadseal.genesis",
    effect: {
      type: "threadseal.genesis", result_key: null,
      payload: { format: "threadseal-ledger/1", record: "07".repeat(32), workflow_id: null, actors, created_at: "2026-11-22T20:30:00+00:00" },
    },
  };
}

/** The lines of a chain; each record is signed by the key beside it. */
async function chain(records: readonly (readonly [Value, TestKey | null])[]): Promise<string[]> {
  const lines: string[] = [];
  let prev: string | null = null;
  for (const [value, key] of records) {
    const record: Value = { ...value, prev_hash: prev };
    const digest = sha256(coveredBytes(record));
    prev = hex(digest);
    const signed = key === null ? null : await key.sign(taggedMessage("threadseal/ledger-record/1", [digest]));
    const signature = key === null || signed === null ? null : `ed25519:${hex(keyId(key.key))}:${base64(signed)}`;
    lines.push(JSON.stringify({ ...record, record_hash: prev, signature }));
  }
  return lines;
}

function bytesOf(lines: readonly string[]): Uint8Array {
  return utf8(lines.map((line) => `${line}\n`).join(""));
}

function trusting(...keys: TestKey[]): Trust {
  return { entries: keys.map((key, i) => ({ name: `key ${i}`, key: key.key, usages: ["native" as const] })), pins: [], now: 1_800_000_000 };
}

async function judged(lines: readonly string[], options: LedgerOptions): Promise<Report> {
  return verifyLedger(bytesOf(lines), options);
}

function expects(report: Report, verdict: string, ...codes: string[]): void {
  equal(`${report.verdict}: ${report.codes().join(" ")}`, `${verdict}: ${codes.join(" ")}`);
}

test("records that are signed", async () => {
  const [first, second] = [await testKey(1, FIRST), await testKey(2, SECOND)];
  const plain = await chain([[step(1, "started", null), first], [step(1, "completed", null), first]]);
  const trust = trusting(first);
  const opened = await judged(plain, { trust });
  expects(opened, "open", "head_unknown");
  equal(opened.trusted_until?.turn, 1);
  const head = opened.head!;
  expects(await judged(plain, { trust, head }), "verified");
  expects(await judged(plain, { trust: trusting(second) }), "unknown_signer", "head_unknown", "key_unknown");
  expects(await judged(plain, { trust, length: 3 }), "truncated", "head_unknown", "length_differs");
  const mixed = await chain([[step(1, "started", null), null], [step(1, "completed", null), first], [step(2, "started", null), null]]);
  expects(await judged(mixed, { trust }), "partial", "head_unknown", "record_unsigned", "step_unended", "unsigned_tail");
  const pinned = { ...trust, pins: [first.key] };
  expects(await judged(mixed, { trust: pinned }), "tampered", "head_unknown", "signature_missing", "step_unended");
  const wrong = plain.map((line) => line.replace(/:([A-Za-z0-9+/])([A-Za-z0-9+/]{85}==)"/, (_, c, rest) => `:${c === "A" ? "B" : "A"}${rest}"`));
  expects(await judged(wrong, { trust }), "forged", "head_unknown", "signature_bad");
  const misspelled = plain.map((line) => line.replace("==\"", "=\""));
  expects(await judged(misspelled, { trust }), "forged", "head_unknown", "signature_unreadable");
});

test("ledgers that name their actors", async () => {
  const [first, second] = [await testKey(1, FIRST), await testKey(2, SECOND)];
  const [id, print] = actor(first);
  const begun = genesis({ [id]: print }, id);
  const trust = trusting(first);
  const whole = await chain([[begun, first], [step(1, "started", id), first], [step(1, "completed", id), first]]);
  const good = await judged(whole, { trust });
  expects(good, "open", "head_unknown");
  equal(good.profile, "threadseal");
  const missing = await chain([[begun, first], [step(1, "started", id), null]]);
  expects(await judged(missing, { trust }), "tampered", "head_unknown", "signature_missing", "step_unended");
  const unnamed = await chain([[begun, first], [step(1, "started", "ar_other"), first]]);
  expects(await judged(unnamed, { trust }), "forged", "actor_unnamed", "head_unknown", "step_unended");
  const differs = await chain([[begun, first], [step(1, "started", id), second]]);
  expects(await judged(differs, { trust }), "forged", "actor_differs", "head_unknown", "step_unended");
  const bad = await chain([[genesis({ ar_0: print }, id), null]]);
  expects(await judged(bad, { trust }), "malformed", "genesis_bad", "unsigned");
  const [otherId, otherPrint] = actor(second);
  const naming = { ...step(9, "completed", id), effect: { type: "threadseal.actors", payload: { actors: { [otherId]: otherPrint } } } };
  const later = await chain([[begun, first], [naming, first], [step(1, "started", otherId), second]]);
  expects(await judged(later, { trust: trusting(first, second) }), "open", "head_unknown", "step_unended");
  const stranger = await chain([[begun, first], [{ ...naming, actor_id: otherId }, second], [step(1, "started", otherId), second]]);
  expects(await judged(stranger, { trust: trusting(first, second) }), "forged", "actor_unnamed", "head_unknown", "step_unended");
});

test("later beginnings", async () => {
  const trust = trusting();
  const twice = await chain([[genesis(null, null), null], [genesis(null, null), null]]);
  expects(await judged(twice, { trust }), "tampered", "genesis_misplaced", "step_ended_twice", "unsigned");
  const hash = /"record_hash":"([0-9a-f]{64})"/.exec(twice[1]!)![1]!;
  const payload = { beginnings: [{ record: 1, hash }], why: "two writers began" };
  const settled = { ...step(9, "completed", null), effect: { type: "threadseal.beginnings", payload } };
  const three = await chain([[genesis(null, null), null], [genesis(null, null), null], [settled, null]]);
  expects(await judged(three, { trust }), "consistent", "genesis_repeated", "step_ended_twice", "unsigned");
});

async function signedHead(lines: readonly string[], key: TestKey, more: readonly string[] = []): Promise<Uint8Array> {
  const record = hex(tagged("threadseal/1 ledger run", [utf8("run-1")]));
  const name = `threadseal/1/ledger/${record}`;
  const last = /"record_hash":"([0-9a-f]{64})"/.exec(lines[lines.length - 1]!)![1]!;
  const text = [
    name, String(lines.length), base64(parseHex(last, 32)!), 'run "run-1"', `key ${didKey(key.key)}`, "time 2026-11-22T20:31:00Z", ...more, "",
  ].join("\n");
  const id = sha256(concat(utf8(name), Uint8Array.of(0x0a, 1), key.key)).subarray(0, 4);
  const signature = await key.sign(utf8(text));
  return utf8(`${text}\n\u2014 ${name} ${base64(concat(id, signature))}\n`);
}

test("signed heads", async () => {
  const [first, second] = [await testKey(1, FIRST), await testKey(2, SECOND)];
  const trust = trusting(first);
  const whole = await chain([[step(1, "started", null), null], [step(1, "completed", null), null]]);
  const head = await signedHead(whole, first);
  expects(await judged(whole, { trust, signedHead: head }), "verified");
  expects(await judged(whole, { trust: trusting(second), signedHead: head }), "unknown_signer", "key_unknown", "unsigned");
  const longer = await chain([[step(1, "started", null), null], [step(1, "completed", null), null], [step(2, "started", null), null]]);
  expects(await judged(longer, { trust, signedHead: head }), "unsigned_tail", "step_unended", "unsigned_tail");
  expects(await judged(whole.slice(0, 1), { trust, signedHead: head }), "truncated", "head_ahead", "step_unended", "unsigned");
  const changed = await chain([[step(1, "started", "x"), null], [step(1, "completed", null), null]]);
  expects(await judged(changed, { trust, signedHead: head }), "tampered", "head_broken", "unsigned");
  const forged = head.slice();
  forged[90] = forged[90]! ^ 1;
  ok(["forged", "malformed"].includes((await judged(whole, { trust, signedHead: forged })).verdict));
  expects(await judged(whole, { trust, signedHead: head.subarray(1) }), "malformed", "head_malformed", "unsigned");
  const file = `file ${hex(sha256(bytesOf(whole)))} ${bytesOf(whole).length}`;
  expects(await judged(whole, { trust, signedHead: await signedHead(whole, first, [file]) }), "verified");
  const respelled = whole.map((line) => line.replace("{", "{ "));
  expects(await judged(respelled, { trust, signedHead: await signedHead(whole, first, [file]) }), "tampered", "file_differs", "unsigned");
});

test("the digest of signatures", async () => {
  const [first, second] = [await testKey(1, FIRST), await testKey(2, SECOND)];
  const trust = trusting(first, second);
  const whole = await chain([[step(1, "started", null), first], [step(1, "completed", null), null]]);
  let s = tagged("threadseal/1 ledger signatures", []);
  const text = /"signature":"([^"]*)"/.exec(whole[0]!)![1]!;
  s = tagged("threadseal/1 ledger signatures", [s, u64be(0), sha256(utf8(text))]);
  const head = await signedHead(whole, first, [`signatures ${hex(s)}`]);
  expects(await judged(whole, { trust, signedHead: head }), "verified");
  const stripped = whole.map((line) => line.replace(/"signature":"[^"]*"/, '"signature":null'));
  expects(await judged(stripped, { trust, signedHead: head }), "tampered", "signatures_changed", "unsigned");
});
