// Ledgers of AbstractRuntime: chains of records, signatures, beginnings, signed heads.
// Rules: spec/ledger.md. Bundles (§8) are in bundle.ts. Not here: stores, what a host remembers.

import { concat, equal, hex, parseBase64, parseHex, parseUtf8, utf8 } from "./bytes.js";
import {
  type Irregularity,
  type Json,
  type JsonObject,
  type Member,
  compareCodePoints,
  decimalValue,
  isInteger,
  ledger,
  ledgerLine,
  ledgerOrdered,
  memberOf,
  nativeString,
  firstInvalidUtf8,
  pythonNumber,
  readPython,
  readPythonPrefix,
  readStrict,
  textOf as anyTextOf,
  without,
} from "./canon.js";
import { parseDidKey } from "./didkey.js";
import { keyId as idBytes, verify } from "./ed25519.js";
import { HeadWatch, parseHead } from "./heads.js";
import { spaceAt, stripSpace } from "./pytext.js";
import { Report, type Verdict, isEvidence, worse } from "./report.js";
import { sha256, tagged } from "./sha256.js";
import { type Purpose, type Trust, judgeIds, judgeSigners, knownKeys } from "./signers.js";

export const MAX_RUN_ID_BYTES = 512;
export const MAX_LINE_BYTES = 16 * 2 ** 20;
export const MAX_LENIENT_RECORD_BYTES = 4 * 2 ** 20;
export const MAX_LINE_RECORDS = 1024;
export const MAX_FORK_RECORDS = 1024;
export const MAX_RECORD_KEYS = 1024;
export const MAX_OPEN_STEPS = 4096;
export const MAX_RECENT_STEPS = 4096;
export const MAX_OPEN_STEP_BYTES = 8 * 2 ** 20;
export const MIN_OPEN_STEP_BYTES = 512;
export const MAX_RECORD_MARKERS = 1024;
export const MAX_LATER_BEGINNINGS = 64;
export const MAX_WHY_BYTES = 4096;
export const MAX_NOTE_BYTES = 2 ** 20;

/** A text; one with a lone surrogate is none (§2). */
function textOf(value: Json | null): string | null {
  const text = anyTextOf(value);
  return text !== null && /\p{Surrogate}/u.test(text) ? null : text;
}

const GENESIS = "threadseal.genesis";
const ACTORS = "threadseal.actors";
const BEGINNINGS = "threadseal.beginnings";
const DIGEST = /^[0-9a-f]{64}$/;
const SIGNED_DIGEST = utf8("threadseal/1 signed digest\0");

export interface LedgerOptions {
  readonly trust: Trust;
  readonly head?: string;
  readonly exact?: boolean;
  readonly length?: number;
  /** The run that was asked for, or that the name of the file or store names. */
  readonly run?: string;
  /** `FILE.head` beside the ledger. */
  readonly signedHead?: Uint8Array;
}

/** How much of the run's ledger is here. */
export type View = "whole" | "window" | "replay";

/** Records that have no lines (§5.1), and the number of the first one. */
export interface Rows {
  readonly rows: readonly Uint8Array[];
  readonly first: number;
  readonly view: View;
}

// ------------------------------------------------------------------------------ from bytes to records

interface Place {
  readonly line: number | null;
  readonly bytes: [number, number];
  readonly turn: number | null;
}

interface Line {
  readonly number: number;
  readonly from: number;
  readonly to: number;
  readonly ended: boolean;
}

/** A record as it was read, or a part of a line that is none. */
type Part =
  | { readonly kind: "record"; readonly tree: JsonObject; readonly irregular: readonly Irregularity[]; readonly bytes: Uint8Array; readonly from: number; readonly line: number; readonly many: boolean }
  | { readonly kind: "skipped"; readonly from: number; readonly to: number; readonly line: number; readonly ended: boolean };

/** Lines end at LF, CR LF or a lone CR. */
function* linesOf(b: Uint8Array): Generator<Line> {
  let from = 0;
  for (let number = 1; from < b.length; number += 1) {
    let to = from;
    while (to < b.length && b[to] !== 0x0a && b[to] !== 0x0d) to += 1;
    const ended = to < b.length;
    yield { number, from, to, ended };
    from = b[to] === 0x0d && b[to + 1] === 0x0a ? to + 2 : to + 1;
  }
}

/** A row: steps 3 and 5 of ledger.md §5.1. */
function partOfRow(row: Uint8Array, number: number): Part {
  const record = (tree: JsonObject, irregular: readonly Irregularity[]): Part => ({
    kind: "record", tree, irregular, bytes: row, from: 0, line: number, many: false,
  });
  const strict = readStrict(row);
  if (strict.ok && strict.value.kind === "object") return record(strict.value, []);
  const python = row.length > MAX_LENIENT_RECORD_BYTES ? null : readPython(row);
  if (python !== null && python.ok && python.value.kind === "object") return record(python.value, python.irregular);
  return { kind: "skipped", from: 0, to: row.length, line: number, ended: true };
}

/** The parts of a file of lines, or of rows. */
function* allParts(source: Uint8Array | Rows): Generator<Part> {
  if (source instanceof Uint8Array) {
    for (const line of linesOf(source)) yield* partsOf(source, line);
    return;
  }
  for (const [i, row] of source.rows.entries()) yield partOfRow(row, i + 1);
}

/** ledger.md §5.1: the records of a line, and the first part of it that is none. */
function partsOf(b: Uint8Array, line: Line): Part[] {
  const whole = b.subarray(line.from, line.to);
  const skipped = (at: number): Part => ({ kind: "skipped", from: line.from + at, to: line.to, line: line.number, ended: line.ended });
  if (whole.length > MAX_LINE_BYTES) return [skipped(0)];
  const record = (tree: JsonObject, irregular: readonly Irregularity[], bytes: Uint8Array, from: number, many: boolean): Part => ({
    kind: "record", tree, irregular, bytes, from: line.from + from, line: line.number, many,
  });
  const strict = readStrict(whole);
  if (strict.ok && strict.value.kind === "object") return [record(strict.value, [], whole, 0, false)];
  if (firstInvalidUtf8(whole) >= 0) return [skipped(0)];
  const inner = stripSpace(whole, 0, whole.length);
  if (inner.from >= inner.to) return [];
  const bytes = whole.subarray(inner.from, inner.to);
  if (bytes.length > MAX_LENIENT_RECORD_BYTES) return [skipped(0)];
  const python = readPython(bytes);
  if (python.ok) {
    if (python.value.kind !== "object") return [skipped(inner.from)];
    return [record(python.value, python.irregular, bytes, inner.from, false)];
  }
  if (isBound(python.refusal.kind)) return [skipped(0)];
  return series(bytes, (tree, irregular, from, to, many) => record(tree, irregular, bytes.subarray(from, to), inner.from + from, many), (at) => skipped(inner.from + at));
}

function isBound(kind: string): boolean {
  return kind === "too_deep" || kind === "too_many_values" || kind === "number_too_long";
}

/** Step 6: JSON texts one after the other. */
function series(
  bytes: Uint8Array,
  record: (tree: JsonObject, irregular: readonly Irregularity[], from: number, to: number, many: boolean) => Part,
  skipped: (at: number) => Part,
): Part[] {
  const found: { tree: JsonObject; irregular: readonly Irregularity[]; from: number; to: number }[] = [];
  let firstSkipped = -1;
  let at = 0;
  for (;;) {
    for (let n = spaceAt(bytes, at); n > 0; n = spaceAt(bytes, at)) at += n;
    if (at >= bytes.length) break;
    const reading = found.length < MAX_LINE_RECORDS ? readPythonPrefix(bytes, at) : null;
    if (reading === null || !reading.ok) {
      if (firstSkipped < 0) firstSkipped = at;
      break;
    }
    if (reading.value.kind === "object") {
      found.push({ tree: reading.value, irregular: reading.irregular, from: at, to: reading.end });
    } else if (firstSkipped < 0) firstSkipped = at;
    at = reading.end;
  }
  const parts: Part[] = [];
  let told = firstSkipped < 0;
  for (const f of found) {
    if (!told && f.from > firstSkipped) {
      parts.push(skipped(firstSkipped));
      told = true;
    }
    // The tree has the places of the whole line; the bytes of the record begin at `from`.
    parts.push(record(f.tree, f.irregular, f.from, f.to, found.length > 1));
  }
  if (!told) parts.push(skipped(firstSkipped));
  return parts;
}

// ------------------------------------------------------------------------------------ hashes

interface RunRecord {
  readonly tree: JsonObject;
  readonly irregular: readonly Irregularity[];
  readonly bytes: Uint8Array;
  readonly place: Place;
  readonly number: number;
  readonly recordHash: Json | null;
  readonly prevHash: Json | null;
  /** The text of `record_hash` where it is a digest. */
  readonly digest: string | null;
}

function isNothing(value: Json | null): boolean {
  return value === null || value.kind === "null";
}

function digestOf(value: Json | null): string | null {
  const text = textOf(value);
  return text !== null && DIGEST.test(text) ? text : null;
}

/** ledger.md §3: the value that is hashed. */
function coveredValue(tree: JsonObject): JsonObject {
  const value = without(tree, ["record_hash", "signature"]);
  if (memberOf(value, "prev_hash") !== null) return value;
  const at = { from: 0, to: 0 };
  const absent: Member = { name: "prev_hash", nameAt: at, value: { kind: "null", ...at } };
  return { ...value, members: [...value.members, absent] };
}

type HashCheck = "holds" | "holds_by_numbers" | "wrong";

function checkHash(tree: JsonObject, digest: string): HashCheck {
  const value = coveredValue(tree);
  const text = ledger(value);
  if (text === null) return "wrong";
  if (hex(sha256(text)) === digest) return "holds";
  let numeric = false;
  const other = ledgerOrdered(value, (members) => {
    if (members.length >= 2 && members.every((m) => isNumericName(m.name))) {
      numeric = true;
      return [...members].sort((x, y) => compareNumericNames(x.name, y.name));
    }
    return [...members].sort((x, y) => compareCodePoints(x.name, y.name));
  });
  if (!numeric || other === null) return "wrong";
  return hex(sha256(other)) === digest ? "holds_by_numbers" : "wrong";
}

function isNumericName(name: string): boolean {
  return name === "true" || name === "false" || /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/.test(name);
}

function compareNumericNames(x: string, y: string): number {
  const plain = (name: string): string => (name === "true" ? "1" : name === "false" ? "0" : name);
  const a = plain(x);
  const b = plain(y);
  if (isInteger(a) && isInteger(b)) {
    const d = BigInt(a) - BigInt(b);
    return d < 0n ? -1 : d > 0n ? 1 : 0;
  }
  return Number(a) - Number(b);
}

// ------------------------------------------------------------------------------------ steps

const MOMENT = /^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?([Zz]|[+-][0-9]{2}:[0-9]{2})$/;
const END_OF_9999 = 253_402_300_800n * 1_000_000n;

/** Microseconds since 1970; null where the text is no moment (ledger.md §2). */
function parseMoment(text: string): bigint | null {
  const p = MOMENT.exec(text);
  if (p === null) return null;
  const part = (i: number): number => Number(p[i]);
  const date = new Date(0);
  date.setUTCFullYear(part(1), part(2) - 1, part(3));
  if (date.getUTCMonth() !== part(2) - 1 || date.getUTCDate() !== part(3)) return null;
  if (part(4) > 23 || part(5) > 59 || part(6) > 59) return null;
  date.setUTCHours(part(4), part(5), part(6));
  const zone = p[8]!;
  let offset = 0;
  if (zone !== "Z" && zone !== "z") {
    const hours = Number(zone.slice(1, 3));
    const minutes = Number(zone.slice(4, 6));
    if (hours > 23 || minutes > 59) return null;
    offset = (zone[0] === "-" ? -1 : 1) * (hours * 3600 + minutes * 60);
  }
  const micros = BigInt(date.getTime() / 1000 - offset) * 1_000_000n + BigInt((p[7] ?? "").padEnd(6, "0").slice(0, 6));
  return micros >= 0n && micros < END_OF_9999 ? micros : null;
}

interface OpenStep {
  readonly place: Place;
  /** The payload of the `started` record, where it is kept for markers. */
  readonly payload: Json | null;
  readonly kept: boolean;
  readonly size: number;
}

type Tell = (code: string, place: Place) => void;

/** ledger.md §5.4. */
class Steps {
  private readonly open = new Map<string, OpenStep>();
  private readonly ended = new Set<string>();
  private keptBytes = 0;
  private last: bigint | null = null;

  constructor(private readonly warn: Tell) {}

  time(record: RunRecord): void {
    const ended = memberOf(record.tree, "ended_at");
    const started = memberOf(record.tree, "started_at");
    const read = (value: Json | null): bigint | null | undefined => {
      if (value === null || value.kind === "null") return undefined;
      const text = textOf(value);
      return text === null ? null : parseMoment(text);
    };
    const end = read(ended);
    const start = read(started);
    if (end === null || start === null) this.warn("time_unreadable", record.place);
    const moment = end === undefined ? start : end;
    if (moment === undefined || moment === null) return;
    if (this.last !== null && moment < this.last) this.warn("time_backwards", record.place);
    this.last = moment;
  }

  step(record: RunRecord): void {
    const id = textOf(memberOf(record.tree, "step_id"));
    const status = textOf(memberOf(record.tree, "status"));
    if (id === null || status === null || !STATUSES.includes(status)) return;
    if (status === "started") this.begin(id, record);
    else this.end(id, record);
  }

  private begin(id: string, record: RunRecord): void {
    if (this.open.has(id) || this.ended.has(id)) {
      this.warn("step_started_twice", record.place);
      return;
    }
    if (this.open.size >= MAX_OPEN_STEPS) return;
    const size = record.bytes.length;
    const fits = size >= MIN_OPEN_STEP_BYTES && size <= MAX_LENIENT_RECORD_BYTES;
    const kept = fits && this.keptBytes + size <= MAX_OPEN_STEP_BYTES;
    if (kept) this.keptBytes += size;
    const payload = kept ? memberOf(memberOf(record.tree, "effect"), "payload") : null;
    this.open.set(id, { place: record.place, payload, kept, size });
  }

  private end(id: string, record: RunRecord): void {
    const step = this.open.get(id);
    if (step === undefined && this.ended.has(id)) {
      this.warn("step_ended_twice", record.place);
      return;
    }
    if (step === undefined && !isAlone(record.tree)) this.warn("step_unstarted", record.place);
    if (step?.kept === true) this.keptBytes -= step.size;
    this.open.delete(id);
    this.ended.add(id);
    const oldest = this.ended.values().next();
    if (this.ended.size > MAX_RECENT_STEPS && oldest.done !== true) this.ended.delete(oldest.value);
  }

  finish(): void {
    for (const step of this.open.values()) {
      this.warn("step_unended", step.place);
      return;
    }
  }

  opened(id: string): OpenStep | null {
    return this.open.get(id) ?? null;
  }
}

const STATUSES = ["started", "completed", "waiting", "failed", "cancelled"];

function effectType(tree: JsonObject): string | null {
  return textOf(memberOf(memberOf(tree, "effect"), "type"));
}

/** ledger.md §2: records that belong to no started one. */
function isAlone(tree: JsonObject): boolean {
  if (isNothing(memberOf(tree, "effect"))) return true;
  const type = effectType(tree);
  if (type === "resume" || type === GENESIS || type === ACTORS || type === BEGINNINGS) return true;
  return (textOf(memberOf(tree, "idempotency_key")) ?? "").startsWith("system:");
}

// ------------------------------------------------------------------------------------ markers

/** The objects whose members may be markers. */
function markerHolders(tree: JsonObject): Json[] {
  const metadata = memberOf(memberOf(tree, "result"), "metadata");
  const observed = memberOf(memberOf(metadata, "_runtime_observability"), "llm_generate_kwargs");
  const request = memberOf(memberOf(metadata, "_provider_request"), "payload");
  const all = [memberOf(memberOf(tree, "effect"), "payload"), metadata, observed, request];
  return all.filter((value): value is Json => value !== null && value.kind === "object");
}

function slimMarkers(tree: JsonObject): JsonObject[] {
  const found: JsonObject[] = [];
  for (const holder of markerHolders(tree)) {
    if (holder.kind !== "object") continue;
    for (const member of holder.members) {
      const slim = memberOf(member.value, "$slim");
      if (slim !== null && slim.kind === "object") found.push(slim);
    }
  }
  return found.slice(0, MAX_RECORD_MARKERS);
}

/** Whether content of the record was left out. */
function hasOmitted(record: RunRecord): boolean {
  if (record.bytes.length > MAX_LENIENT_RECORD_BYTES) return false;
  const isOmitted = (value: Json): boolean => memberOf(value, "$slim")?.kind !== "object" && memberOf(value, "$omitted") !== null;
  return markerHolders(record.tree).some((holder) => holder.kind === "object" && holder.members.some((m) => isOmitted(m.value)));
}

/** Whether the marker resolves; null where the step is beyond the bounds, so that it is not checked. */
function resolves(slim: JsonObject, steps: Steps): boolean | null {
  const step = steps.opened(textOf(memberOf(slim, "step_id")) ?? "");
  if (step === null) return false;
  if (!step.kept) return null;
  const content = slimContent(slim, step.payload);
  if (content === null) return false;
  const text = ledgerLine(content);
  return text !== null && hex(sha256(text)) === textOf(memberOf(slim, "sha256"));
}

const NOWHERE = { from: 0, to: 0 };

function slimContent(slim: JsonObject, payload: Json | null): Json | null {
  const kind = textOf(memberOf(slim, "kind"));
  if (kind === "started_payload_field") {
    const field = textOf(memberOf(slim, "field"));
    const value = field === null ? null : memberOf(payload, field);
    return value === null ? null : appended(slim, value);
  }
  if (kind !== "started_messages_layout") return null;
  const layout = memberOf(slim, "layout");
  if (layout === null || layout.kind !== "array" || layout.items.length > 3) return null;
  const items: Json[] = [];
  for (const word of layout.items) {
    const part = layoutPart(textOf(word), payload);
    if (part === null) return null;
    items.push(...part);
  }
  return appended(slim, { kind: "array", items, ...NOWHERE });
}

function layoutPart(word: string | null, payload: Json | null): readonly Json[] | null {
  if (word === "system") return message("system", textOf(memberOf(payload, "system_prompt")));
  if (word === "prompt") return message("user", textOf(memberOf(payload, "prompt")));
  if (word !== "messages") return null;
  const messages = memberOf(payload, "messages");
  if (messages === null || messages.kind !== "array") return [];
  return messages.items.filter((item) => item.kind === "object");
}

function message(role: string, content: string | null): Json[] {
  if (content === null || content === "") return [];
  const text = (value: string): Json => ({ kind: "string", value, escaped: false, ...NOWHERE });
  const member = (name: string, value: Json): Member => ({ name, nameAt: NOWHERE, value });
  return [{ kind: "object", members: [member("role", text(role)), member("content", text(content))], ...NOWHERE }];
}

function appended(slim: JsonObject, value: Json): Json | null {
  const appendix = memberOf(slim, "appendix");
  if (isNothing(appendix) || appendix === null) return value;
  if (appendix.kind !== "array" || value.kind !== "array") return null;
  const items = [...value.items];
  for (const entry of appendix.items) {
    const at = memberOf(entry, "at");
    const item = memberOf(entry, "item");
    if (at === null || at.kind !== "number" || item === null || !isInteger(at.text)) return null;
    const index = Number(at.text);
    if (index < 0 || index > items.length) return null;
    items.splice(index, 0, item);
  }
  return { kind: "array", items, ...NOWHERE };
}

function anyObject(value: Json, holds: (value: JsonObject) => boolean): boolean {
  if (value.kind === "array") return value.items.some((item) => anyObject(item, holds));
  if (value.kind !== "object") return false;
  return holds(value) || value.members.some((m) => anyObject(m.value, holds));
}

function anyNumber(value: Json, holds: (text: string) => boolean): boolean {
  if (value.kind === "number") return holds(value.text);
  if (value.kind === "array") return value.items.some((item) => anyNumber(item, holds));
  return value.kind === "object" && value.members.some((m) => anyNumber(m.value, holds));
}

function isInexact(text: string): boolean {
  if (isInteger(text) || !/[0-9]/.test(text)) return false;
  return !Number.isFinite(Number(text)) || decimalValue(text) !== decimalValue(pythonNumber(text));
}

// ------------------------------------------------------------------------------------ declarations

type Actors = Map<string, Uint8Array>;

interface Genesis {
  readonly actors: Actors;
}

function isTextOrNull(value: Json | null): boolean {
  return isNothing(value) || textOf(value) !== null;
}

function isHexOrNull(value: Json | null): boolean {
  return isNothing(value) || digestOf(value) !== null;
}

/** ledger.md §6: actor id to key; null where one fingerprint is wrong. */
function actorsOf(value: Json | null): Actors | null {
  const actors: Actors = new Map();
  if (isNothing(value) || value === null) return actors;
  if (value.kind !== "object" || value.members.length > MAX_RECORD_KEYS) return null;
  for (const { name, value: actor } of value.members) {
    const key = parseDidKey(textOf(memberOf(memberOf(actor, "metadata"), "public_key")) ?? "");
    if (key === null || actorId(actor) !== name) return null;
    actors.set(name, key);
  }
  return actors;
}

function actorId(actor: Json): string | null {
  const kind = memberOf(actor, "kind");
  const metadata = memberOf(actor, "metadata");
  const shown = memberOf(actor, "display_name") ?? ({ kind: "null", ...NOWHERE } as const);
  if (textOf(kind) === null || kind === null || !isTextOrNull(shown)) return null;
  if (metadata === null || metadata.kind !== "object") return null;
  const member = (name: string, value: Json): Member => ({ name, nameAt: NOWHERE, value });
  const members = [member("kind", kind), member("display_name", shown), member("metadata", metadata)];
  const text = ledger({ kind: "object", members, ...NOWHERE });
  return text === null ? null : `ar_${hex(sha256(text)).slice(0, 24)}`;
}

function genesisOf(tree: JsonObject): Genesis | null {
  const payload = memberOf(memberOf(tree, "effect"), "payload");
  const get = (name: string): Json | null => memberOf(payload, name);
  if (textOf(get("format")) !== "threadseal-ledger/1" || digestOf(get("record")) === null) return null;
  if (!isTextOrNull(get("workflow_id"))) return null;
  if (!isHexOrNull(get("workflow_sha256")) || !isHexOrNull(get("inputs_sha256"))) return null;
  if (parseMoment(textOf(get("created_at")) ?? "") === null || !isParent(get("parent"))) return null;
  const actors = actorsOf(get("actors"));
  return actors === null ? null : { actors };
}

function isParent(value: Json | null): boolean {
  if (isNothing(value) || value === null) return true;
  return value.kind === "object" && isRunId(textOf(memberOf(value, "run_id"))) && isHexOrNull(memberOf(value, "head"));
}

export function isRunId(text: string | null): text is string {
  if (text === null || text === "" || /[\0\r\n]/.test(text)) return false;
  return utf8(text).length <= MAX_RUN_ID_BYTES;
}

interface Beginning {
  readonly record: number;
  readonly hash: string;
}

function beginningsOf(tree: JsonObject): Beginning[] | null {
  const payload = memberOf(memberOf(tree, "effect"), "payload");
  const why = textOf(memberOf(payload, "why"));
  const list = memberOf(payload, "beginnings");
  if (why === null || why === "" || utf8(why).length > MAX_WHY_BYTES) return null;
  if (list === null || list.kind !== "array" || list.items.length < 1) return null;
  if (list.items.length > MAX_LATER_BEGINNINGS) return null;
  const found: Beginning[] = [];
  for (const item of list.items) {
    const record = memberOf(item, "record");
    const hash = digestOf(memberOf(item, "hash"));
    if (record === null || record.kind !== "number" || !/^[1-9][0-9]{0,15}$/.test(record.text)) return null;
    if (hash === null) return null;
    found.push({ record: Number(record.text), hash });
  }
  return found;
}

/** Whether the text spells one of the three types without escapes. */
function spellsDeclaration(bytes: Uint8Array): boolean {
  const text = parseUtf8(bytes) ?? "";
  return [GENESIS, ACTORS, BEGINNINGS].some((type) => text.includes(`"${type}"`));
}

// ------------------------------------------------------------------------------------ signed heads

interface SignedHead {
  readonly record: string;
  readonly count: bigint;
  readonly line: string;
  readonly run: string;
  readonly key: Uint8Array;
  readonly signatures: string | null;
  readonly file: { readonly digest: string; readonly size: bigint } | null;
  readonly text: Uint8Array;
  readonly signature: Uint8Array;
}

/** ledger.md §7: the signed head in its one spelling, else null. */
export function parseSignedHead(b: Uint8Array): SignedHead | null {
  if (b.length > MAX_NOTE_BYTES) return null;
  const all = parseUtf8(b);
  if (all === null || !all.endsWith("\n")) return null;
  const lines = all.slice(0, -1).split("\n");
  const signatureLine = lines.pop();
  if (lines.pop() !== "" || signatureLine === undefined) return null;
  const [origin, count, line, ...rest] = lines;
  if (origin === undefined || count === undefined || line === undefined) return null;
  const record = /^threadseal\/1\/ledger\/([0-9a-f]{64})$/.exec(origin)?.[1];
  const digest = parseBase64(line);
  if (record === undefined || !/^[1-9][0-9]{0,19}$/.test(count) || digest?.length !== 32) return null;
  const members = new Map<string, string>();
  const order = ["run", "key", "time", "first", "last", "signatures", "file"];
  let next = 0;
  for (const text of rest) {
    const at = text.indexOf(" ");
    const place = order.indexOf(text.slice(0, at), next);
    if (at < 0 || place < 0) return null;
    members.set(order[place]!, text.slice(at + 1));
    next = place + 1;
  }
  const run = runOfNativeString(members.get("run") ?? "");
  const key = parseDidKey(members.get("key") ?? "");
  const time = members.get("time") ?? "";
  if (run === null || key === null || !/^[0-9-]{10}T[0-9:]{8}Z$/.test(time) || parseMoment(time) === null) return null;
  for (const name of ["first", "last"]) {
    const moment = members.get(name);
    if (moment !== undefined && (!PYTHON_MOMENT.test(moment) || parseMoment(moment) === null)) return null;
  }
  const signatures = members.get("signatures") ?? null;
  if (signatures !== null && !DIGEST.test(signatures)) return null;
  const file = fileOf(members.get("file"));
  if (file === undefined) return null;
  const signature = noteSignature(signatureLine, origin, key);
  if (signature === null || record !== hex(tagged("threadseal/1 ledger run", [utf8(run)]))) return null;
  if (BigInt(count) >= 1n << 64n) return null;
  return { record, count: BigInt(count), line: hex(digest), run, key, signatures, file, text: utf8(`${lines.join("\n")}\n`), signature };
}

/** The one spelling of a moment that Python writes. */
const PYTHON_MOMENT = /^[^.]{19}(?:\.(?!000000)[0-9]{6})?\+00:00$/;

function runOfNativeString(text: string): string | null {
  const reading = readStrict(utf8(text));
  if (!reading.ok || reading.value.kind !== "string") return null;
  const run = reading.value.value;
  return nativeString(run) === text && isRunId(run) ? run : null;
}

function fileOf(text: string | undefined): SignedHead["file"] | undefined {
  if (text === undefined) return null;
  const parts = /^([0-9a-f]{64}) (0|[1-9][0-9]*)$/.exec(text);
  return parts === null ? undefined : { digest: parts[1]!, size: BigInt(parts[2]!) };
}

/** The 64 bytes of the note's one signature line, whose name and id must be those of the key. */
function noteSignature(line: string, name: string, key: Uint8Array): Uint8Array | null {
  const start = `\u2014 ${name} `;
  if (!line.startsWith(start)) return null;
  const bytes = parseBase64(line.slice(start.length));
  if (bytes === null || bytes.length !== 68) return null;
  const id = sha256(concat(utf8(name), Uint8Array.of(0x0a, 0x01), key)).subarray(0, 4);
  return equal(bytes.subarray(0, 4), id) ? bytes.slice(4) : null;
}

// ------------------------------------------------------------------------------------ judging

export async function verifyLedger(source: Uint8Array | Rows, options: LedgerOptions): Promise<Report> {
  const first = new Judge(source, options, []);
  const report = await first.run();
  if (first.admitted.length === 0) return report;
  return new Judge(source, options, first.admitted.slice(0, MAX_LATER_BEGINNINGS)).run();
}

interface Link {
  readonly prev: string | null;
  readonly digest: string;
}

interface Last {
  readonly place: Place;
  readonly number: number;
}

class Judge {
  /** Admissions that count. */
  readonly admitted: Beginning[] = [];
  private readonly report = new Report("ledger", "abstractruntime");
  private readonly steps = new Steps((code, place) => this.warn(code, place));
  private readonly watch: HeadWatch | null;
  private readonly signedHead: SignedHead | null;
  private readonly signedWatch: { at: "none" | "met" | "other"; signatures: boolean } = { at: "none", signatures: true };
  private readonly known: Map<string, Uint8Array>;
  private readonly signers: Uint8Array[] = [];
  private readonly unknownIds: string[] = [];
  private readonly actors: Actors = new Map();
  private readonly places: Last[] = [];
  private readonly signed: boolean[] = [];
  private readonly hashed: boolean[] = [];
  /** The first `record_unchained` behind the last record with a digest, or -1. */
  private unchainedFrom = -1;
  private recent: Link[] = [];
  /** Parts that are no record, and that no record follows so far. */
  private skippedParts: (Part & { kind: "skipped" })[] = [];
  private count = 0;
  private run_: string | null = null;
  private prev: string | null = null;
  private anyDigest = false;
  private forked = false;
  private brokenAt = -1;
  private artifact = false;
  private signatureDigest = tagged("threadseal/1 ledger signatures", []);
  private lastDigest: string | null = null;
  private actorsNamed = false;
  private anyMarker = false;
  /** A marker was beyond the bounds. */
  private unresolved = false;
  private signedHeadFailed = false;
  private signedHolds = false;

  /** The number of the first record that is here. */
  private readonly first: number;
  private readonly view: View;

  constructor(
    private readonly source: Uint8Array | Rows,
    private readonly options: LedgerOptions,
    private readonly later: readonly Beginning[],
  ) {
    this.first = source instanceof Uint8Array ? 0 : source.first;
    this.view = source instanceof Uint8Array ? "whole" : source.view;
    const head = options.head === undefined ? null : parseHead(options.head);
    if (options.head !== undefined && head === null) throw new Error("the expected head is none");
    this.watch = head === null || this.view !== "whole" ? null : new HeadWatch(head);
    this.signedHead = options.signedHead === undefined ? null : parseSignedHead(options.signedHead);
    this.known = new Map(knownKeys(options.trust).map((key) => [keyId(key), key]));
  }

  async run(): Promise<Report> {
    if (this.options.signedHead !== undefined && this.signedHead === null) {
      this.report.downgrade("malformed", "head_malformed", "error", null);
    }
    const head = this.signedHead;
    this.signedHolds = head !== null && (await verify(head.key, head.text, head.signature));
    for (const part of allParts(this.source)) await this.part(part);
    await this.end();
    return this.report;
  }

  private async part(part: Part): Promise<void> {
    if (part.kind === "skipped") {
      this.skippedParts.push(part);
      return;
    }
    for (const { line, from, to } of this.skippedParts) {
      this.error("tampered", "line_skipped", { line, bytes: [from, to], turn: null });
    }
    this.skippedParts = [];
    await this.record(part);
    this.count += 1;
  }

  private warn(code: string, place: Place): void {
    this.report.downgrade(null, code, "warning", place);
  }

  private error(verdict: Verdict, code: string, place: Place): void {
    this.report.downgrade(verdict, code, "error", place);
    if (isEvidence(verdict) && this.brokenAt < 0) this.brokenAt = this.count;
  }

  private async record(part: Part & { kind: "record" }): Promise<void> {
    const { tree } = part;
    const number = this.first + this.count;
    const place: Place = { line: part.line, bytes: [part.from, part.from + part.bytes.length], turn: number };
    const recordHash = memberOf(tree, "record_hash");
    const record: RunRecord = {
      tree, irregular: part.irregular, bytes: part.bytes, place, number, recordHash,
      prevHash: memberOf(tree, "prev_hash"), digest: digestOf(recordHash),
    };
    if (part.many) this.warn("line_of_many", place);
    this.places.push({ place, number });
    this.hashed.push(record.digest !== null);
    if (record.digest !== null) this.unchainedFrom = -1;
    this.runOf(record);
    this.value(record);
    this.step(record);
    this.hash(record);
    this.heads(record);
    await this.declarationsAndSignature(record);
    this.lastDigest = record.digest;
    if (record.digest !== null) this.anyDigest = true;
    this.prev = record.digest;
  }

  /** Step 1. */
  private runOf(record: RunRecord): void {
    const id = textOf(memberOf(record.tree, "run_id"));
    const asked = this.options.run ?? this.run_;
    if (id !== null && asked !== null && id !== asked) this.error("foreign", "record_foreign", record.place);
    else if (!isRunId(id)) this.warn("record_odd", record.place);
    if (this.run_ === null && isRunId(id)) this.run_ = id;
  }

  /** Step 2. */
  private value(record: RunRecord): void {
    const irregular = (kind: string): boolean => record.irregular.some((i) => i.kind === kind);
    if (irregular("duplicate_key")) this.error("tampered", "name_repeated", record.place);
    if (anyNumber(record.tree, isInexact)) this.report.downgrade("partial", "number_inexact", "error", record.place);
    if (irregular("non_finite")) this.warn("number_not_finite", record.place);
    if (irregular("lone_surrogate")) this.warn("lone_surrogate", record.place);
    const odd = ["step_id", "status", "started_at"].some((name) => textOf(memberOf(record.tree, name)) === null);
    if (odd || !STATUSES.includes(textOf(memberOf(record.tree, "status")) ?? "")) this.warn("record_odd", record.place);
  }

  /** Step 3. */
  private step(record: RunRecord): void {
    this.steps.time(record);
    this.markers(record);
    this.steps.step(record);
    const isArtifact = (value: JsonObject): boolean => textOf(memberOf(value, "$artifact")) !== null;
    if (!this.artifact && anyObject(record.tree, isArtifact)) {
      this.artifact = true;
      this.report.downgrade(null, "artifact_elsewhere", "note", record.place);
    }
  }

  private markers(record: RunRecord): void {
    if (record.bytes.length > MAX_LENIENT_RECORD_BYTES) {
      const named = (value: JsonObject): boolean => value.members.some((m) => m.name.startsWith("$"));
      if (anyObject(record.tree, named)) this.warn("markers_unread", record.place);
      return;
    }
    const results = slimMarkers(record.tree).map((slim) => resolves(slim, this.steps));
    this.anyMarker = this.anyMarker || results.length > 0;
    this.unresolved = this.unresolved || results.includes(null);
    if (results.includes(false)) {
      this.report.downgrade("partial", "slim_unresolved", "error", record.place);
    }
  }

  /** Steps 4 and 5. */
  private hash(record: RunRecord): void {
    if (record.digest !== null) {
      const check = checkHash(record.tree, record.digest);
      const omitted = this.view === "replay" && hasOmitted(record);
      if (check === "wrong" && !omitted) this.error("tampered", "hash_wrong", record.place);
      if (check === "holds_by_numbers") this.warn("numeric_names", record.place);
      this.link(record, record.digest);
    } else if (!isNothing(record.recordHash)) this.error("tampered", "hash_wrong", record.place);
    else if (!isNothing(record.prevHash)) this.error("tampered", "hash_missing", record.place);
    else {
      this.report.downgrade("unsigned", "record_unchained", "warning", record.place);
      if (this.unchainedFrom < 0) this.unchainedFrom = this.count;
    }
  }

  private link(record: RunRecord, digest: string): void {
    const nothing = isNothing(record.prevHash);
    const prev = textOf(record.prevHash);
    this.linked(record, nothing, prev, digest);
    this.recent.push({ prev, digest });
    if (this.recent.length > MAX_FORK_RECORDS) this.recent.shift();
  }

  private linked(record: RunRecord, nothing: boolean, prev: string | null, digest: string): void {
    if (nothing && !this.anyDigest) return;
    if (prev !== null && prev === this.prev) return;
    const twin = prev === null || !DIGEST.test(prev) ? undefined : this.recent.find((r) => r.prev === prev);
    if (this.count === 0 && prev !== null && DIGEST.test(prev)) {
      if (this.view === "whole") this.error("truncated", "predecessor_missing", record.place);
    } else if (nothing) this.error("tampered", "chain_restarted", record.place);
    else if (twin !== undefined && twin.digest === digest) this.error("tampered", "record_repeated", record.place);
    else if (twin !== undefined) {
      this.forked = true;
      this.error("forked", "chain_forked", record.place);
    } else if (this.forked && prev !== null && this.recent.some((r) => r.digest === prev)) {
      this.error("forked", "chain_forked", record.place);
    } else this.error("tampered", "chain_broken", record.place);
  }

  /** The record of the run: what heads name. */
  private recordId(): string | null {
    return this.run_ === null ? null : hex(tagged("threadseal/1 ledger run", [utf8(this.run_)]));
  }

  /** Step 6. */
  private heads(record: RunRecord): void {
    if (record.digest === null) return;
    const candidate = { seq: record.number, size: BigInt(record.number + 1), line: record.digest };
    if (this.watch !== null && this.watch.see(this.recordId(), candidate) && this.brokenAt < 0) {
      this.brokenAt = this.count;
    }
    if (this.signedHead !== null && this.signedHead.count === candidate.size) {
      this.signedWatch.at = this.signedHead.line === record.digest ? "met" : "other";
    }
  }

  /** Steps 7 and 8, and the declarations of §6. */
  private async declarationsAndSignature(record: RunRecord): Promise<void> {
    const type = effectType(record.tree);
    const read = record.number === 0 || spellsDeclaration(record.bytes);
    const tooLong = record.bytes.length > MAX_LENIENT_RECORD_BYTES;
    if (read && type === GENESIS) this.genesis(record, tooLong);
    const signer = await this.signature(record);
    if (read && type === ACTORS) this.moreActors(record, signer, tooLong);
    if (read && type === BEGINNINGS) this.moreBeginnings(record, signer, tooLong);
    this.signatureText(record);
  }

  private genesis(record: RunRecord, tooLong: boolean): void {
    const genesis = tooLong ? null : genesisOf(record.tree);
    if (genesis === null) this.error("malformed", "genesis_bad", record.place);
    if (record.number > 0) {
      if (genesis === null) return;
      const admitted = this.later.some((l) => l.record === record.number && l.hash === record.digest);
      if (admitted) this.warn("genesis_repeated", record.place);
      else this.error("tampered", "genesis_misplaced", record.place);
      return;
    }
    this.report.profile = "threadseal";
    if (genesis !== null) this.name(genesis.actors, record);
  }

  private name(actors: Actors, record: RunRecord): void {
    for (const [id, key] of actors) {
      if (this.actors.has(id)) continue;
      if (this.actors.size >= MAX_RECORD_KEYS) {
        this.error("malformed", "too_many_keys", record.place);
        return;
      }
      this.actors.set(id, key);
      this.known.set(keyId(key), key);
      this.actorsNamed = true;
    }
  }

  private signedByActor(signer: Uint8Array | null): boolean {
    return signer !== null && [...this.actors.values()].some((key) => equal(key, signer));
  }

  private moreActors(record: RunRecord, signer: Uint8Array | null, tooLong: boolean): void {
    const value = memberOf(memberOf(memberOf(record.tree, "effect"), "payload"), "actors");
    const actors = tooLong || value === null || value.kind !== "object" ? null : actorsOf(value);
    if (actors === null) this.error("malformed", "genesis_bad", record.place);
    else if (this.signedByActor(signer)) this.name(actors, record);
  }

  private moreBeginnings(record: RunRecord, signer: Uint8Array | null, tooLong: boolean): void {
    if (tooLong) return;
    const beginnings = beginningsOf(record.tree);
    if (beginnings === null) this.error("malformed", "genesis_bad", record.place);
    else if (!this.actorsNamed || this.signedByActor(signer)) {
      this.admitted.push(...beginnings.filter((beginning) => beginning.record < record.number));
    }
  }

  /** ledger.md §6, "Verifying": the key that signed the record, or null. */
  private async signature(record: RunRecord): Promise<Uint8Array | null> {
    const value = memberOf(record.tree, "signature");
    this.signed.push(!isNothing(value));
    if (isNothing(value)) {
      const asked = this.options.trust.pins.length > 0 && this.signedHead === null;
      if (this.actorsNamed || asked) this.error("tampered", "signature_missing", record.place);
      return null;
    }
    const parts = /^ed25519:([0-9a-f]{64}):([A-Za-z0-9+/]{86}==)$/.exec(textOf(value) ?? "");
    const bytes = parts === null ? null : parseBase64(parts[2]!);
    if (parts === null || bytes === null || bytes.length !== 64 || record.digest === null) {
      this.error("forged", "signature_unreadable", record.place);
      return null;
    }
    const id = parts[1]!;
    const key = this.known.get(id) ?? null;
    if (key !== null && !(await verify(key, signedMessage(record.digest), bytes))) {
      this.error("forged", "signature_bad", record.place);
      return null;
    }
    if (this.actorsNamed) {
      const actor = this.actors.get(textOf(memberOf(record.tree, "actor_id")) ?? "");
      if (actor === undefined) this.error("forged", "actor_unnamed", record.place);
      else if (keyId(actor) !== id) this.error("forged", "actor_differs", record.place);
      if (actor === undefined || keyId(actor) !== id) return null;
    }
    if (key === null) this.addId(id, record);
    else this.addSigner(key, record);
    return key;
  }

  private addId(id: string, record: RunRecord): void {
    if (this.unknownIds.includes(id)) return;
    if (this.tooMany(record)) return;
    this.unknownIds.push(id);
  }

  private addSigner(key: Uint8Array, record: RunRecord): void {
    if (this.signers.some((known) => equal(known, key))) return;
    if (this.tooMany(record)) return;
    this.signers.push(key);
  }

  private tooMany(record: RunRecord): boolean {
    const many = this.signers.length + this.unknownIds.length >= MAX_RECORD_KEYS;
    if (many) this.error("malformed", "too_many_keys", record.place);
    return many;
  }

  /** Step 8. */
  private signatureText(record: RunRecord): void {
    const value = memberOf(record.tree, "signature");
    if (!isNothing(value)) {
      const number = new Uint8Array(8);
      new DataView(number.buffer).setBigUint64(0, BigInt(record.number));
      const text = sha256(utf8(textOf(value) ?? ""));
      this.signatureDigest = tagged("threadseal/1 ledger signatures", [this.signatureDigest, number, text]);
    }
    const head = this.signedHead;
    if (head === null || !this.signedHolds || head.signatures === null || head.count !== BigInt(record.number + 1)) return;
    if (head.line !== record.digest || head.signatures === hex(this.signatureDigest)) return;
    this.signedWatch.signatures = false;
    this.error("tampered", "signatures_changed", record.place);
  }

  // ------------------------------------------------------------------------------ the end

  private async end(): Promise<void> {
    this.steps.finish();
    this.skippedAtEnd();
    if (this.view === "window") this.report.downgrade("partial", "ledger_window", "warning", null);
    if (this.view === "replay") this.report.downgrade("partial", "ledger_replay", "warning", null);
    const sound = !isEvidence(this.report.verdict);
    const allCount = await this.judge();
    const heldByCaller = this.expectedHead();
    this.expectedLength();
    const heldBySigned = this.heldBySignedHead();
    const held = Math.max(heldByCaller, heldBySigned);
    this.protection(held + 1, allCount);
    const report = this.report;
    report.record = this.recordId();
    report.head = sound && this.view === "whole" && this.lastDigest !== null && report.record !== null
      ? `${report.record}:${this.count - 1}:${this.count}:${this.lastDigest}` : null;
    const whole = held >= 0 || (this.view === "whole" && this.options.length === this.count);
    report.completeness = whole && !isEvidence(report.verdict) ? "head" : "unproved";
    report.trusted_until = this.trustedUntil(held, allCount);
    this.checks(sound, allCount, heldByCaller);
    report.stats.bytes = this.source instanceof Uint8Array ? this.source.length : this.source.rows.reduce((sum, row) => sum + row.length, 0);
    report.stats.events = this.count;
    report.stats.checkpoints = this.hashed.filter((hashed) => hashed).length;
  }

  private checks(sound: boolean, allCount: boolean, heldByCaller: number): void {
    const { report, options } = this;
    const codes = report.codes();
    const any = (...names: string[]): boolean => names.some((name) => codes.includes(name));
    const signed = this.signed.includes(true);
    report.check("chain", this.anyDigest ? (sound ? "pass" : "fail") : "skipped");
    const bad = any("signature_bad", "signature_unreadable", "actor_unnamed", "actor_differs");
    report.check("signatures", signed ? (bad ? "fail" : "pass") : "skipped");
    if (signed || (options.trust.pins.length > 0 && this.signedHead === null)) report.check("trust", allCount ? "pass" : "fail");
    report.check("head", this.watch === null ? "skipped" : heldByCaller >= 0 ? "pass" : "fail");
    if (options.length !== undefined && this.view === "whole") report.check("length", options.length === this.count ? "pass" : "fail");
    if (this.signedHead !== null) report.check("signed_head", this.signedHeadFailed ? "fail" : "pass");
    const oddSteps = codes.some((code) => code.startsWith("step_"));
    report.check("steps", oddSteps ? "skipped" : "pass");
    if (this.anyMarker) report.check("slim", any("slim_unresolved") ? "fail" : this.unresolved ? "skipped" : "pass");
    if (this.artifact) report.check("artifacts", "skipped");
  }

  /** Parts that no record follows. */
  private skippedAtEnd(): void {
    const verdict = this.count === 0 ? "malformed" : "unsigned_tail";
    for (const { line, from, to, ended } of this.skippedParts) {
      this.report.downgrade(verdict, ended ? "line_skipped" : "torn_tail", "error", { line, bytes: [from, to], turn: null });
    }
  }

  private purpose(): Purpose {
    return { usage: "native", format: "ledger", thread: this.run_ };
  }

  /** Whether there is a signer of records and each of them counts. */
  private async judge(): Promise<boolean> {
    const keys = judgeSigners(this.report, this.signers, this.purpose(), this.options.trust);
    const ids = judgeIds(this.report, this.unknownIds, this.options.trust);
    return keys && ids && this.signers.length > 0;
  }

  /** The number of the last record that the caller's head names and that it is held up to, or -1. */
  private expectedHead(): number {
    if (this.watch === null) return -1;
    const result = this.watch.result(this.recordId(), this.count, this.options.exact === true);
    if (result === null) return this.watch.metAt;
    const at = Math.max(this.watch.differsAt, this.watch.metAt);
    this.report.downgrade(result.verdict, result.code, result.severity, this.places[at]?.place ?? null);
    return -1;
  }

  private expectedLength(): void {
    const length = this.options.length;
    if (length === undefined || this.view !== "whole" || length === this.count) return;
    this.report.downgrade(this.count < length ? "truncated" : "open", "length_differs", "error", null);
  }

  /** The number of the last record that a signed head names which holds the ledger, or -1. */
  private heldBySignedHead(): number {
    const head = this.signedHead;
    if (head === null) return -1;
    const tell = (verdict: "forged" | "foreign" | "truncated" | "tampered", code: string): number => {
      this.report.downgrade(verdict, code, "error", null);
      this.signedHeadFailed = true;
      return -1;
    };
    if (!this.signedWatch.signatures) this.signedHeadFailed = true;
    if (!this.signedHolds) return tell("forged", "head_forged");
    const counts = judgeSigners(this.report, [head.key], this.purpose(), this.options.trust);
    if (this.run_ !== null && head.run !== this.run_) return tell("foreign", "head_foreign");
    if (head.count > BigInt(this.count)) return tell("truncated", "head_ahead");
    if (this.signedWatch.at !== "met") return tell("tampered", "head_broken");
    if (!this.fileHolds(head)) return tell("tampered", "file_differs");
    return counts && this.signedWatch.signatures ? Number(head.count) - 1 : -1;
  }

  private fileHolds(head: SignedHead): boolean {
    if (head.file === null || !(this.source instanceof Uint8Array)) return true;
    if (head.file.size > BigInt(this.source.length)) return false;
    return hex(sha256(this.source.subarray(0, Number(head.file.size)))) === head.file.digest;
  }

  /** ledger.md §5.5, step 4. */
  private protection(reached: number, allCount: boolean): void {
    const place = (number: number): Place | null => this.places[number]?.place ?? null;
    if (this.count === 0) {
      this.report.downgrade("unsigned", "ledger_empty", "note", null);
      return;
    }
    if (!this.hashed.includes(true)) {
      this.report.verdict = worse(this.report.verdict, "unsigned");
      return;
    }
    const tail = (number: number): void => this.report.downgrade("unsigned_tail", "unsigned_tail", "warning", place(number));
    if (this.unchainedFrom >= 0) tail(this.unchainedFrom);
    const lastSigned = this.signed.lastIndexOf(true);
    const covered = reached >= this.count;
    if (!covered && lastSigned >= 0 && !this.actorsNamed && this.options.trust.pins.length === 0) {
      const before = this.signed.indexOf(false);
      if (before >= 0 && before < lastSigned) {
        this.report.downgrade("partial", "record_unsigned", "warning", place(before));
      }
      if (lastSigned < this.count - 1) tail(lastSigned + 1);
    }
    const signedToEnd = allCount && lastSigned === this.count - 1;
    if (reached > 0 && !covered && !signedToEnd) tail(reached);
    if (reached > 0) return;
    if (lastSigned >= 0) this.report.downgrade("open", "head_unknown", "note", null);
    else this.report.downgrade("consistent", "unsigned", "note", null);
  }

  private trustedUntil(held: number, allCount: boolean): Report["trusted_until"] {
    const end = this.brokenAt < 0 ? this.count : this.brokenAt;
    let at = held < end ? held : -1;
    if (allCount) at = Math.max(at, this.signed.lastIndexOf(true, end - 1));
    if (end === 0) at = -1;
    const last = at < 0 ? undefined : this.places[at];
    if (last === undefined) return null;
    const byte = this.source instanceof Uint8Array ? last.place.bytes[1] : 0;
    return { line: last.place.line ?? 0, byte, turn: last.number };
  }
}

/** keys-and-trust.md §4: the tagged message over the stored hash. */
function signedMessage(digest: string): Uint8Array {
  const bytes = parseHex(digest, 32);
  if (bytes === null) throw new Error("the digest was checked before");
  return concat(SIGNED_DIGEST, tagged("threadseal/ledger-record/1", [bytes]));
}

function keyId(key: Uint8Array): string {
  return hex(idBytes(key));
}
