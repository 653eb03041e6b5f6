// testkit/scroll: turns, single-byte mutations, chains and attacks; and that no changed byte makes a scroll better.

import { deepEqual, equal, ok } from "node:assert/strict";
import { base64, hex, parseBase64, parseHex, utf8 } from "../dist/bytes.js";
import { jcs, readStrict } from "../dist/canon.js";
import { verify } from "../dist/ed25519.js";
import { type Verdict, exitOf } from "../dist/report.js";
import { type ScrollOptions, turnOf, verifyScroll } from "../dist/scroll.js";
import { sha256 } from "../dist/sha256.js";
import type { Trust } from "../dist/trust.js";
import { type Entry, flagOf, hasFlag, readList, testkit, textOf, listTest } from "./lists.js";

const KEY = parseHex("8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c", 32)!;
const NOW = 1_800_000_000;

function trustOf(entry: Entry): Trust {
  const pin = flagOf(entry, "--key");
  const pins = pin === undefined ? [] : [parseHex(pin, 32)!];
  return { entries: [{ name: "trusted", key: KEY, usages: ["scroll"] }], pins, now: NOW };
}

function optionsOf(entry: Entry): ScrollOptions {
  const head = flagOf(entry, "--expect-head");
  return {
    trust: trustOf(entry),
    strictDigits: hasFlag(entry, "--strict-digits"),
    v01: flagOf(entry, "--profile") === "scroll-v0.1",
    ...(head === undefined ? {} : { head }),
  };
}

const LIST = readList("scroll/expect.toml").entries;

listTest("scroll/expect.toml", "expect.toml", async () => {
  const wrong: string[] = [];
  for (const entry of LIST) {
    const file = textOf(entry, "file")!;
    const report = await verifyScroll(testkit(`scroll/${file}`), optionsOf(entry));
    ok(report.verdict !== "verified" || report.checks.every((check) => check.result !== "fail"), file);
    if (report.verdict !== entry["verdict"]) wrong.push(`${file}: ${report.verdict} (${report.codes().join(" ")}) for ${String(entry["verdict"])}`);
  }
  deepEqual(wrong, []);
});

interface TurnCase {
  name: string;
  turn: string;
  canonical: string;
  covered?: string;
  hash: string;
  sig: string;
}

listTest("scroll/turns.json", "turns.json", async () => {
  const { turns } = JSON.parse(new TextDecoder().decode(testkit("scroll/turns.json"))) as { turns: TurnCase[] };
  for (const one of turns) {
    const reading = readStrict(utf8(one.turn));
    ok(reading.ok && reading.value.kind === "object", one.name);
    equal(new TextDecoder().decode(jcs(reading.value) ?? utf8("")), one.canonical, one.name);
    const sealed = readStrict(utf8(`${one.turn.trimEnd().slice(0, -1)},"hash":"${one.hash}"}`));
    ok(sealed.ok, one.name);
    const turn = turnOf(sealed.value);
    ok(turn !== null, one.name);
    equal(`sha256:${hex(sha256(turn.covered))}`, one.hash, one.name);
    if (one.covered !== undefined) equal(hex(turn.covered), one.covered, one.name);
    const signature = parseBase64(one.sig)!;
    equal(base64(signature), one.sig);
    ok(await verify(KEY, turn.covered, signature), one.name);
  }
});

listTest("scroll/mutations.json", "mutations.json", async () => {
  interface Mutations {
    first: string;
    turn: string;
    mutations: { at: number; byte: number; member: string }[];
  }
  const { first, turn, mutations } = JSON.parse(new TextDecoder().decode(testkit("scroll/mutations.json"))) as Mutations;
  const before = utf8(`[${first},`);
  const options: ScrollOptions = { trust: trustOf({}), strictDigits: true };
  const chain = (changed: Uint8Array): Uint8Array => Uint8Array.from([...before, ...changed, 0x5d]);
  equal((await verifyScroll(chain(utf8(turn)), options)).verdict, "verified");
  const accepted: unknown[] = [];
  for (const one of mutations) {
    const changed = utf8(turn);
    changed[one.at] = one.byte;
    const report = await verifyScroll(chain(changed), options);
    if (report.verdict === "verified") accepted.push(one);
  }
  deepEqual(accepted, []);
});

/** By exit codes: a change may turn one kind of evidence into another. */
function isBetter(verdict: Verdict, original: Verdict): boolean {
  const goodness = (one: Verdict): number => [1, 3, 0].indexOf(exitOf(one));
  return goodness(verdict) > goodness(original);
}

listTest("scroll/expect.toml", "no changed byte makes a scroll better", async () => {
  const better: string[] = [];
  for (const entry of LIST) {
    const file = textOf(entry, "file")!;
    const bytes = testkit(`scroll/${file}`);
    const options = optionsOf(entry);
    const original = (await verifyScroll(bytes, options)).verdict;
    const step = Math.max(1, Math.floor(bytes.length / 100));
    for (let at = 0; at < bytes.length; at += step) {
      const changed = bytes.slice();
      changed[at] = changed[at]! ^ (1 << at % 7);
      const { verdict } = await verifyScroll(changed, options);
      if (isBetter(verdict, original)) better.push(`${file} at ${at}: ${original} became ${verdict}`);
    }
  }
  deepEqual(better, []);
});
