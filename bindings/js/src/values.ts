// Values of programs as JSON and back: bytes, addresses and moments keep their types.
//
//   Uint8Array ─► {"$bytes": base64}    URL ─► {"$url": text}    Date ─► {"$date": text}
//   text that was cut within a character ─► {"$utf16": base64}, of two bytes for each unit, the lower one first
//   {"$bytes": …} of the program ─► {"$object": {"$bytes": …}}: a value of a tool never becomes another one

import { InputError } from "./errors.js";

/** Half of a pair of surrogates, which no UTF-8 has. */
const CUT = /\p{Surrogate}/u;
const ALL_CUT = /\p{Surrogate}/gu;
/** A value nested deeper is refused; the recorder takes 128. */
const MAX_DEPTH = 100;

/** The value in JSON alone. Members that are undefined, and functions, are left out as `JSON.stringify` does. */
export function encode(value: unknown, depth = 0): unknown {
  if (depth > MAX_DEPTH) throw new InputError(`a value is nested deeper than ${MAX_DEPTH}`);
  if (typeof value === "bigint") throw new InputError("JSON has no bigint", { hint: "record it as text" });
  if (typeof value === "string" && CUT.test(value)) return { $utf16: toBase64(unitsOf(value)) };
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Uint8Array) return { $bytes: toBase64(value) };
  if (value instanceof ArrayBuffer) return { $bytes: toBase64(new Uint8Array(value)) };
  if (value instanceof URL) return { $url: value.href };
  if (value instanceof Date) return { $date: value.toISOString() };
  if (Array.isArray(value)) return value.map((item) => encode(item, depth + 1));
  if ("toJSON" in value && typeof value.toJSON === "function") return encode(value.toJSON(), depth + 1);
  const entries = Object.entries(value).filter(([, member]) => member !== undefined && typeof member !== "function");
  const object = Object.fromEntries(entries.map(([name, member]) => [name, encode(member, depth + 1)]));
  return isMarked(object) ? { $object: object } : object;
}

/** The value that `encode` had. */
export function decode(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(decode);
  if (isMarked(value)) {
    const [[mark, inner] = []] = Object.entries(value);
    if (mark === "$bytes") return fromBase64(inner as string);
    if (mark === "$utf16") return textOf(fromBase64(inner as string));
    if (mark === "$url") return new URL(inner as string);
    if (mark === "$date") return new Date(inner as string);
    if (mark === "$object") return membersOf(inner as object);
  }
  return membersOf(value);
}

function membersOf(value: object): object {
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, decode(member)]));
}

/** Has the object one member, whose name is a mark? */
function isMarked(value: object): boolean {
  const names = Object.keys(value);
  return names.length === 1 && names[0]?.startsWith("$") === true;
}

function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

function unitsOf(text: string): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(2 * text.length));
  for (let at = 0; at < text.length; at += 1) bytes.setUint16(2 * at, text.charCodeAt(at), true);
  return new Uint8Array(bytes.buffer);
}

function textOf(units: Uint8Array): string {
  const view = new DataView(units.buffer, units.byteOffset);
  let text = "";
  for (let at = 0; at + 1 < units.length; at += 2) text += String.fromCharCode(view.getUint16(at, true));
  return text;
}

/** JSON with U+FFFD for each half of a character: for texts that people read, and for names. */
export function readableJson(value: unknown): unknown {
  if (typeof value === "string") return value.replace(ALL_CUT, "\ufffd");
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(readableJson);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [readableJson(name), readableJson(member)]));
}
