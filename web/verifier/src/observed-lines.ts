// The lines of a seal file (transcript.md §9): header, salts, statements, leaves, seals; the tree of salts;
// the leaf of a line.

import { ascii, base64, equal, hex, parseBase64, parseHex, parseNumber, utf8 } from "./bytes.js";
import { verify } from "./ed25519.js";
import {
  MAX_BY_BYTES, MAX_WHY_BYTES, type Head, isTimestamp, parseNativeHead, parseNativeText, parsePublicKey, parseSignature, taggedMessage,
} from "./native-lines.js";
import { verifyNoteLine } from "./note.js";
import { sha256, tagged } from "./sha256.js";

export const MAX_SALT_SECRETS = 65_536;
export const MAX_OBSERVED_REDACTIONS = 1024;
export const MAX_OBSERVED_LINES = 1_048_576;

const MAX_RUNS = 65_536;
const MAX_LEAVES_OF_LINE = 1024;
const TOP_LEVEL = 32;
const BELOW = 2 ** 32;

// ----------------------------------------------------------------------------------------- header

export interface SealHeader {
  readonly format: 1 | 2;
  readonly line: Uint8Array;
  readonly record: Uint8Array;
  readonly key: Uint8Array;
  readonly salted: Uint8Array | null;
  readonly origin: string;
}

const HEADER_FORM =
  /^\{"format":"threadseal-observed\/([12])","kind":"observed","record":"([0-9a-f]{64})","key":"([0-9a-f]{64})"(?:,"salted":"([0-9a-f]{64})")?\}$/;
const MAX_HEADER_BYTES = 512;

export function parseSealHeader(line: Uint8Array): SealHeader | null {
  const parts = line.length > MAX_HEADER_BYTES ? null : HEADER_FORM.exec(ascii(line));
  const record = parseHex(parts?.[2] ?? "", 32);
  const key = parsePublicKey(parts?.[3] ?? "");
  if (parts === null || record === null || key === null) return null;
  const format = parts[1] === "1" ? 1 : 2;
  const salted = parts[4] === undefined ? null : parseHex(parts[4], 32);
  if ((salted === null) !== (format === 1)) return null;
  const origin = `threadseal/observed/${format}/${hex(record)}`;
  return { format, line: line.slice(), record, key, salted, origin };
}

// ------------------------------------------------------------------------------------------ salts

interface Secret {
  readonly level: number;
  readonly number: number;
  readonly secret: Uint8Array;
}

/** The secrets from which the salts of lines follow. Lines are counted from 0 here. */
export class Salts {
  /** The secrets from a held one down to the salt that was asked for last. */
  private path: Secret[] = [];
  private at = 0;

  private constructor(private readonly secrets: readonly Secret[]) {}

  /** Reads line 2 of a seal file of format 2, or null; with the root it fits `salted`. */
  static parse(line: Uint8Array, header: SealHeader): Salts | null {
    const parts = /^\{"salts":\[(.*)\]\}$/.exec(ascii(line));
    if (parts === null) return null;
    const secrets: Secret[] = [];
    const inside = parts[1]!;
    const one = /\[([0-9]+),([0-9]+),"([0-9a-f]{32})"\]/y;
    let end = 0;
    for (let at = 0; at < inside.length; at = one.lastIndex + 1) {
      one.lastIndex = at;
      const found = one.exec(inside);
      if (found === null || secrets.length >= MAX_SALT_SECRETS) return null;
      const level = Number(parseNumber(found[1]!) ?? -1);
      const number = Number(parseNumber(found[2]!) ?? -1);
      if (level < 0 || level > TOP_LEVEL || number < 0 || number >= 2 ** (TOP_LEVEL - level)) return null;
      const from = number * 2 ** level;
      if (from < end) return null;
      end = from + 2 ** level;
      secrets.push({ level, number, secret: parseHex(found[3]!, 16)! });
      const next = inside.charAt(one.lastIndex);
      if (next !== "" && (next !== "," || one.lastIndex + 1 === inside.length)) return null;
    }
    const root = secrets[0];
    if (root?.level === TOP_LEVEL) {
      const salted = tagged("threadseal/2 observed salts", [header.record, root.secret]);
      if (header.salted === null || hex(salted) !== hex(header.salted)) return null;
    }
    return new Salts(secrets);
  }

  /** The salt of a line, or null where it is gone. */
  salt(line: number): Uint8Array | null {
    while (this.path.length > 0 && !covers(this.path.at(-1)!, line)) this.path.pop();
    let secret = this.path.at(-1) ?? this.held(line);
    if (secret === null) return null;
    if (this.path.length === 0) this.path.push(secret);
    while (secret.level > 0) {
      secret = below(secret, line);
      this.path.push(secret);
    }
    return secret.secret;
  }

  /** The held secret that is over the line, or null. Lines mostly ascend. */
  private held(line: number): Secret | null {
    const before = this.secrets[this.at];
    if (before !== undefined && line < before.number * 2 ** before.level) this.at = 0;
    for (; this.at < this.secrets.length; this.at++) {
      const secret = this.secrets[this.at]!;
      if (covers(secret, line)) return secret;
      if (line < secret.number * 2 ** secret.level) return null;
    }
    this.at = 0;
    return null;
  }
}

function covers(secret: Secret, line: number): boolean {
  const size = 2 ** secret.level;
  return Math.floor(line / size) === secret.number;
}

const SALTS_PREFIX = utf8("threadseal salts");

/** The secret one level below that is over the line. */
function below(secret: Secret, line: number): Secret {
  const digest = sha256(SALTS_PREFIX, secret.secret);
  const level = secret.level - 1;
  const number = Math.floor(line / 2 ** level);
  const first = number === secret.number * 2;
  return { level, number, secret: first ? digest.slice(0, 16) : digest.slice(16) };
}

const SALTED_PREFIX = Uint8Array.of(0x00, 0x0a);

/** The leaf of a line in format 2, from its salt and its leaf in format 1. */
export function saltedLeaf(salt: Uint8Array, leaf: Uint8Array): Uint8Array {
  return sha256(SALTED_PREFIX, salt, leaf);
}

// ------------------------------------------------------------------------------------- statements

export interface Statement {
  readonly head: Head;
  readonly runs: readonly { readonly first: number; readonly count: number }[];
  /** The key that signed, where that is not the one of the header. */
  readonly key: Uint8Array | null;
  readonly start: Uint8Array;
  readonly signature: Uint8Array;
}

export const STATEMENT_START = '{"redacted":{"head":"';

const STATEMENT_FORM =
  /^\{"redacted":\{"head":"([^"]*)","lines":\[((?:\[[0-9]+,[0-9]+\],?)*)\],"time":([0-9.]+),"by":(".*"),"why":(".*?")(?:,"key":"([0-9a-f]{64})")?,"signature":"([A-Za-z0-9+/=]{88})"\}\}$/;
const AFTER_SIGNATURE = 88 + '"}}'.length;

export function parseStatement(line: Uint8Array, header: SealHeader): Statement | null {
  if (line.some((byte) => byte < 0x20 || byte > 0x7e)) return null;
  const parts = STATEMENT_FORM.exec(ascii(line));
  if (parts === null) return null;
  const head = parseNativeHead(parts[1]!);
  const runs = parseRuns(parts[2]!);
  const key = parts[6] === undefined ? null : parsePublicKey(parts[6]);
  if (parts[6] !== undefined && (key === null || equal(key, header.key))) return null;
  const signature = parseSignature(parts[7]!);
  if (head === null || runs === null || signature === null || !isTimestamp(parts[3]!)) return null;
  if (parseNativeText(parts[4]!, MAX_BY_BYTES) === null || parseNativeText(parts[5]!, MAX_WHY_BYTES) === null) return null;
  return { head, runs, key, start: line.slice(0, line.length - AFTER_SIGNATURE), signature };
}

function parseRuns(text: string): { first: number; count: number }[] | null {
  if (!text.startsWith("[") || !text.endsWith("]")) return null;
  const runs: { first: number; count: number }[] = [];
  let end = -1;
  for (const one of text.slice(1, -1).split("],[")) {
    const [firstText, countText] = one.split(",");
    const first = Number(parseNumber(firstText ?? "") ?? 0);
    const count = Number(parseNumber(countText ?? "") ?? 0);
    if (first < 1 || count < 1 || first >= BELOW || count >= BELOW || first <= end) return null;
    end = first + count;
    runs.push({ first, count });
    if (runs.length > MAX_RUNS) return null;
  }
  return runs;
}

/** Whether the key that the statement names, else that of the header, signed it. */
export function statementHolds(statement: Statement, header: SealHeader): Promise<boolean> {
  const message = taggedMessage("threadseal/observed/2 redaction", [header.line, statement.start]);
  return verify(statement.key ?? header.key, message, statement.signature);
}

// ------------------------------------------------------------------------------- leaves and seals

const LEAVES_START = '{"leaves":"';
const MAX_LEAVES_BYTES = LEAVES_START.length + 4 * Math.ceil((32 * MAX_LEAVES_OF_LINE) / 3) + 2;

/** The leaf hashes of a line of leaves, one after the other, or null. */
export function parseLeaves(line: Uint8Array): Uint8Array | null {
  if (line.length > MAX_LEAVES_BYTES) return null;
  const text = ascii(line);
  if (!text.startsWith(LEAVES_START) || !text.endsWith('"}')) return null;
  const leaves = parseBase64(text.slice(LEAVES_START.length, -2));
  if (leaves === null || leaves.length === 0 || leaves.length % 32 !== 0) return null;
  return leaves.length > 32 * MAX_LEAVES_OF_LINE ? null : leaves;
}

export interface ObservedSeal {
  readonly seq: bigint;
  readonly size: bigint;
  readonly lines: bigint;
  readonly root: Uint8Array;
  readonly sidecar: string;
  readonly final: boolean;
  readonly noteText: string;
  readonly noteBytes: Uint8Array;
  /** SHA-256 of the line. */
  readonly digest: string;
}

const SEAL_FORM =
  /^\{"seal":\{"seq":([0-9]+),"size":([0-9]+),"lines":([0-9]+),"root":"([0-9a-f]{64})","sidecar":"([0-9a-f]{64})","time":([0-9.]+),"final":(true|false),"note":"([^"]*)"\}\}$/;
const MAX_SEAL_BYTES = 4096;

/** Reads a seal whose note has the text for its values, or null. */
export function parseSeal(line: Uint8Array, header: SealHeader): ObservedSeal | null {
  const parts = line.length > MAX_SEAL_BYTES ? null : SEAL_FORM.exec(ascii(line));
  if (parts === null || !isTimestamp(parts[6]!)) return null;
  const seq = parseNumber(parts[1]!);
  const size = parseNumber(parts[2]!);
  const lines = parseNumber(parts[3]!);
  const root = parseHex(parts[4]!, 32);
  if (seq === null || size === null || lines === null || root === null) return null;
  const note = parts[8]!;
  const start = line.subarray(0, line.length - note.length - '"}}'.length);
  const digest = header.format === 1
    ? tagged("threadseal/1 observed line", [start])
    : tagged("threadseal/2 observed line", [header.line, start]);
  const noteText = `${header.origin}\n${lines}\n${base64(root)}\nline ${hex(digest)}\n`;
  const before = `${noteText.replaceAll("\n", "\\n")}\\n\\u2014 ${header.origin} `;
  if (!note.startsWith(before) || !note.endsWith("\\n")) return null;
  const noteBytes = parseBase64(note.slice(before.length, -2));
  if (noteBytes === null || noteBytes.length !== 68) return null;
  return {
    seq, size, lines, root, sidecar: parts[5]!, final: parts[7] === "true", noteText, noteBytes, digest: hex(sha256(line)),
  };
}

/** Whether the note of a seal verifies under this key. */
export function sealHolds(seal: ObservedSeal, header: SealHeader, key: Uint8Array): Promise<boolean> {
  return verifyNoteLine(header.origin, key, seal.noteText, seal.noteBytes);
}
