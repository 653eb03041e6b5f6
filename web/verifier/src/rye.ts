// Rye's own transcripts: lines as Rye's Python writes them, and checkpoints that sign a hash of all before.
// Rules: spec/transcript.md §8. Not here: Rye's own answer (`compat.rye`).

import { hex, utf8 } from "./bytes.js";
import { type Json, type JsonObject, hasLoneSurrogate, memberOf, readPython, readStrict, textOf } from "./canon.js";
import { isMoment, ryeSignature } from "./document.js";
import { ryeFingerprint, verify } from "./ed25519.js";
import { HeadWatch, parseHead } from "./heads.js";
import { Report, type Severity, type Verdict, isEvidence } from "./report.js";
import { Sha256, sha256, tagged } from "./sha256.js";
import { type Judgement, type Purpose, type Trust, counts, judge, knownKeys, rowOf, signerOf } from "./trust.js";

export const MAX_LINE_BYTES = 16 * 2 ** 20;
export const MAX_RECORD_KEYS = 1024;

export interface RyeOptions {
  readonly trust: Trust;
  readonly thread?: string;
  readonly head?: string;
  readonly exact?: boolean;
  /** Check each signature as it comes, not the last of each signer alone. */
  readonly everySignature?: boolean;
}

/** Whether line 1 is a native manifest: such a file is never of this profile. */
export function isNativeManifest(b: Uint8Array): boolean {
  const lf = b.indexOf(0x0a);
  const reading = readStrict(b.subarray(0, lf < 0 ? b.length : lf));
  if (!reading.ok || textOf(memberOf(reading.value, "event_type")) !== "thread_started") return false;
  return (textOf(memberOf(memberOf(reading.value, "payload"), "format")) ?? "").startsWith("threadseal/");
}

/** §8.6 step 1: where the last signature of a signer does not hold, a second reading checks each. */
export async function verifyRye(b: Uint8Array, options: RyeOptions): Promise<Report> {
  const first = new Judge(b, options);
  const report = await first.run();
  return first.lookCloser ? new Judge(b, { ...options, everySignature: true }).run() : report;
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

/** The row of §8.2. */
type ReadLine =
  | { readonly is: "event"; readonly event: Event; readonly warning: string | null }
  | { readonly is: "checkpoint"; readonly tree: JsonObject }
  | { readonly is: "attack" | "fault"; readonly code: string };

function fault(code: string): ReadLine {
  return { is: "fault", code };
}

function readLine(bytes: Uint8Array): ReadLine {
  if (bytes.length > MAX_LINE_BYTES) return fault("line_too_long");
  const strict = readStrict(bytes);
  if (strict.ok) return readStrictLine(bytes, strict.value);
  const python = readPython(bytes);
  if (python.ok) return readPythonLine(bytes, python.value, python.irregular.some((one) => one.kind === "duplicate_key"));
  if (isSmuggled(bytes)) return { is: "attack", code: "smuggled_line_break" };
  return fault(bytes.every((byte) => [0x09, 0x0c, 0x0d, 0x20].includes(byte)) ? "blank_line" : "not_json");
}

function readStrictLine(bytes: Uint8Array, tree: Json): ReadLine {
  if (tree.kind !== "object") return fault("not_an_object");
  const event = eventOf(tree);
  const isCheckpoint = textOf(memberOf(tree, "event_type")) === "checkpoint";
  if (event === null) return isCheckpoint ? { is: "checkpoint", tree } : fault("malformed_event");
  if (hasInnerReturn(bytes)) return fault("carriage_return");
  if (isCheckpoint) return { is: "checkpoint", tree };
  return { is: "event", event, warning: hasRawSeparator(bytes) ? "raw_line_separator" : null };
}

function readPythonLine(bytes: Uint8Array, tree: Json, twice: boolean): ReadLine {
  if (tree.kind !== "object") return fault("not_an_object");
  const isCheckpoint = textOf(memberOf(tree, "event_type")) === "checkpoint";
  const names = new TextDecoder("latin1").decode(bytes).includes('"checkpoint"');
  if (twice) return { is: isCheckpoint || names ? "attack" : "fault", code: "duplicate_key" };
  if (isCheckpoint) return { is: "attack", code: "malformed_checkpoint" };
  const event = eventOf(tree);
  if (event === null) return fault("malformed_event");
  if (hasInnerReturn(bytes)) return fault("carriage_return");
  return { is: "event", event, warning: "nonstandard_json" };
}

function hasInnerReturn(bytes: Uint8Array): boolean {
  return bytes.subarray(0, -1).includes(0x0d);
}

/** Whether bytes behind these could make them JSON for Python, which they are not. */
function isCut(bytes: Uint8Array): boolean {
  if (readPython(bytes).ok) return false;
  const whole = bytes.subarray(0, bytes.length - cutCharacter(bytes));
  const ends = (text: Uint8Array): boolean => {
    const reading = readPython(text);
    return reading.ok || reading.refusal.kind === "unexpected_end";
  };
  return ends(whole) || COMPLETIONS.some((more) => ends(joined(whole, more)));
}

/** What may be missing of a word, of a number, and of an escape. */
const COMPLETIONS: readonly Uint8Array[] = [
  ...["true", "false", "null", "NaN", "Infinity"].flatMap((word) => [...word].map((_, at) => word.slice(at + 1))),
  "1",
  "0",
  "00",
  "000",
  "0000",
]
  .filter((more) => more !== "")
  .map(utf8);

function joined(a: Uint8Array, b: Uint8Array): Uint8Array {
  const out = new Uint8Array(a.length + b.length);
  out.set(a);
  out.set(b, a.length);
  return out;
}

/** The number of bytes of a character of UTF-8 that the end cut off. */
function cutCharacter(b: Uint8Array): number {
  for (let n = 1; n <= 3 && n <= b.length; n += 1) {
    const c = b[b.length - n]!;
    if (c >= 0xc2 && c <= 0xf4) return n < (c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4) ? n : 0;
    if (c < 0x80 || c > 0xbf) return 0;
  }
  return 0;
}

function eventOf(tree: JsonObject): Event | null {
  const thread = textOf(memberOf(tree, "thread_id"));
  const type = textOf(memberOf(tree, "event_type"));
  const payload = memberOf(tree, "payload");
  if (thread === null || type === null || payload === null || payload.kind !== "object") return null;
  if (hasLoneSurrogate(thread) || hasLoneSurrogate(type)) return null;
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
function isSmuggled(bytes: Uint8Array): boolean {
  const b = utf8(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));
  const parts: Uint8Array[] = [];
  let from = 0;
  for (let at = 0; at < b.length; at += 1) {
    const n = separatorAt(b, at);
    if (n === 0) continue;
    parts.push(b.subarray(from, at));
    from = at + n;
    at += n - 1;
  }
  parts.push(b.subarray(from));
  return parts.length > 1 && parts.some(isObjectText);
}

/** Blanks as Python's `strip` drops them. */
function stripped(text: string): string {
  return text.replace(/^[\p{White_Space}\x1c-\x1f]+|[\p{White_Space}\x1c-\x1f]+$/gu, "");
}

function isObjectText(b: Uint8Array): boolean {
  const reading = readPython(utf8(stripped(new TextDecoder("utf-8", { ignoreBOM: true }).decode(b))));
  return reading.ok && reading.value.kind === "object";
}

// ------------------------------------------------------------------------------------- checkpoints

interface Checkpoint {
  readonly thread: string;
  readonly turn: bigint;
  readonly offset: bigint;
  readonly hash: string;
  readonly signature: Uint8Array;
  readonly fingerprint: string;
  readonly timestamp: string;
  readonly ts: string | null;
}

const DECIMAL = /^(?:0|[1-9][0-9]*)$/;
const MAX_DECIMAL = 2n ** 64n - 1n;
const MEMBERS = ["timestamp", "thread_id", "event_type", "payload"];
const PAYLOAD = ["turn", "byte_offset", "hash", "sig", "fp", "ts"];

/** A checkpoint with exactly its members, or the verdict of one that is not. */
function checkpointOf(tree: JsonObject): Checkpoint | Verdict {
  const payload = memberOf(tree, "payload");
  if (!tree.members.every((m) => MEMBERS.includes(m.name)) || payload === null || payload.kind !== "object") return "tampered";
  if (!payload.members.every((m) => PAYLOAD.includes(m.name))) return "tampered";
  const stamp = memberOf(payload, "ts");
  const thread = textOf(memberOf(tree, "thread_id"));
  if ((stamp !== null && !isMoment(textOf(stamp) ?? "")) || thread === null) return "tampered";
  const turn = decimal(memberOf(payload, "turn"));
  const offset = decimal(memberOf(payload, "byte_offset"));
  const hash = textOf(memberOf(payload, "hash"));
  if (turn === null || offset === null || hash === null || !/^[0-9a-f]{64}$/.test(hash)) return "tampered";
  const signature = ryeSignature(textOf(memberOf(payload, "sig")) ?? "");
  if (signature === null) return "forged";
  const fingerprint = textOf(memberOf(payload, "fp"));
  const timestamp = memberOf(tree, "timestamp");
  if (fingerprint === null || !/^[0-9a-f]{16}$/.test(fingerprint) || timestamp?.kind !== "number") return "tampered";
  return { thread, turn, offset, hash, signature, fingerprint, timestamp: timestamp.text, ts: textOf(stamp) };
}

function decimal(value: Json | null): bigint | null {
  if (value === null || value.kind !== "number" || !DECIMAL.test(value.text)) return null;
  const number = BigInt(value.text);
  return number <= MAX_DECIMAL ? number : null;
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
  readonly seq: number;
}

interface Signer {
  readonly fingerprint: string;
  readonly key: Uint8Array | null;
  readonly judgement: Judgement | null;
  /** Its last good checkpoint before the first evidence, and whether that signature was checked. */
  last: { readonly good: Good; readonly checked: boolean } | null;
}

class Judge {
  private readonly report = new Report("transcript", "rye");
  private readonly hash = new Sha256();
  private readonly watch: HeadWatch | null;
  private waiting: { readonly code: string; readonly line: Line }[] = [];
  private last: Good | null = null;
  private readonly signers: Signer[] = [];
  private thread: string | null = null;
  private inputs = 0n;
  private steps = 0n;
  private highestStep = 0n;
  private lines = 0;
  private checkpoints = 0;
  private good = 0;
  private mismatches = 0;
  private broken = false;
  private tail: { readonly line: Line; readonly fits: boolean } | null = null;
  private readonly record: string | null;
  /** A signature that waited to the end does not hold. */
  lookCloser = false;

  constructor(
    private readonly b: Uint8Array,
    private readonly options: RyeOptions,
  ) {
    const lf = b.indexOf(0x0a);
    this.record = lf < 0 || lf > MAX_LINE_BYTES ? null : hex(tagged("rye record", [b.subarray(0, lf)]));
    const head = options.head === undefined ? null : parseHead(options.head);
    if (options.head !== undefined && head === null) throw new Error("the expected head is none");
    this.watch = head === null ? null : new HeadWatch(head);
  }

  async run(): Promise<Report> {
    for (const line of linesOf(this.b)) {
      await this.line(line);
      this.hash.update(this.b.subarray(line.from, line.to + (line.ended ? 1 : 0)));
    }
    await this.conclude();
    return this.report;
  }

  private tell(verdict: Verdict | null, code: string, severity: Severity, line: Line | null): void {
    this.report.downgrade(verdict, code, severity, line === null ? null : { line: line.number, bytes: [line.from, line.to] });
    if (verdict !== null && isEvidence(verdict)) this.broken = true;
  }

  // §8.4
  private async line(line: Line): Promise<void> {
    if (line.ended) this.lines += 1;
    const read = readLine(line.bytes);
    if (read.is === "attack") this.tell("tampered", read.code, "error", line);
    if (!line.ended) this.unended(line, read);
    else if (read.is === "fault") this.waiting.push({ code: read.code, line });
    else if (read.is === "event") this.event(line, read.event, read.warning);
    else if (read.is === "checkpoint") await this.checkpoint(line, read.tree);
  }

  private unended(line: Line, read: ReadLine): void {
    if (read.is === "fault" && (read.code === "line_too_long" || !isCut(line.bytes))) this.waiting.push({ code: read.code, line });
    const checkpoint = read.is === "checkpoint" ? checkpointOf(read.tree) : null;
    const fits = checkpoint !== null && typeof checkpoint !== "string" && this.isPlace(checkpoint, line) && this.isHash(checkpoint);
    this.tail = { line, fits };
  }

  private event(line: Line, event: Event, warning: string | null): void {
    if (event.type === "cognition_in") this.inputs += 1n;
    if (event.type === "step_started") {
      this.steps += 1n;
      const step = decimal(memberOf(event.payload, "step"));
      if (step !== null && step > this.highestStep) this.highestStep = step;
    }
    if (warning !== null) this.tell(null, warning, "warning", line);
    if (!this.isSameThread(event.thread)) this.waiting.push({ code: "thread_id_mixed", line });
  }

  private isSameThread(thread: string): boolean {
    this.thread ??= thread;
    return this.thread === thread;
  }

  private isHash(checkpoint: Checkpoint): boolean {
    return hex(this.hash.digest()) === checkpoint.hash;
  }

  private isPlace(checkpoint: Checkpoint, line: Line): boolean {
    return checkpoint.offset === BigInt(line.from);
  }

  // §8.5
  private async checkpoint(line: Line, tree: JsonObject): Promise<void> {
    this.checkpoints += 1;
    const checkpoint = checkpointOf(tree);
    if (typeof checkpoint === "string") return this.tell(checkpoint, "malformed_checkpoint", "error", line);
    const mine = this.isSameThread(checkpoint.thread);
    if (!this.isHash(checkpoint)) return this.mismatch(checkpoint, line);
    if (!this.isPlace(checkpoint, line)) return this.tell("tampered", "offset_wrong", "error", line);
    for (const waiting of this.waiting) this.tell("tampered", waiting.code, "error", waiting.line);
    this.waiting = [];
    if (!mine) this.tell("tampered", "thread_id_mixed", "error", line);
    const most = [this.inputs, this.steps, this.highestStep].reduce((x, y) => (x > y ? x : y));
    const least = this.last?.checkpoint.turn ?? 0n;
    if (checkpoint.turn < least || checkpoint.turn > most) this.tell("tampered", "turn_implausible", "error", line);
    const good = { line, checkpoint, tree, seq: this.good };
    await this.signer(good);
    this.watch?.see(this.record, { seq: good.seq, size: BigInt(line.to + 1), line: hex(sha256(line.bytes)) });
    this.good += 1;
    this.last = good;
  }

  private mismatch(checkpoint: Checkpoint, line: Line): void {
    this.mismatches += 1;
    if (this.mismatches > 1) return;
    this.tell("tampered", this.isPlace(checkpoint, line) ? "content_changed" : "checkpoint_displaced", "error", line);
  }

  /** §8.5 step 6. */
  private async signer(good: Good): Promise<void> {
    const { fingerprint } = good.checkpoint;
    const candidates = knownKeys(this.options.trust).filter((key) => ryeFingerprint(key) === fingerprint);
    const checked = this.options.everySignature === true || this.broken || candidates.length > 1;
    let key: Uint8Array | null = candidates[0] ?? null;
    if (key !== null && checked) {
      key = await this.holder(candidates, good.checkpoint);
      if (key === null) return this.tell("forged", "signature_invalid", "error", good.line);
    }
    const id = key === null ? null : hex(key);
    let signer = this.signers.find((one) => one.fingerprint === fingerprint && (one.key === null ? null : hex(one.key)) === id);
    const isNew = signer === undefined;
    if (signer === undefined) {
      if (this.signers.length >= MAX_RECORD_KEYS) return this.tell("forged", "too_many_signers", "error", good.line);
      const judgement = key === null ? null : judge(key, this.purpose(good), this.options.trust);
      signer = { fingerprint, key, judgement, last: null };
      this.signers.push(signer);
    }
    if (!this.broken) signer.last = { good, checked };
    if (isNew && this.signers.length > 1) {
      const vouched = key !== null && this.isVouched(key, good, signer.judgement);
      this.tell(vouched ? null : "forged", "signer_changed", vouched ? "warning" : "error", good.line);
    }
  }

  private async holder(keys: readonly Uint8Array[], checkpoint: Checkpoint): Promise<Uint8Array | null> {
    for (const key of keys) if (await verify(key, utf8(checkpoint.hash), checkpoint.signature)) return key;
    return null;
  }

  private purpose(good: Good): Purpose {
    return { usage: "rye", format: "transcript", thread: good.checkpoint.thread };
  }

  private isVouched(key: Uint8Array, good: Good, own: Judgement | null): boolean {
    const without = judge(key, this.purpose(good), { ...this.options.trust, pins: [] });
    return counts(without.standing) || (own !== null && counts(own.standing));
  }

  // ------------------------------------------------------------------------------------- §8.6
  private async conclude(): Promise<void> {
    const { report } = this;
    if (this.mismatches > 1) this.tell(null, "later_checkpoints", "note", null);
    await this.lastSignatures();
    this.judgeSigners();
    const asked = this.options.thread;
    if (asked !== undefined && this.thread !== null && asked !== this.thread) report.downgrade("foreign", "thread_differs", "error");
    const held = this.expectedHead();
    for (const { code, line } of this.waiting) this.tell(null, code, "error", line);
    if (this.tail !== null) this.tell(null, "torn_tail", "warning", this.tail.line);
    if (held && !isEvidence(report.verdict)) report.completeness = "head";
    if (this.last === null) this.withoutGood();
    else this.ending(this.last);
    this.members();
  }

  private async lastSignatures(): Promise<void> {
    for (const { key, last } of this.signers) {
      if (key === null || last === null || last.checked) continue;
      if ((await this.holder([key], last.good.checkpoint)) !== null) continue;
      this.lookCloser = true;
      this.tell("forged", "signature_invalid", "error", last.good.line);
    }
  }

  private judgeSigners(): void {
    const { trust } = this.options;
    for (const [at, { key, judgement, fingerprint }] of this.signers.entries()) {
      const row = rowOf(judgement?.standing ?? (trust.pins.length > 0 ? "not_pinned" : "unknown"));
      if (key === null || judgement === null) {
        this.report.signers.push({ key: fingerprint, did: null, name: null, status: row.status });
        if (at > 0) continue;
      } else this.report.signers.push(signerOf(key, judgement));
      if (row.code !== null) this.report.downgrade(row.verdict, row.code, row.severity);
    }
  }

  private expectedHead(): boolean {
    if (this.watch === null) return false;
    const result = this.watch.result(this.record, this.good, this.options.exact === true);
    if (result === null) return true;
    const decided = this.watch.metAt >= 0 || this.watch.differsAt >= 0;
    if (decided || !this.broken) this.report.downgrade(result.verdict, result.code, result.severity);
    return false;
  }

  private withoutGood(): void {
    const { report } = this;
    if (this.checkpoints > 0 || isEvidence(report.verdict)) return;
    const fault = this.waiting[0];
    if (fault !== undefined) report.verdict = "malformed";
    else if (this.tail?.fits === true) this.tell("unsigned_tail", "torn_checkpoint", "warning", this.tail.line);
    else report.downgrade("unsigned", "no_checkpoint", "warning");
  }

  private ending(last: Good): void {
    const { report } = this;
    report.unauthenticated.push(...this.uncovered(last));
    if (isEvidence(report.verdict)) return;
    const lf = this.b.indexOf(0x0a);
    const carriageReturn = lf > 0 && this.b[lf - 1] === 0x0d;
    if (!isWritersSpelling(last.line.bytes, last.tree, carriageReturn)) this.tell("partial", "spelling_uncovered", "warning", last.line);
    if (last.line.to + 1 < this.b.length) this.tell("unsigned_tail", "unsigned_tail", "warning", null);
    if (report.completeness === "unproved") this.tell(null, "end_unproved", "note", null);
  }

  private uncovered({ line, checkpoint }: Good): string[] {
    const names = [`turn=${checkpoint.turn}`, `timestamp=${checkpoint.timestamp}`];
    if (checkpoint.ts !== null) names.push(`ts=${checkpoint.ts}`);
    return names.map((name) => `line ${line.number} ${name}`);
  }

  private members(): void {
    const { report } = this;
    const trusted = this.trusted();
    report.record = this.record;
    const named = isEvidence(report.verdict) ? trusted : this.last;
    report.head = named === null || this.record === null ? null : this.headOf(named);
    Object.assign(report.stats, { bytes: this.b.length, events: this.lines, checkpoints: this.checkpoints });
    if (trusted === null) return;
    report.trusted_until = { line: trusted.line.number - 1, byte: trusted.line.from, turn: trusted.checkpoint.turn };
  }

  /** The newest good checkpoint before any evidence, by a signer that counts. */
  private trusted(): Good | null {
    if (this.lookCloser) return null;
    const counting = this.signers.filter((one) => one.judgement !== null && counts(one.judgement.standing));
    return counting.flatMap((one) => (one.last === null ? [] : [one.last.good])).reduce<Good | null>((x, y) => (x !== null && x.seq > y.seq ? x : y), null);
  }

  private headOf({ line, seq }: Good): string {
    return `${this.record ?? ""}:${seq}:${line.to + 1}:${hex(sha256(line.bytes))}`;
  }
}
