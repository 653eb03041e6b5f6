// Checkpoints of logs, proofs of entries, and policies of witnesses (tlog.md), as far as proofs of turns
// need them. Keys of ML-DSA-44 are not built in.

import { base64, concat, equal, hex, parseBase64, parseHex, parseUtf8, utf8 } from "./bytes.js";
import { isPublicKey, verify } from "./ed25519.js";
import { MAX_PROOF_HASHES, emptyRoot } from "./merkle.js";
import { type Note, type NoteLine, isKeyName, parseNote } from "./note.js";
import { sha256 } from "./sha256.js";

export const MAX_ORIGIN_BYTES = 1024;
export const MAX_CHECKPOINT_EXTENSIONS = 16;
export const MAX_POLICY_BYTES = 1 << 20;
export const MAX_POLICY_LOGS = 256;
export const MAX_POLICY_WITNESSES = 256;
export const MAX_POLICY_GROUPS = 256;

const MAX_I63 = (1n << 63n) - 1n;
const PROOF_START = "c2sp.org/tlog-proof@v1";

export interface LogCheckpoint {
  readonly note: Note;
  readonly origin: string;
  readonly size: bigint;
  readonly root: Uint8Array;
}

/** A number below 2^63, or null. */
export function parseLogNumber(text: string): bigint | null {
  if (!/^(?:0|[1-9][0-9]{0,18})$/.test(text)) return null;
  const value = BigInt(text);
  return value <= MAX_I63 ? value : null;
}

/** Reads a note as a checkpoint, or null. */
export function parseLogCheckpoint(bytes: Uint8Array): LogCheckpoint | null {
  const note = parseNote(bytes);
  if (note === null) return null;
  const [origin, sizeText, rootText, ...extensions] = note.text.slice(0, -1).split("\n");
  if (origin === undefined || origin === "" || utf8(origin).length > MAX_ORIGIN_BYTES) return null;
  const size = parseLogNumber(sizeText ?? "");
  const root = parseBase64(rootText ?? "");
  if (size === null || root === null || root.length !== 32) return null;
  if (extensions.length > MAX_CHECKPOINT_EXTENSIONS || extensions.includes("")) return null;
  return size === 0n && !equal(root, emptyRoot()) ? null : { note, origin, size, root };
}

export interface EntryProof {
  readonly index: bigint;
  readonly hashes: readonly Uint8Array[];
  readonly checkpoint: LogCheckpoint;
}

/** Reads a tlog-proof without `extra` that repeats no signature line, or null. */
export function parseEntryProof(bytes: Uint8Array): EntryProof | null {
  const text = parseUtf8(bytes);
  if (text === null || !text.startsWith(`${PROOF_START}\n`)) return null;
  const end = text.indexOf("\n\n");
  if (end < 0) return null;
  const [, indexLine, ...hashLines] = text.slice(0, end).split("\n");
  if (indexLine === undefined || !indexLine.startsWith("index ")) return null;
  const index = parseLogNumber(indexLine.slice(6));
  const hashes = hashLines.map(parseBase64);
  if (index === null || hashes.length > MAX_PROOF_HASHES) return null;
  if (!hashes.every((hash): hash is Uint8Array => hash !== null && hash.length === 32)) return null;
  const checkpoint = parseLogCheckpoint(utf8(text.slice(end + 2)));
  if (checkpoint === null) return null;
  const lines = checkpoint.note.lines.map((line) => `${line.name} ${hex(line.id)} ${hex(line.signature)}`);
  return new Set(lines).size === lines.length ? { index, hashes, checkpoint } : null;
}

// --------------------------------------------------------------------------------------- policies

interface LogKey {
  readonly name: string;
  readonly id: Uint8Array;
  readonly key: Uint8Array;
}

interface Group {
  readonly members: readonly string[];
  readonly needed: number;
}

export interface Policy {
  readonly logs: readonly LogKey[];
  readonly witnesses: ReadonlyMap<string, LogKey>;
  readonly groups: ReadonlyMap<string, Group>;
  /** A name, or `none`. */
  readonly quorum: string;
}

const LOG_TYPE = 0x01;
const WITNESS_TYPE = 0x04;

/** Reads a policy, or null where it is refused or names a key of a type that is not built in. */
export function parsePolicy(bytes: Uint8Array): Policy | null {
  const text = bytes.length > MAX_POLICY_BYTES ? null : parseUtf8(bytes);
  if (text === null || !text.endsWith("\n") || /[\u0000-\u0008\u000b-\u001f\u007f]/.test(text)) return null;
  const logs: LogKey[] = [];
  const witnesses = new Map<string, LogKey>();
  const groups = new Map<string, Group>();
  const taken = new Set<string>();
  let quorum: string | null = null;
  const isDefined = (name: string): boolean => witnesses.has(name) || groups.has(name);
  for (const line of text.slice(0, -1).split("\n")) {
    const [word, ...items] = line.split(/[ \t]+/).filter((item) => item !== "");
    if (word === undefined || word.startsWith("#")) continue;
    const [first, second] = items;
    if (first === undefined) return null;
    if (word === "log" && items.length <= 2) {
      const key = parseTypedVkey(first, LOG_TYPE);
      if (key === null || key.name.startsWith("threadseal/")) return null;
      logs.push(key);
    } else if (word === "witness" && second !== undefined && items.length <= 3) {
      const key = parseTypedVkey(second, WITNESS_TYPE);
      if (key === null || first === "none" || isDefined(first)) return null;
      witnesses.set(first, key);
    } else if (word === "group" && second !== undefined && items.length >= 3) {
      const members = items.slice(2);
      const needed = second === "all" ? members.length : second === "any" ? 1 : /^[1-9][0-9]{0,3}$/.test(second) ? Number(second) : 0;
      if (first === "none" || isDefined(first) || needed < 1 || needed > members.length) return null;
      for (const member of members) {
        if (!isDefined(member) || taken.has(member)) return null;
        taken.add(member);
      }
      groups.set(first, { members, needed });
    } else if (word === "quorum" && items.length === 1 && quorum === null) {
      if (first !== "none" && !isDefined(first)) return null;
      quorum = first;
    } else {
      return null;
    }
  }
  const keys = [...logs, ...witnesses.values()].map((one) => hex(one.key));
  const tooMany = logs.length > MAX_POLICY_LOGS || witnesses.size > MAX_POLICY_WITNESSES || groups.size > MAX_POLICY_GROUPS;
  if (quorum === null || tooMany || new Set(keys).size !== keys.length) return null;
  return { logs, witnesses, groups, quorum };
}

function parseTypedVkey(text: string, type: number): LogKey | null {
  const [name, idText, ...rest] = text.split("+");
  const bytes = parseBase64(rest.join("+"));
  const id = parseHex(idText ?? "", 4);
  if (name === undefined || !isKeyName(name) || id === null || bytes === null || bytes.length !== 33 || bytes[0] !== type) {
    return null;
  }
  const computed = sha256(utf8(name), Uint8Array.of(0x0a), bytes).subarray(0, 4);
  return equal(computed, id) && isPublicKey(bytes.subarray(1)) ? { name, id, key: bytes.slice(1) } : null;
}

export type PolicyAnswer = "met" | "log alone" | "not met" | "bad line";

/** "Judging a note". */
export async function judgeByPolicy(checkpoint: LogCheckpoint, policy: Policy): Promise<PolicyAnswer> {
  const text = checkpoint.note.text;
  let logSigned = false;
  const cosigned = new Set<string>();
  for (const line of checkpoint.note.lines) {
    const isOf = (key: LogKey): boolean => key.name === line.name && equal(key.id, line.id);
    const logs = policy.logs.filter(isOf);
    const witnesses = [...policy.witnesses].filter(([, key]) => isOf(key));
    let good = logs.length + witnesses.length === 0;
    for (const key of logs) {
      if (!(await verify(key.key, utf8(text), line.signature))) continue;
      good = true;
      if (key.name === checkpoint.origin) logSigned = true;
    }
    for (const [name, key] of witnesses) {
      if (!(await cosignatureHolds(key.key, text, line))) continue;
      good = true;
      cosigned.add(name);
    }
    if (!good) return "bad line";
  }
  if (!logSigned) return "not met";
  if (policy.quorum === "none") return "log alone";
  return isMet(policy, policy.quorum, cosigned) ? "met" : "not met";
}

async function cosignatureHolds(key: Uint8Array, text: string, line: NoteLine): Promise<boolean> {
  if (line.signature.length !== 72) return false;
  const time = BigInt(`0x${hex(line.signature.subarray(0, 8))}`);
  if (time < 1n || time > MAX_I63) return false;
  const message = concat(utf8(`cosignature/v1\ntime ${time}\n`), utf8(text));
  return verify(key, message, line.signature.subarray(8));
}

function isMet(policy: Policy, name: string, cosigned: ReadonlySet<string>): boolean {
  const group = policy.groups.get(name);
  if (group === undefined) return cosigned.has(name);
  return group.members.filter((member) => isMet(policy, member, cosigned)).length >= group.needed;
}

/** The text of an entry proof as a writer writes it. */
export function writeEntryProof(proof: EntryProof): string {
  const hashes = proof.hashes.map((hash) => `${base64(hash)}\n`).join("");
  const lines = proof.checkpoint.note.lines
    .map((line) => `\u2014 ${line.name} ${base64(concat(line.id, line.signature))}\n`)
    .join("");
  return `${PROOF_START}\nindex ${proof.index}\n${hashes}\n${proof.checkpoint.note.text}\n${lines}`;
}
