// Rye's own transcripts: lines as Rye's Python writes them, and checkpoints that sign a hash of all before.
// Rules: spec/transcript.md §8. Not here: Rye's own answer (`compat.rye`).

import { hex, utf8 } from "./bytes.js";
import { type Json, type JsonObject, memberOf, readPython, readStrict, textOf } from "./canon.js";
import { isMoment, ryeSignature } from "./document.js";
import { keyId, ryeFingerprint, verify } from "./ed25519.js";
import { parseHead } from "./heads.js";
import { Report, type Verdict, isEvidence } from "./report.js";
import { Sha256, sha256, tagged } from "./sha256.js";
import { judgeIds } from "./signers.js";
import { type Trust, counts, judge, knownKeys, rowOf, signerOf } from "./trust.js";

export const MAX_LINE_BYTES = 16 * 2 ** 20;
export const MAX_RECORD_KEYS = 1024;

export interface RyeOptions {
  readonly trust: Trust;
  readonly thread?: string;
  readonly head?: string;
  readonly exact?: boolean;
}

/** Whether line 1 is a native manifest: such a file is never of this profile. */
export function isNativeManifest(b: Uint8Array): boolean {
  const lf = b.indexOf(0x0a);
  const reading = readStrict(b.subarray(0, lf < 0 ? b.length : lf));
  if (!reading.ok || textOf(memberOf(reading.value, "event_type")) !== "thread_started") return false;
  return (textOf(memberOf(memberOf(reading.value, "payload"), "format")) ?? "").startsWith("threadseal/");
}

export async function verifyRye(b: Uint8Array, options: RyeOptions): Promise<Report> {
  return new Judge(b, options).run();
}

// ------------------------------------------------------------------------------------------- lines

/** A line without its LF. */
interface Line {
  readonly number: number;
  readonly from: number;
  readonly to: number;
  readonly bytes: Uint8Array;
  readonly ended: boolean;
}

function* linesOf(b: Uint8Array): Generator<Line> {
  let from = 0;
  for (let number = 1; from < b.length; number += 1) {
    const lf = b.indexOf(0x0a, from);
    const to = lf < 0 ? b.length : lf;
    yield { number, from, to, bytes: b.subarray(from, to), ended: lf >= 0 };
    from = to + 1;
  }
}

interface Event {
  readonly tree: JsonObject;
  readonly thread: string;
  readonly type: string;
  readonly payload: JsonObject;
}

interface ReadLine {
  /** The line as an event, or null where it is none. */
  readonly event: Event | null;
  readonly tree: Json | null;
  /** What breaks the rules for lines; the first is the cause. */
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
  /** The text ends before the value does. */
  readonly cut: boolean;
}

function readLine(bytes: Uint8Array): ReadLine {
  const none = { event: null, tree: null, warnings: [], cut: false };
  if (bytes.length >= MAX_LINE_BYTES) return { ...none, faults: ["line_too_long"] };
  if (bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d)) return { ...none, faults: ["blank_line"] };
  const strict = readStrict(bytes);
  const python = strict.ok ? strict : readPython(bytes);
  if (!python.ok) {
    const smuggled = holdsSmuggledObject(bytes);
    const cut = !strict.ok && (strict.refusal.kind === "unexpected_end" || isCutWord(bytes, strict.refusal));
    return { ...none, faults: [smuggled ? "smuggled_line_break" : "not_json"], cut };
  }
  const faults: string[] = [];
  const warnings: string[] = [];
  const tree = python.value;
  if (python.irregular.some((one) => one.kind === "duplicate_key")) faults.push("duplicate_key");
  if (!strict.ok && strict.refusal.kind !== "duplicate_key") warnings.push("nonstandard_json");
  if (bytes.subarray(0, -1).includes(0x0d)) faults.push("carriage_return");
  if (hasRawSeparator(bytes)) warnings.push("raw_line_separator");
  if (tree.kind !== "object") return { event: null, tree, faults: ["not_an_object", ...faults], warnings, cut: false };
  const event = eventOf(tree);
  if (event === null) faults.push("malformed_event");
  return { event, tree, faults, warnings, cut: false };
}

/** A word or a number that the end of the line cut off is `unexpected_byte` for the strict reading. */
function isCutWord(bytes: Uint8Array, refusal: { kind: string; at: number }): boolean {
  if (refusal.kind !== "unexpected_byte" || bytes.length - refusal.at > 4) return false;
  const rest = new TextDecoder("latin1").decode(bytes.subarray(refusal.at));
  return rest !== "" && ["true", "false", "null"].some((word) => word.startsWith(rest));
}

function eventOf(tree: JsonObject): Event | null {
  const thread = textOf(memberOf(tree, "thread_id"));
  const type = textOf(memberOf(tree, "event_type"));
  const payload = memberOf(tree, "payload");
  if (thread === null || type === null || payload === null || payload.kind !== "object") return null;
  return { tree, thread, type, payload };
}

/** The length of what Python's `splitlines` ends a line at, beside LF; 0 where nothing is. */
function separatorAt(b: Uint8Array, at: number): number {
  const c = b[at]!;
  if (c === 0x0d || c === 0x0b || c === 0x0c || (c >= 0x1c && c <= 0x1e)) return 1;
  if (c === 0xc2 && b[at + 1] === 0x85) return 2;
  if (c === 0xe2 && b[at + 1] === 0x80 && (b[at + 2] === 0xa8 || b[at + 2] === 0xa9)) return 3;
  return 0;
}

function hasRawSeparator(b: Uint8Array): boolean {
  for (let at = 0; at < b.length - 1; at += 1) if (b[at] !== 0x0d && separatorAt(b, at) > 0) return true;
  return false;
}

/** Whether a reader that ends lines as `splitlines` does finds a JSON object in the line. */
function holdsSmuggledObject(b: Uint8Array): boolean {
  let from = 0;
  let split = false;
  for (let at = 0; at <= b.length; at += 1) {
    const n = at === b.length ? 1 : separatorAt(b, at);
    if (n === 0) continue;
    if (at < b.length - 1) split = true;
    if (split && at > from && isObjectText(b.subarray(from, at))) return true;
    from = at + n;
    at += n - 1;
  }
  return false;
}

function isObjectText(b: Uint8Array): boolean {
  const reading = readPython(b);
  return reading.ok && reading.value.kind === "object";
}

// ------------------------------------------------------------------------------------- checkpoints

interface Checkpoint {
  readonly turn: bigint;
  readonly offset: bigint;
  readonly hash: string;
  readonly signature: string;
  readonly fingerprint: string;
  readonly ts: string | null;
}

const DECIMAL = /^(?:0|[1-9][0-9]*)$/;
const MEMBERS = ["timestamp", "thread_id", "event_type", "payload"];
const PAYLOAD = ["turn", "byte_offset", "hash", "sig", "fp", "ts"];

/** A checkpoint with exactly its members, or null. */
function checkpointOf(event: Event): Checkpoint | null {
  const { tree, payload } = event;
  const names = tree.members.map((m) => m.name);
  if (names.length !== MEMBERS.length || !MEMBERS.every((name) => names.includes(name))) return null;
  if (memberOf(tree, "timestamp")?.kind !== "number") return null;
  const inner = payload.members.map((m) => m.name);
  if (!inner.every((name) => PAYLOAD.includes(name)) || inner.length < PAYLOAD.length - 1) return null;
  const turn = decimal(memberOf(payload, "turn"));
  const offset = decimal(memberOf(payload, "byte_offset"));
  const hash = textOf(memberOf(payload, "hash"));
  const signature = textOf(memberOf(payload, "sig"));
  const fingerprint = textOf(memberOf(payload, "fp"));
  const stamp = memberOf(payload, "ts");
  if (turn === null || offset === null || hash === null || signature === null || fingerprint === null) return null;
  if (!/^[0-9a-f]{64}$/.test(hash) || !/^[0-9a-f]{16}$/.test(fingerprint)) return null;
  if (stamp !== null && !isMoment(textOf(stamp) ?? "")) return null;
  return { turn, offset, hash, signature, fingerprint, ts: textOf(stamp) };
}

function decimal(value: Json | null): bigint | null {
  return value !== null && value.kind === "number" && DECIMAL.test(value.text) ? BigInt(value.text) : null;
}

/** The line as a writer of Rye would spell this checkpoint, with or without blanks. */
function writersSpelling(b: Uint8Array, tree: JsonObject, blank: string): string | null {
  const parts: string[] = [];
  const raw = (value: { from: number; to: number }): string => new TextDecoder("latin1").decode(b.subarray(value.from, value.to));
  for (const member of tree.members) {
    const name = raw(member.nameAt);
    const { value } = member;
    const escaped = name.includes("\\") || (value.kind === "string" && value.escaped && member.name !== "thread_id");
    if (escaped) return null;
    const text = value.kind === "object" ? writersSpelling(b, value, blank) : raw(value);
    if (text === null) return null;
    parts.push(`${name}:${blank}${text}`);
  }
  return `{${parts.join(`,${blank}`)}}`;
}

function isWritersSpelling(line: Uint8Array, tree: JsonObject, carriageReturn: boolean): boolean {
  let text = new TextDecoder("latin1").decode(line);
  if (carriageReturn && text.endsWith("\r")) text = text.slice(0, -1);
  return text === writersSpelling(line, tree, " ") || text === writersSpelling(line, tree, "");
}

// ------------------------------------------------------------------------------------------ judging

interface Good {
  readonly line: Line;
  readonly checkpoint: Checkpoint;
  readonly tree: JsonObject;
  readonly counts: boolean;
  readonly seq: number;
}

/** What was seen of a line and waits for a good checkpoint behind it. */
interface Waiting {
  readonly code: string;
  readonly line: Line;
}

class Judge {
  private readonly report = new Report("transcript", "rye");
  private readonly hash = new Sha256();
  private waiting: Waiting[] = [];
  private good: Good | null = null;
  private trusted: Good | null = null;
  private signer: { fingerprint: string; key: Uint8Array | null } | null = null;
  private readonly signers = new Set<string>();
  private thread: string | null = null;
  private inputs = 0n;
  private steps = 0n;
  private highestStep = 0n;
  private turn = 0n;
  private checkpoints = 0;
  private events = 0;
  private eventsBehind: Line | null = null;
  private tail: { line: Line; read: ReadLine } | null = null;
  private faultAt = Infinity;
  private readonly seen: { seq: number; size: bigint; line: string; at: number }[] = [];

  constructor(
    private readonly b: Uint8Array,
    private readonly options: RyeOptions,
  ) {}

  async run(): Promise<Report> {
    for (const line of linesOf(this.b)) {
      await this.line(line);
      this.hash.update(this.b.subarray(line.from, line.to + (line.ended ? 1 : 0)));
    }
    this.finish();
    return this.report;
  }

  private tell(verdict: Verdict | null, code: string, severity: "error" | "warning" | "note", line: Line): void {
    this.report.downgrade(verdict, code, severity, { line: line.number, bytes: [line.from, line.to] });
    if (verdict !== null && isEvidence(verdict)) this.faultAt = Math.min(this.faultAt, line.from);
  }

  private async line(line: Line): Promise<void> {
    const read = readLine(line.bytes);
    const isCheckpoint = textOf(memberOf(read.tree, "event_type")) === "checkpoint";
    if (read.faults.includes("smuggled_line_break")) this.tell("tampered", "smuggled_line_break", "error", line);
    else if (!line.ended) this.tail = { line, read };
    else if (isCheckpoint) await this.checkpoint(line, read);
    else this.event(line, read);
  }

  private event(line: Line, read: ReadLine): void {
    for (const code of read.faults) this.waiting.push({ code, line });
    for (const code of read.warnings) this.tell(null, code, "warning", line);
    if (read.event !== null) {
      this.events += 1;
      this.threadOf(read.event.thread, line);
      this.count(read.event);
    }
    this.eventsBehind ??= line;
  }

  private threadOf(thread: string, line: Line): void {
    this.thread ??= thread;
    if (thread !== this.thread) this.tell("tampered", "thread_id_mixed", "error", line);
  }

  private count(event: Event): void {
    if (event.type === "cognition_in") this.inputs += 1n;
    if (event.type === "step_started") this.steps += 1n;
    const step = event.type === "step_started" ? decimal(memberOf(event.payload, "step")) : null;
    if (step !== null && step > this.highestStep) this.highestStep = step;
  }

  private async checkpoint(line: Line, read: ReadLine): Promise<void> {
    const seq = this.checkpoints;
    this.checkpoints += 1;
    for (const code of read.faults) this.tell("tampered", code, "error", line);
    const plain = read.event !== null && read.faults.length === 0 && !read.warnings.includes("nonstandard_json");
    const checkpoint = plain && read.event !== null ? checkpointOf(read.event) : null;
    if (checkpoint === null || read.event === null) {
      this.tell("tampered", "malformed_checkpoint", "error", line);
      return;
    }
    for (const code of read.warnings) this.tell(null, code, "warning", line);
    const before = this.report.findings.length;
    this.threadOf(read.event.thread, line);
    this.turnOf(checkpoint, line);
    this.placeOf(checkpoint, line);
    const counted = await this.signature(checkpoint, line);
    this.seen.push({ seq, size: BigInt(line.to + 1), line: hex(sha256(line.bytes)), at: line.from });
    const faults = this.report.findings.slice(before).some((finding) => finding.severity === "error");
    if (!faults) this.accept({ line, checkpoint, tree: read.event.tree, counts: counted, seq });
  }

  private turnOf(checkpoint: Checkpoint, line: Line): void {
    const most = [this.inputs, this.steps, this.highestStep].reduce((x, y) => (x > y ? x : y));
    if (checkpoint.turn < this.turn || checkpoint.turn > most) this.tell("tampered", "turn_implausible", "error", line);
    else this.turn = checkpoint.turn;
  }

  private placeOf(checkpoint: Checkpoint, line: Line): void {
    const here = BigInt(line.from);
    const fits = hex(this.hash.digest()) === checkpoint.hash;
    if (fits && checkpoint.offset !== here) this.tell("tampered", "offset_wrong", "error", line);
    if (fits) return;
    const earlier = checkpoint.offset < here && hex(sha256(this.b.subarray(0, Number(checkpoint.offset)))) === checkpoint.hash;
    this.tell("tampered", earlier ? "checkpoint_displaced" : "content_changed", "error", line);
  }

  /** Whether the signature holds and its signer counts. */
  private async signature(checkpoint: Checkpoint, line: Line): Promise<boolean> {
    const signature = ryeSignature(checkpoint.signature);
    if (signature === null) {
      this.tell("forged", "signature_invalid", "error", line);
      return false;
    }
    const keys = knownKeys(this.options.trust).filter((key) => ryeFingerprint(key) === checkpoint.fingerprint);
    if (keys.length === 0) return this.unknown(checkpoint, line);
    for (const key of keys) {
      if (await verify(key, utf8(checkpoint.hash), signature)) return this.known(key, checkpoint, line);
    }
    this.tell("forged", "signature_invalid", "error", line);
    return false;
  }

  private unknown(checkpoint: Checkpoint, line: Line): boolean {
    this.signer ??= { fingerprint: checkpoint.fingerprint, key: null };
    if (this.signer.fingerprint !== checkpoint.fingerprint) this.tell("forged", "key_unknown", "error", line);
    else if (!this.signers.has(checkpoint.fingerprint)) judgeIds(this.report, [checkpoint.fingerprint], this.options.trust);
    this.signers.add(checkpoint.fingerprint);
    return false;
  }

  private known(key: Uint8Array, checkpoint: Checkpoint, line: Line): boolean {
    const { trust } = this.options;
    const judgement = judge(key, { usage: "rye", format: "transcript", thread: this.thread }, trust);
    const row = rowOf(judgement.standing);
    const good = counts(judgement.standing);
    const first = this.signer === null;
    this.signer ??= { fingerprint: checkpoint.fingerprint, key };
    const same = this.signer.key !== null && hex(this.signer.key) === hex(key);
    const id = hex(keyId(key));
    const seen = this.signers.has(id);
    this.signers.add(id);
    if (!first && !same) {
      // A later key that no one vouches for was let in by nobody.
      if (!good && row.code !== "other_signer") {
        this.tell("forged", row.code ?? "key_unknown", "error", line);
        return false;
      }
      if (!seen) this.tell(null, "signer_changed", "warning", line);
    }
    if (!seen) {
      if (this.signers.size > MAX_RECORD_KEYS) this.tell("malformed", "too_many_signers", "error", line);
      this.report.signers.push(signerOf(key, judgement));
      if (row.code !== null) this.tell(row.verdict, row.code, row.severity, line);
    }
    return good;
  }

  /** A good checkpoint: what broke the rules before it was sealed so. */
  private accept(good: Good): void {
    for (const { code, line } of this.waiting) this.tell("tampered", code, "error", line);
    this.waiting = [];
    this.eventsBehind = null;
    this.good = good;
    if (good.counts && good.line.from < this.faultAt) this.trusted = good;
  }

  // ------------------------------------------------------------------------------------------ the end

  private finish(): void {
    const { report } = this;
    const broken = this.waiting.length > 0;
    const verdict: Verdict = this.good === null && this.checkpoints === 0 ? "malformed" : "unsigned_tail";
    for (const { code, line } of this.waiting) this.tell(verdict, code, "error", line);
    const torn = this.tail === null ? false : this.unended(this.tail.line, this.tail.read);
    if (this.good === null && this.checkpoints === 0) {
      if (!torn) report.downgrade(broken ? "malformed" : "unsigned", "no_checkpoint", "note");
    } else if (this.eventsBehind !== null && !broken) {
      this.tell("unsigned_tail", "unsigned_tail", "warning", this.eventsBehind);
    }
    this.spelling();
    this.expectedThread();
    const passed = this.expectedHead();
    report.record = this.recordId();
    report.head = this.good === null || report.record === null ? null : this.headOf(this.good);
    report.completeness = passed && !isEvidence(report.verdict) ? "head" : "unproved";
    report.stats.bytes = this.b.length;
    report.stats.events = this.events;
    report.stats.checkpoints = this.checkpoints;
    if (this.trusted !== null) {
      const { line, checkpoint } = this.trusted;
      report.trusted_until = { line: line.number, byte: line.to + 1, turn: checkpoint.turn };
    }
  }

  /** The bytes behind the last LF; whether they are the only checkpoint, which fits and lacks its LF. */
  private unended(line: Line, read: ReadLine): boolean {
    const checkpoint = read.event !== null && read.event.type === "checkpoint" ? checkpointOf(read.event) : null;
    if (checkpoint !== null) {
      const fits = checkpoint.hash === hex(this.hashBefore(line)) && checkpoint.offset === BigInt(line.from);
      this.tell("unsigned_tail", fits ? "torn_checkpoint" : "torn_tail", fits ? "warning" : "error", line);
      return fits;
    }
    if (this.good === null && this.checkpoints === 0) {
      this.tell(null, "torn_tail", "warning", line);
      return false;
    }
    if (read.event !== null && read.event.thread !== this.thread) this.threadOf(read.event.thread, line);
    const explained = read.cut || read.faults.length === 0;
    if (explained) this.tell("unsigned_tail", "torn_tail", "warning", line);
    else for (const code of read.faults) this.tell("unsigned_tail", code, "error", line);
    return false;
  }

  private hashBefore(line: Line): Uint8Array {
    return sha256(this.b.subarray(0, line.from));
  }

  private spelling(): void {
    if (this.good === null) return;
    const lf = this.b.indexOf(0x0a);
    const carriageReturn = lf > 0 && this.b[lf - 1] === 0x0d;
    const { line, tree, checkpoint } = this.good;
    if (!isWritersSpelling(line.bytes, tree, carriageReturn)) this.tell("partial", "spelling_uncovered", "warning", line);
    this.report.unauthenticated.push(`turn=${checkpoint.turn}`);
    const timestamp = memberOf(tree, "timestamp");
    if (timestamp?.kind === "number") this.report.unauthenticated.push(`timestamp=${timestamp.text}`);
    if (checkpoint.ts !== null) this.report.unauthenticated.push(`ts=${checkpoint.ts}`);
  }

  private expectedThread(): void {
    const { thread } = this.options;
    if (thread !== undefined && thread !== this.thread) this.report.downgrade("foreign", "thread_differs", "error");
  }

  private recordId(): string | null {
    const lf = this.b.indexOf(0x0a);
    return lf < 0 ? null : hex(tagged("rye record", [this.b.subarray(0, lf)]));
  }

  private headOf(good: Good): string {
    return `${this.recordId() ?? ""}:${good.seq}:${good.line.to + 1}:${hex(sha256(good.line.bytes))}`;
  }

  /** transcript.md §6: whether an expected head is met. */
  private expectedHead(): boolean {
    const { head: text, exact } = this.options;
    if (text === undefined) return false;
    const head = parseHead(text);
    if (head === null) throw new Error("the expected head is none");
    const tell = (verdict: Verdict, code: string): boolean => {
      this.report.downgrade(verdict, code, "error");
      return false;
    };
    const met = this.seen.find((one) => one.line === head.line && (head.kind === "digest" || matches(one, head)));
    if (head.kind === "full" && head.record !== this.recordId()) return tell("foreign", "record_differs");
    if (met !== undefined) {
      const isLast = met === this.seen[this.seen.length - 1];
      return exact !== true || isLast ? met.at < this.faultAt : tell("open", "head_not_last");
    }
    if (this.faultAt < Infinity) return false;
    if (head.kind === "digest") return tell("truncated", "head_missing");
    if (head.seq < BigInt(this.seen.length)) return tell("forked", "head_differs");
    return tell("truncated", "head_ahead");
  }
}

function matches(one: { seq: number; size: bigint }, head: { seq: bigint; size: bigint }): boolean {
  return BigInt(one.seq) === head.seq && one.size === head.size;
}
