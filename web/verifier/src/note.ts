// Signed notes (keys-and-trust.md §6): C2SP signed-note with Ed25519.

import { base64, concat, equal, hex, parseBase64, parseHex, parseUtf8, utf8 } from "./bytes.js";
import { isPublicKey, verify } from "./ed25519.js";
import { sha256 } from "./sha256.js";

export const MAX_NOTE_BYTES = 1 << 20;
export const MAX_NOTE_SIGNATURES = 64;
export const MAX_KEY_NAME_BYTES = 1024;
export const MAX_NOTE_SIGNATURE_BYTES = 65_536;

const ED25519_TYPE = Uint8Array.of(1);
const LF = Uint8Array.of(0x0a);

export interface NoteKey {
  readonly name: string;
  readonly key: Uint8Array;
}

export interface NoteLine {
  readonly name: string;
  readonly id: Uint8Array;
  readonly signature: Uint8Array;
}

export interface Note {
  /** Ends in LF. */
  readonly text: string;
  readonly lines: readonly NoteLine[];
}

/** The id of a key under a name: 4 bytes. */
export function noteKeyId(name: string, key: Uint8Array): Uint8Array {
  return sha256(utf8(name), LF, ED25519_TYPE, key).subarray(0, 4);
}

/** Whether `id ‖ signature` is that of the key under the name, over the text. */
export async function verifyNoteLine(name: string, key: Uint8Array, text: string, bytes: Uint8Array): Promise<boolean> {
  return equal(bytes.subarray(0, 4), noteKeyId(name, key)) && verify(key, utf8(text), bytes.subarray(4));
}

/** Reads a note, or null where it is malformed. */
export function parseNote(bytes: Uint8Array): Note | null {
  const whole = parseUtf8(bytes);
  if (whole === null || /[\u0000-\u0009\u000b-\u001f]/.test(whole)) return null;
  const end = whole.lastIndexOf("\n\n");
  if (end < 0) return null;
  const text = whole.slice(0, end + 1);
  if (utf8(text).length > MAX_NOTE_BYTES || !text.endsWith("\n")) return null;
  if (text.slice(0, text.indexOf("\n")) === "cosignature/v1") return null;
  const rest = whole.slice(end + 2);
  if (!rest.endsWith("\n")) return null;
  const spelled = rest.slice(0, -1).split("\n");
  if (spelled.length > MAX_NOTE_SIGNATURES) return null;
  const lines: NoteLine[] = [];
  for (const one of spelled) {
    const line = parseNoteLine(one);
    if (line === null) return null;
    lines.push(line);
  }
  return { text, lines };
}

function parseNoteLine(text: string): NoteLine | null {
  const parts = text.split(" ");
  const [dash, name, spelled] = parts;
  if (parts.length !== 3 || dash !== "\u2014" || name === undefined || spelled === undefined) return null;
  const bytes = parseBase64(spelled);
  if (!isKeyName(name) || bytes === null || bytes.length < 5 || bytes.length > MAX_NOTE_SIGNATURE_BYTES) return null;
  return { name, id: bytes.slice(0, 4), signature: bytes.slice(4) };
}

/** A name of a key: 1 to 1024 bytes without "+", white space and what is below 0x20. */
export function isKeyName(name: string): boolean {
  const length = utf8(name).length;
  return length >= 1 && length <= MAX_KEY_NAME_BYTES && !/[+\u0000-\u001f\p{White_Space}]/u.test(name);
}

/** Reads a vkey, or null. */
export function parseVkey(text: string): NoteKey | null {
  const [name, id, ...rest] = text.split("+");
  if (name === undefined || id === undefined || !isKeyName(name)) return null;
  const bytes = parseBase64(rest.join("+"));
  if (bytes === null || bytes.length !== 33 || bytes[0] !== 1) return null;
  const key = bytes.slice(1);
  const given = parseHex(id, 4);
  if (given === null || !isPublicKey(key) || !equal(given, noteKeyId(name, key))) return null;
  return { name, key };
}

export function vkey(key: NoteKey): string {
  return `${key.name}+${hex(noteKeyId(key.name, key.key))}+${base64(concat(ED25519_TYPE, key.key))}`;
}

export type NoteAnswer =
  | { readonly answer: "verified"; readonly text: string; readonly signers: readonly NoteKey[] }
  | { readonly answer: "malformed" | "bad_signature" | "no_known_signer" };

/** Verifies a note with known keys. */
export async function verifyNote(bytes: Uint8Array, known: readonly NoteKey[]): Promise<NoteAnswer> {
  const note = parseNote(bytes);
  if (note === null) return { answer: "malformed" };
  const signers: NoteKey[] = [];
  for (const line of note.lines) {
    const claimed = known.filter((one) => one.name === line.name && equal(noteKeyId(one.name, one.key), line.id));
    if (claimed.length === 0) continue;
    let good = false;
    for (const one of claimed) {
      if (!(await verify(one.key, utf8(note.text), line.signature))) continue;
      good = true;
      if (!signers.includes(one)) signers.push(one);
    }
    if (!good) return { answer: "bad_signature" };
  }
  const inOrder = known.filter((one) => signers.includes(one));
  return signers.length === 0 ? { answer: "no_known_signer" } : { answer: "verified", text: note.text, signers: inOrder };
}
