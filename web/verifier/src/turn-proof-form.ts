// The bytes of a proof of a turn (proofs.md, "Proofs of turns", "Bytes").

import { ascii, equal, hasAt, parseBase64, utf8 } from "./bytes.js";
import { MAX_PROOF_HASHES, MAX_RANGE_PROOF_HASHES } from "./merkle.js";
import {
  type Body, MAX_LINE_BYTES, MAX_RECORD_BODIES, MAX_RECORD_KEYS, type SignedKey, parseBodyLine, parsePublicKey, parseSignature,
} from "./native-lines.js";
import { type EntryProof, parseEntryProof, parseLogNumber, writeEntryProof } from "./tlog.js";

export const MAX_TURN_PROOF_BYTES = 64 * 1024 * 1024;
export const MAX_TURN_PROOF_LINES = 1_048_576;
export const MAX_LOG_ENTRY_BYTES = 4096;

const FIRST_LINE = "threadseal/1 proof of a turn";
const LF = 0x0a;

/** A step from key to key: a seal that names the next key, or a `key` event and the seal behind it. */
export type KeyStep =
  | { readonly kind: "next"; readonly seal: Uint8Array }
  | { readonly kind: "key"; readonly event: Uint8Array; readonly hashes: readonly Uint8Array[]; readonly seal: Uint8Array };

export interface ProofKeys {
  readonly delegation: SignedKey | null;
  readonly steps: readonly KeyStep[];
}

export interface LogPart {
  readonly entry: Uint8Array;
  readonly proof: EntryProof;
}

export interface TurnProof {
  readonly turn: bigint;
  readonly first: bigint;
  readonly manifest: Uint8Array;
  readonly keys: ProofKeys;
  readonly lines: readonly Uint8Array[];
  readonly hashes: readonly Uint8Array[];
  readonly seal: Uint8Array;
  readonly bodies: readonly Body[];
  readonly log: LogPart | null;
}

/** The lines of a part of the file, taken one by one. */
class Taker {
  private at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  get done(): boolean {
    return this.at === this.bytes.length;
  }

  /** What follows the word on the next line; null, and nothing is taken, where it does not begin so. */
  take(word: string): Uint8Array | null {
    if (!hasAt(this.bytes, this.at, word)) return null;
    const end = this.bytes.indexOf(LF, this.at);
    if (end < 0) return null;
    const rest = this.bytes.subarray(this.at + word.length, end);
    this.at = end + 1;
    return rest;
  }

  /** The text of a line of a record, of at most MAX_LINE_BYTES with an LF. */
  takeText(word: string): Uint8Array | null {
    const text = this.take(word);
    return text !== null && text.length < MAX_LINE_BYTES ? text : null;
  }

  /** All lines `hash …`, or null where one is none or they are too many. */
  takeHashes(max: number): Uint8Array[] | null {
    const hashes: Uint8Array[] = [];
    for (let text = this.take("hash "); text !== null; text = this.take("hash ")) {
      const hash = text.length === 44 ? parseBase64(ascii(text)) : null;
      if (hash === null || hash.length !== 32 || hashes.length >= max) return null;
      hashes.push(hash);
    }
    return hashes;
  }
}

/** Reads a proof of a turn, or null where it does not have this form. */
export function parseTurnProof(file: Uint8Array): TurnProof | null {
  if (file.length > MAX_TURN_PROOF_BYTES) return null;
  const logAt = findLog(file);
  const before = logAt < 0 ? file : file.subarray(0, logAt);
  if (before[before.length - 1] !== LF || !before.every((byte) => byte === LF || (byte >= 0x20 && byte <= 0x7e))) return null;
  const taker = new Taker(before);
  if (taker.take(FIRST_LINE)?.length !== 0) return null;
  const turn = parseFrom1(taker.take("turn "));
  const first = parseFrom1(taker.take("first "));
  const manifest = taker.takeText("manifest ");
  const keys = takeKeys(taker);
  if (turn === null || first === null || manifest === null || keys === null) return null;
  const lines: Uint8Array[] = [];
  for (let text = taker.take("line "); text !== null; text = taker.take("line ")) {
    if (text.length >= MAX_LINE_BYTES || lines.length >= MAX_TURN_PROOF_LINES) return null;
    lines.push(text);
  }
  const hashes = taker.takeHashes(MAX_RANGE_PROOF_HASHES);
  const seal = taker.takeText("seal ");
  if (lines.length === 0 || hashes === null || seal === null) return null;
  const bodies: Body[] = [];
  for (let text = taker.take("body "); text !== null; text = taker.take("body ")) {
    const body = parseBodyLine(text);
    if (body === null || bodies.length >= MAX_RECORD_BODIES) return null;
    bodies.push(body);
  }
  if (!taker.done) return null;
  const log = logAt < 0 ? null : parseLogPart(file.subarray(logAt));
  if (logAt >= 0 && log === null) return null;
  return { turn, first, manifest, keys, lines, hashes, seal, bodies, log };
}

/** Where the part `log` begins: behind the first LF that `entry ` follows; or -1. */
function findLog(file: Uint8Array): number {
  for (let at = file.indexOf(LF); at >= 0; at = file.indexOf(LF, at + 1)) if (hasAt(file, at + 1, "entry ")) return at + 1;
  return -1;
}

function parseFrom1(text: Uint8Array | null): bigint | null {
  const number = text === null || text.length > 19 ? null : parseLogNumber(ascii(text));
  return number === null || number < 1n ? null : number;
}

function takeKeys(taker: Taker): ProofKeys | null {
  const text = taker.take("delegation ");
  if (text !== null) {
    const parts = text.length > 200 ? null : /^([0-9a-f]{64}) ([^ ]{88})$/.exec(ascii(text));
    const key = parsePublicKey(parts?.[1] ?? "");
    const signature = parseSignature(parts?.[2] ?? "");
    return key === null || signature === null ? null : { delegation: { key, signature }, steps: [] };
  }
  const steps: KeyStep[] = [];
  for (;;) {
    const step = takeStep(taker);
    if (step === "none") return { delegation: null, steps };
    if (step === null || steps.length >= MAX_RECORD_KEYS) return null;
    steps.push(step);
  }
}

function takeStep(taker: Taker): KeyStep | "none" | null {
  const next = taker.take("next ");
  if (next !== null) return next.length < MAX_LINE_BYTES ? { kind: "next", seal: next } : null;
  const event = taker.take("key ");
  if (event === null) return "none";
  const hashes = taker.takeHashes(MAX_PROOF_HASHES);
  const seal = taker.takeText("seal ");
  if (event.length >= MAX_LINE_BYTES || hashes === null || seal === null) return null;
  return { kind: "key", event, hashes, seal };
}

function parseLogPart(bytes: Uint8Array): LogPart | null {
  const end = bytes.indexOf(LF);
  const entry = bytes.subarray("entry ".length, end);
  if (end < 0 || entry.length > MAX_LOG_ENTRY_BYTES || !entry.every((byte) => byte >= 0x20 && byte <= 0x7e)) return null;
  const rest = bytes.subarray(end + 1);
  const proof = parseEntryProof(rest);
  if (proof === null || !equal(utf8(writeEntryProof(proof)), rest)) return null;
  return { entry, proof };
}
