// Checking a proof of lines of an observed log (proofs.md, "Proofs of observed turns").

import { equal, hex, parseBase64, parseHex, parseNumber, parseUtf8, utf8 } from "./bytes.js";
import { MAX_RANGE_PROOF_HASHES, leafHash, lonelyLeaves, rootByRange } from "./merkle.js";
import { headText } from "./native-lines.js";
import { AUTHOR_UNAUTHENTICATED } from "./observed.js";
import { MAX_OBSERVED_NEXT_KEYS, hasKey, judgeKeys, nextKeyHolds, parseNextKey } from "./observed-keys.js";
import { parseSeal, parseSealHeader, saltedLeaf, sealHolds } from "./observed-lines.js";
import { Report } from "./report.js";
import type { Trust } from "./trust.js";
import { MAX_TURN_PROOF_BYTES, MAX_TURN_PROOF_LINES } from "./turn-proof-form.js";

export const MAX_LABEL_BYTES = 1024;

const FIRST_LINE = "threadseal/1 proof of observed lines";
const LABEL_UNAUTHENTICATED = "label: the words of the proof's maker";

interface Run {
  /** Number of the first line, from 1. */
  readonly first: bigint;
  readonly leaves: readonly Uint8Array[];
  readonly hashes: readonly Uint8Array[];
}

interface ObservedProof {
  readonly header: Uint8Array;
  readonly next: readonly Uint8Array[];
  readonly seal: Uint8Array;
  /** The lines that `alone` lists; null in format 2. */
  readonly alone: readonly bigint[] | null;
  readonly runs: readonly Run[];
  readonly shown: number;
}

export async function checkObservedProof(file: Uint8Array, trust: Trust): Promise<Report> {
  const report = new Report("proof", "observed");
  report.stats.bytes = file.length;
  const proof = parseObservedProof(file);
  if (proof === null) {
    report.downgrade("malformed", "proof_malformed", "error");
    return report;
  }
  report.unauthenticated.push(AUTHOR_UNAUTHENTICATED, LABEL_UNAUTHENTICATED);
  report.stats.events = proof.shown;
  report.stats.checkpoints = 1;
  const header = parseSealHeader(proof.header);
  const seal = header === null ? null : parseSeal(proof.seal, header);
  const keys = header === null ? null : await keysOf(header.key, proof.next);
  if (header === null || seal === null || keys === null || !(await sealHolds(seal, header, keys.at(-1)!))) {
    report.downgrade("forged", "signature_bad", "error");
    return report;
  }
  report.check("signatures", "pass");
  for (const run of proof.runs) {
    const root = rootByRange(run.leaves, run.first - 1n, seal.lines, run.hashes);
    if (root !== null && equal(root, seal.root)) continue;
    report.downgrade("tampered", "content_changed", "error");
    return report;
  }
  report.check("inclusion", "pass");
  if (proof.alone !== null && !isListOf(proof.alone, guessable(proof.runs, seal.lines))) {
    report.downgrade("malformed", "proof_malformed", "error");
    return report;
  }
  report.record = hex(header.record);
  report.head = headText({ record: report.record, seq: seal.seq, size: seal.size, line: seal.digest });
  const sealer = keys.at(-1)!;
  const counts = judgeKeys(report, keys.map((key) => ({ key, seals: key === sealer })), trust);
  report.check("trust", counts ? "pass" : "fail");
  for (const line of proof.alone ?? []) report.downgrade(null, "siblings_guessable", "note", { line: Number(line) });
  return report;
}

/** The key of the header and those that the lines name one after the other, or null. */
async function keysOf(first: Uint8Array, lines: readonly Uint8Array[]): Promise<Uint8Array[] | null> {
  const keys = [first];
  for (const line of lines) {
    const next = parseNextKey(line);
    if (next === null || hasKey(keys, next.key) || !(await nextKeyHolds(keys.at(-1)!, next))) return null;
    keys.push(next.key);
  }
  return keys;
}

/** The lines that no run shows and whose own leaf is a hash of a range proof, ascending. */
function guessable(runs: readonly Run[], size: bigint): bigint[] {
  const found = new Set<bigint>();
  for (const run of runs) {
    for (const index of lonelyLeaves(run.first - 1n, BigInt(run.leaves.length), size)) found.add(index + 1n);
  }
  const isShown = (line: bigint): boolean =>
    runs.some((run) => run.first <= line && line < run.first + BigInt(run.leaves.length));
  return [...found].filter((line) => !isShown(line)).sort((a, b) => (a < b ? -1 : 1));
}

function isListOf(a: readonly bigint[], b: readonly bigint[]): boolean {
  return a.length === b.length && a.every((line, i) => line === b[i]);
}

// ------------------------------------------------------------------------------------------- form

class Lines {
  private at = 0;

  constructor(private readonly text: string) {}

  get done(): boolean {
    return this.at === this.text.length;
  }

  /** What follows the word on the next line, or null where it does not begin so. */
  take(word: string): string | null {
    if (!this.text.startsWith(word, this.at)) return null;
    const end = this.text.indexOf("\n", this.at);
    const rest = this.text.slice(this.at + word.length, end);
    this.at = end + 1;
    return rest;
  }
}

function parseObservedProof(file: Uint8Array): ObservedProof | null {
  const text = file.length > MAX_TURN_PROOF_BYTES ? null : parseUtf8(file);
  if (text === null || !text.endsWith("\n")) return null;
  const lines = new Lines(text);
  if (lines.take(FIRST_LINE) !== "") return null;
  const label = lines.take("label ");
  if (label === null || utf8(label).length > MAX_LABEL_BYTES || /\p{Cc}/u.test(label)) return null;
  const headerText = lines.take("header ");
  const next: Uint8Array[] = [];
  for (let rest = lines.take("next "); rest !== null; rest = lines.take("next ")) {
    next.push(utf8(rest));
    if (next.length > MAX_OBSERVED_NEXT_KEYS) return null;
  }
  const sealText = headerText === null ? null : lines.take("seal ");
  if (headerText === null || sealText === null) return null;
  const header = utf8(headerText);
  const salted = parseSealHeader(header)?.format === 2;
  const alone = salted ? null : parseAlone(lines.take("alone"));
  const shows = salted ? parseNumber(lines.take("shows ") ?? "") : null;
  if (salted ? shows === null : alone === null) return null;
  const runs: Run[] = [];
  let shown = 0;
  let end = -1n;
  while (!lines.done) {
    const run = takeRun(lines, salted, MAX_TURN_PROOF_LINES - shown);
    if (run === null || run.first <= end) return null;
    end = run.first + BigInt(run.leaves.length);
    shown += run.leaves.length;
    runs.push(run);
  }
  if (runs.length === 0 || (shows !== null && shows !== BigInt(shown))) return null;
  return { header, next, seal: utf8(sealText), alone, runs, shown };
}

/** The numbers behind `alone`, each after one blank. */
function parseAlone(rest: string | null): bigint[] | null {
  if (rest === null) return null;
  if (rest === "") return [];
  if (!rest.startsWith(" ")) return null;
  const numbers = rest.slice(1).split(" ").map(parseNumber);
  return numbers.every((number): number is bigint => number !== null) ? numbers : null;
}

function takeRun(lines: Lines, salted: boolean, max: number): Run | null {
  const [firstText, countText, ...more] = (lines.take("run ") ?? "").split(" ");
  const first = parseNumber(firstText ?? "");
  const count = parseNumber(countText ?? "");
  if (first === null || count === null || more.length > 0 || first < 1n || count < 1n || count > BigInt(max)) return null;
  const leaves: Uint8Array[] = [];
  for (let i = 0n; i < count; i++) {
    const bytes = parseBase64(lines.take("line ") ?? "=");
    if (bytes === null) return null;
    const plain = leafHash(bytes);
    if (!salted) {
      leaves.push(plain);
      continue;
    }
    const salt = parseHex(lines.take("salt ") ?? "", 16);
    if (salt === null) return null;
    leaves.push(saltedLeaf(salt, plain));
  }
  const hashes: Uint8Array[] = [];
  for (let rest = lines.take("hash "); rest !== null; rest = lines.take("hash ")) {
    const hash = parseBase64(rest);
    if (hash === null || hash.length !== 32 || hashes.length >= MAX_RANGE_PROOF_HASHES) return null;
    hashes.push(hash);
  }
  return { first, leaves, hashes };
}
