// SHAKE by the examples of FIPS 202, and ML-DSA-44 by the vectors of Wycheproof.

import { equal } from "node:assert/strict";
import { test } from "node:test";
import { hex, parseBase64, utf8 } from "../dist/bytes.js";
import { verifyMlDsa } from "../dist/ml-dsa.js";
import { Shake } from "../dist/shake.js";
import { listTest, readText } from "./vectors.js";

interface Signed {
  readonly id: number;
  readonly why: string;
  readonly key: string;
  readonly message: string;
  readonly signature: string;
  readonly expect: string;
}

test("SHAKE of nothing, and of more than a block", () => {
  equal(hex(Shake.of128().squeeze(16)), "7f9c2ba4e88f827d616045507605853e");
  equal(hex(Shake.of256().squeeze(16)), "46b9dd2b0ba88d13233b3feb743eeb24");
  const long = Shake.of256(utf8("a".repeat(200)));
  long.squeeze(200);
  equal(hex(long.squeeze(8)), hex(Shake.of256(utf8("a".repeat(99)), utf8("a".repeat(101))).squeeze(208).subarray(200)));
});

listTest("rules/ml_dsa_44.json", "signatures of ML-DSA-44", () => {
  const { signatures } = JSON.parse(readText("rules/ml_dsa_44.json")) as { signatures: readonly Signed[] };
  for (const one of signatures) {
    const [key, message, signature] = [one.key, one.message, one.signature].map((text) => parseBase64(text)!);
    const got = verifyMlDsa(key!, message!, signature!) ? "accept" : "reject";
    equal(got, one.expect, `${one.id}: ${one.why}`);
  }
  equal(signatures.length > 10, true);
});
