// Proofs of turns with steps from key to key, delegates, heirs, bodies, and turns at the end of a record
// (proofs.md), made from records of maker.ts.

import { equal, ok } from "node:assert/strict";
import { test } from "node:test";
import { base64, utf8 } from "../dist/bytes.js";
import { answer } from "../dist/cli/respond.js";
import { leafHash, rootOf, split } from "../dist/merkle.js";
import { type Key, Maker, keyOf } from "./maker.js";

const A = await keyOf(1);
const RYE = await keyOf(2);
const K1 = await keyOf(11);
const K2 = await keyOf(12);
const K3 = await keyOf(13);
const B = await keyOf(14);
const C = await keyOf(15);

function made(detached = false): Promise<Maker> {
  return new Maker({ authority: A, key: K1, rye: RYE, detached }).begin();
}

const next = (key: Key): string => `{"next_key":"${key.hex}"}`;

/** The lines of a record as texts; `line(1)` is the first. */
function linesOf(maker: Maker): (number: number) => string {
  const lines = new TextDecoder().decode(maker.bytes()).split("\n");
  return (number) => lines[number - 1]!;
}

/** Hashes of the subtrees of the first `size` lines that show none of the lines [from, to), from 0. */
function hashes(maker: Maker, size: number, from: number, to: number): string[] {
  const line = linesOf(maker);
  const leaves = Array.from({ length: size }, (_, i) => leafHash(utf8(line(i + 1))));
  const walk = (begin: number, end: number): Uint8Array[] => {
    if (end <= from || to <= begin) return [rootOf(leaves.slice(begin, end))];
    if (end - begin === 1) return [];
    const middle = begin + Number(split(BigInt(end - begin)));
    return [...walk(begin, middle), ...walk(middle, end)];
  };
  return walk(0, size).map((hash) => `hash ${base64(hash)}`);
}

/** The inclusion proof of line `number` in the tree of the first `size` lines. */
function inclusion(maker: Maker, number: number, size: number): string[] {
  const line = linesOf(maker);
  const leaves = Array.from({ length: size }, (_, i) => leafHash(utf8(line(i + 1))));
  const walk = (begin: number, end: number): Uint8Array[] => {
    if (end - begin === 1) return [];
    const middle = begin + Number(split(BigInt(end - begin)));
    if (number - 1 < middle) return [...walk(begin, middle), rootOf(leaves.slice(middle, end))];
    return [...walk(middle, end), rootOf(leaves.slice(begin, middle))];
  };
  return walk(0, size).map((hash) => `hash ${base64(hash)}`);
}

interface Shown {
  readonly turn: number;
  readonly first: number;
  readonly last: number;
  readonly closing: number;
  readonly keys?: readonly string[];
  readonly bodies?: readonly string[];
}

function proofOf(maker: Maker, shown: Shown): string {
  const line = linesOf(maker);
  const lines = Array.from({ length: shown.last - shown.first + 1 }, (_, i) => `line ${line(shown.first + i)}`);
  return [
    "threadseal/1 proof of a turn", `turn ${shown.turn}`, `first ${shown.first}`, `manifest ${line(1)}`,
    ...(shown.keys ?? []), ...lines, ...hashes(maker, shown.closing - 1, shown.first - 1, shown.last),
    `seal ${line(shown.closing)}`, ...(shown.bodies ?? []).map((body) => `body ${body}`), "",
  ].join("\n");
}

async function ask(text: string, trust: readonly Key[] = [A]): Promise<string> {
  const got = JSON.parse(await answer(JSON.stringify({
    id: 1, kind: "turn_proof", files: { proof: { base64: base64(utf8(text)) } },
    trust: trust.map((key) => ({ key: key.hex, usage: "native" })), now: 1_830_000_000,
  }))) as { verdict: string; codes: string[] };
  return [got.verdict, ...got.codes].join(" ");
}

test("steps from key to key", async () => {
  const one = await made();
  await one.event("x").seal(K1, { ext: next(K2), turn: 1 });
  await one.event("x").keyEvent(K3).seal(K2, { turn: 1 });
  await one.event("x").seal(K3, { turn: 2 });
  await one.event("x").seal(K3, { turn: 3 });
  const line = linesOf(one);
  const steps = [`next ${line(4)}`, `key ${line(6)}`, ...inclusion(one, 6, 6), `seal ${line(7)}`];
  const shown = { turn: 2, first: 7, last: 9, closing: 11, keys: steps };
  equal(await ask(proofOf(one, shown)), "verified");
  equal(await ask(proofOf(one, shown), [K3]), "unknown_signer key_unknown");
  equal(await ask(proofOf(one, { ...shown, keys: steps.slice(0, 1) })), "forged key_not_allowed");
  equal(await ask(proofOf(one, { ...shown, keys: steps.slice(1) })), "forged signature_bad");
  equal(await ask(proofOf(one, { ...shown, keys: [steps[0]!, steps[0]!] })), "forged signature_bad");
  equal(await ask(proofOf(one, { ...shown, first: 8 })), "tampered turn_bounds_wrong");
  equal(await ask(proofOf(one, { ...shown, last: 8 })), "tampered link_broken");
  equal(await ask(proofOf(one, { turn: 2, first: 7, last: 8, closing: 9, keys: steps })), "open turn_may_go_on");
  equal(await ask(proofOf(one, { ...shown, turn: 1 })), "tampered turn_bounds_wrong");
});

test("a delegate, and the authority", async () => {
  const one = await made();
  await one.delegation(A, K3);
  await one.event("x").seal(K3, { turn: 1 });
  await one.event("x").seal(A, { turn: 2 });
  await one.event("x").seal(K3, { turn: 3 });
  const signature = /"signature":"([^"]+)"/.exec(linesOf(one)(3))![1]!;
  const keys = [`delegation ${K3.hex} ${signature}`];
  equal(await ask(proofOf(one, { turn: 1, first: 2, last: 5, closing: 7 })), "verified");
  equal(await ask(proofOf(one, { turn: 2, first: 5, last: 7, closing: 9, keys })), "verified");
  equal(await ask(proofOf(one, { turn: 2, first: 5, last: 7, closing: 9 })), "forged key_not_allowed");
  equal(await ask(proofOf(one, { turn: 2, first: 5, last: 7, closing: 9, keys: [keys[0]!.replace(K3.hex, K2.hex)] })), "forged delegation_bad");
});

test("behind the end of a record", async () => {
  const one = await made();
  await one.event("x").event("thread_completed").seal(K1, { final: true, turn: 1 });
  equal(await ask(proofOf(one, { turn: 1, first: 2, last: 4, closing: 5 })), "verified");
  await one.authorityEvent(A, B);
  await one.event("thread_handoff").seal(B, { final: true });
  const shown = { turn: 1, first: 2, last: 7, closing: 8 };
  equal(await ask(proofOf(one, shown)), "unknown_signer key_unknown");
  equal(await ask(proofOf(one, shown), [A, B]), "verified");
  await one.authorityEvent(B, C);
  await one.seal(C, { final: true });
  equal(await ask(proofOf(one, { ...shown, last: 9, closing: 10 }), [A, B, C]), "verified");
  equal(await ask(proofOf(one, { ...shown, first: 5, turn: 2, last: 9, closing: 10 }), [A, B, C]), "tampered turn_bounds_wrong");
  const two = await made();
  await two.event("x").event("thread_completed").seal(K1, { final: true, turn: 1 });
  await two.event("thread_resumed").seal(K1, { final: true });
  equal(await ask(proofOf(two, { turn: 1, first: 2, last: 6, closing: 7 })), "forged key_not_allowed");
});

test("bodies and recovery", async () => {
  const one = await made(true);
  const first = one.body('"one"');
  one.event("x", `{"text":${first}}`);
  await one.seal(K1, { turn: 1 });
  await one.event("x").seal(K1, { turn: 2 });
  const body = one.bodies.split("\n")[1]!;
  const shown = { turn: 1, first: 2, last: 4, closing: 6 };
  equal(await ask(proofOf(one, { ...shown, bodies: [body] })), "verified");
  equal(await ask(proofOf(one, shown)), "partial bodies_unread");
  equal(await ask(proofOf(one, { ...shown, bodies: [body.replace('"one"', '"two"')] })), "tampered body_changed");
  equal(await ask(proofOf(one, { ...shown, bodies: [body, body] })), "tampered body_changed");
  const two = await made(true);
  const gone = two.body('"one"');
  two.event("x", `{"text":${gone}}`).redaction(gone, K1);
  await two.seal(K1, { turn: 1 });
  await two.event("x").seal(K1, { turn: 2 });
  equal(await ask(proofOf(two, { turn: 1, first: 2, last: 5, closing: 7 })), "verified redacted");
  const three = await made();
  three.append(utf8(linesOf(three)(2).replace('"checkpoint"', '"xheckpoint"'))).event("thread_completed").adopt();
  await three.event("x").seal(K1, { turn: 1 });
  await three.event("x").seal(K1, { turn: 2 });
  const adopted = await ask(proofOf(three, { turn: 1, first: 2, last: 7, closing: 9 }));
  ok(adopted.startsWith("partial") && adopted.includes("tail_adopted"), adopted);
});
