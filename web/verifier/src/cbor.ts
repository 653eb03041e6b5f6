// The deterministic CBOR of a JSON value: writing, strict reading, and the ends of items in a sequence.
// Rules: spec/canon.md §7; for the ends of items spec/scroll.md §7.

import { concat, parseUtf8, utf8 } from "./bytes.js";
import type { Json, Member } from "./canon.js";

export const MAX_CBOR_DEPTH = 128;
export const MAX_CBOR_VALUES = 2 ** 20;

const TWO_64 = 2n ** 64n;

// ---------------------------------------------------------------------------------------- writing

/** The one encoding of a value; null where a number is no finite double, or a text is not UTF-8. */
export function encodeCbor(value: Json): Uint8Array | null {
  const parts: Uint8Array[] = [];
  return put(value, parts) ? concat(...parts) : null;
}

function put(value: Json, parts: Uint8Array[]): boolean {
  switch (value.kind) {
    case "false":
      parts.push(Uint8Array.of(0xf4));
      return true;
    case "true":
      parts.push(Uint8Array.of(0xf5));
      return true;
    case "null":
      parts.push(Uint8Array.of(0xf6));
      return true;
    case "number":
      return putNumber(Number(value.text), parts);
    case "string":
      parts.push(...encodeText(value.value));
      return true;
    case "array":
      parts.push(head(4, BigInt(value.items.length)));
      return value.items.every((item) => put(item, parts));
    case "object":
      return putObject(value.members, parts);
  }
}

function putObject(members: readonly Member[], parts: Uint8Array[]): boolean {
  parts.push(head(5, BigInt(members.length)));
  const keyed = members.map((m) => ({ key: concat(...encodeText(m.name)), value: m.value }));
  keyed.sort((x, y) => compareBytes(x.key, y.key));
  for (const { key, value } of keyed) {
    parts.push(key);
    if (!put(value, parts)) return false;
  }
  return true;
}

function encodeText(text: string): Uint8Array[] {
  const bytes = utf8(text);
  return [head(3, BigInt(bytes.length)), bytes];
}

function head(major: number, argument: bigint): Uint8Array {
  const type = major << 5;
  if (argument < 24n) return Uint8Array.of(type | Number(argument));
  const size = argument < 0x100n ? 1 : argument < 0x1_0000n ? 2 : argument < 0x1_0000_0000n ? 4 : 8;
  const out = new Uint8Array(1 + size);
  out[0] = type | (24 + Math.log2(size));
  for (let i = size; i > 0; i -= 1) {
    out[i] = Number(argument & 0xffn);
    argument >>= 8n;
  }
  return out;
}

function putNumber(double: number, parts: Uint8Array[]): boolean {
  if (!Number.isFinite(double)) return false;
  parts.push(encodeNumber(double));
  return true;
}

function encodeNumber(double: number): Uint8Array {
  if (Number.isInteger(double)) {
    const whole = BigInt(double);
    if (whole >= 0n && whole < TWO_64) return head(0, whole);
    if (whole < 0n && whole >= -TWO_64) return head(1, -1n - whole);
  }
  return shortestFloat(double);
}

function shortestFloat(double: number): Uint8Array {
  const half = halfBits(double);
  if (half >= 0) return Uint8Array.of(0xf9, half >> 8, half & 0xff);
  const single = Math.fround(double) === double;
  const out = new Uint8Array(single ? 5 : 9);
  const view = new DataView(out.buffer);
  out[0] = single ? 0xfa : 0xfb;
  if (single) view.setFloat32(1, double);
  else view.setFloat64(1, double);
  return out;
}

/** The sixteen bits of the half float that is exactly this double, or -1. */
function halfBits(double: number): number {
  const sign = double < 0 || Object.is(double, -0) ? 0x8000 : 0;
  const size = Math.abs(double);
  if (size === 0) return sign;
  if (size > 65504) return -1;
  if (size < 2 ** -14) {
    const units = size * 2 ** 24;
    return Number.isInteger(units) ? sign | units : -1;
  }
  let exponent = Math.floor(Math.log2(size));
  if (2 ** exponent > size) exponent -= 1;
  if (2 ** (exponent + 1) <= size) exponent += 1;
  const units = (size / 2 ** exponent - 1) * 1024;
  return Number.isInteger(units) ? sign | ((exponent + 15) << 10) | units : -1;
}

/** The value of the half float with these sixteen bits. */
function halfValue(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function compareBytes(x: Uint8Array, y: Uint8Array): number {
  const n = Math.min(x.length, y.length);
  for (let i = 0; i < n; i += 1) {
    const d = x[i]! - y[i]!;
    if (d !== 0) return d;
  }
  return x.length - y.length;
}

// ---------------------------------------------------------------------------------------- reading

export type CborReading =
  | { readonly ok: true; readonly value: Json }
  /** `ended`: the bytes are the beginning of a deterministic item, as far as they go. */
  | { readonly ok: false; readonly ended: boolean; readonly at: number };

class Refused {
  constructor(
    readonly ended: boolean,
    readonly at: number,
  ) {}
}

/** Reads exactly one deterministic item. */
export function decodeCbor(bytes: Uint8Array): CborReading {
  const reader = new Reader(bytes);
  try {
    const value = reader.value(0);
    if (reader.at < bytes.length) return { ok: false, ended: false, at: reader.at };
    return { ok: true, value };
  } catch (e) {
    if (e instanceof Refused) return { ok: false, ended: e.ended, at: e.at };
    throw e;
  }
}

class Reader {
  at = 0;
  private values = 0;

  constructor(private readonly b: Uint8Array) {}

  private refuse(at: number): never {
    throw new Refused(false, at);
  }

  private take(n: number): Uint8Array {
    if (n > this.b.length - this.at) throw new Refused(true, this.b.length);
    this.at += n;
    return this.b.subarray(this.at - n, this.at);
  }

  /** The argument behind a head byte, in its shortest spelling. */
  private argument(info: number): bigint {
    const from = this.at;
    if (info < 24) return BigInt(info);
    if (info > 27) this.refuse(from - 1);
    const size = 1 << (info - 24);
    const n = this.number(size, from);
    return n;
  }

  private number(size: number, from: number): bigint {
    const least = size === 1 ? 24n : 1n << BigInt(size * 4);
    const have = this.b.subarray(this.at, this.at + size);
    if (have.length < size) {
      // What is there already may show that the head is too long.
      let most = 0n;
      for (let i = 0; i < size; i += 1) most = (most << 8n) | BigInt(have[i] ?? 0xff);
      if (most < least) this.refuse(from - 1);
      throw new Refused(true, this.b.length);
    }
    let n = 0n;
    for (const byte of this.take(size)) n = (n << 8n) | BigInt(byte);
    if (n < least) this.refuse(from - 1);
    return n;
  }

  value(depth: number): Json {
    this.values += 1;
    if (this.values > MAX_CBOR_VALUES) this.refuse(this.at);
    const from = this.at;
    const first = this.take(1)[0]!;
    const info = first & 0x1f;
    switch (first >> 5) {
      case 0:
        return this.integer(this.argument(info), from);
      case 1:
        return this.integer(-1n - this.argument(info), from);
      case 3: {
        const value = this.text(info, from);
        return { kind: "string", value, escaped: false, from, to: this.at };
      }
      case 4:
        return this.array(info, from, depth + 1);
      case 5:
        return this.object(info, from, depth + 1);
      case 7:
        return this.simple(info, from);
      default:
        this.refuse(from);
    }
  }

  private integer(n: bigint, from: number): Json {
    const double = Number(n);
    if (BigInt(double) !== n) this.refuse(from);
    return { kind: "number", text: String(double), from, to: this.at };
  }

  private text(info: number, from: number): string {
    const length = this.argument(info);
    const left = this.b.length - this.at;
    if (length > BigInt(left)) {
      if (!isUtf8Beginning(this.b.subarray(this.at))) this.refuse(from);
      throw new Refused(true, this.b.length);
    }
    const text = parseUtf8(this.take(Number(length)));
    if (text === null) this.refuse(from);
    return text;
  }

  private array(info: number, from: number, depth: number): Json {
    if (depth > MAX_CBOR_DEPTH) this.refuse(from);
    const length = this.argument(info);
    const items: Json[] = [];
    for (let i = 0n; i < length; i += 1n) items.push(this.value(depth));
    return { kind: "array", items, from, to: this.at };
  }

  private object(info: number, from: number, depth: number): Json {
    if (depth > MAX_CBOR_DEPTH) this.refuse(from);
    const length = this.argument(info);
    const members: Member[] = [];
    let before: Uint8Array | null = null;
    for (let i = 0n; i < length; i += 1n) {
      const at = this.at;
      const first = this.take(1)[0]!;
      if (first >> 5 !== 3) this.refuse(at);
      const name = this.text(first & 0x1f, at);
      const key = this.b.subarray(at, this.at);
      if (before !== null && compareBytes(before, key) >= 0) this.refuse(at);
      before = key;
      members.push({ name, nameAt: { from: at, to: this.at }, value: this.value(depth) });
    }
    return { kind: "object", members, from, to: this.at };
  }

  private simple(info: number, from: number): Json {
    if (info === 20) return { kind: "false", from, to: this.at };
    if (info === 21) return { kind: "true", from, to: this.at };
    if (info === 22) return { kind: "null", from, to: this.at };
    if (info < 25 || info > 27) this.refuse(from);
    const bytes = this.take(2 ** (info - 24));
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const double = info === 25 ? halfValue(view.getUint16(0)) : info === 26 ? view.getFloat32(0) : view.getFloat64(0);
    if (!Number.isFinite(double)) this.refuse(from);
    if (compareBytes(encodeNumber(double), this.b.subarray(from, this.at)) !== 0) this.refuse(from);
    return { kind: "number", text: String(double), from, to: this.at };
  }
}

/** Whether bytes are UTF-8, but that the last character may be cut off. */
function isUtf8Beginning(b: Uint8Array): boolean {
  const stream = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  try {
    stream.decode(b, { stream: true });
    return true;
  } catch {
    return false;
  }
}

// -------------------------------------------------------------------------- items of a sequence

/** `end`: the place behind the item. `unended`: it needs more bytes. `stray`: its heads are none. */
export type ItemEnd =
  | { readonly kind: "end"; readonly end: number }
  | { readonly kind: "unended" }
  | { readonly kind: "stray" };

/** scroll.md §7, "Sequence": only heads are read to find the end of an item. */
export function itemEnd(b: Uint8Array, from: number): ItemEnd {
  let at = from;
  // How many parts are still to come, for each array, map or tag that is open.
  const open: bigint[] = [1n];
  while (open.length > 0) {
    const last = open.length - 1;
    if (open[last]! === 0n) {
      open.pop();
      continue;
    }
    open[last]! -= 1n;
    const first = b[at];
    if (first === undefined) return { kind: "unended" };
    const info = first & 0x1f;
    const major = first >> 5;
    if (info > 27) return { kind: "stray" };
    at += 1;
    let argument = BigInt(info);
    if (info >= 24) {
      const size = 1 << (info - 24);
      if (size > b.length - at) return { kind: "unended" };
      argument = 0n;
      for (let i = 0; i < size; i += 1) argument = (argument << 8n) | BigInt(b[at + i]!);
      at += size;
    }
    if (major === 2 || major === 3) {
      if (argument > BigInt(b.length - at)) return { kind: "unended" };
      at += Number(argument);
      continue;
    }
    const parts = major === 4 ? argument : major === 5 ? argument * 2n : major === 6 ? 1n : 0n;
    if (parts >= TWO_64) return { kind: "stray" };
    if (parts === 0n) {
      if ((major === 4 || major === 5) && open.length > MAX_CBOR_DEPTH) return { kind: "stray" };
      continue;
    }
    if (open.length > MAX_CBOR_DEPTH) return { kind: "stray" };
    open.push(parts);
  }
  return { kind: "end", end: at };
}
