// Identity files, key files and trust stores that a person gives to the page (spec/keys-and-trust.md §1, §7, §13).

import WORDS from "../../../crates/threadseal-core/src/identity/words.txt";
import { parseBase64, parseHex, utf8 } from "../../verifier/src/bytes.js";
import { isPublicKey, keyId, verify } from "../../verifier/src/ed25519.js";
import { taggedMessage } from "../../verifier/src/native-lines.js";
import { tagged } from "../../verifier/src/sha256.js";
import type { TrustedKey } from "./core.js";

const MAX_IDENTITY_BYTES = 64 * 1024;

/** A key as the file has it, under both of its names. */
export interface Entry {
  readonly usage: string;
  readonly public: string;
  /** The digest of the key, which reports name. */
  readonly keyId: string;
  readonly isEnded: boolean;
}

/** The proofs of Rye's keys are not checked here, so that these keys are left out. */
export interface Identity {
  readonly name: string;
  readonly id: string;
  /** Twelve words, which people compare over another channel. */
  readonly words: readonly string[];
  readonly keys: readonly TrustedKey[];
  readonly entries: readonly Entry[];
}

/** What was given: an identity, or keys alone. Throws an error with the cause. */
export interface Given {
  readonly identity: Identity | null;
  readonly keys: readonly TrustedKey[];
  /** The file, for an engine that reads it. */
  readonly text: string;
}

/** Reads an identity file, a public key in PEM or as hex digits. `signers`: key ids that are no key, though they look alike. */
export async function readGiven(words: string, name: string, signers: readonly string[] = []): Promise<Given> {
  const given = words.trim();
  if (given.startsWith("{")) {
    const identity = await readIdentity(words);
    return { identity, keys: identity.keys, text: words };
  }
  if (signers.includes(given.toLowerCase())) throw new Error("this is the key id from this page, no key; ask the signer for the identity file");
  const key = keyOf(given);
  if (key === null) throw new Error("this is no identity file and no public key; hint: threadseal id export -o NAME.id");
  const usages = ["native", "observed", "rye", "scroll"];
  return { identity: null, keys: [{ name: name.replace(/\.(pub|pem|key)$/, "") || "given key", usages, public: key }], text: words };
}

function keyOf(given: string): string | null {
  const hex = /(?:^|\s)([0-9a-f]{64})(?:\s|$)/.exec(given)?.[1];
  if (hex !== undefined) return isPublicKey(parseHex(hex, 32)!) ? hex : null;
  const pem = /-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----/.exec(given)?.[1];
  const der = pem === undefined ? null : parseBase64(pem.replace(/\s/g, ""));
  if (der === null || der.length !== 44) return null;
  const key = der.subarray(12);
  return isPublicKey(key) ? hexOf(key) : null;
}

async function readIdentity(words: string): Promise<Identity> {
  const bytes = utf8(words);
  if (bytes.length > MAX_IDENTITY_BYTES) throw new Error("the identity file is too large");
  const line = words.endsWith("\n") ? words.slice(0, -1) : words;
  const value: any = parsed(line);
  if (value?.format !== "threadseal-identity/1") throw new Error("this is no identity file");
  const { signature, ...rest } = value;
  if (canonical(value) !== line) throw new Error("the identity file is not spelled as its format asks");
  const signed = taggedMessage("threadseal/1 identity", [canonical(rest)]);
  if (!(await holds(value.signer, signed, signature))) throw new Error("the identity's signature does not hold");
  await checkLinks(value);
  const first = value.links.length > 0 ? value.links[0].from : value.signer;
  const id = tagged("threadseal/1 identity id", [parseHex(first, 32)!, value.recovery === null ? new Uint8Array() : parseHex(value.recovery, 32)!]);
  if (hexOf(id) !== value.id) throw new Error("the identity's id is not that of its keys");
  for (const one of value.keys) {
    await checkKey(one, value.id);
    checkNext(one, value.links);
  }
  return { name: String(value.name), id: value.id, words: wordsOf(parseHex(value.id, 32)!), keys: value.keys.filter((one: any) => one.usage !== "rye").map((one: any) => keyFrom(one, value.name)), entries: value.keys.map(entryFrom) };
}

async function checkLinks(value: any): Promise<void> {
  let last: string | null = null;
  for (const link of value.links) {
    const from = parseHex(String(link.from), 32);
    const to = parseHex(String(link.to), 32);
    if (from === null || to === null || (last !== null && last !== link.from)) throw new Error("the identity's links do not fit together");
    const message = link.by === "key" ? taggedMessage("threadseal/1 key event", ["rotate", from, to])
      : taggedMessage("threadseal/recovery/1 link", [parseHex(value.id, 32)!, from, to]);
    if (!(await holds(link.by === "key" ? link.from : value.recovery, message, link.signature))) throw new Error("a link of the identity does not hold");
    last = link.to;
  }
  if (last !== null && last !== value.signer) throw new Error("the identity's links lead to another key");
}

/** Keys of these uses prove that the same party holds them; of the others only the signature of the file vouches. */
async function checkKey(one: any, id: string): Promise<void> {
  const tag = one.usage === "native" ? "threadseal/1 identity key" : one.usage === "observed" ? "threadseal/observed/1 identity key" : null;
  if (tag === null) return;
  const message = taggedMessage(tag, [parseHex(id, 32)!, parseHex(one.key, 32)!]);
  if (!(await holds(one.key, message, one.proof))) throw new Error("a key in the identity is not proved to be its own");
}

function entryFrom(one: any): Entry {
  return { usage: String(one.usage), public: String(one.key), keyId: keyIdOf(String(one.key)), isEnded: one.ended !== null };
}

/** The key id of a public key, both as hex digits. */
export function keyIdOf(key: string): string {
  return hexOf(keyId(parseHex(key, 32)!));
}

function keyFrom(one: any, name: string): TrustedKey {
  const seconds = (value: unknown): number => Date.parse(String(value)) / 1000;
  return {
    name, usages: [String(one.usage)], public: String(one.key),
    ...(one.from === null ? {} : { notBefore: seconds(one.from) }),
    ...(one.until === null ? {} : { notAfter: seconds(one.until) }),
    ...(one.ended === null ? {} : { revoked: { at: seconds(one.ended.at), reason: String(one.ended.why), ...nextOf(one.ended.why) } }),
  };
}

function checkNext(one: any, links: any): void {
  const next = one.ended === null ? undefined : nextOf(one.ended.why).next;
  if (next === undefined) return;
  const isLinked = links.some((link: any) => link.by === "key" && link.from === one.key && link.to === next);
  if (next === one.key || (one.usage === "native" && !isLinked)) throw new Error("a key of the identity names a next key that is not its own");
}

/** The key to which the owner rotated this one, where the line about its end states that. */
function nextOf(why: unknown): { readonly next?: string } {
  const next = /^rotated to ([0-9a-f]{64})$/.exec(String(why))?.[1];
  return next !== undefined && isPublicKey(parseHex(next, 32)!) ? { next } : {};
}

async function holds(key: unknown, message: Uint8Array, signature: unknown): Promise<boolean> {
  const bytes = parseHex(String(key), 32);
  const sig = parseBase64(String(signature));
  return bytes !== null && sig !== null && sig.length === 64 && isPublicKey(bytes) && verify(bytes, message, sig);
}

/** RFC 8785 of a value of texts, whole numbers, lists and objects. */
function canonical(value: any): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}

/** The first 132 bits of an id, 11 bits each. */
export function wordsOf(id: Uint8Array): string[] {
  const list = WORDS.trim().split("\n");
  const bits = [...id.subarray(0, 17)].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return Array.from({ length: 12 }, (_, at) => list[parseInt(bits.slice(11 * at, 11 * at + 11), 2)] ?? "?");
}

function hexOf(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
