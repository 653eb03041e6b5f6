// Native records that the testkit has no vectors for: keys, recovery, redaction and bodies (transcript.md
// §4, §5, §10), made by maker.ts.

import { equal } from "node:assert/strict";
import { test } from "node:test";
import { base64, utf8 } from "../dist/bytes.js";
import { answer } from "../dist/cli/respond.js";
import { type Key, Maker, keyOf } from "./maker.js";

const A = await keyOf(1);
const RYE = await keyOf(2);
const K1 = await keyOf(11);
const K2 = await keyOf(12);
const K3 = await keyOf(13);
const B = await keyOf(14);

interface Asked {
  readonly bodies?: string;
  readonly trust?: readonly Key[];
  readonly head?: string;
  readonly exact?: boolean;
  readonly pins?: readonly Key[];
}

/** `verdict code code …` of a record. */
async function ask(maker: Maker, asked: Asked = {}): Promise<string> {
  const files: Record<string, unknown> = { record: { base64: base64(maker.bytes()) } };
  if (asked.bodies !== undefined) files["bodies"] = { base64: base64(utf8(asked.bodies)) };
  const got = JSON.parse(await answer(JSON.stringify({
    id: 1, kind: "native", files, trust: (asked.trust ?? [A]).map((key) => ({ key: key.hex, usage: "native" })),
    pins: (asked.pins ?? []).map((key) => key.hex), head: asked.head, exact: asked.exact, now: 1_830_000_000,
  }))) as { verdict: string; codes: string[] };
  return [got.verdict, ...got.codes].join(" ");
}

function made(key: Key = K1, detached = false): Promise<Maker> {
  return new Maker({ authority: A, key, rye: RYE, detached }).begin();
}

const next = (key: Key): string => `{"next_key":"${key.hex}"}`;

test("a record of the authority's own key", async () => {
  const one = await made(A);
  equal(await ask(one), "open end_unproved");
  equal(await ask(one, { head: one.head }), "verified");
  await one.event("x").event("thread_completed").seal(A, { final: true });
  equal(await ask(one), "verified");
  equal(await ask(one, { trust: [] }), "unknown_signer key_unknown");
  equal(await ask(one, { trust: [], pins: [K1] }), "unknown_signer other_signer");
});

test("the example of next_key, and of authority", async () => {
  const one = await made();
  await one.event("x").event("x").seal(K1, { ext: next(K2) });
  const early = await one.event("x").event("x").seal(K2, { turn: 1 });
  equal(await ask(early), "open end_unproved");
  await one.event("x").event("thread_completed").seal(K2, { final: true });
  equal(await ask(one), "verified");
  await one.event("thread_resumed").seal(A, { final: true });
  equal(await ask(one), "verified");
  await one.authorityEvent(A, B);
  await one.seal(B, { final: true });
  equal(await ask(one), "unknown_signer key_unknown");
  equal(await ask(one, { trust: [A, B] }), "verified");
  equal(await ask(one, { trust: [A, B], pins: [A] }), "verified");
  equal(await ask(one, { trust: [A], pins: [A] }), "unknown_signer other_signer");
  await one.event("thread_handoff").seal(B, { final: true });
  equal(await ask(one, { trust: [A, B] }), "verified");
  await one.event("thread_handoff").seal(A, { final: true });
  equal(await ask(one, { trust: [A, B] }), "forged key_not_allowed");
});

test("keys that may not seal, and next keys that may not be", async () => {
  const old = await made();
  await old.seal(K1, { ext: next(K2) });
  await old.seal(K1);
  equal(await ask(old), "forged key_not_allowed");
  const after = await made();
  await after.event("thread_completed").seal(K1, { final: true });
  await after.event("thread_resumed").seal(K1, { final: true });
  equal(await ask(after), "forged key_not_allowed");
  for (const key of [K1, A]) {
    const bad = await made();
    await bad.seal(K1, { ext: next(key) });
    equal(await ask(bad), "forged next_key_bad");
  }
  const back = await made();
  await back.seal(K1, { ext: next(K2) });
  await back.seal(K2, { ext: next(K1) });
  equal(await ask(back), "forged next_key_bad");
  const taken = await made();
  await taken.seal(A, { ext: next(K2) });
  await taken.seal(K2);
  equal(await ask(taken), "open end_unproved");
});

test("announced keys and delegates", async () => {
  const one = await made();
  await one.keyEvent(K2).seal(K1);
  await one.seal(K1);
  await one.seal(K2);
  equal(await ask(one), "open end_unproved");
  await one.seal(K1);
  equal(await ask(one), "forged key_not_allowed");
  const early = await made();
  await early.keyEvent(K2).seal(K2);
  equal(await ask(early), "forged key_not_allowed");
  const two = await made();
  await two.delegation(A, K3);
  await two.seal(K3);
  await two.seal(K1);
  equal(await ask(two), "open end_unproved");
  await two.event("thread_completed").seal(K3, { final: true });
  await two.event("thread_resumed").seal(K3, { final: true });
  equal(await ask(two), "forged key_not_allowed");
  const three = await made();
  await three.delegation(K1, K3);
  await three.seal(K1);
  equal(await ask(three), "tampered event_malformed");
  const four = await made();
  await four.delegation(A, K3);
  await four.seal(K3, { ext: next(K2) });
  equal(await ask(four), "forged next_key_bad");
});

test("order", async () => {
  const one = await made();
  await one.event("thread_completed").event("x").seal(K1, { final: true });
  equal(await ask(one), "tampered event_after_end");
  const two = await made();
  await two.event("thread_completed").seal(K1);
  equal(await ask(two), "malformed end_misplaced");
  const three = await made();
  await three.event("x").seal(K1, { final: true });
  equal(await ask(three), "malformed end_misplaced");
  const four = await made();
  await four.event("thread_handoff").seal(K1, { final: true });
  equal(await ask(four), "verified");
  const five = await made();
  await five.authorityEvent(A, B);
  await five.seal(K1);
  equal(await ask(five), "tampered event_malformed");
  const six = await made();
  await six.seal(K1, { ext: '{"fence":3}' });
  await six.seal(K1, { ext: '{"fence":2}' });
  equal(await ask(six), "tampered fence_backwards");
  const seven = await made();
  await seven.seal(K1, { ext: '{"fence":3, "opt_x":"y"}' });
  equal(await ask(seven), "tampered checkpoint_malformed");
});

test("recovery", async () => {
  const one = await made();
  one.append(utf8("garbage")).event("thread_completed").keyEvent(K2).adopt();
  equal(await ask(one), "unsigned_tail end_unproved unsigned_tail");
  await one.event("x").seal(K1);
  equal(await ask(one), "partial end_unproved tail_adopted");
  await one.drop().seal(K1);
  equal(await ask(one), "partial end_unproved tail_adopted tail_dropped");
  const two = await made();
  two.event("x").event("tail_adopted", '{"from":0,"to":0,"lines":1,"sha256":"00"}');
  await two.seal(K1);
  equal(await ask(two), "tampered event_malformed");
});

test("detached bodies", async () => {
  const one = await made(K1, true);
  const first = one.body('"one"');
  const second = one.body('{"b":"two"}');
  one.event("x", `{"text":${first},"more":${second}}`);
  await one.seal(K1);
  const { bodies } = one;
  equal(await ask(one, { bodies }), "open end_unproved");
  equal(await ask(one), "tampered body_missing end_unproved");
  equal(await ask(one, { bodies: bodies.replace('"two"', '"tow"') }), "tampered body_changed end_unproved");
  equal(await ask(one, { bodies: bodies.replace('"body":"one"', '"body": "one"') }), "tampered bodies_malformed body_missing end_unproved");
  equal(await ask(one, { bodies: `${bodies}{"co` }), "open bodies_torn end_unproved");
  equal(await ask(one, { bodies: bodies.replace('"0707', '"0708') }), "tampered bodies_foreign body_changed end_unproved");
  one.redaction(first, K1);
  await one.seal(K1);
  equal(await ask(one, { bodies }), "open end_unproved redacted redaction_unfinished");
  const left = bodies.split("\n").filter((line) => !line.includes('"one"')).join("\n");
  equal(await ask(one, { bodies: left }), "open end_unproved redacted");
  one.redaction(second, K2);
  await one.seal(K1);
  equal(await ask(one, { bodies: left }), "tampered redactor_differs");
  const twice = await made(K1, true);
  const body = twice.body('"one"');
  await twice.event("x", `{"text":${body}}`).event("x", `{"text":${body}}`).seal(K1);
  equal(await ask(twice, { bodies: twice.bodies }), "tampered event_malformed");
});

test("heads", async () => {
  const one = await made();
  const { head } = one;
  await one.event("x").seal(K1);
  equal(await ask(one, { head }), "verified");
  equal(await ask(one, { head, exact: true }), "open head_not_last");
  equal(await ask(one, { head: one.head.replace(":1:", ":2:") }), "truncated head_ahead");
  equal(await ask(one, { head: one.head.replace("0707", "0708") }), "foreign record_differs");
  equal(await ask(one, { head: head.replace(/:[0-9]+:/, ":1:") }), "forked head_differs");
});

test("signatures in the middle count only in the second look", async () => {
  const one = await made();
  await one.event("x").seal(K1, { wrong: true });
  equal(await ask(one), "forged signature_bad");
  await one.event("x").seal(K1);
  equal(await ask(one), "open end_unproved");
  const adopted = await made();
  await adopted.event("x").seal(K1, { wrong: true });
  await adopted.event("x").adopt().seal(K1);
  equal(await ask(adopted), "forged signature_bad");
  await one.event("thread_completed").event("x").seal(K1, { final: true });
  equal(await ask(one), "forged signature_bad");
});
