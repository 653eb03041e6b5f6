// The strict reading of canon.md §1. Trees are those of canon.ts; here is the check of ASCII text
// without a tree, for lines of records, where nothing but "is it strict JSON" is asked.

import { MAX_JSON_DEPTH, MAX_JSON_VALUES, MAX_NUMBER_BYTES } from "./canon.js";
import { ascii } from "./bytes.js";

export { MAX_JSON_DEPTH, MAX_JSON_VALUES, MAX_NUMBER_BYTES, readStrict } from "./canon.js";
export type { Json, Reading, Refusal, RefusalKind } from "./canon.js";

/**
 * Whether the bytes from `from` to before `to` are one JSON value by the strict reading, in ASCII.
 * Blanks around it are allowed, as there.
 */
export function validateAscii(bytes: Uint8Array, from: number, to: number): boolean {
  return new Validator(bytes, from, to).whole();
}

/** The place behind the one value that begins at `from` without blanks, or -1. ASCII only. */
export function endOfValue(bytes: Uint8Array, from: number, to: number): number {
  return new Validator(bytes, from, to).one();
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** Up to so many names of an object are compared pair by pair. */
const FEW_NAMES = 16;

class Validator {
  private values = 0;
  /** Begin and end of the names of all open objects, and whether one has an escape (0 or 1). */
  private readonly names: number[] = [];

  constructor(
    private readonly b: Uint8Array,
    private at: number,
    private readonly end: number,
  ) {}

  whole(): boolean {
    this.blanks();
    if (!this.value(0)) return false;
    this.blanks();
    return this.at === this.end;
  }

  one(): number {
    return this.value(0) ? this.at : -1;
  }

  private byte(): number {
    return this.at < this.end ? (this.b[this.at] ?? -1) : -1;
  }

  private blanks(): void {
    for (;;) {
      const c = this.byte();
      if (c !== 0x20 && c !== 0x09 && c !== 0x0a && c !== 0x0d) return;
      this.at++;
    }
  }

  private value(depth: number): boolean {
    const c = this.byte();
    if (++this.values > MAX_JSON_VALUES) return false;
    if (c === QUOTE) return this.string() >= 0;
    if (c === 0x7b) return depth < MAX_JSON_DEPTH && this.object(depth + 1);
    if (c === 0x5b) return depth < MAX_JSON_DEPTH && this.array(depth + 1);
    if (c === 0x2d || isDigit(c)) return this.number();
    if (c === 0x74) return this.word("true");
    if (c === 0x66) return this.word("false");
    return c === 0x6e && this.word("null");
  }

  private word(text: string): boolean {
    if (this.at + text.length > this.end) return false;
    for (let i = 0; i < text.length; i++) if (this.b[this.at + i] !== text.charCodeAt(i)) return false;
    this.at += text.length;
    return true;
  }

  private array(depth: number): boolean {
    this.at++;
    this.blanks();
    if (this.byte() === 0x5d) {
      this.at++;
      return true;
    }
    for (;;) {
      this.blanks();
      if (!this.value(depth)) return false;
      this.blanks();
      const c = this.byte();
      this.at++;
      if (c === 0x5d) return true;
      if (c !== 0x2c) return false;
    }
  }

  private object(depth: number): boolean {
    this.at++;
    this.blanks();
    if (this.byte() === 0x7d) {
      this.at++;
      return true;
    }
    const first = this.names.length;
    for (;;) {
      this.blanks();
      if (this.byte() !== QUOTE) return false;
      const from = this.at + 1;
      const escaped = this.string();
      if (escaped < 0) return false;
      this.names.push(from, this.at - 1, escaped);
      this.blanks();
      if (this.byte() !== 0x3a) return false;
      this.at++;
      this.blanks();
      if (!this.value(depth)) return false;
      this.blanks();
      const c = this.byte();
      this.at++;
      if (c === 0x7d) break;
      if (c !== 0x2c) return false;
    }
    const each = this.eachOnce(first);
    this.names.length = first;
    return each;
  }

  /** Whether the names from this place of `names` on are all different. */
  private eachOnce(first: number): boolean {
    const names = this.names;
    let escaped = false;
    for (let i = first; i < names.length; i += 3) if (names[i + 2] === 1) escaped = true;
    if (escaped || names.length - first > 3 * FEW_NAMES) return this.eachOnceByText(first);
    for (let i = first; i < names.length; i += 3) {
      for (let k = first; k < i; k += 3) if (this.sameName(i, k)) return false;
    }
    return true;
  }

  private sameName(i: number, k: number): boolean {
    const a = this.names[i]!;
    const c = this.names[k]!;
    const length = this.names[i + 1]! - a;
    if (this.names[k + 1]! - c !== length) return false;
    for (let at = 0; at < length; at++) if (this.b[a + at] !== this.b[c + at]) return false;
    return true;
  }

  private eachOnceByText(first: number): boolean {
    const seen = new Set<string>();
    for (let i = first; i < this.names.length; i += 3) {
      const text = ascii(this.b, this.names[i]!, this.names[i + 1]!);
      const name = this.names[i + 2] === 1 ? unescaped(text) : text;
      if (seen.has(name)) return false;
      seen.add(name);
    }
    return true;
  }

  /** Moves behind a string: 0, or 1 where it has an escape; -1 where it is none. */
  private string(): number {
    let escaped = 0;
    const b = this.b;
    for (let at = this.at + 1; at < this.end; at++) {
      const c = b[at]!;
      if (c === QUOTE) {
        this.at = at + 1;
        return escaped;
      }
      if (c < 0x20 || c >= 0x80) return -1;
      if (c !== BACKSLASH) continue;
      escaped = 1;
      const length = this.escape(at);
      if (length === 0) return -1;
      at += length - 1;
    }
    return -1;
  }

  /** The length of the escape at this place, a pair of surrogates as one, or 0. */
  private escape(at: number): number {
    if (at + 1 >= this.end) return 0;
    const c = this.b[at + 1]!;
    if (c !== 0x75) return SHORT.has(c) ? 2 : 0;
    const unit = this.unit(at);
    if (unit < 0 || (unit >= 0xdc00 && unit <= 0xdfff)) return 0;
    if (unit < 0xd800 || unit > 0xdfff) return 6;
    const low = this.unit(at + 6);
    return low >= 0xdc00 && low <= 0xdfff ? 12 : 0;
  }

  /** The unit of `\uxxxx` at this place, or -1. */
  private unit(at: number): number {
    if (at + 6 > this.end || this.b[at] !== BACKSLASH || this.b[at + 1] !== 0x75) return -1;
    let unit = 0;
    for (let i = at + 2; i < at + 6; i++) {
      const digit = anyHexDigit(this.b[i]!);
      if (digit < 0) return -1;
      unit = unit * 16 + digit;
    }
    return unit;
  }

  private number(): boolean {
    const from = this.at;
    let integer = true;
    if (this.byte() === 0x2d) this.at++;
    if (this.byte() === 0x30) this.at++;
    else if (!this.digits()) return false;
    if (this.byte() === 0x2e) {
      integer = false;
      this.at++;
      if (!this.digits()) return false;
    }
    const c = this.byte();
    if (c === 0x65 || c === 0x45) {
      integer = false;
      this.at++;
      const sign = this.byte();
      if (sign === 0x2b || sign === 0x2d) this.at++;
      if (!this.digits()) return false;
    }
    if (this.at - from > MAX_NUMBER_BYTES) return false;
    return integer || Number.isFinite(Number(ascii(this.b, from, this.at)));
  }

  private digits(): boolean {
    const from = this.at;
    while (isDigit(this.byte())) this.at++;
    return this.at > from;
  }
}

const SHORT = new Set([QUOTE, BACKSLASH, 0x2f, 0x62, 0x66, 0x6e, 0x72, 0x74]);

function isDigit(c: number): boolean {
  return c >= 0x30 && c <= 0x39;
}

function anyHexDigit(c: number): number {
  if (c >= 0x30 && c <= 0x39) return c - 0x30;
  if (c >= 0x61 && c <= 0x66) return c - 0x57;
  if (c >= 0x41 && c <= 0x46) return c - 0x37;
  return -1;
}

/** The inside of a valid JSON string, its escapes replaced. */
function unescaped(text: string): string {
  return JSON.parse(`"${text}"`) as string;
}
