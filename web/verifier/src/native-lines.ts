// The lines of native records (transcript.md §1 to §5, §10): their frame, the manifest, checkpoints, and
// the payloads that have one spelling.

import { ascii, base64, equal, hasAt, hex, parseBase64, parseBase64Url, parseHex, parseNumber, utf8 } from "./bytes.js";
import { type Json, compareCodePoints, hasLoneSurrogate, memberOf, nativeString, readStrict, rye, textOf } from "./canon.js";
import { isPublicKey, verify } from "./ed25519.js";
import { endOfValue, validateAscii } from "./json.js";
import { MAX_LINE_BYTES } from "./lines.js";
import { verifyNoteLine } from "./note.js";
import { sha256, tagged } from "./sha256.js";

export { MAX_LINE_BYTES } from "./lines.js";
export const MAX_THREAD_ID_BYTES = 512;
export const MAX_EVENT_TYPE_BYTES = 128;
export const MAX_RECORD_KEYS = 1024;
export const MAX_ADOPTED_TAILS = 65_536;
export const MAX_RECORD_BODIES = 1_048_576;
export const MAX_REDACTED_AT_ONCE = 65_536;

export const MAX_BY_BYTES = 256;
export const MAX_WHY_BYTES = 4096;
const LAST_SECOND = 253402300799;
const RECORD_FORMAT = "threadseal/1";

// ------------------------------------------------------------------------------------------ types

export type EventKind = "manifest" | "checkpoint" | "key" | "delegation" | "authority" | "tail_dropped"
  | "tail_adopted" | "redacted" | "link" | "terminal" | "free";

const KINDS = new Map<string, EventKind>([
  ["thread_started", "manifest"],
  ["checkpoint", "checkpoint"],
  ["key", "key"],
  ["delegation", "delegation"],
  ["authority", "authority"],
  ["tail_dropped", "tail_dropped"],
  ["tail_adopted", "tail_adopted"],
  ["redacted", "redacted"],
  ["thread_resumed", "link"],
  ["thread_handoff", "link"],
  ["thread_completed", "terminal"],
  ["thread_error", "terminal"],
  ["thread_cancelled", "terminal"],
  ["thread_continued", "terminal"],
  ["thread_suspended", "terminal"],
]);

// ------------------------------------------------------------------------------------------ frame

export interface NativeLine {
  readonly bytes: Uint8Array;
  /** Seconds, a point, six digits. */
  readonly timestamp: string;
  /** The id as it is spelled, quotes included. */
  readonly id: Uint8Array;
  readonly kind: EventKind;
  readonly salt: string;
  /** Where the payload begins; it ends before the last byte of the line. */
  readonly payloadAt: number;
}

/** Reads a line by §1, or null. An id that is spelled as `known` needs no second look. */
export function parseNativeLine(bytes: Uint8Array, known: Uint8Array | null = null): NativeLine | null {
  const line = parseFrame(bytes, known);
  return line !== null && validateAscii(bytes, line.payloadAt, bytes.length - 1) ? line : null;
}

/** Reads the frame of a line, or null. Of the payload only the first and the last byte are looked at. */
function parseFrame(bytes: Uint8Array, known: Uint8Array | null = null): NativeLine | null {
  if (bytes.length + 1 > MAX_LINE_BYTES || !isPrintable(bytes)) return null;
  if (!hasAt(bytes, 0, '{"timestamp":')) return null;
  let at = 13;
  const comma = bytes.indexOf(0x2c, at);
  if (comma < 0 || comma - at > 19) return null;
  const timestamp = ascii(bytes, at, comma);
  if (!isTimestamp(timestamp) || !hasAt(bytes, comma, ',"thread_id":')) return null;
  at = comma + 13;
  const idEnd = endOfString(bytes, at);
  if (idEnd < 0) return null;
  const id = bytes.subarray(at, idEnd);
  if ((known === null || !equal(id, known)) && parseId(id) === null) return null;
  if (!hasAt(bytes, idEnd, ',"event_type":"')) return null;
  at = idEnd + 15;
  const typeEnd = bytes.indexOf(0x22, at);
  if (typeEnd <= at || typeEnd - at > MAX_EVENT_TYPE_BYTES) return null;
  const type = ascii(bytes, at, typeEnd);
  if (!/^[\x21-\x7e]+$/.test(type) || type.includes("\\")) return null;
  if (!hasAt(bytes, typeEnd, '","salt":"')) return null;
  at = typeEnd + 10;
  const salt = ascii(bytes, at, Math.min(at + 32, bytes.length));
  if (!/^[0-9a-f]{32}$/.test(salt) || !hasAt(bytes, at + 32, '","payload":')) return null;
  const payloadAt = at + 44;
  const end = bytes.length - 1;
  if (bytes[payloadAt] !== 0x7b || bytes[end] !== 0x7d || bytes[end - 1] !== 0x7d || payloadAt >= end) return null;
  return { bytes, timestamp, id, kind: KINDS.get(type) ?? "free", salt, payloadAt };
}

/** The payload of a line as text. */
export function payloadText(line: NativeLine): string {
  return ascii(line.bytes, line.payloadAt, line.bytes.length - 1);
}

function isPrintable(bytes: Uint8Array): boolean {
  for (let i = 0; i < bytes.length; i++) {
    const c = bytes[i]!;
    if (c < 0x20 || c > 0x7e) return false;
  }
  return true;
}

/** `T` of §1. */
export function isTimestamp(text: string): boolean {
  if (!/^(?:0|[1-9][0-9]{0,11})\.[0-9]{6}$/.test(text)) return false;
  return Number(text.slice(0, -7)) <= LAST_SECOND;
}

/** `T` without its fraction, as `YYYY-MM-DDTHH:MM:SSZ`. */
export function isoSeconds(timestamp: string): string {
  return `${new Date(Number(timestamp.slice(0, -7)) * 1000).toISOString().slice(0, 19)}Z`;
}

/** The place behind the string that begins here, or -1. */
function endOfString(bytes: Uint8Array, at: number): number {
  if (bytes[at] !== 0x22) return -1;
  for (let i = at + 1; i < bytes.length; i++) {
    if (bytes[i] === 0x5c) i++;
    else if (bytes[i] === 0x22) return i + 1;
  }
  return -1;
}

/** The text of a thread id in its native spelling, or null. */
export function parseId(spelled: Uint8Array): string | null {
  return parseNativeText(ascii(spelled), MAX_THREAD_ID_BYTES);
}

/** A text of 1 to `max` bytes in the native spelling, or null. */
export function parseNativeText(spelled: string, max: number): string | null {
  const text = unquoted(spelled);
  if (text === null || hasLoneSurrogate(text) || nativeString(text) !== spelled) return null;
  const length = utf8(text).length;
  return length >= 1 && length <= max ? text : null;
}

function unquoted(spelled: string): string | null {
  if (!spelled.startsWith('"')) return null;
  try {
    const value: unknown = JSON.parse(spelled);
    return typeof value === "string" ? value : null;
  } catch {
    return null;
  }
}

/** Whether a thread id is usable as a path (§1). */
export function isThreadPath(text: string): boolean {
  if (/[\\\p{Cc}]/u.test(text)) return false;
  return text.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}

// ------------------------------------------------------------------------------------------ heads

export interface Head {
  readonly record: string;
  readonly seq: bigint;
  readonly size: bigint;
  readonly line: string;
}

/** Reads `<record>:<seq>:<size>:<sha256>` (§6), or null. */
export function parseNativeHead(text: string): Head | null {
  const parts = /^([0-9a-f]{64}):([0-9]+):([0-9]+):([0-9a-f]{64})$/.exec(text);
  const seq = parseNumber(parts?.[2] ?? "");
  const size = parseNumber(parts?.[3] ?? "");
  if (parts === null || seq === null || size === null) return null;
  return { record: parts[1]!, seq, size, line: parts[4]! };
}

export function headText(head: Head): string {
  return `${head.record}:${head.seq}:${head.size}:${head.line}`;
}

// --------------------------------------------------------------------------------------- manifest

export interface Manifest {
  readonly line: Uint8Array;
  /** The first line of the record's notes. */
  readonly origin: string;
  readonly thread: string;
  readonly id: Uint8Array;
  readonly record: Uint8Array;
  readonly authority: Uint8Array;
  readonly key: Uint8Array;
  readonly split: boolean;
  readonly delegation: Uint8Array | null;
  readonly ryeKey: Uint8Array;
  readonly detached: boolean;
  readonly payload: Json;
}

const MANIFEST_MEMBERS = ["format", "record", "authority", "key", "delegation", "rye_key", "directive", "model",
  "capabilities", "limits", "bodies", "anchors", "predecessor", "parent", "workspace", "meta"];

/** Reads a native line as a manifest (§2), or null. */
export function parseManifest(line: NativeLine): Manifest | null {
  const thread = parseId(line.id);
  const reading = readStrict(line.bytes.subarray(line.payloadAt, line.bytes.length - 1));
  if (line.kind !== "manifest" || thread === null || !reading.ok || reading.value.kind !== "object") return null;
  const payload = reading.value;
  if (payload.members.length !== MANIFEST_MEMBERS.length) return null;
  if (!payload.members.every((member, i) => member.name === MANIFEST_MEMBERS[i])) return null;
  const text = (name: string): string => textOf(memberOf(payload, name)) ?? "";
  const record = parseHex(text("record"), 32);
  const authority = parsePublicKey(text("authority"));
  const key = parsePublicKey(text("key"));
  const ryeKey = parsePublicKey(text("rye_key"));
  if (text("format") !== RECORD_FORMAT || record === null || authority === null || key === null || ryeKey === null) {
    return null;
  }
  const split = !equal(key, authority);
  const delegation = parseSignature(text("delegation"));
  if (split ? delegation === null : memberOf(payload, "delegation")?.kind !== "null") return null;
  const texts = ["directive", "model", "workspace"].every((name) => isTextOrNull(memberOf(payload, name)));
  const lists = ["capabilities", "anchors"].every((name) => isListOfTexts(memberOf(payload, name)));
  const objects = ["limits", "meta"].every((name) => memberOf(payload, name)?.kind === "object");
  const heads = ["predecessor", "parent"].every((name) => isHeadOrNull(memberOf(payload, name)));
  const bodies = text("bodies");
  if (!texts || !lists || !objects || !heads || (bodies !== "inline" && bodies !== "detached")) return null;
  const bytes = line.bytes.slice();
  return {
    line: bytes, origin: `threadseal/1/transcript/${hex(sha256(bytes))}`, thread, id: line.id.slice(), record,
    authority, key, split, delegation, ryeKey, detached: bodies === "detached", payload,
  };
}

export function parsePublicKey(text: string): Uint8Array | null {
  const key = parseHex(text, 32);
  return key !== null && isPublicKey(key) ? key : null;
}

export function parseSignature(text: string): Uint8Array | null {
  const bytes = text.length === 88 ? parseBase64(text) : null;
  return bytes !== null && bytes.length === 64 ? bytes : null;
}

function isTextOrNull(value: Json | null): boolean {
  return value !== null && (value.kind === "string" || value.kind === "null");
}

function isListOfTexts(value: Json | null): boolean {
  return value !== null && value.kind === "array" && value.items.every((item) => item.kind === "string");
}

function isHeadOrNull(value: Json | null): boolean {
  if (value === null) return false;
  return value.kind === "null" || (value.kind === "string" && parseNativeHead(value.value) !== null);
}

const TAGGED_PREFIX = utf8("threadseal/1 signed digest\0");

/** The signed bytes of the kind "tagged" (keys-and-trust.md §4). */
export function taggedMessage(tag: string, parts: readonly (Uint8Array | string)[]): Uint8Array {
  const message = new Uint8Array(TAGGED_PREFIX.length + 32);
  message.set(TAGGED_PREFIX);
  message.set(tagged(tag, parts), TAGGED_PREFIX.length);
  return message;
}

/** Whether the authority let the first key in, where that is another key (§5). */
export async function delegationHolds(manifest: Manifest): Promise<boolean> {
  if (!manifest.split) return true;
  if (manifest.delegation === null || manifest.payload.kind !== "object") return false;
  const members = manifest.payload.members.map((member) => {
    const value = member.name === "delegation" ? utf8("null") : rye(member.value);
    return `"${member.name}":${ascii(value)}`;
  });
  const message = taggedMessage("threadseal/1 first key", [manifest.thread, `{${members.join(",")}}`]);
  return verify(manifest.authority, message, manifest.delegation);
}

// ------------------------------------------------------------------------------------ checkpoints

export interface Checkpoint {
  readonly turn: bigint;
  readonly byteOffset: bigint;
  readonly hash: string;
  readonly sig: Uint8Array;
  readonly fp: string;
  readonly seq: bigint;
  readonly lines: bigint;
  readonly root: Uint8Array;
  readonly prev: string | null;
  readonly final: boolean;
  /** Key id of the signer, hex. */
  readonly key: string;
  readonly fence: bigint | null;
  readonly nextKey: Uint8Array | null;
  /** The text that the note's signature covers. */
  readonly noteText: string;
  /** Id and signature of the note. */
  readonly noteBytes: Uint8Array;
  /** SHA-256 of the line. */
  readonly digest: string;
}

export type CheckpointFault = "checkpoint_malformed" | "ext_unknown" | "checkpoint_altered";

class Cursor {
  constructor(
    readonly text: string,
    public at: number,
  ) {}

  /** Moves behind the literal, if it is here. */
  literal(text: string): boolean {
    if (!this.text.startsWith(text, this.at)) return false;
    this.at += text.length;
    return true;
  }

  /** Moves behind the match of a sticky pattern: its text, or null. */
  match(pattern: RegExp): string | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found === null) return null;
    this.at += found[0].length;
    return found[0];
  }

  number(): bigint | null {
    const digits = this.match(/[0-9]+/y);
    return digits === null ? null : parseNumber(digits);
  }

  hex(digits: number): string | null {
    const text = this.text.slice(this.at, this.at + digits);
    if (text.length !== digits || !/^[0-9a-f]+$/.test(text)) return null;
    this.at += digits;
    return text;
  }
}

/** Reads the payload of a `checkpoint` line by §3; steps 1 to 3 of §7 B. */
export function parseCheckpoint(line: NativeLine, origin: string): Checkpoint | CheckpointFault {
  const text = ascii(line.bytes);
  const c = new Cursor(text, line.payloadAt);
  const turn = c.literal('{"turn":') ? c.number() : null;
  const byteOffset = turn !== null && c.literal(',"byte_offset":') ? c.number() : null;
  const hash = byteOffset !== null && c.literal(',"hash":"') ? c.hex(64) : null;
  const sigText = hash !== null && c.literal('","sig":"') ? c.match(/[A-Za-z0-9_-]{86}==/y) : null;
  const sig = sigText === null ? null : parseBase64Url(sigText, "required");
  const fp = sig !== null && c.literal('","fp":"') ? c.hex(16) : null;
  const ts = c.literal(`","ts":"${isoSeconds(line.timestamp)}","seal":{"seq":`);
  const seq = fp !== null && ts ? c.number() : null;
  const lines = seq !== null && c.literal(',"lines":') ? c.number() : null;
  const root = lines !== null && c.literal(',"root":"') ? c.hex(64) : null;
  const prevText = root !== null && c.literal('","prev":') ? c.match(/null|"[0-9a-f]{64}"/y) : null;
  const finalText = prevText !== null && c.literal(',"final":') ? c.match(/true|false/y) : null;
  const key = finalText !== null && c.literal(',"key":"') ? c.hex(64) : null;
  if (turn === null || byteOffset === null || hash === null || sig === null || fp === null || seq === null) {
    return "checkpoint_malformed";
  }
  if (lines === null || root === null || key === null || !c.literal('","ext":{')) return "checkpoint_malformed";
  const extAt = c.at - 1;
  const extEnd = endOfValue(line.bytes, extAt, line.bytes.length);
  c.at = extEnd;
  if (extEnd < 0 || !c.literal(',"note":"')) return "checkpoint_malformed";
  const ext = parseExt(line.bytes.subarray(extAt, extEnd));
  if (typeof ext === "string") return ext;
  const noteEnd = text.length - END_OF_LINE.length;
  if (noteEnd < c.at || !text.endsWith(END_OF_LINE)) return "checkpoint_malformed";
  const rootBytes = parseHex(root, 32)!;
  const digest = hex(tagged("threadseal/1 checkpoint line", [line.bytes.subarray(0, c.at)]));
  const noteText = `${origin}\n${lines}\n${base64(rootBytes)}\nline ${digest}\n`;
  if (!c.literal(`${noteText.replaceAll("\n", "\\n")}\\n\\u2014 ${origin} `)) return "checkpoint_altered";
  const noteBytes = parseBase64(text.slice(c.at, noteEnd));
  if (noteBytes === null || noteBytes.length !== 68) return "checkpoint_altered";
  return {
    turn, byteOffset, hash, sig, fp, seq, lines, root: rootBytes,
    prev: prevText === "null" || prevText === null ? null : prevText.slice(1, -1),
    final: finalText === "true", key, fence: ext.fence, nextKey: ext.nextKey, noteText, noteBytes,
    digest: hex(sha256(line.bytes)),
  };
}

const END_OF_LINE = '\\n"}}}';

interface Ext {
  fence: bigint | null;
  nextKey: Uint8Array | null;
}

/** Reads `ext`: the first member that is not as it must be decides, then the spelling. */
function parseExt(bytes: Uint8Array): Ext | "ext_unknown" | "checkpoint_malformed" {
  const reading = readStrict(bytes);
  if (!reading.ok || reading.value.kind !== "object") return "checkpoint_malformed";
  const ext: Ext = { fence: null, nextKey: null };
  for (const { name, value } of reading.value.members) {
    if (!EXT_MEMBERS.has(name) && !name.startsWith("opt_")) return "ext_unknown";
    if (!readExtMember(name, value, ext)) return "checkpoint_malformed";
  }
  const members = [...reading.value.members].sort((a, b) => compareCodePoints(a.name, b.name));
  const spelled = members.map((member) => `${nativeString(member.name)}:${ascii(rye(member.value))}`);
  return equal(utf8(`{${spelled.join(",")}}`), bytes) ? ext : "checkpoint_malformed";
}

const EXT_MEMBERS = new Set(["children", "fence", "next_key", "successor"]);

function readExtMember(name: string, value: Json, ext: Ext): boolean {
  if (name === "fence") {
    ext.fence = value.kind === "number" ? parseNumber(value.text) : null;
    return ext.fence !== null;
  }
  if (name === "children") {
    return value.kind === "array" && value.items.length > 0
      && value.items.every((item) => item.kind === "string" && parseNativeHead(item.value) !== null);
  }
  const text = textOf(value);
  if (text === null) return false;
  if (name === "next_key") ext.nextKey = parsePublicKey(text);
  if (name === "next_key") return ext.nextKey !== null;
  return name !== "successor" || parseHex(text, 32) !== null;
}

/** Whether the note of a checkpoint verifies under a key. */
export function noteHolds(checkpoint: Checkpoint, origin: string, key: Uint8Array): Promise<boolean> {
  return verifyNoteLine(origin, key, checkpoint.noteText, checkpoint.noteBytes);
}

/** Whether `sig` of a checkpoint verifies under the Rye key of the record. */
export function sigHolds(checkpoint: Checkpoint, ryeKey: Uint8Array): Promise<boolean> {
  return verify(ryeKey, utf8(checkpoint.hash), checkpoint.sig);
}

// ----------------------------------------------------------------------------- reserved events

/** `{"next":K}` of a `key` event, or null. */
export function parseKeyEvent(payload: string): Uint8Array | null {
  const parts = /^\{"next":"([0-9a-f]{64})"\}$/.exec(payload);
  return parts === null ? null : parsePublicKey(parts[1]!);
}

export interface SignedKey {
  readonly key: Uint8Array;
  readonly signature: Uint8Array;
}

export function parseDelegation(payload: string): SignedKey | null {
  return parseSignedKey(/^\{"key":"([0-9a-f]{64})","signature":"([^"]{88})"\}$/, payload);
}

export function parseAuthority(payload: string): SignedKey | null {
  return parseSignedKey(/^\{"next":"([0-9a-f]{64})","signature":"([^"]{88})"\}$/, payload);
}

function parseSignedKey(form: RegExp, payload: string): SignedKey | null {
  const parts = form.exec(payload);
  const key = parsePublicKey(parts?.[1] ?? "");
  const signature = parseSignature(parts?.[2] ?? "");
  return key === null || signature === null ? null : { key, signature };
}

/** Whether the authority of line 1 signed a delegation to the key, in the record of this origin. */
export function delegatesTo(authority: Uint8Array, origin: string, one: SignedKey): Promise<boolean> {
  return verify(authority, taggedMessage("threadseal/1 delegation", [origin, one.key]), one.signature);
}

/** Whether the authority so far signed that the key takes its place. */
export function rotatesTo(authority: Uint8Array, one: SignedKey): Promise<boolean> {
  return verify(authority, taggedMessage("threadseal/1 key event", ["rotate", authority, one.key]), one.signature);
}

export interface TailDropped {
  readonly offset: bigint;
}

export function parseTailDropped(payload: string): TailDropped | null {
  const parts = /^\{"offset":([0-9]+),"length":([0-9]+),"sha256":"[0-9a-f]{64}"\}$/.exec(payload);
  const offset = parseNumber(parts?.[1] ?? "");
  return offset === null || parseNumber(parts?.[2] ?? "") === null ? null : { offset };
}

export interface TailAdopted {
  readonly from: bigint;
  readonly to: bigint;
  readonly lines: bigint;
  readonly sha256: string;
}

export function parseTailAdopted(payload: string): TailAdopted | null {
  const parts = /^\{"from":([0-9]+),"to":([0-9]+),"lines":([0-9]+),"sha256":"([0-9a-f]{64})"\}$/.exec(payload);
  const from = parseNumber(parts?.[1] ?? "");
  const to = parseNumber(parts?.[2] ?? "");
  const lines = parseNumber(parts?.[3] ?? "");
  return parts === null || from === null || to === null || lines === null ? null : { from, to, lines, sha256: parts[4]! };
}

export interface Redaction {
  readonly commitments: readonly string[];
  /** Key id, hex. */
  readonly key: string;
  readonly by: string;
  readonly why: string;
}

export function parseRedaction(payload: string): Redaction | null {
  const parts = /^\{"commitments":\[([^\]]*)\],"key":"([0-9a-f]{64})","by":(".*"),"why":(".*")\}$/.exec(payload);
  if (parts === null) return null;
  const spelled = parts[1]!.split(",");
  if (spelled.length > MAX_REDACTED_AT_ONCE || !spelled.every((one) => /^"[0-9a-f]{64}"$/.test(one))) return null;
  const by = parseNativeText(parts[3]!, MAX_BY_BYTES);
  const why = parseNativeText(parts[4]!, MAX_WHY_BYTES);
  if (by === null || why === null) return null;
  return { commitments: spelled.map((one) => one.slice(1, -1)), key: parts[2]!, by, why };
}

// ------------------------------------------------------------------------------------ commitments

export interface Commitment {
  readonly digest: string;
  /** Length of the body in bytes. */
  readonly bytes: bigint;
}

const COMMITMENT = '{"$body":{"commitment":"';
const DOLLAR = 0x24;
const COMMITMENT_FORM = /^([0-9a-f]{64})","bytes":([0-9]{1,20}),"kind":"(?:string|object|array)"\}\}/;
const COMMITMENT_REST = 160;

/** The commitments in the payload of a line, in order; null where one is misspelled. */
export function commitmentsOf(line: NativeLine): Commitment[] | null {
  const found: Commitment[] = [];
  const bytes = line.bytes;
  const end = bytes.length - 1;
  for (let at = bytes.indexOf(DOLLAR, line.payloadAt); at >= 0; at = bytes.indexOf(DOLLAR, at + 1)) {
    const begin = at - 2;
    if (begin < line.payloadAt || !hasAt(bytes, begin, COMMITMENT)) continue;
    const from = begin + COMMITMENT.length;
    const parts = COMMITMENT_FORM.exec(ascii(bytes, from, Math.min(from + COMMITMENT_REST, end)));
    const length = parseNumber(parts?.[2] ?? "");
    if (parts === null || length === null) return null;
    found.push({ digest: parts[1]!, bytes: length });
  }
  return found;
}

/** Whether lines of this kind may hold commitments (§10). */
export function mayCommit(kind: EventKind): boolean {
  return kind === "link" || kind === "terminal" || kind === "free";
}

export interface Body {
  readonly commitment: string;
  readonly salt: Uint8Array;
  readonly body: Uint8Array;
}

/** Reads a line of the file of bodies, or null. */
export function parseBodyLine(bytes: Uint8Array): Body | null {
  if (bytes.length + 1 > MAX_LINE_BYTES || !hasAt(bytes, 0, '{"commitment":"')) return null;
  const commitment = ascii(bytes, 15, Math.min(79, bytes.length));
  if (!/^[0-9a-f]{64}$/.test(commitment) || !hasAt(bytes, 79, '","salt":"')) return null;
  const salt = parseHex(ascii(bytes, 89, Math.min(153, bytes.length)), 32);
  if (salt === null || !hasAt(bytes, 153, '","body":') || bytes[bytes.length - 1] !== 0x7d) return null;
  const body = bytes.subarray(162, bytes.length - 1);
  if (body.length === 0 || isEdgeBlank(body[0]!) || isEdgeBlank(body[body.length - 1]!)) return null;
  if (body.some((byte) => byte > 0x7f) || !validateAscii(body, 0, body.length)) return null;
  return { commitment, salt, body };
}

function isEdgeBlank(c: number): boolean {
  return c === 0x20 || c === 0x09 || c === 0x0d;
}

/** Whether a body fits its commitment in the record. */
export function bodyFits(record: Uint8Array, body: Body): boolean {
  return hex(tagged("threadseal/1 body", [record, body.salt, body.body])) === body.commitment;
}
