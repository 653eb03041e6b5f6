// Reading did:key of Ed25519 keys. Rules: spec/keys-and-trust.md §1. Writing it is in ed25519.ts.

import { didKey, isPublicKey } from "./ed25519.js";

const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const LENGTH = 56;
const PREFIX = "did:key:z";

/** The public key that a did:key names, in its one spelling of 56 characters; else null. */
export function parseDidKey(text: string): Uint8Array | null {
  if (text.length !== LENGTH || !text.startsWith(PREFIX)) return null;
  let n = 0n;
  for (const c of text.slice(PREFIX.length)) {
    const digit = ALPHABET.indexOf(c);
    if (digit < 0) return null;
    n = n * 58n + BigInt(digit);
  }
  const bytes = new Uint8Array(34);
  for (let i = 33; i >= 0; i -= 1) {
    bytes[i] = Number(n & 0xffn);
    n >>= 8n;
  }
  if (n !== 0n || bytes[0] !== 0xed || bytes[1] !== 0x01) return null;
  const key = bytes.slice(2);
  return isPublicKey(key) && didKey(key) === text ? key : null;
}
