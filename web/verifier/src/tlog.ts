// Checkpoints of logs, proofs of entries, policies, and what a witness answers (tlog.md).

import { base64, concat, equal, hex, parseBase64, parseHex, parseUtf8, utf8 } from "./bytes.js";
import { isPublicKey, verify } from "./ed25519.js";
import { ML_DSA_KEY_BYTES, verifyMlDsa } from "./ml-dsa.js";
import { MAX_PROOF_HASHES, type TreeHead, checkConsistency, emptyRoot, leafHash, rootByInclusion } from "./merkle.js";
import { type Note, type NoteLine, isKeyName, parseNote } from "./note.js";
import { sha256 } from "./sha256.js";

export const MAX_ORIGIN_BYTES = 1024;
export const MAX_CHECKPOINT_EXTENSIONS = 16;
export const MAX_POLICY_BYTES = 1 << 20;
export const MAX_POLICY_LOGS = 256;
export const MAX_POLICY_WITNESSES = 256;
export const MAX_POLICY_GROUPS = 256;
export const MAX_PROOF_EXTRA_BYTES = 1 << 20;
export const MAX_WITNESS_BODY_BYTES = 256 * 1024;

const MAX_I63 = (1n << 63n) - 1n;
const PROOF_START = "c2sp.org/tlog-proof@v1";

export interface LogCheckpoint {
  readonly note: Note;
  readonly origin: string;
  readonly size: bigint;
  readonly root: Uint8Array;
  readonly extensions: readonly string[];
}

/** A number below 2^63, or null. */
export function parseLogNumber(text: string): bigint | null {
  if (!/^(?:0|[1-9][0-9]{0,18})$/.test(text)) return null;
  const value = BigInt(text);
  return value <= MAX_I63 ? value : null;
}

/** Reads a note as a checkpoint, or null. */
export function parseLogCheckpoint(bytes: Uint8Array): LogCheckpoint | null {
  const read = parseWithAnyRoot(bytes);
  return read === null || isImpossible(read) ? null : read;
}

/** An empty log with the root of another tree. */
function isImpossible(one: LogCheckpoint): boolean {
  return one.size === 0n && !equal(one.root, emptyRoot());
}

function parseWithAnyRoot(bytes: Uint8Array): LogCheckpoint | null {
  const note = parseNote(bytes);
  if (note === null) return null;
  const [origin, sizeText, rootText, ...extensions] = note.text.slice(0, -1).split("\n");
  if (origin === undefined || origin === "" || utf8(origin).length > MAX_ORIGIN_BYTES) return null;
  const size = parseLogNumber(sizeText ?? "");
  const root = parseBase64(rootText ?? "");
  if (size === null || root === null || root.length !== 32) return null;
  if (extensions.length > MAX_CHECKPOINT_EXTENSIONS || extensions.includes("")) return null;
  return { note, origin, size, root, extensions };
}

export interface EntryProof {
  readonly index: bigint;
  readonly hashes: readonly Uint8Array[];
  readonly checkpoint: LogCheckpoint;
}

/** Reads a tlog-proof without `extra` that repeats no signature line, or null. */
export function parseEntryProof(bytes: Uint8Array): EntryProof | null {
  const proof = parseProofFile(bytes);
  if (proof === null || proof.hasExtra) return null;
  const lines = proof.checkpoint.note.lines.map((line) => `${line.name} ${hex(line.id)} ${hex(line.signature)}`);
  return new Set(lines).size === lines.length ? proof : null;
}

/** "Proofs as files": the form. */
function parseProofFile(bytes: Uint8Array): (EntryProof & { readonly hasExtra: boolean }) | null {
  const cut = cutAtBlankLine(bytes);
  if (cut === null) return null;
  const [first, ...lines] = cut.lines;
  if (first !== PROOF_START) return null;
  const extra = lines[0]?.startsWith("extra ") === true ? parseBase64(lines.shift()!.slice(6)) : undefined;
  if (extra === null || (extra?.length ?? 0) > MAX_PROOF_EXTRA_BYTES) return null;
  const [indexLine, ...hashLines] = lines;
  if (indexLine === undefined || !indexLine.startsWith("index ")) return null;
  const index = parseLogNumber(indexLine.slice(6));
  const hashes = hashesOf(hashLines);
  const checkpoint = parseLogCheckpoint(cut.rest);
  if (index === null || hashes === null || checkpoint === null) return null;
  return { index, hashes, checkpoint, hasExtra: extra !== undefined };
}

/** The lines before the first blank line, and the bytes behind it; null without one. */
function cutAtBlankLine(bytes: Uint8Array): { readonly lines: string[]; readonly rest: Uint8Array } | null {
  const text = parseUtf8(bytes);
  const end = text === null ? -1 : text.indexOf("\n\n");
  return text === null || end < 0 ? null : { lines: text.slice(0, end).split("\n"), rest: utf8(text.slice(end + 2)) };
}

function hashesOf(lines: readonly string[]): Uint8Array[] | null {
  if (lines.length > MAX_PROOF_HASHES) return null;
  const hashes = lines.map(parseBase64);
  return hashes.every((hash): hash is Uint8Array => hash !== null && hash.length === 32) ? hashes : null;
}

/** Steps 1 and 2 of "Proofs as files". */
export function checkInclusionFile(bytes: Uint8Array, entry: Uint8Array): "proved" | "not_proved" | "malformed" {
  const proof = parseProofFile(bytes);
  if (proof === null) return "malformed";
  const { root, size } = proof.checkpoint;
  const found = rootByInclusion(leafHash(entry), proof.index, size, proof.hashes);
  return found !== null && equal(found, root) ? "proved" : "not_proved";
}

// -------------------------------------------------------------------------------------- witnesses

/** The tree that a witness cosigned last: size, LF, base64 of the root, LF; or null. */
export function parseLastTree(bytes: Uint8Array): TreeHead | null {
  const lines = parseUtf8(bytes)?.split("\n");
  if (lines === undefined || lines.length !== 3 || lines[2] !== "") return null;
  const size = parseLogNumber(lines[0]!);
  const root = parseBase64(lines[1]!);
  return size === null || root === null || root.length !== 32 ? null : { size, root };
}

export type WitnessAnswer = { readonly status: 200 | 400 | 403 | 404 | 422 } | { readonly status: 409; readonly size: bigint };

/** "Asking a witness": the first check that fails. */
export async function judgeRequest(body: Uint8Array, keys: readonly LogKey[], last: TreeHead | null): Promise<WitnessAnswer> {
  const request = parseRequest(body);
  if (request === null) return { status: 400 };
  const { old, hashes, checkpoint } = request;
  const ours = keys.filter((key) => isOfLog(key) && key.name === checkpoint.origin);
  if (ours.length === 0) return { status: 404 };
  if (!(await isSignedBy(checkpoint, ours))) return { status: 403 };
  if (old > checkpoint.size) return { status: 400 };
  const known = last ?? { size: 0n, root: emptyRoot() };
  if (old !== known.size) return { status: 409, size: known.size };
  if (isImpossible(checkpoint)) return { status: 422 };
  return { status: checkConsistency(known, checkpoint, hashes) ? 200 : 422 };
}

function parseRequest(body: Uint8Array): { old: bigint; hashes: Uint8Array[]; checkpoint: LogCheckpoint } | null {
  const cut = body.length > MAX_WITNESS_BODY_BYTES ? null : cutAtBlankLine(body);
  if (cut === null) return null;
  const [first, ...hashLines] = cut.lines;
  const old = first?.startsWith("old ") === true ? parseLogNumber(first.slice(4)) : null;
  const hashes = hashesOf(hashLines);
  const checkpoint = parseWithAnyRoot(cut.rest);
  return old === null || hashes === null || checkpoint === null ? null : { old, hashes, checkpoint };
}

/** One of these keys signed, and no line of one is bad. */
async function isSignedBy(checkpoint: LogCheckpoint, keys: readonly LogKey[]): Promise<boolean> {
  let signed = false;
  for (const line of checkpoint.note.lines) {
    const claimed = keys.filter((key) => claims(key, line));
    if (claimed.length === 0) continue;
    const times = await Promise.all(claimed.map((key) => timeOfLine(key, checkpoint, line)));
    if (times.every((time) => time === null)) return false;
    signed = true;
  }
  return signed;
}

// ------------------------------------------------------------------------- keys of logs and witnesses

export interface LogKey {
  readonly name: string;
  readonly type: number;
  readonly id: Uint8Array;
  readonly key: Uint8Array;
}

const LOG_TYPE = 0x01;
const WITNESS_TYPE = 0x04;
const ML_DSA_TYPE = 0x06;

function isOfLog(key: LogKey): boolean {
  return key.type !== WITNESS_TYPE && !key.name.startsWith("threadseal/");
}

function isOfWitness(key: LogKey): boolean {
  return key.type !== LOG_TYPE;
}

/** Reads a verifier key of a log or a witness, or null. */
export function parseLogKey(text: string): LogKey | null {
  const [name, idText, ...rest] = text.split("+");
  const bytes = parseBase64(rest.join("+"));
  const id = parseHex(idText ?? "", 4);
  if (name === undefined || !isKeyName(name) || id === null || bytes === null || bytes.length === 0) return null;
  const computed = sha256(utf8(name), Uint8Array.of(0x0a), bytes).subarray(0, 4);
  const key = bytes.slice(1);
  return equal(computed, id) && isKeyOfType(bytes[0]!, key) ? { name, type: bytes[0]!, id, key } : null;
}

function isKeyOfType(type: number, key: Uint8Array): boolean {
  if (type === ML_DSA_TYPE) return key.length === ML_DSA_KEY_BYTES;
  return (type === LOG_TYPE || type === WITNESS_TYPE) && key.length === 32 && isPublicKey(key);
}

function claims(key: LogKey, line: NoteLine): boolean {
  return key.name === line.name && equal(key.id, line.id);
}

/** The time of a line of this key, 0 where it names none; null where it is a bad line. */
async function timeOfLine(key: LogKey, checkpoint: LogCheckpoint, line: NoteLine): Promise<bigint | null> {
  const { text } = checkpoint.note;
  if (key.type === LOG_TYPE) return (await verify(key.key, utf8(text), line.signature)) ? 0n : null;
  if (line.signature.length < 8) return null;
  const time = BigInt(`0x${hex(line.signature.subarray(0, 8))}`);
  const signature = line.signature.subarray(8);
  if (time > MAX_I63) return null;
  if (key.type === WITNESS_TYPE) {
    const message = utf8(`cosignature/v1\ntime ${time}\n${text}`);
    return time > 0n && (await verify(key.key, message, signature)) ? time : null;
  }
  const message = subtreeMessage(key.name, time, checkpoint);
  return message !== null && verifyMlDsa(key.key, message, signature) ? time : null;
}

/** What a key of ML-DSA-44 signs; null where that would not cover all of the checkpoint. */
function subtreeMessage(name: string, time: bigint, checkpoint: LogCheckpoint): Uint8Array | null {
  const short = (text: string): Uint8Array | null => {
    const bytes = utf8(text);
    return bytes.length > 255 ? null : concat(Uint8Array.of(bytes.length), bytes);
  };
  const [signer, origin] = [short(name), short(checkpoint.origin)];
  if (signer === null || origin === null || checkpoint.extensions.length > 0) return null;
  return concat(utf8("subtree/v1\n\0"), signer, u64(time), origin, u64(0n), u64(checkpoint.size), checkpoint.root);
}

function u64(value: bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, value);
  return bytes;
}

// --------------------------------------------------------------------------------------- policies

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

/** Reads a policy, or null where it is refused. */
export function parsePolicy(bytes: Uint8Array): Policy | null {
  const text = bytes.length > MAX_POLICY_BYTES ? "" : bytesAsText(bytes);
  if (!text.endsWith("\n") || /[\u0000-\u0008\u000b-\u001f\u007f]/.test(text)) return null;
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
      const key = keyOf(first);
      if (key === null || !isOfLog(key)) return null;
      logs.push(key);
    } else if (word === "witness" && second !== undefined && items.length <= 3) {
      const key = keyOf(second);
      if (key === null || !isOfWitness(key) || first === "none" || isDefined(first)) return null;
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

/** One character for each byte: names and addresses are any bytes. */
function bytesAsText(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

/** The verifier key in an item of a line; its name is UTF-8. */
function keyOf(item: string): LogKey | null {
  const text = parseUtf8(Uint8Array.from(item, (c) => c.charCodeAt(0)));
  return text === null ? null : parseLogKey(text);
}

export type PolicyAnswer =
  | { readonly answer: "met"; readonly at: bigint }
  | { readonly answer: "log alone" | "not met" | "bad line" };

/** "Judging a note". */
export async function judgeByPolicy(checkpoint: LogCheckpoint, policy: Policy): Promise<PolicyAnswer> {
  let logSigned = false;
  const cosigned = new Map<string, bigint>();
  for (const line of checkpoint.note.lines) {
    const logs = policy.logs.filter((key) => claims(key, line));
    const witnesses = [...policy.witnesses].filter(([, key]) => claims(key, line));
    let good = logs.length + witnesses.length === 0;
    for (const key of logs) {
      if ((await timeOfLine(key, checkpoint, line)) === null) continue;
      good = true;
      if (key.name === checkpoint.origin) logSigned = true;
    }
    for (const [name, key] of witnesses) {
      const time = await timeOfLine(key, checkpoint, line);
      if (time === null) continue;
      good = true;
      if (time > (cosigned.get(name) ?? 0n)) cosigned.set(name, time);
    }
    if (!good) return { answer: "bad line" };
  }
  if (!logSigned) return { answer: "not met" };
  if (policy.quorum === "none") return { answer: "log alone" };
  const at = metAt(policy, policy.quorum, cosigned);
  return at === null ? { answer: "not met" } : { answer: "met", at };
}

/** The latest time such that the cosignatures of that time or later meet the policy. */
function metAt(policy: Policy, quorum: string, cosigned: ReadonlyMap<string, bigint>): bigint | null {
  const times = [...cosigned.values()].sort((a, b) => (a < b ? 1 : -1));
  const from = (time: bigint): Set<string> => new Set([...cosigned].filter(([, at]) => at >= time).map(([name]) => name));
  return times.find((time) => isMet(policy, quorum, from(time))) ?? null;
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
