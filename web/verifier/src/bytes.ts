// Bytes and their texts: hex, base64, base64url, UTF-8 (keys-and-trust.md, "Notation").
// Each value has one text: a reader returns null for every other spelling.

const HEX_DIGITS = "0123456789abcdef";
const BASE64_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64URL_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** The lower-case hex digits of the bytes. */
export function hex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += HEX_DIGITS.charAt(byte >> 4) + HEX_DIGITS.charAt(byte & 15);
  return text;
}

/** The value of a lower-case hex digit, given as a code unit, or -1. */
export function hexDigit(unit: number): number {
  if (unit >= 0x30 && unit <= 0x39) return unit - 0x30;
  if (unit >= 0x61 && unit <= 0x66) return unit - 0x57;
  return -1;
}

/** Exactly `length` bytes from lower-case hex digits, or null. */
export function parseHex(text: string, length: number): Uint8Array | null {
  if (text.length !== length * 2) return null;
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) {
    const high = hexDigit(text.charCodeAt(2 * i));
    const low = hexDigit(text.charCodeAt(2 * i + 1));
    if (high < 0 || low < 0) return null;
    bytes[i] = high * 16 + low;
  }
  return bytes;
}

/** Base64 of RFC 4648 §4, padded. */
export function base64(bytes: Uint8Array): string {
  return encode64(bytes, BASE64_DIGITS);
}

/** Base64url of RFC 4648 §5, padded. */
export function base64Url(bytes: Uint8Array): string {
  return encode64(bytes, BASE64URL_DIGITS);
}

/** Reads base64 of RFC 4648 §4 with padding and zero trailing bits, else null. */
export function parseBase64(text: string): Uint8Array | null {
  return decode64(text, STANDARD_VALUES, "required");
}

/**
 * Reads base64url of RFC 4648 §5 with zero trailing bits, else null. Padding is there or not, or, where the
 * format demands it, required.
 */
export function parseBase64Url(text: string, padding: "required" | "optional" = "optional"): Uint8Array | null {
  return decode64(text, URL_VALUES, padding);
}

/** The UTF-8 of a text. A lone surrogate would become U+FFFD: callers exclude it. */
export function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** The text of strict UTF-8, a byte order mark included as a character, or null. */
export function parseUtf8(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** The text of bytes that are ASCII. Other bytes give other characters, which no ASCII pattern matches. */
export function ascii(bytes: Uint8Array, from = 0, to = bytes.length): string {
  if (to - from > SHORT_TEXT) return DECODER.decode(bytes.subarray(from, to));
  let text = "";
  for (let at = from; at < to; at++) text += String.fromCharCode(bytes[at] ?? 0xfffd);
  return text;
}

const SHORT_TEXT = 48;
const DECODER = new TextDecoder("utf-8", { ignoreBOM: true });

export function concat(...parts: readonly Uint8Array[]): Uint8Array {
  let length = 0;
  for (const part of parts) length += part.length;
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

export function equal(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** The order of two byte strings: below zero where `a` is the lesser. */
export function compare(a: Uint8Array, b: Uint8Array): number {
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** Whether the ASCII text stands in the bytes at this place. */
export function hasAt(bytes: Uint8Array, at: number, text: string): boolean {
  if (at < 0 || at + text.length > bytes.length) return false;
  for (let i = 0; i < text.length; i++) if (bytes[at + i] !== text.charCodeAt(i)) return false;
  return true;
}

const MAX_U64 = (1n << 64n) - 1n;

/** A decimal number without sign and leading zeros, below 2^64, or null. */
export function parseNumber(text: string): bigint | null {
  if (!/^(?:0|[1-9][0-9]{0,19})$/.test(text)) return null;
  const value = BigInt(text);
  return value <= MAX_U64 ? value : null;
}

const STANDARD_VALUES = valuesOf(BASE64_DIGITS);
const URL_VALUES = valuesOf(BASE64URL_DIGITS);

function valuesOf(digits: string): Int8Array {
  const values = new Int8Array(128).fill(-1);
  for (let i = 0; i < digits.length; i++) values[digits.charCodeAt(i)] = i;
  return values;
}

function encode64(bytes: Uint8Array, digits: string): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const left = bytes.length - i;
    const group = ((bytes[i] ?? 0) << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    text += digits.charAt(group >> 18) + digits.charAt((group >> 12) & 63);
    text += left > 1 ? digits.charAt((group >> 6) & 63) : "=";
    text += left > 2 ? digits.charAt(group & 63) : "=";
  }
  return text;
}

function decode64(text: string, values: Int8Array, padding: "required" | "optional"): Uint8Array | null {
  let end = text.length;
  while (end > 0 && text.charCodeAt(end - 1) === 0x3d) end--;
  const padded = text.length - end;
  const rest = end % 4;
  if (rest === 1) return null;
  const wanted = rest === 0 ? 0 : 4 - rest;
  if (padded !== wanted && !(padding === "optional" && padded === 0)) return null;
  const bytes = new Uint8Array(Math.floor((end * 3) / 4));
  let at = 0;
  let bits = 0;
  let held = 0;
  for (let i = 0; i < end; i++) {
    const unit = text.charCodeAt(i);
    const value = unit < 128 ? (values[unit] ?? -1) : -1;
    if (value < 0) return null;
    bits = ((bits << 6) | value) & 0xffff;
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes[at++] = (bits >> held) & 255;
    }
  }
  return (bits & ((1 << held) - 1)) === 0 ? bytes : null;
}
