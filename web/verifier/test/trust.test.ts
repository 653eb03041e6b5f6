// The judging of keys that ended (keys-and-trust.md §7.1, §8.2). The testkit asks nothing about ends.

import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";
import { parseHex } from "../dist/bytes.js";
import { verifyDocument } from "../dist/document.js";
import { NativeVerifier } from "../dist/native.js";
import { type Evidence, type Trust, type TrustEntry, NO_EVIDENCE, judge, rowOf } from "../dist/trust.js";
import { keyOfPem, listTest, testkit } from "./lists.js";
import { Maker, keyOf } from "./maker.js";
import { FIRST, SECOND } from "./signing.js";

const KEY = parseHex(FIRST, 32)!;
const PURPOSE = { usage: "native", format: "transcript", thread: null } as const;

type End = NonNullable<TrustEntry["revoked"]>;

function trustOf(...ends: readonly End[]): Trust {
  const usages = ["native", "scroll", "observed"] as const;
  const entries = ends.map((revoked, at) => ({ name: `key ${at}`, key: KEY, usages: [usages[at]!], revoked }));
  return { entries, pins: [], now: 1_800_000_000 };
}

function standing(trust: Trust, evidence: Evidence = NO_EVIDENCE): string {
  return judge(KEY, PURPOSE, trust, evidence).standing;
}

const ROTATED: End = { at: 100, reason: "rotated", next: SECOND };
const STOLEN: End = { at: 200, reason: "stolen" };

test("a rotated key without evidence is of an unknown signer", () => {
  const trust = trustOf(ROTATED);
  equal(standing(trust), "rotated");
  equal(standing(trust, { moment: 100, place: "not" }), "rotated");
  equal(standing(trust, { moment: 99, place: "not" }), "trusted");
  equal(standing({ ...trust, pins: [KEY] }), "rotated");
  equal(judge(parseHex(SECOND, 32)!, PURPOSE, trust).standing, "unknown");
  deepEqual(rowOf("rotated"), { status: "revoked", code: "key_rotated", severity: "warning", verdict: "unknown_signer" });
});

test("a revocation outweighs a rotation, and a log orders its own ends", () => {
  equal(standing(trustOf(ROTATED, STOLEN)), "revoked");
  equal(standing(trustOf(STOLEN, ROTATED)), "revoked");
  equal(standing(trustOf(ROTATED, { ...ROTATED, at: 300 })), "rotated");
  equal(standing(trustOf({ ...ROTATED, entry: 7 })), "revoked");
  equal(standing(trustOf({ ...ROTATED, entry: 7 }), { moment: null, place: "in doubt" }), "revoked_in_doubt");
  equal(standing(trustOf({ ...ROTATED, entry: 7 }), { moment: null, place: "before" }), "trusted");
});

listTest("documents/native/expect.toml", "a document by a rotated key", async () => {
  const name = "documents/native/good.json";
  const key = keyOfPem("documents/native/keys/native.pem");
  const of = async (...ends: readonly End[]): Promise<string> => {
    const trust = trustOf(...ends);
    const entries = trust.entries.map((entry) => ({ ...entry, key }));
    const report = await verifyDocument(testkit(name), "json", { name, trust: { ...trust, entries }, profile: "auto" });
    return [report.verdict, ...report.codes()].join(" ");
  };
  equal(await of(ROTATED), "unknown_signer key_rotated");
  equal(await of(ROTATED, STOLEN), "forged key_revoked");
});

test("a native record by a rotated key, and by a key that it let in", async () => {
  const [authority, other] = [await keyOf(1), await keyOf(14)];
  const rye = await keyOf(2);
  const one = await new Maker({ authority, key: await keyOf(11), rye, detached: false }).begin();
  const of = async (...ends: readonly End[]): Promise<string> => {
    const ended = trustOf(...ends).entries.map((entry) => ({ ...entry, key: authority.raw }));
    const entries = [...ended, { name: "other", key: other.raw, usages: ["native" as const] }];
    const verifier = new NativeVerifier({ trust: { entries, pins: [], now: 1_830_000_000 }, bodies: "absent" });
    await verifier.push(one.bytes());
    const report = await verifier.finish();
    return [report.verdict, ...report.codes()].join(" ");
  };
  await one.event("x").event("thread_completed").seal(await keyOf(11), { final: true });
  equal(await of(ROTATED), "unknown_signer key_rotated");
  equal(await of(ROTATED, STOLEN), "forged key_revoked");
  await one.authorityEvent(authority, other);
  await one.seal(other, { final: true });
  equal(await of(ROTATED), "unknown_signer key_rotated");
  equal(await of(ROTATED, STOLEN), "forged key_revoked");
});
