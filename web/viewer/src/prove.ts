// A proof of lines of an observed log, made in the page (spec/proofs.md, "Proofs of observed turns"). Every proof is
// checked by an engine before it is given out.

import { base64, hex, equal, utf8 } from "../../verifier/src/bytes.js";
import { leafHash } from "../../verifier/src/merkle.js";
import { type ObservedSeal, Salts, parseLeaves, parseSeal, parseSealHeader, saltedLeaf } from "../../verifier/src/observed-lines.js";
import { sha256 } from "../../verifier/src/sha256.js";
import type { Asked, ProofPlace, Prover } from "./core.js";

const NODE = Uint8Array.of(1);

export const OBSERVED_PROVER: Prover = { prove };

async function prove(asked: Asked, log: Uint8Array, place: ProofPlace): Promise<Uint8Array> {
  if (asked.seals === null) throw new Error("this log has no seals, so that there is nothing to prove");
  const lines = linesOf(asked.seals);
  const header = parseSealHeader(lines[0] ?? new Uint8Array());
  if (header === null || header.format !== 2) throw new Error("this page makes proofs of logs with salted seals only; hint: threadseal prove");
  const salts = Salts.parse(lines[1] ?? new Uint8Array(), header);
  const leaves: Uint8Array[] = [];
  let last: { seal: ObservedSeal; line: Uint8Array } | null = null;
  for (const line of lines.slice(2)) {
    const some = parseLeaves(line);
    if (some !== null) for (let at = 0; at < some.length; at += 32) leaves.push(some.slice(at, at + 32));
    const seal = some === null ? parseSeal(line, header) : null;
    if (seal !== null) last = { seal, line };
  }
  if (last === null || salts === null) throw new Error("the seals cannot be read");
  const [first, until] = place.lines;
  if (BigInt(until) > last.seal.lines) throw new Error("this turn came after the last seal, so that there is no proof of it yet");
  const sealed = leaves.slice(0, Number(last.seal.lines));
  const shown = logLines(log, first, until);
  const text = [
    "threadseal/1 proof of observed lines", `label ${label(asked.name, place)}`, `header ${decode(lines[0]!)}`, `seal ${decode(last.line)}`,
    `shows ${shown.length}`, `run ${first} ${shown.length}`,
  ];
  shown.forEach((line, at) => {
    const salt = salts.salt(first - 1 + at);
    if (salt === null || !equal(saltedLeaf(salt, leafHash(line)), sealed[first - 1 + at]!)) {
      throw new Error(`line ${first + at} was redacted or changed, so that there is no proof of it`);
    }
    text.push(`line ${base64(line)}`, `salt ${hex(salt)}`);
  });
  for (const hash of rangeProof(sealed, first - 1, until)) text.push(`hash ${base64(hash)}`);
  return utf8(`${text.join("\n")}\n`);
}

function label(name: string, place: ProofPlace): string {
  return `${name} turn ${place.turn}`.replace(/[\u0000-\u001f\u007f-\u009f]/g, " ").slice(0, 200);
}

/** The roots of the subtrees beside the leaves `[from, to)`, from left to right. */
function rangeProof(leaves: readonly Uint8Array[], from: number, to: number): Uint8Array[] {
  const hashes: Uint8Array[] = [];
  const walk = (start: number, end: number): void => {
    if (end <= from || start >= to) {
      hashes.push(root(leaves, start, end));
      return;
    }
    if (start >= from && end <= to) return;
    const split = start + largestPower(end - start);
    walk(start, split);
    walk(split, end);
  };
  walk(0, leaves.length);
  return hashes;
}

function root(leaves: readonly Uint8Array[], start: number, end: number): Uint8Array {
  if (end - start === 1) return leaves[start]!;
  const split = start + largestPower(end - start);
  return sha256(NODE, root(leaves, start, split), root(leaves, split, end));
}

/** The largest power of two below the number. */
function largestPower(count: number): number {
  let power = 1;
  while (2 * power < count) power *= 2;
  return power;
}

function linesOf(bytes: Uint8Array): Uint8Array[] {
  const lines: Uint8Array[] = [];
  for (let at = 0; at < bytes.length;) {
    const end = bytes.indexOf(10, at);
    if (end < 0) break;
    lines.push(bytes.slice(at, end));
    at = end + 1;
  }
  return lines;
}

function logLines(log: Uint8Array, first: number, until: number): Uint8Array[] {
  const lines: Uint8Array[] = [];
  let at = 0;
  for (let number = 1; number <= until && at < log.length; number++) {
    const end = log.indexOf(10, at);
    const stop = end < 0 ? log.length : end;
    if (number >= first) lines.push(log.slice(at, stop));
    at = stop + 1;
  }
  return lines;
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}
