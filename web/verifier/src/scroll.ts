// Scrolls: chains of sealed turns of agent-scroll v0.1 in an array, in lines or in a CBOR sequence.
// Rules: spec/scroll.md.

import { equal, hex, parseBase64 } from "./bytes.js";
import {
  type Json,
  type JsonObject,
  decimalValue,
  fewestEscapes,
  isBlank,
  jcs,
  jcsNumber,
  memberOf,
  readStrict,
  textOf,
  without,
} from "./canon.js";
import { MAX_CBOR_VALUES, decodeCbor, encodeCbor, itemEnd } from "./cbor.js";
import { isPublicKey, verify } from "./ed25519.js";
import { HeadWatch, parseHead } from "./heads.js";
import { Report, type Verdict, isEvidence } from "./report.js";
import { sha256 } from "./sha256.js";
import { type Trust, judgeSigners } from "./signers.js";

export const MAX_TURN_BYTES = 32 * 2 ** 20;
export const MAX_TURN_NUMBER = 2n ** 53n - 1n;
export const MAX_RECORD_KEYS = 1024;
const HEAD_BYTES = 65_536;
const DETECTED_TURNS = 64;

export interface ScrollOptions {
  readonly trust: Trust;
  /** An expected head from the caller, which vouches. */
  readonly head?: string;
  readonly exact?: boolean;
  readonly length?: number;
  /** The oldest moment, in nanoseconds, that a signed turn may have. */
  readonly oldest?: bigint;
  readonly strictDigits?: boolean;
  /** `--profile scroll-v0.1`: the codes of `partial` are warnings without a verdict. */
  readonly v01?: boolean;
}

// -------------------------------------------------------------------------------------- containers

export interface Piece {
  readonly from: number;
  readonly to: number;
  readonly unended: boolean;
}

export interface Container {
  readonly kind: "array" | "lines" | "sequence";
  readonly pieces: readonly Piece[];
  readonly fault: { readonly code: "no_array" | "stray_bytes" | "array_unended"; readonly at: number } | null;
}

/** scroll.md §7. */
export function splitScroll(b: Uint8Array): Container {
  let first = 0;
  while (isBlank(b[first])) first += 1;
  const c = b[first];
  if (c !== undefined && c >= 0xa0 && c <= 0xbf) return splitSequence(b);
  const container = c === 0x7b ? splitLines(b) : splitArray(b, first);
  if (looksLikeCbor(b) && !anyObject(b, container)) return splitSequence(b);
  return container;
}

const CBOR_HASH = "dhashxGsha256:";
const CBOR_NAMES = ["ltimestamp_ns", "gversion", "hmessages", "fparams", "emodel", CBOR_HASH];

/** A scroll in CBOR whose first byte is another one (report.md §5, "Turns of a scroll"). */
function looksLikeCbor(b: Uint8Array): boolean {
  const head = b.subarray(0, HEAD_BYTES);
  if (!head.some((byte) => byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d)) return false;
  const text = new TextDecoder("latin1").decode(head);
  return text.includes(CBOR_HASH) || CBOR_NAMES.filter((name) => text.includes(name)).length >= 5;
}

/** Whether one of the first turns can be read as an object. */
function anyObject(b: Uint8Array, container: Container): boolean {
  return container.pieces.slice(0, DETECTED_TURNS).some((piece) => {
    const reading = readStrict(b.subarray(piece.from, piece.to));
    return reading.ok && reading.value.kind === "object";
  });
}

function trimmed(b: Uint8Array, from: number, to: number, unended: boolean): Piece {
  while (from < to && isBlank(b[from])) from += 1;
  while (to > from && isBlank(b[to - 1])) to -= 1;
  return { from, to, unended };
}

function splitLines(b: Uint8Array): Container {
  const pieces: Piece[] = [];
  let from = 0;
  while (from < b.length) {
    const lf = b.indexOf(0x0a, from);
    const to = lf < 0 ? b.length : lf;
    const piece = trimmed(b, from, to, lf < 0);
    if (piece.to > piece.from) pieces.push(piece);
    from = to + 1;
  }
  return { kind: "lines", pieces, fault: null };
}

function splitSequence(b: Uint8Array): Container {
  const pieces: Piece[] = [];
  let from = 0;
  while (from < b.length) {
    const item = itemEnd(b, from);
    if (item.kind === "stray") return { kind: "sequence", pieces, fault: { code: "stray_bytes", at: from } };
    if (item.kind === "unended") {
      pieces.push({ from, to: b.length, unended: true });
      break;
    }
    pieces.push({ from, to: item.end, unended: false });
    from = item.end;
  }
  return { kind: "sequence", pieces, fault: null };
}

type Fault = NonNullable<Container["fault"]>;

function splitArray(b: Uint8Array, first: number): Container {
  const pieces: Piece[] = [];
  if (b[first] !== 0x5b) return { kind: "array", pieces, fault: { code: "no_array", at: first } };
  let fault: Fault | null = null;
  const found = (code: Fault["code"], place: number): void => {
    fault ??= { code, at: place };
  };
  let at = first + 1;
  let afterComma = false;
  for (;;) {
    while (isBlank(b[at])) at += 1;
    const c = b[at];
    if (c === undefined) {
      found("array_unended", b.length);
      break;
    }
    if (c === 0x7d) {
      found("stray_bytes", at);
      break;
    }
    if (c === 0x2c) {
      found("stray_bytes", at);
      at += 1;
      afterComma = true;
      continue;
    }
    if (c === 0x5d) {
      if (afterComma) found("stray_bytes", at);
      checkAfterArray(b, at + 1, found);
      break;
    }
    const to = pieceEnd(b, at);
    pieces.push(trimmed(b, at, to, to >= b.length));
    at = to;
    const end = b[at];
    if (end === 0x2c) {
      at += 1;
      afterComma = true;
      continue;
    }
    if (end === undefined) found("array_unended", b.length);
    else if (end === 0x5d) checkAfterArray(b, at + 1, found);
    else found("stray_bytes", at);
    break;
  }
  return { kind: "array", pieces, fault };
}

function checkAfterArray(b: Uint8Array, at: number, found: (code: Fault["code"], at: number) => void): void {
  while (isBlank(b[at])) at += 1;
  if (at < b.length) found("stray_bytes", at);
}

/** The place of the byte that ends the piece: a comma or a bracket that it did not open, or the end. */
function pieceEnd(b: Uint8Array, at: number): number {
  let open = 0;
  let quoted = false;
  for (; at < b.length; at += 1) {
    const c = b[at]!;
    if (quoted) {
      if (c === 0x5c) at += 1;
      else if (c === 0x22) quoted = false;
      continue;
    }
    if (c === 0x22) quoted = true;
    else if (c === 0x5b || c === 0x7b) open += 1;
    else if (c === 0x5d || c === 0x7d) {
      if (open === 0) return at;
      open -= 1;
    } else if (c === 0x2c && open === 0) return at;
  }
  return b.length;
}

// ------------------------------------------------------------------------------------ one turn

interface Body {
  readonly hash: string;
  readonly value: Json;
}

interface Signature {
  readonly key: Uint8Array;
  readonly bytes: Uint8Array;
  readonly members: JsonObject;
}

export interface Turn {
  readonly tree: JsonObject;
  readonly number: bigint;
  readonly hash: string;
  readonly prevHash: string | null;
  readonly encoding: "json" | "cbor";
  readonly covered: Uint8Array;
  readonly timestamp: bigint;
  readonly bodies: readonly Body[];
  readonly signature: Signature | null;
}

const HASH = /^sha256:[0-9a-f]{64}$/;
const ROLES = ["user", "assistant", "tool", "system"];

function isHash(value: Json | null): boolean {
  const text = textOf(value);
  return text !== null && HASH.test(text);
}

/** The integer that the canonical text spells, where it is one in the range. */
function integerOf(value: Json | null, least: bigint, most: bigint): bigint | null {
  if (value === null || value.kind !== "number") return null;
  const text = jcsNumber(value.text);
  if (text === null || !/^-?[0-9]+$/.test(text)) return null;
  const n = BigInt(text);
  return n >= least && n <= most ? n : null;
}

function isNumber(value: Json | null): boolean {
  return value !== null && value.kind === "number" && jcsNumber(value.text) !== null;
}

function isTextPlus(value: Json | null): boolean {
  const text = textOf(value);
  return text !== null && text !== "";
}

function isText(value: Json | null): boolean {
  return textOf(value) !== null;
}

function absentOr(value: Json | null, holds: (value: Json) => boolean): boolean {
  return value === null || holds(value);
}

function isInt64(value: Json): boolean {
  return integerOf(value, -(2n ** 63n), 2n ** 63n - 1n) !== null;
}

function isModel(value: Json | null): boolean {
  if (value === null || value.kind !== "object") return false;
  if (!isTextPlus(memberOf(value, "vendor")) || !isTextPlus(memberOf(value, "id"))) return false;
  return absentOr(memberOf(value, "fingerprint"), isText);
}

function isParams(value: Json | null): boolean {
  if (value === null || value.kind !== "object") return false;
  if (!isNumber(memberOf(value, "temperature")) || !isNumber(memberOf(value, "top_p"))) return false;
  return absentOr(memberOf(value, "seed"), isInt64) && absentOr(memberOf(value, "max_tokens"), isInt64);
}

function isMessage(value: Json): boolean {
  if (value.kind !== "object" || !isText(memberOf(value, "role"))) return false;
  const content = memberOf(value, "content");
  return content !== null && (content.kind === "string" || content.kind === "array");
}

function isCall(value: Json): boolean {
  if (value.kind !== "object") return false;
  return isText(memberOf(value, "id")) && isText(memberOf(value, "name")) && isHash(memberOf(value, "args_hash"));
}

function isResult(value: Json): boolean {
  if (value.kind !== "object" || !isText(memberOf(value, "id"))) return false;
  const status = textOf(memberOf(value, "status"));
  return (status === "ok" || status === "error") && isHash(memberOf(value, "response_hash"));
}

function isListOf(value: Json | null, holds: (item: Json) => boolean): boolean {
  return value !== null && value.kind === "array" && value.items.every(holds);
}

function bodiesOf(turn: Json): Body[] {
  const bodies: Body[] = [];
  const collect = (list: Json | null, body: string, hash: string): void => {
    if (list === null || list.kind !== "array") return;
    for (const item of list.items) {
      const value = memberOf(item, body);
      if (value !== null) bodies.push({ hash: textOf(memberOf(item, hash)) ?? "", value });
    }
  };
  collect(memberOf(turn, "tool_calls"), "args", "args_hash");
  collect(memberOf(turn, "tool_results"), "response", "response_hash");
  return bodies;
}

/** `undefined` where there is none, null where it breaks a rule. */
function signatureOf(value: Json | null): Signature | null | undefined {
  if (value === null) return undefined;
  if (value.kind !== "object" || textOf(memberOf(value, "alg")) !== "ed25519") return null;
  const key = parseBase64(textOf(memberOf(value, "pubkey")) ?? "");
  const bytes = parseBase64(textOf(memberOf(value, "sig")) ?? "");
  if (key === null || key.length !== 32 || bytes === null || bytes.length !== 64) return null;
  return { key, bytes, members: value };
}

function countValues(value: Json): number {
  if (value.kind === "array") return value.items.reduce((n, item) => n + countValues(item), 1);
  if (value.kind === "object") return value.members.reduce((n, m) => n + countValues(m.value), 1);
  return 1;
}

/** scroll.md §3: the sealed turn, or null where a rule is broken. */
export function turnOf(tree: Json): Turn | null {
  if (tree.kind !== "object") return null;
  const get = (name: string): Json | null => memberOf(tree, name);
  if (textOf(get("version")) !== "scroll/0.1") return null;
  const number = integerOf(get("turn"), 0n, MAX_TURN_NUMBER);
  const timestamp = integerOf(get("timestamp_ns"), 0n, 2n ** 64n - 1n);
  if (number === null || timestamp === null) return null;
  if (!ROLES.includes(textOf(get("role")) ?? "")) return null;
  if (!isModel(get("model")) || !isParams(get("params")) || !isListOf(get("messages"), isMessage)) return null;
  if (!absentOr(get("tool_calls"), (list) => isListOf(list, isCall))) return null;
  if (!absentOr(get("tool_results"), (list) => isListOf(list, isResult))) return null;
  if (!absentOr(get("prev_hash"), isHash) || !isHash(get("hash"))) return null;
  if (!absentOr(get("enc"), (enc) => textOf(enc) === "cbor")) return null;
  const signature = signatureOf(get("sig"));
  if (signature === null) return null;
  const encoding = get("enc") === null ? "json" : "cbor";
  if (encoding === "cbor" && countValues(tree) > MAX_CBOR_VALUES) return null;
  // The whole turn must have a canonical text: an integer beyond doubles has none.
  if (jcs(tree) === null) return null;
  const unsealed = without(tree, ["hash", "sig"]);
  const covered = encoding === "cbor" ? encodeCbor(unsealed) : jcs(unsealed);
  if (covered === null) return null;
  return {
    tree,
    number,
    hash: textOf(get("hash"))!,
    prevHash: textOf(get("prev_hash")),
    encoding,
    covered,
    timestamp,
    bodies: bodiesOf(tree),
    signature: signature ?? null,
  };
}

function digestText(bytes: Uint8Array): string {
  return `sha256:${hex(sha256(bytes))}`;
}

// ------------------------------------------------------------------------------- uncovered content

interface Uncovered {
  inexact: number | null;
  spelling: number | null;
  timestamp: boolean;
}

function differInOneByte(x: string, y: string): boolean {
  if (x.length !== y.length) return false;
  let n = 0;
  for (let i = 0; i < x.length; i += 1) if (x[i] !== y[i]) n += 1;
  return n === 1;
}

function lookAtNumber(text: string, at: number, exempt: boolean, found: Uncovered): void {
  const canonical = jcsNumber(text) ?? text;
  if (decimalValue(text) !== decimalValue(canonical)) {
    if (exempt && /^[0-9]+$/.test(text)) found.timestamp = true;
    else found.inexact ??= at;
  } else if (differInOneByte(text, canonical)) found.spelling ??= at;
}

/** An escape that is spelled with one byte otherwise than canonical text spells the same character. */
function lookAtString(b: Uint8Array, from: number, to: number, found: Uncovered): void {
  for (let at = from; at < to; at += 1) {
    if (b[at] !== 0x5c) continue;
    if (b[at + 1] !== 0x75) {
      at += 1;
      continue;
    }
    const spelled = String.fromCharCode(...b.subarray(at, at + 6));
    const canonical = fewestEscapes(String.fromCharCode(parseInt(spelled.slice(2), 16))).slice(1, -1);
    if (canonical.startsWith("\\") && differInOneByte(spelled, canonical)) found.spelling ??= at;
    at += 5;
  }
}

function lookAt(b: Uint8Array, value: Json, exempt: boolean, found: Uncovered): void {
  switch (value.kind) {
    case "number":
      lookAtNumber(value.text, value.from, exempt, found);
      break;
    case "string":
      if (value.escaped) lookAtString(b, value.from, value.to, found);
      break;
    case "array":
      for (const item of value.items) lookAt(b, item, false, found);
      break;
    case "object":
      for (const member of value.members) {
        lookAtString(b, member.nameAt.from, member.nameAt.to, found);
        lookAt(b, member.value, false, found);
      }
      break;
    default:
  }
}

function uncoveredOf(b: Uint8Array, turn: JsonObject, strictDigits: boolean): Uncovered {
  const found: Uncovered = { inexact: null, spelling: null, timestamp: false };
  for (const member of turn.members) {
    lookAtString(b, member.nameAt.from, member.nameAt.to, found);
    lookAt(b, member.value, member.name === "timestamp_ns" && !strictDigits, found);
  }
  return found;
}

// ---------------------------------------------------------------------------------------- judging

interface Place {
  readonly line: number;
  readonly bytes: [number, number];
  readonly turn: number | null;
}

/** What is kept of a turn: whole turns would not fit in memory. */
interface Seen {
  readonly place: Place;
  /** Null where it could not be read. */
  readonly signed: boolean | null;
}

/** scroll.md §8. */
export async function verifyScroll(b: Uint8Array, options: ScrollOptions): Promise<Report> {
  return new Judge(b, options).run();
}

class Judge {
  private readonly report = new Report("scroll", "scroll-v0.1");
  private readonly seen: Seen[] = [];
  private readonly signers: Uint8Array[] = [];
  /** Findings whose verdict depends on whether any turn has a right hash. */
  private readonly unread: { code: string; place: Place }[] = [];
  private readonly watch: HeadWatch | null;
  private anyRightHash = false;
  private brokenAt = -1;
  private prev: string | null = null;
  private number: bigint | null = 0n;
  private encoding: string | null = null;
  private record: string | null = null;
  private size = 0n;
  private beginsHere = false;
  private lastHash: string | null = null;
  private firstInexactTimestamp: Place | null = null;
  private line = 1;
  private lineAt = 0;

  constructor(
    private readonly b: Uint8Array,
    private readonly options: ScrollOptions,
  ) {
    const head = options.head === undefined ? null : parseHead(options.head);
    if (options.head !== undefined && head === null) throw new Error("the expected head is none");
    this.watch = head === null ? null : new HeadWatch(head);
  }

  async run(): Promise<Report> {
    const container = splitScroll(this.b);
    let torn: Piece | null = null;
    for (const piece of container.pieces) {
      if (!(await this.piece(piece, container))) torn = piece;
    }
    this.container(container, torn);
    this.end();
    return this.report;
  }

  private get count(): number {
    return this.seen.length;
  }

  private placeOf(piece: Piece, container: Container, turn: number | null): Place {
    for (; this.lineAt < piece.from; this.lineAt += 1) if (this.b[this.lineAt] === 0x0a) this.line += 1;
    const line = container.kind === "sequence" ? 0 : this.line;
    return { line, bytes: [piece.from, piece.to], turn };
  }

  /** An error of steps 1 to 9. */
  private error(verdict: Verdict, code: string, place: Place): void {
    this.report.downgrade(verdict, code, "error", place);
    this.broken();
  }

  private broken(): void {
    if (this.brokenAt < 0) this.brokenAt = this.count;
  }

  /** False where the piece is torn: nothing of it is checked. */
  private async piece(piece: Piece, container: Container): Promise<boolean> {
    const bytes = this.b.subarray(piece.from, piece.to);
    const long = bytes.length > MAX_TURN_BYTES;
    if (long && piece.unended) return false;
    const reading = long ? { tree: null, ended: false } : readPiece(bytes, container.kind);
    if (piece.unended && reading.ended) return false;
    const turn = reading.tree === null ? null : turnOf(reading.tree);
    if (turn === null || (container.kind === "sequence" && turn.encoding !== "cbor")) {
      this.unreadable(piece, container, long ? "turn_too_long" : "schema_violation");
      return true;
    }
    await this.readable(bytes, turn, piece, container);
    return true;
  }

  private unreadable(piece: Piece, container: Container, code: string): void {
    const place = this.placeOf(piece, container, this.count);
    this.unread.push({ code, place });
    this.broken();
    this.seen.push({ place, signed: null });
    this.lastHash = null;
    this.prev = null;
    this.number = null;
  }

  private async readable(bytes: Uint8Array, turn: Turn, piece: Piece, container: Container): Promise<void> {
    const place = this.placeOf(piece, container, Number(turn.number));
    const seq = this.count;
    const right = digestText(turn.covered) === turn.hash;
    if (right) {
      this.anyRightHash = true;
      this.linked(turn, place);
    } else this.error("tampered", "hash_wrong", place);
    if (turn.bodies.some((body) => !holdsHash(body))) this.error("tampered", "body_hash_wrong", place);
    if (turn.signature !== null) await this.signature(turn, turn.signature, right, place);
    this.size += BigInt(turn.covered.length);
    if (seq === 0) {
      this.record = turn.hash;
      this.beginsHere = turn.prevHash === null;
    }
    if (right) this.heads(turn, seq);
    if (container.kind !== "sequence") this.uncovered(bytes, turn, place);
    this.seen.push({ place, signed: turn.signature !== null });
    this.lastHash = turn.hash;
    this.prev = turn.hash;
    this.number = right ? turn.number + 1n : null;
    this.encoding = turn.encoding;
  }

  /** Steps 3 to 5. */
  private linked(turn: Turn, place: Place): void {
    if (this.count === 0) {
      if (turn.prevHash !== null) this.error("truncated", "predecessor_missing", place);
    } else if (this.prev !== null && turn.prevHash !== this.prev) this.error("tampered", "chain_broken", place);
    if (this.number !== null && turn.number > this.number) this.error("truncated", "turn_gap", place);
    if (this.number !== null && turn.number < this.number) this.error("tampered", "turn_repeated", place);
    if (this.encoding !== null && this.encoding !== turn.encoding) this.error("malformed", "encoding_mixed", place);
  }

  /** Steps 7 and 8. */
  private async signature(turn: Turn, signature: Signature, right: boolean, place: Place): Promise<void> {
    if (!isPublicKey(signature.key)) this.error("forged", "key_unusable", place);
    else if (await verify(signature.key, turn.covered, signature.bytes)) this.signer(signature.key, place);
    else if (right) this.error("forged", "signature_bad", place);
    const oldest = this.options.oldest;
    if (oldest !== undefined && turn.timestamp < oldest) this.error("rolled_back", "turn_too_old", place);
  }

  private signer(key: Uint8Array, place: Place): void {
    if (this.signers.some((known) => equal(known, key))) return;
    if (this.signers.length >= MAX_RECORD_KEYS) this.error("malformed", "too_many_keys", place);
    else this.signers.push(key);
  }

  /** Step 9. */
  private heads(turn: Turn, seq: number): void {
    const candidate = { seq, size: this.size, line: turn.hash.slice(7) };
    if (this.watch !== null && this.watch.see(this.recordId(), candidate)) this.broken();
  }

  private recordId(): string | null {
    return this.record === null ? null : this.record.slice(7);
  }

  /** Step 10. */
  private uncovered(bytes: Uint8Array, turn: Turn, place: Place): void {
    const found = uncoveredOf(bytes, turn.tree, this.options.strictDigits === true);
    const at = (offset: number): Place => ({ ...place, bytes: [place.bytes[0] + offset, place.bytes[1]] });
    if (found.inexact !== null) this.partial("number_inexact", at(found.inexact));
    if (found.spelling !== null) this.partial("spelling_uncovered", at(found.spelling));
    if (turn.signature !== null && turn.signature.members.members.length > 3) this.partial("sig_member_uncovered", place);
    if (found.timestamp) this.firstInexactTimestamp ??= place;
  }

  private partial(code: string, place: Place): void {
    this.report.downgrade(this.options.v01 === true ? null : "partial", code, "warning", place);
  }

  /** scroll.md §8.3, and the findings that waited for it. */
  private container(container: Container, torn: Piece | null): void {
    const unreadVerdict = this.anyRightHash ? "tampered" : "malformed";
    for (const { code, place } of this.unread) this.report.downgrade(unreadVerdict, code, "error", place);
    const fault = container.fault;
    if (fault !== null) {
      const place = { line: null, bytes: [fault.at, this.b.length] as [number, number], turn: null };
      const unended = this.count === 0 ? "malformed" : "truncated";
      const verdict = { no_array: "malformed", stray_bytes: unreadVerdict, array_unended: unended } as const;
      this.report.downgrade(verdict[fault.code], fault.code, "error", place);
    }
    if (container.kind === "array") return;
    if (torn !== null) {
      const place = { line: null, bytes: [torn.from, torn.to] as [number, number], turn: null };
      this.report.downgrade("unsigned_tail", "torn_tail", "warning", place);
    } else if (container.pieces.at(-1)?.unended === true) {
      this.report.downgrade(null, "unended_turn", "note", this.seen.at(-1)?.place ?? null);
    }
  }

  /** scroll.md §8.4 and §8.5. */
  private end(): void {
    const evidence = isEvidence(this.report.verdict);
    const allCount = judgeSigners(this.report, this.signers, { usage: "scroll", format: "scroll", thread: null }, this.options.trust);
    const heldUpTo = this.expectedHead();
    this.expectedLength();
    this.protection(heldUpTo);
    this.unsignedBefore();
    if (this.firstInexactTimestamp !== null) {
      this.report.downgrade(null, "timestamp_inexact", "note", this.firstInexactTimestamp);
    }
    const report = this.report;
    report.record = this.beginsHere ? this.record : null;
    report.stats.bytes = this.b.length;
    report.stats.events = this.count;
    report.stats.checkpoints = this.seen.filter(this.isSigned).length;
    report.head = evidence ? null : this.headOfLast();
    const whole = heldUpTo >= 0 || this.options.length === this.count;
    report.completeness = whole && !isEvidence(report.verdict) ? "head" : "unproved";
    const vouched = allCount && this.signers.length > 0;
    report.trusted_until = this.trustedUntil(vouched, heldUpTo);
    this.checks(evidence, vouched, heldUpTo);
  }

  private checks(evidence: boolean, vouched: boolean, heldUpTo: number): void {
    const { report, options } = this;
    const codes = report.codes();
    const unsigned = this.lastSigned() < 0;
    const bad = codes.includes("signature_bad") || codes.includes("key_unusable");
    report.check("chain", evidence ? "fail" : "pass");
    report.check("signatures", unsigned ? "skipped" : bad ? "fail" : "pass");
    const asked = !unsigned || options.trust.pins.length > 0;
    report.check("trust", asked ? (vouched ? "pass" : "fail") : "skipped");
    report.check("head", this.watch === null ? "skipped" : heldUpTo >= 0 ? "pass" : "fail");
    if (options.length !== undefined) report.check("length", options.length === this.count ? "pass" : "fail");
  }

  private headOfLast(): string | null {
    if (this.lastHash === null || this.record === null) return null;
    return `${this.recordId()}:${this.count - 1}:${this.size}:${this.lastHash.slice(7)}`;
  }

  /** The place of the last turn that the scroll is held up to, or -1. */
  private expectedHead(): number {
    if (this.watch === null) return -1;
    const result = this.watch.result(this.recordId(), this.count, this.options.exact === true);
    if (result === null) return this.watch.metAt;
    const at = this.watch.differsAt >= 0 ? this.watch.differsAt : this.watch.metAt;
    this.report.downgrade(result.verdict, result.code, result.severity, this.seen[at]?.place ?? null);
    return -1;
  }

  private expectedLength(): void {
    const length = this.options.length;
    if (length === undefined || length === this.count) return;
    this.report.downgrade(this.count < length ? "truncated" : "open", "length_differs", "error", null);
  }

  private readonly isSigned = (seen: Seen): boolean => seen.signed === true;
  private readonly isUnsigned = (seen: Seen): boolean => seen.signed === false;

  private lastSigned(): number {
    for (let i = this.count - 1; i >= 0; i -= 1) if (this.isSigned(this.seen[i]!)) return i;
    return -1;
  }

  private protection(heldUpTo: number): void {
    if (this.count === 0) {
      this.report.downgrade("unsigned", "scroll_empty", "note", null);
      return;
    }
    const missing = this.seen.find(this.isUnsigned);
    if (this.options.trust.pins.length > 0 && missing !== undefined) {
      this.report.downgrade("tampered", "signature_missing", "error", missing.place);
      return;
    }
    const last = this.lastSigned();
    if (last < 0) {
      this.report.downgrade(heldUpTo < 0 ? "consistent" : null, "unsigned", "note", null);
      if (heldUpTo >= 0) this.tail(heldUpTo + 1);
      return;
    }
    this.tail(last + 1);
  }

  /** A turn that cannot be read has its finding. */
  private tail(from: number): void {
    const first = this.seen.slice(from).find((seen) => seen.signed !== null);
    if (first !== undefined) this.report.downgrade("unsigned_tail", "unsigned_tail", "warning", first.place);
  }

  private unsignedBefore(): void {
    const first = this.seen.slice(0, Math.max(this.lastSigned(), 0)).find(this.isUnsigned);
    if (first !== undefined) this.partial("turn_unsigned", first.place);
  }

  private trustedUntil(signersCount: boolean, heldUpTo: number): Report["trusted_until"] {
    const end = this.brokenAt < 0 ? this.count : this.brokenAt;
    let at = heldUpTo < end ? heldUpTo : -1;
    if (signersCount) {
      for (let i = end - 1; i > at; i -= 1) {
        if (!this.isSigned(this.seen[i]!)) continue;
        at = i;
        break;
      }
    }
    const seen = at < 0 ? undefined : this.seen[at];
    if (seen === undefined || seen.signed === null) return null;
    return { line: seen.place.line, byte: seen.place.bytes[1], turn: seen.place.turn };
  }
}

function holdsHash(body: Body): boolean {
  const text = jcs(body.value);
  return text !== null && digestText(text) === body.hash;
}

/** The value of a piece, or null; `ended`: it cannot be read because it was cut off. */
function readPiece(bytes: Uint8Array, kind: Container["kind"]): { tree: Json | null; ended: boolean } {
  if (kind === "sequence") {
    const reading = decodeCbor(bytes);
    return reading.ok ? { tree: reading.value, ended: false } : { tree: null, ended: reading.ended };
  }
  const reading = readStrict(bytes);
  if (reading.ok) return { tree: reading.value, ended: false };
  const cut = reading.refusal.kind === "unexpected_end" || reading.refusal.kind === "invalid_utf8";
  return { tree: null, ended: cut || bytes[bytes.length - 1] === 0 };
}
