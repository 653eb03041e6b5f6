// Canonical text: the two readings of JSON that keep places and spellings (strict, and Python's), and
// the named writers. Rules: spec/canon.md §1 to §5. No writer has options.

import { utf8 } from "./bytes.js";

export const MAX_JSON_DEPTH = 128;
export const MAX_PYTHON_JSON_DEPTH = 512;
export const MAX_JSON_VALUES = 2 ** 20;
export const MAX_NUMBER_BYTES = 4096;
export const MAX_PYTHON_INTEGER_DIGITS = 4300;

export type RefusalKind =
  | "invalid_utf8"
  | "byte_order_mark"
  | "control_character"
  | "invalid_escape"
  | "lone_surrogate"
  | "duplicate_key"
  | "non_finite_number"
  | "invalid_number"
  | "unexpected_byte"
  | "unexpected_end"
  | "trailing_data"
  | "too_deep"
  | "number_too_long"
  | "too_many_values";

export interface Refusal {
  readonly kind: RefusalKind;
  readonly at: number;
}

export type IrregularityKind = "duplicate_key" | "lone_surrogate" | "non_finite";

export interface Irregularity {
  readonly kind: IrregularityKind;
  readonly at: number;
}

/** A place in the text: the bytes from `from` to before `to`. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

export interface JsonWord extends Span {
  readonly kind: "null" | "true" | "false";
}

/** A number as it was spelled; in Python's reading also `NaN`, `Infinity`, `-Infinity`. */
export interface JsonNumber extends Span {
  readonly kind: "number";
  readonly text: string;
}

/** A string; its span includes the quotes. `escaped` tells whether a backslash is in it. */
export interface JsonString extends Span {
  readonly kind: "string";
  readonly value: string;
  readonly escaped: boolean;
}

export interface JsonArray extends Span {
  readonly kind: "array";
  readonly items: readonly Json[];
}

export interface Member {
  readonly name: string;
  /** The span of the name, quotes included. */
  readonly nameAt: Span;
  readonly value: Json;
}

export interface JsonObject extends Span {
  readonly kind: "object";
  readonly members: readonly Member[];
}

export type Json = JsonWord | JsonNumber | JsonString | JsonArray | JsonObject;

export type Reading =
  | { readonly ok: true; readonly value: Json; readonly irregular: readonly Irregularity[] }
  | { readonly ok: false; readonly refusal: Refusal };

/** One JSON text that stands at the beginning of longer text (Python's `raw_decode`). */
export type PrefixReading =
  | { readonly ok: true; readonly value: Json; readonly irregular: readonly Irregularity[]; readonly end: number }
  | { readonly ok: false; readonly refusal: Refusal };

class Refused {
  constructor(readonly refusal: Refusal) {}
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

// ---------------------------------------------------------------------------------------- reading

/** The first byte that is not UTF-8 (the first byte of the sequence it is in), or -1. */
export function firstInvalidUtf8(b: Uint8Array): number {
  let i = 0;
  while (i < b.length) {
    const c = b[i]!;
    if (c < 0x80) {
      i += 1;
      continue;
    }
    const length = sequenceLength(b, i);
    if (length === 0) return i;
    i += length;
  }
  return -1;
}

/** The length of the sequence of two to four bytes at `i`, or 0 if it is none (RFC 3629). */
function sequenceLength(b: Uint8Array, i: number): number {
  const c = b[i]!;
  let low = 0x80;
  let high = 0xbf;
  let length: number;
  if (c >= 0xc2 && c <= 0xdf) length = 2;
  else if (c >= 0xe0 && c <= 0xef) length = 3;
  else if (c >= 0xf0 && c <= 0xf4) length = 4;
  else return 0;
  if (c === 0xe0) low = 0xa0;
  if (c === 0xed) high = 0x9f;
  if (c === 0xf0) low = 0x90;
  if (c === 0xf4) high = 0x8f;
  if (i + length > b.length) return 0;
  const second = b[i + 1]!;
  if (second < low || second > high) return 0;
  for (let k = 2; k < length; k += 1) {
    const next = b[i + k]!;
    if (next < 0x80 || next > 0xbf) return 0;
  }
  return length;
}

/** canon.md §1: the strict reading of a whole text. */
export function readStrict(text: Uint8Array): Reading {
  return readWhole(text, false);
}

/** canon.md §2: the value that Python's `json.loads` gives the text. */
export function readPython(text: Uint8Array): Reading {
  return readWhole(text, true);
}

function readWhole(text: Uint8Array, python: boolean): Reading {
  const bad = firstInvalidUtf8(text);
  if (bad >= 0) return refused("invalid_utf8", bad);
  if (startsWithMark(text)) return refused("byte_order_mark", 0);
  const reader = new Reader(text, 0, python);
  return reader.guarded(() => reader.whole());
}

/**
 * Reads one JSON text by Python's rules at `from`, and whatever follows it stays. The bytes must be
 * UTF-8 already.
 */
export function readPythonPrefix(text: Uint8Array, from: number): PrefixReading {
  const reader = new Reader(text, from, true);
  const reading = reader.guarded(() => reader.value(0));
  if (!reading.ok) return reading;
  return { ok: true, value: reading.value, irregular: reading.irregular, end: reader.at };
}

function refused(kind: RefusalKind, at: number): Reading {
  return { ok: false, refusal: { kind, at } };
}

export function startsWithMark(b: Uint8Array): boolean {
  return b.length >= 3 && b[0] === 0xef && b[1] === 0xbb && b[2] === 0xbf;
}

export function isBlank(c: number | undefined): boolean {
  return c === 0x20 || c === 0x09 || c === 0x0a || c === 0x0d;
}

class Reader {
  at: number;
  private values = 0;
  private readonly irregular: Irregularity[] = [];

  constructor(
    private readonly b: Uint8Array,
    from: number,
    private readonly python: boolean,
  ) {
    this.at = from;
  }

  guarded(read: () => Json): Reading {
    try {
      const value = read();
      this.irregular.sort((x, y) => x.at - y.at);
      return { ok: true, value, irregular: this.irregular };
    } catch (e) {
      if (e instanceof Refused) return { ok: false, refusal: e.refusal };
      throw e;
    }
  }

  whole(): Json {
    this.blanks();
    const value = this.value(0);
    this.blanks();
    if (this.at < this.b.length) this.refuse("trailing_data", this.at);
    return value;
  }

  private refuse(kind: RefusalKind, at: number): never {
    throw new Refused({ kind, at });
  }

  private blanks(): void {
    while (isBlank(this.b[this.at])) this.at += 1;
  }

  /** Refuses the byte at the present place, or the end of the text. */
  private unexpected(): never {
    if (this.at >= this.b.length) this.refuse("unexpected_end", this.b.length);
    this.refuse("unexpected_byte", this.at);
  }

  value(depth: number): Json {
    const c = this.b[this.at];
    if (c === undefined) this.unexpected();
    this.values += 1;
    if (this.values > MAX_JSON_VALUES) this.refuse("too_many_values", this.at);
    if (c === 0x7b) return this.object(depth + 1);
    if (c === 0x5b) return this.array(depth + 1);
    if (c === QUOTE) return this.string();
    if (c === 0x2d || (c >= 0x30 && c <= 0x39)) return this.number();
    if (c === 0x74) return this.word("true");
    if (c === 0x66) return this.word("false");
    if (c === 0x6e) return this.word("null");
    if (this.python && c === 0x4e && this.spells("NaN")) return this.nonFinite("NaN");
    if (this.python && c === 0x49 && this.spells("Infinity")) return this.nonFinite("Infinity");
    this.unexpected();
  }

  /** Whether this word is here. A text that ends inside it is refused for that: more bytes could complete it. */
  private spells(word: string): boolean {
    for (let k = 0; k < word.length; k += 1) {
      const c = this.b[this.at + k];
      if (c === undefined) this.refuse("unexpected_end", this.b.length);
      if (c !== word.charCodeAt(k)) return false;
    }
    return true;
  }

  private word(kind: "null" | "true" | "false"): JsonWord {
    if (!this.spells(kind)) this.unexpected();
    const from = this.at;
    this.at += kind.length;
    return { kind, from, to: this.at };
  }

  private nonFinite(text: string): JsonNumber {
    const from = this.at;
    this.at += text.length;
    this.irregular.push({ kind: "non_finite", at: from });
    return { kind: "number", text, from, to: this.at };
  }

  private enter(depth: number): void {
    const most = this.python ? MAX_PYTHON_JSON_DEPTH : MAX_JSON_DEPTH;
    if (depth > most) this.refuse("too_deep", this.at);
  }

  private array(depth: number): JsonArray {
    this.enter(depth);
    const from = this.at;
    this.at += 1;
    const items: Json[] = [];
    this.blanks();
    if (this.b[this.at] === 0x5d) {
      this.at += 1;
      return { kind: "array", items, from, to: this.at };
    }
    for (;;) {
      this.blanks();
      items.push(this.value(depth));
      this.blanks();
      const c = this.b[this.at];
      if (c === 0x2c) {
        this.at += 1;
        continue;
      }
      if (c !== 0x5d) this.unexpected();
      this.at += 1;
      return { kind: "array", items, from, to: this.at };
    }
  }

  private object(depth: number): JsonObject {
    this.enter(depth);
    const from = this.at;
    this.at += 1;
    const members: Member[] = [];
    this.blanks();
    if (this.b[this.at] === 0x7d) {
      this.at += 1;
      return { kind: "object", members, from, to: this.at };
    }
    for (;;) {
      this.blanks();
      if (this.b[this.at] !== QUOTE) this.unexpected();
      const name = this.string();
      this.blanks();
      if (this.b[this.at] !== 0x3a) this.unexpected();
      this.at += 1;
      this.blanks();
      members.push({ name: name.value, nameAt: { from: name.from, to: name.to }, value: this.value(depth) });
      this.blanks();
      const c = this.b[this.at];
      if (c === 0x2c) {
        this.at += 1;
        continue;
      }
      if (c !== 0x7d) this.unexpected();
      this.at += 1;
      return { kind: "object", members: this.eachOnce(members), from, to: this.at };
    }
  }

  /** Names that occur twice: refused, or as a Python `dict` keeps them. */
  private eachOnce(members: Member[]): Member[] {
    if (members.length <= FEW_MEMBERS && !hasTwins(members)) return members;
    const seen = new Map<string, number>();
    let kept: Member[] = members;
    members.forEach((member, i) => {
      const first = seen.get(member.name);
      if (first === undefined) {
        seen.set(member.name, kept === members ? i : kept.length);
        if (kept !== members) kept.push(member);
        return;
      }
      if (!this.python) this.refuse("duplicate_key", member.nameAt.from);
      if (kept === members) kept = members.slice(0, i);
      this.irregular.push({ kind: "duplicate_key", at: member.nameAt.from });
      const before = kept[first]!;
      kept[first] = { name: before.name, nameAt: before.nameAt, value: member.value };
    });
    return kept;
  }

  private string(): JsonString {
    const from = this.at;
    this.at += 1;
    let text = "";
    let run = this.at;
    let escaped = false;
    let lone = false;
    for (;;) {
      const c = this.b[this.at];
      if (c === undefined) this.refuse("unexpected_end", this.b.length);
      if (c === QUOTE) {
        text += plain(this.b, run, this.at);
        this.at += 1;
        if (lone) this.irregular.push({ kind: "lone_surrogate", at: from });
        return { kind: "string", value: text, escaped, from, to: this.at };
      }
      if (c < 0x20) this.refuse("control_character", this.at);
      if (c !== BACKSLASH) {
        this.at += 1;
        continue;
      }
      text += plain(this.b, run, this.at);
      escaped = true;
      const units = this.escape();
      text += units;
      if (units.length === 1 && isSurrogate(units.charCodeAt(0))) lone = true;
      run = this.at;
    }
  }

  /** One escape, a pair of surrogates as one. The place is moved behind it. */
  private escape(): string {
    const from = this.at;
    const next = this.b[from + 1];
    if (next === undefined) this.refuse("unexpected_end", from);
    const short = SHORT_ESCAPES.get(next);
    if (short !== undefined) {
      this.at += 2;
      return short;
    }
    if (next !== 0x75) this.refuse("invalid_escape", from);
    const first = this.fourDigits(from + 2, from);
    this.at = from + 6;
    if (!isSurrogate(first)) return String.fromCharCode(first);
    if (first < 0xdc00) {
      const second = this.lowSurrogate();
      if (second >= 0) {
        this.at += 6;
        return String.fromCharCode(first, second);
      }
    }
    if (!this.python) this.refuse("lone_surrogate", from);
    return String.fromCharCode(first);
  }

  /** The low surrogate that is escaped at the present place, or -1. The end of the text is refused. */
  private lowSurrogate(): number {
    const c = this.b[this.at];
    if (c === undefined) this.refuse("unexpected_end", this.b.length);
    if (c !== BACKSLASH) return -1;
    let unit = 0;
    for (let k = 1; k < 6; k += 1) {
      const next = this.b[this.at + k];
      if (next === undefined) this.refuse("unexpected_end", this.at);
      if (k === 1) {
        if (next !== 0x75) return -1;
        continue;
      }
      const digit = hexDigit(next);
      if (digit < 0) return -1;
      unit = unit * 16 + digit;
    }
    return unit >= 0xdc00 && unit <= 0xdfff ? unit : -1;
  }

  private fourDigits(at: number, backslash: number): number {
    let unit = 0;
    for (let k = 0; k < 4; k += 1) {
      const c = this.b[at + k];
      if (c === undefined) this.refuse("unexpected_end", backslash);
      const digit = hexDigit(c);
      if (digit < 0) this.refuse("invalid_escape", backslash);
      unit = unit * 16 + digit;
    }
    return unit;
  }

  private number(): JsonNumber {
    const from = this.at;
    let at = this.at;
    if (this.b[at] === 0x2d) {
      at += 1;
      this.at = at;
      if (this.python && this.b[at] === 0x49 && this.spells("Infinity")) {
        this.at = from;
        return this.nonFinite("-Infinity");
      }
    }
    const whole = at;
    at = this.b[at] === 0x30 ? at + 1 : this.digits(at);
    const digits = at - whole;
    let integer = true;
    if (this.b[at] === 0x2e) {
      integer = false;
      at = this.digits(at + 1);
    }
    if (this.b[at] === 0x65 || this.b[at] === 0x45) {
      integer = false;
      const sign = this.b[at + 1] === 0x2b || this.b[at + 1] === 0x2d ? 1 : 0;
      at = this.digits(at + 1 + sign);
    }
    this.at = at;
    if (!this.python && at - from > MAX_NUMBER_BYTES) this.refuse("number_too_long", from);
    if (this.python && integer && digits > MAX_PYTHON_INTEGER_DIGITS) this.refuse("number_too_long", from);
    const text = plain(this.b, from, at);
    if (!integer && !Number.isFinite(Number(text))) {
      if (!this.python) this.refuse("non_finite_number", from);
      this.irregular.push({ kind: "non_finite", at: from });
    }
    return { kind: "number", text, from, to: at };
  }

  /** The place behind one or more digits. */
  private digits(at: number): number {
    const from = at;
    for (;;) {
      const c = this.b[at];
      if (c === undefined || c < 0x30 || c > 0x39) break;
      at += 1;
    }
    if (at > from) return at;
    if (at >= this.b.length) this.refuse("unexpected_end", this.b.length);
    this.refuse("invalid_number", at);
  }
}

/** So few names are compared one by one. */
const FEW_MEMBERS = 8;

function hasTwins(members: readonly Member[]): boolean {
  for (let i = 1; i < members.length; i += 1) {
    for (let k = 0; k < i; k += 1) if (members[i]!.name === members[k]!.name) return true;
  }
  return false;
}

const SHORT_ESCAPES = new Map<number, string>([
  [QUOTE, '"'],
  [BACKSLASH, "\\"],
  [0x2f, "/"],
  [0x62, "\b"],
  [0x66, "\f"],
  [0x6e, "\n"],
  [0x72, "\r"],
  [0x74, "\t"],
]);

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff;
}

function hexDigit(c: number): number {
  if (c >= 0x30 && c <= 0x39) return c - 0x30;
  if (c >= 0x61 && c <= 0x66) return c - 0x61 + 10;
  if (c >= 0x41 && c <= 0x46) return c - 0x41 + 10;
  return -1;
}

/** Bytes that are UTF-8, as text. Short ASCII is not worth a decoder. */
function plain(b: Uint8Array, from: number, to: number): string {
  if (to - from > 64) return decoder.decode(b.subarray(from, to));
  let text = "";
  for (let i = from; i < to; i += 1) {
    const c = b[i]!;
    if (c >= 0x80) return decoder.decode(b.subarray(from, to));
    text += String.fromCharCode(c);
  }
  return text;
}

// ------------------------------------------------------------------------------- looking at values

export function memberOf(value: Json | null, name: string): Json | null {
  if (value === null || value.kind !== "object") return null;
  for (const member of value.members) if (member.name === name) return member.value;
  return null;
}

/** The text of a string, else null. */
export function textOf(value: Json | null): string | null {
  return value !== null && value.kind === "string" ? value.value : null;
}

export function without(value: JsonObject, names: readonly string[]): JsonObject {
  return { ...value, members: value.members.filter((m) => !names.includes(m.name)) };
}

/** A number without fraction and exponent (Python's `int`). */
export function isInteger(text: string): boolean {
  return /^-?[0-9]+$/.test(text);
}

/**
 * One text for each decimal value: sign, digits without zeros at either end, and the power of ten of the
 * last digit. Two finite spellings are one number exactly if these are equal.
 */
export function decimalValue(text: string): string {
  const parts = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/.exec(text);
  if (parts === null) return text;
  const fraction = parts[3] ?? "";
  const all = ((parts[2] ?? "") + fraction).replace(/^0+/, "");
  if (all === "") return "0";
  const digits = all.replace(/0+$/, "");
  const power = BigInt(parts[4]?.replace("+", "") ?? "0") - BigInt(fraction.length) + BigInt(all.length - digits.length);
  return `${parts[1] ?? ""}${digits}e${power}`;
}

export function hasLoneSurrogate(text: string): boolean {
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i);
    if (!isSurrogate(unit)) continue;
    const next = text.charCodeAt(i + 1);
    if (unit >= 0xdc00 || !(next >= 0xdc00 && next <= 0xdfff)) return true;
    i += 1;
  }
  return false;
}

// ---------------------------------------------------------------------------------------- strings

const ESCAPE_NATIVE = /["\\\u0000-\u001f\u007f-\uffff]/g;
const ESCAPE_FEWEST = /["\\\u0000-\u001f]/g;
const SHORT_SPELLINGS = new Map<string, string>([
  ['"', '\\"'],
  ["\\", "\\\\"],
  ["\b", "\\b"],
  ["\f", "\\f"],
  ["\n", "\\n"],
  ["\r", "\\r"],
  ["\t", "\\t"],
]);

function escapeUnit(unit: string): string {
  return SHORT_SPELLINGS.get(unit) ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** canon.md §3.1: the native string, quotes included. */
export function nativeString(text: string): string {
  return `"${text.replace(ESCAPE_NATIVE, escapeUnit)}"`;
}

/** canon.md §3.2: the string with the fewest escapes, quotes included. */
export function fewestEscapes(text: string): string {
  return `"${text.replace(ESCAPE_FEWEST, escapeUnit)}"`;
}

// ---------------------------------------------------------------------------------------- numbers

/** canon.md §4: as ECMAScript prints the nearest double; null where that is not finite. */
export function jcsNumber(text: string): string | null {
  const double = Number(text);
  return Number.isFinite(double) ? String(double) : null;
}

/** canon.md §5: as Python prints the `int` or `float`. */
export function pythonNumber(text: string): string {
  if (isInteger(text)) return text === "-0" ? "0" : text;
  return pythonFloat(Number(text));
}

function pythonFloat(double: number): string {
  if (Number.isNaN(double)) return "NaN";
  if (!Number.isFinite(double)) return double > 0 ? "Infinity" : "-Infinity";
  if (double === 0) return Object.is(double, -0) ? "-0.0" : "0.0";
  const sign = double < 0 ? "-" : "";
  const parts = /^([0-9])(?:\.([0-9]+))?e([+-][0-9]+)$/.exec(Math.abs(double).toExponential());
  if (parts === null) throw new Error("a double without an exponent");
  const digits = parts[1]! + (parts[2] ?? "");
  const power = Number(parts[3]);
  if (power >= 16 || power < -4) {
    const rest = digits.length > 1 ? `.${digits.slice(1)}` : "";
    const size = String(Math.abs(power)).padStart(2, "0");
    return `${sign}${digits[0]!}${rest}e${power < 0 ? "-" : "+"}${size}`;
  }
  if (power < 0) return `${sign}0.${"0".repeat(-power - 1)}${digits}`;
  if (digits.length <= power + 1) return `${sign}${digits.padEnd(power + 1, "0")}.0`;
  return `${sign}${digits.slice(0, power + 1)}.${digits.slice(power + 1)}`;
}

// ---------------------------------------------------------------------------------------- writers

type Order = (members: readonly Member[]) => readonly Member[];

interface Style {
  readonly order: Order;
  readonly comma: string;
  readonly colon: string;
  readonly string: (text: string) => string | null;
  readonly number: (text: string) => string | null;
}

function asTheyAre(members: readonly Member[]): readonly Member[] {
  return members;
}

function byUnits(members: readonly Member[]): readonly Member[] {
  return [...members].sort((x, y) => (x.name < y.name ? -1 : x.name > y.name ? 1 : 0));
}

function byCodePoints(members: readonly Member[]): readonly Member[] {
  return [...members].sort((x, y) => compareCodePoints(x.name, y.name));
}

/** A surrogate without its other half counts as itself. */
export function compareCodePoints(x: string, y: string): number {
  let i = 0;
  for (;;) {
    const a = x.codePointAt(i);
    const b = y.codePointAt(i);
    if (a === undefined || b === undefined) return (a === undefined ? 0 : 1) - (b === undefined ? 0 : 1);
    if (a !== b) return a - b;
    i += a > 0xffff ? 2 : 1;
  }
}

function wellFormed(text: string): string | null {
  return hasLoneSurrogate(text) ? null : fewestEscapes(text);
}

const JCS: Style = { order: byUnits, comma: ",", colon: ":", string: wellFormed, number: jcsNumber };
const RYE: Style = { order: byCodePoints, comma: ",", colon: ":", string: nativeString, number: pythonNumber };
const LEDGER: Style = { order: byCodePoints, comma: ",", colon: ":", string: wellFormed, number: pythonNumber };
const LEDGER_LINE: Style = { ...LEDGER, order: asTheyAre };
const RYE_LINE: Style = { order: asTheyAre, comma: ", ", colon: ": ", string: nativeString, number: pythonNumber };

function write(value: Json, style: Style): Uint8Array | null {
  const parts: string[] = [];
  return put(value, style, parts) ? utf8(parts.join("")) : null;
}

function put(value: Json, style: Style, parts: string[]): boolean {
  switch (value.kind) {
    case "string":
      return putText(style.string(value.value), parts);
    case "number":
      return putText(style.number(value.text), parts);
    case "array":
      return putArray(value, style, parts);
    case "object":
      return putObject(value, style, parts);
    default:
      parts.push(value.kind);
      return true;
  }
}

function putText(text: string | null, parts: string[]): boolean {
  if (text === null) return false;
  parts.push(text);
  return true;
}

function putArray(value: JsonArray, style: Style, parts: string[]): boolean {
  parts.push("[");
  let first = true;
  for (const item of value.items) {
    if (!first) parts.push(style.comma);
    first = false;
    if (!put(item, style, parts)) return false;
  }
  parts.push("]");
  return true;
}

function putObject(value: JsonObject, style: Style, parts: string[]): boolean {
  parts.push("{");
  let first = true;
  for (const member of style.order(value.members)) {
    if (!first) parts.push(style.comma);
    first = false;
    if (!putText(style.string(member.name), parts)) return false;
    parts.push(style.colon);
    if (!put(member.value, style, parts)) return false;
  }
  parts.push("}");
  return true;
}

/** canon.md §4; null for an integer that is no finite double, and for what is not strict. */
export function jcs(value: Json): Uint8Array | null {
  return write(value, JCS);
}

/** canon.md §5. */
export function rye(value: Json): Uint8Array {
  const text = write(value, RYE);
  if (text === null) throw new Error("rye writes every value");
  return text;
}

/** canon.md §5; null for a value with a lone surrogate. */
export function ledger(value: Json): Uint8Array | null {
  return write(value, LEDGER);
}

/** canon.md §5; null for a value with a lone surrogate. */
export function ledgerLine(value: Json): Uint8Array | null {
  return write(value, LEDGER_LINE);
}

/** `ledger-line`, but numbers as they are spelled, and a text with a lone surrogate as by `rye` (ledger.md §8). */
export function ledgerLineAsSpelled(value: Json): Uint8Array {
  const string = (text: string): string => wellFormed(text) ?? nativeString(text);
  const line = write(value, { ...LEDGER_LINE, string, number: (text) => text });
  if (line === null) throw new Error("every value has such a line");
  return line;
}

/** canon.md §5. */
export function ryeLine(value: Json): Uint8Array {
  const text = write(value, RYE_LINE);
  if (text === null) throw new Error("rye-line writes every value");
  return text;
}

/** `ledger`, but each object in the order that `order` gives its members (ledger.md §3, numeric names). */
export function ledgerOrdered(value: Json, order: Order): Uint8Array | null {
  return write(value, { ...LEDGER, order });
}
